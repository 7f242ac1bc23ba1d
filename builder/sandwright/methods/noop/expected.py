"""What the probes must see in noop, where it differs from what they see elsewhere."""

from __future__ import annotations

from collections.abc import Mapping

from sandwright.methods.properties import Answers

EXPECTED: Mapping[str, Answers] = {}
"""By claim of `sandwright.verify.expected`."""
