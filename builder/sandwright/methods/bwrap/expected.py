"""What the probes must see in bwrap, where it differs from what they see elsewhere."""

from __future__ import annotations

from collections.abc import Mapping

from sandwright.methods.properties import Answers

EXPECTED: Mapping[str, Answers] = {
    "unix.unlisted": Answers("ECONNREFUSED", "over it lies a device, to which nobody listens"),
    "unix.later": Answers("EACCES", "the launcher connects to none on a read-only mount that is not listed"),
    "unix.written": Answers("EACCES", "the launcher connects to none that is bound in the host's network"),
    "unix.abstract": Answers(
        "ECONNREFUSED EACCES",
        "in a network namespace of one's own nobody has it; in the host's the launcher connects to none",
    ),
    "privilege.identity": Answers(
        "EINVAL EPERM", "a user namespace has one user, so there is nobody of that number"
    ),
}
"""By claim of `sandwright.verify.expected`."""
