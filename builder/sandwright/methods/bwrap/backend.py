"""bubblewrap: namespaces of the kernel, without a daemon and without root."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sandwright.host import MachineFacts
from sandwright.methods.bwrap.render import render_bwrap
from sandwright.methods.bwrap.support import DECLARATION
from sandwright.methods.contract import LIMIT, Code, Delivery, Preflight
from sandwright.methods.shared.launched import Launched, signalled
from sandwright.methods.shared.trial import HOST_ROOT, judged, try_out
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.rendered import Rendered, render_with
from sandwright.runtime.trial import Failed
from sandwright.setup.requirements import how_to_get

_SWITCHES = "user.max_user_namespaces, kernel.unprivileged_userns_clone"
_APPARMOR = "kernel.apparmor_restrict_unprivileged_userns"


@dataclass(frozen=True)
class Bwrap(Launched):
    """The row of bubblewrap."""

    name: str = "bwrap"

    def render(self, policy: ResolvedPolicy) -> Rendered:
        """For a trial."""
        return render_with(policy, DECLARATION, render_bwrap)

    def programs(self) -> Sequence[str]:
        """One."""
        return ("bwrap",)

    def preflight(self, host: MachineFacts, *, limit: float = LIMIT) -> Preflight:
        """Start it with a policy that hides one directory."""
        if host.os != "linux":
            return Preflight(self.name, "wrong-system", f"bubblewrap is Linux'; this is {host.os}")
        if "bwrap" not in host.programs:
            get = how_to_get("bwrap", host.package_manager)
            return Preflight(
                self.name, "program-missing", "bwrap is not installed", get and f"get it with: {get}"
            )
        return judged(
            self.name, try_out(self, HOST_ROOT, limit=limit), lambda failed: explained(failed, host)
        )

    def deliver(self, launcher: int, number: int) -> Delivery:
        """By the launcher."""
        return signalled([launcher], number)


def explained(failed: Failed, host: MachineFacts) -> tuple[Code, str, str]:
    """What a start that failed means here, and what helps."""
    said = failed.said
    if "No permissions to create new namespace" in said or "Creating new namespace failed" in said:
        return _namespaces(host)
    if "setting up uid map" in said or "RTM_NEWADDR" in said:
        if host.apparmor_restricts_user_namespaces:
            return _restricted()
        return "container-filter", f"the user namespace can't be set up: {said}", _outer(host)
    if "Can't mount proc" in said:
        message = "what lies over /proc here keeps new ones from being mounted"
        return "container-masks", message, _outer(host)
    if "pivot_root" in said or "make / slave" in said or "Failed to mount" in said:
        return "container-filter", f"mounting is refused here: {said}", _outer(host)
    return "not-started", said, ""


def _namespaces(host: MachineFacts) -> tuple[Code, str, str]:
    if host.apparmor_restricts_user_namespaces and not host.is_root:
        return _restricted()
    if not host.user_namespaces:
        message = f"user namespaces are switched off (sysctl {_SWITCHES})"
        return "namespaces-off", message, "sysctl -w user.max_user_namespaces=10000"
    if host.surroundings != "machine":
        return "container-filter", "the container that we are in refuses new namespaces", _outer(host)
    return "namespaces-off", "the kernel refuses new namespaces", ""


def _restricted() -> tuple[Code, str, str]:
    return (
        "namespaces-restricted",
        f"user namespaces are restricted by AppArmor (sysctl {_APPARMOR})",
        "install an AppArmor profile for bwrap that grants `userns,` (Ubuntu: package apparmor-profiles)",
    )


def _outer(host: MachineFacts) -> str:
    """How a container has to be started for bwrap to work in it (measured with runc 1.1 and crun 1.8)."""
    if host.surroundings == "machine":
        return ""
    return (
        "start the outer container with a seccomp profile that allows unshare, mount, umount2 and "
        "pivot_root, and with --security-opt systempaths=unconfined"
    )
