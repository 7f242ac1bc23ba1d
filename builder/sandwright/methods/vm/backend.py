"""Whether vm's guest kernel (User-Mode Linux) works here, in bubblewrap's sandbox or under Landlock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sandwright.host import MachineFacts
from sandwright.methods.bwrap.backend import Bwrap, explain_failure
from sandwright.methods.contract import LIMIT, Code, Leftover, Preflight
from sandwright.methods.landlock.backend import Landlock
from sandwright.methods.landlock.backend import explain_failure as explained_by_landlock
from sandwright.methods.registry import render_for_trial
from sandwright.methods.shared.trial import HOST_ROOT, judged, try_out
from sandwright.methods.vm.render import KERNEL
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.rendered import Rendered
from sandwright.runtime.trial import Failed
from sandwright.setup.requirements import how_to_get


@dataclass(frozen=True)
class Vm(Bwrap):
    """The method vm: User-Mode Linux under bubblewrap. The leftovers of a run are those of bubblewrap."""

    name: str = "vm"

    def programs(self) -> Sequence[str]:
        """bubblewrap, and User-Mode Linux's kernel, a program on PATH: `launcher/source/vm.c` starts it."""
        return ("bwrap", KERNEL)

    def preflight(self, host: MachineFacts, *, limit: float = LIMIT) -> Preflight:
        """Start it with a policy that hides one directory."""
        if lacking := self.lacking(host):
            return lacking

        def explain(failed: Failed) -> tuple[Code, str, str]:
            return explain_failure(failed, host)

        return judged(self.name, try_out(self, HOST_ROOT, limit=limit, environment=self.trial()), explain)

    def lacking(self, host: MachineFacts) -> Preflight | None:
        """The fault for a missing program, or None."""
        return _missing_program(self.name, self.programs(), host)

    def trial(self) -> Mapping[str, str]:
        """Further arguments of a trial's launcher."""
        return {}


@dataclass(frozen=True)
class VmLandlock(Landlock):
    """The method vm under Landlock, where no namespace can be created."""

    name: str = "vm-landlock"

    def render(self, policy: ResolvedPolicy) -> Rendered:
        """Render like other methods, and unlike the method landlock."""
        return render_for_trial(policy, self.name)

    def programs(self) -> Sequence[str]:
        """The kernel's program."""
        return (KERNEL,)

    def preflight(self, host: MachineFacts, *, limit: float = LIMIT) -> Preflight:
        """Start it with a policy that hides one directory."""
        if lacking := _missing_program(self.name, self.programs(), host):
            return lacking
        return judged(self.name, try_out(self, HOST_ROOT, limit=limit), explained_by_landlock)

    def leftovers(self, running: Iterable[str]) -> Iterator[Leftover]:  # noqa: ARG002
        """None: the backend of Landlock reports the launcher's leftovers."""
        return iter(())


def _missing_program(method: str, programs: Sequence[str], host: MachineFacts) -> Preflight | None:
    """The kernel or the program that isn't there, or the machine on which it can't run."""
    if host.os != "linux":
        return Preflight(method, "wrong-system", f"its kernel is Linux'; this is {host.os}")
    if host.platform != "linux/amd64":
        return Preflight(method, "wrong-system", "its kernel runs on amd64 only")
    for name in programs:
        if name not in host.programs:
            get = how_to_get(name, host.package_manager)
            remedy = get and f"get it with: {get}"
            return Preflight(method, "program-missing", f"{name} is not installed", remedy)
    return None
