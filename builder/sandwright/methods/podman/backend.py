"""Whether Podman works here, rootless or as root (preflight), and how a container is started."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sandwright import process
from sandwright.engines.client import EngineClient
from sandwright.engines.podman import preferred_runtime
from sandwright.host import MachineFacts
from sandwright.methods.contract import LIMIT, Code, Preflight
from sandwright.methods.shared.engine.backend import ASKING, EngineBackend
from sandwright.methods.shared.namespaces import namespace_obstacle
from sandwright.questions import Question
from sandwright.resources import data_path
from sandwright.runtime.trial import Failed
from sandwright.setup.requirements import how_to_get
from sandwright.signalling import children_of, is_same_user_process, kill

_CONFIGURATION = "CONTAINERS_CONF"
_NETWORKS = ("slirp4netns", "pasta")
"""The programs for a network without root: Podman's own choice until 4, and from 5 on (podman-run(1))."""
TUN = "/dev/net/tun"
"""The device that these programs open."""
_NO_PROGRAM = "slirp4netns (Podman 4) or pasta (Podman 5)"


@dataclass(frozen=True)
class Podman(EngineBackend):
    """The method podman, which has no daemon."""

    name: str = "podman"
    package = "podman"

    def programs(self) -> Sequence[str]:
        """The programs of the engine, and a runtime."""
        return ("podman", "runc", "crun")

    def settings(self, host: MachineFacts) -> Mapping[str, str]:
        """A configuration that names the runtime, where it isn't Podman's own choice."""
        if configuration := os.environ.get(_CONFIGURATION):
            return {_CONFIGURATION: configuration}
        if not preferred_runtime(host):
            return {}
        return {_CONFIGURATION: str(data_path("oci", "podman-runc.conf"))}

    def depends(self, host: MachineFacts) -> Iterator[Question]:
        """Further questions about the configuration that the caller names."""
        yield from super().depends(host)
        for folder in ("/usr/share", "/etc", str(Path("~/.config").expanduser())):
            yield "content", f"{folder}/containers/containers.conf"  # names the runtime (containers.conf(5))
            yield "listing", f"{folder}/containers/containers.conf.d"
        for variable in (_CONFIGURATION, f"{_CONFIGURATION}_OVERRIDE"):
            yield "variable", variable
        for name in _NETWORKS:
            yield "program", name
        yield "status", TUN

    def preflight(self, host: MachineFacts, *, limit: float = LIMIT) -> Preflight:
        """Start a trial as for all engines.

        Without root, also report missing network programs, which the trial does not need.
        """
        found = super().preflight(host, limit=limit)
        found = replace(found, runtime=self.runtime_version(host)) if found.ready else found
        lacking = () if host.is_root else tuple(_missing_parts(host))
        if not found.ready or not lacking:
            return found
        get = how_to_get(_NETWORKS[0], host.package_manager)
        helps = [f"get it with: {get}"] * (get != "" and lacking[0] == _NO_PROGRAM)
        helps += [f"let this user write {TUN}"] * (lacking[-1] != _NO_PROGRAM)
        return replace(
            found, message=f"without root a network needs {' and '.join(lacking)}", remedy="; ".join(helps)
        )

    def explained(self, failed: Failed, host: MachineFacts) -> tuple[Code, str, str]:
        """The cause of a failed start, including settings of user namespaces, needed without root."""
        return (None if host.is_root else namespace_obstacle(host)) or super().explained(failed, host)

    def end_unknown(self, directory: Path) -> None:
        """End the container of a client that was killed before Podman recorded that its monitor runs.

        The monitor (conmon(8)) has written its number to a file in the run's directory, which it names among
        its words. The container's first process waits for ever to be started, and is its child.
        """
        try:
            monitor = int((directory / "monitor").read_text())
            container = (directory / "cid").read_text().strip()
        except (OSError, ValueError):
            return
        for child in children_of(monitor):
            kill(child, sure=lambda: _is_monitor(monitor, directory) and child in children_of(monitor))  # noqa: B023 - called at once
        kill(monitor, sure=lambda: _is_monitor(monitor, directory))
        runtime = EngineClient(self.name).runtime_path(timeout=ASKING)
        if runtime and re.fullmatch("[0-9a-f]{64}", container):
            process.run(runtime, "delete", "--force", container, timeout=ASKING, check=False)


def _missing_parts(host: MachineFacts) -> Iterator[str]:
    if not any(name in host.programs for name in _NETWORKS):
        yield _NO_PROGRAM
    if not os.access(TUN, os.R_OK | os.W_OK):
        yield f"{TUN}, which this user may not open"


def _is_monitor(number: int, directory: Path) -> bool:
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
        return is_same_user_process(number) and os.fsencode(directory / "monitor") in words
    return False
