"""Whether runc or crun works here on an unpacked image (preflight), and how it is started."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sandwright.methods.shared.runtime_spec.backend import Runtime


@dataclass(frozen=True)
class Oci(Runtime):
    """The method oci, with runc or crun."""

    name: str = "oci"

    def programs(self) -> Sequence[str]:
        """The programs runc and crun; the first installed one is used."""
        return ("runc", "crun")
