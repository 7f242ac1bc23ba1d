"""runc and crun on an unpacked image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sandwright.methods.contract import Delivery
from sandwright.methods.oci.render import render_oci
from sandwright.methods.oci.support import DECLARATION
from sandwright.methods.shared.launched import children, deadly, first_processes, signalled
from sandwright.methods.shared.runtime_spec.backend import Runtime
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.rendered import Rendered, render_with
from sandwright.runtime.processes import kill_all


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

    def deliver(self, launcher: int, number: int) -> Delivery:
        """Signal the command, through the runtime.

        It is process 1 of its namespace, for which the kernel drops a signal that is not waited for
        (pid_namespaces(7)); there is nobody else to take it, so the command is killed then.
        """
        first = list(first_processes(launcher))
        if first and deadly(first[0], number):
            kill_all(first[:1])
            return "killed"
        return signalled(children(launcher), number) if first else ""
