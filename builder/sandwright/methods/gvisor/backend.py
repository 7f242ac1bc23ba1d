"""Whether gVisor's runsc works here on an unpacked image (preflight), and how it is started."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sandwright.host import MachineFacts
from sandwright.methods.contract import Code
from sandwright.methods.shared.runtime_spec.backend import Runtime
from sandwright.runtime.trial import Failed


@dataclass(frozen=True)
class Gvisor(Runtime):
    """The method gvisor, with runsc on the host."""

    name: str = "gvisor"

    def programs(self) -> Sequence[str]:
        """The program runsc."""
        return ("runsc",)

    def explained(self, failed: Failed, host: MachineFacts) -> tuple[Code, str, str]:
        """The cause of a failed start, and the remedy."""
        if "unknown platform" in failed.output or "invalid platform" in failed.output:
            return "not-started", f"this runsc has no platform that works here: {failed.output}", ""
        return super().explained(failed, host)
