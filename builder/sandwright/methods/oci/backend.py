"""Whether runc or crun works here on an unpacked image (preflight), and how it is started."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sandwright.methods.oci.render import render_oci
from sandwright.methods.oci.support import DECLARATION
from sandwright.methods.shared.runtime_spec.backend import Runtime
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.rendered import Rendered, render_with


@dataclass(frozen=True)
class Oci(Runtime):
    """The row of runc and crun."""

    name: str = "oci"

    def render(self, policy: ResolvedPolicy) -> Rendered:
        """For a trial."""
        return render_with(policy, DECLARATION, render_oci)

    def programs(self) -> Sequence[str]:
        """The first that is there is taken."""
        return ("runc", "crun")
