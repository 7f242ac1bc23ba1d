"""Whether runc or crun works here on an unpacked image (preflight), and how it is started."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sandwright.methods.shared.runtime_spec.backend import Runtime


@dataclass(frozen=True)
class Oci(Runtime):
    """The row of runc and crun."""

    name: str = "oci"

    def programs(self) -> Sequence[str]:
        """The first that is there is taken."""
        return ("runc", "crun")
