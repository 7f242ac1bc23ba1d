"""The arguments of `launch-init --restrict` for one processor: the launcher, and its seccomp filter."""

from __future__ import annotations

from sandwright.errors import RenderError
from sandwright.host import ARCHITECTURES
from sandwright.launcher import LAUNCH_INIT
from sandwright.render.filters import shipped_filter
from sandwright.seccomp.abi import BOTH, Architecture


def host_architecture(machine: str) -> Architecture:
    """The architecture of a processor (uname(2)). Raise RenderError for one without filters and launchers."""
    arch: Architecture | None = next((each for each in BOTH if each == ARCHITECTURES.get(machine)), None)
    if arch is None:
        raise RenderError(f"there is no launcher for {machine}, which has to restrict programs of the host")
    return arch


def restricting_launcher(machine: str) -> tuple[str, bytes]:
    """The launcher's path, and the filter `strict` without Unix sockets, for a processor (uname(2)).

    Raise RenderError for a processor without a launcher.
    """
    arch = host_architecture(machine)
    return str(LAUNCH_INIT.path(f"linux/{arch}")), shipped_filter("strict", arch)
