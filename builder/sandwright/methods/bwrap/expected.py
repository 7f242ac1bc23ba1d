"""What the probes must see in bwrap, where it differs from what they see elsewhere."""

from __future__ import annotations

from collections.abc import Mapping

from sandwright.methods.properties import Answers

EXPECTED: Mapping[str, Answers] = {
    "privilege.identity": Answers(
        "EINVAL EPERM", "a user namespace has one user, so there is nobody of that number"
    ),
}
"""By claim of `sandwright.verify.expected`."""
