"""Expected results of the probes in noop, where they differ from those of other methods."""

from __future__ import annotations

from collections.abc import Mapping

from sandwright.methods.properties import Answers

EXPECTED: Mapping[str, Answers] = {}
"""By claim of `sandwright.verify.expected`."""
