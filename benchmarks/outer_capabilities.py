"""Measures what gVisor's outer container needs: the least capabilities, and the least beyond our own filter.

Each candidate is a container that is started for real, and has to do the workload within a time limit. First
capabilities are dropped, under a filter that lets through all that may be needed; then, with the capabilities
that are left, the system calls beyond the profile `default`. The engine must have the image `gvisor`. What is
shipped (`oci/outer.json`) stays as it is.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks.least import Least, least
from benchmarks.outer_workload import WorkloadPlace, fault

from sandwright import process
from sandwright.errors import HostError, UsageError
from sandwright.host import collect_host
from sandwright.methods.gvisor.outer.backend import IMAGE
from sandwright.methods.gvisor.outer.container import own_limits
from sandwright.methods.gvisor.outer.render import Grant, grant
from sandwright.methods.shared.images import store_of
from sandwright.policy.names import GvisorEngine
from sandwright.progress import SILENT, Progress
from sandwright.rootfs.bundles.bundle import unpacked
from sandwright.rootfs.images.source import open_image
from sandwright.seccomp import CatalogueProfile, profile
from sandwright.seccomp.groups import SyscallGroup

MODES = ("rootful", "rootless")
"""Whether runsc is root in the container, or anybody else with `--rootless`."""

CAPABILITIES = {
    "CAP_CHOWN": 0, "CAP_DAC_OVERRIDE": 1, "CAP_DAC_READ_SEARCH": 2, "CAP_FOWNER": 3, "CAP_FSETID": 4,
    "CAP_KILL": 5, "CAP_SETGID": 6, "CAP_SETUID": 7, "CAP_SETPCAP": 8, "CAP_NET_BIND_SERVICE": 10,
    "CAP_NET_ADMIN": 12, "CAP_NET_RAW": 13, "CAP_IPC_LOCK": 14, "CAP_SYS_CHROOT": 18, "CAP_SYS_PTRACE": 19,
    "CAP_SYS_ADMIN": 21, "CAP_SYS_NICE": 23, "CAP_MKNOD": 27, "CAP_AUDIT_WRITE": 29, "CAP_SETFCAP": 31,
}  # fmt: skip
"""By name, with their numbers (linux/capability.h): where the search begins. It is what engines give by
default, and whatever runsc was ever said to need."""

CALLS = (
    "chroot", "clone", "mount", "pivot_root", "process_vm_readv", "process_vm_writev", "ptrace",
    "setdomainname", "sethostname", "setns", "umount2", "unshare",
)  # fmt: skip
"""Beyond the profile `default`: where the search for system calls begins. Of clone, `default` lets through
what makes no namespaces."""

_CLONE = ("clone-without-namespaces", "clone-any")
"""The group that `default` grants, and the one that grants what is beyond it."""

_Trial = Callable[[tuple[str, ...]], str]


@dataclass(frozen=True)
class Measured:
    """What was found for one engine and mode."""

    engine: GvisorEngine
    version: str
    mode: str
    capabilities: Least
    calls: Least
    network_host: str
    seconds: float

    def as_data(self) -> dict[str, Any]:
        """For JSON; `network_host` is what goes wrong in the host's network, empty for nothing."""
        return {
            "engine": self.engine,
            "engine_version": self.version,
            "mode": self.mode,
            "capabilities": _as_data(self.capabilities),
            "calls": _as_data(self.calls),
            "network_host": self.network_host,
            "seconds": round(self.seconds, 1),
        }


def _as_data(found: Least) -> dict[str, Any]:
    return {
        "started_with": list(found.trials[0].members),
        "least": list(found.members),
        "without": found.needed,
        "trials": [{"with": list(each.members), "fault": each.fault} for each in found.trials],
    }


def with_calls(names: Sequence[str]) -> CatalogueProfile:
    """The profile `default` with some of `CALLS`, and nothing more for whoever holds a capability."""
    base = profile("default")
    own = {
        f"only-{name}": SyscallGroup(f"only-{name}", _REASON, (name,)) for name in names if name != "clone"
    }
    before, after = _CLONE
    granted = [after if each == before and "clone" in names else each for each in base.grants]
    groups = MappingProxyType({**base.groups, **own})
    return CatalogueProfile("measured", "What is being measured.", groups, (*granted, *own))


_REASON = "It is being measured whether it is needed."


def minimise(
    engines: Sequence[GvisorEngine], modes: Sequence[str], rootfs: Path, *, progress: Progress = SILENT
) -> dict[str, Any]:
    """Measure each engine in each mode, and give a document for JSON.

    `rootfs` is an unpacked root with a shell. Raise HostError when even all of it is not enough, with what
    was said; UsageError for a mode that is none.
    """
    for mode in modes:
        if mode not in MODES:
            raise UsageError(f"there is no mode {mode!r}; there is {', '.join(MODES)}")
    runsc = _runsc(engines[0])
    found = [_measured(engine, mode, rootfs, progress) for engine in engines for mode in modes]
    return {
        "schema": 1,
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "runsc": runsc,
        "found": [each.as_data() for each in found],
    }


def engines(names: Sequence[str]) -> tuple[GvisorEngine, ...]:
    """The engines of these names, both when there is none. Raise UsageError for another name."""
    known: dict[str, GvisorEngine] = {"docker": "docker", "podman": "podman"}
    for name in names:
        if name not in known:
            raise UsageError(f"there is no engine {name!r}; there is {', '.join(known)}")
    return tuple(known[name] for name in names or known)


def root(given: str) -> Path:
    """The root to work on: the one given, or that of the image debian. Raise HostError without one."""
    if given:
        path = Path(given).resolve()
    else:
        layout = Path("build/images/debian").absolute()
        if not (layout / "index.json").exists():
            raise HostError(
                "the image debian is not in build: sandwright build-images --name debian, or --rootfs"
            )
        image = open_image(layout, platform=collect_host().platform)
        path = unpacked(image, store_of(layout.parents[1]), rootless=os.geteuid() != 0).path
    if not os.access(path / "bin/sh", os.X_OK):
        raise HostError(f"{path} has no /bin/sh, which the workload is run by")
    return path


def _measured(engine: GvisorEngine, mode: str, rootfs: Path, progress: Progress) -> Measured:
    began = time.monotonic()
    place = WorkloadPlace(engine, rootfs, rootless=mode == "rootless")
    usual = grant(rootless=place.rootless)
    all_calls = with_calls(CALLS)

    def capabilities(members: tuple[str, ...]) -> str:
        return fault(place, replace(usual, capabilities=members, seccomp=all_calls))

    with progress.step(f"{engine}, {mode}: capabilities", unit="trials") as step:
        held = least(_grantable(mode), _counted(capabilities, step.advance))

    def calls(members: tuple[str, ...]) -> str:
        return fault(place, replace(usual, capabilities=held.members, seccomp=with_calls(members)))

    with progress.step(f"{engine}, {mode}: system calls", unit="trials") as step:
        let = least(CALLS, _counted(calls, step.advance))
    chosen = Grant(held.members, with_calls(let.members), usual.masked)
    networked = fault(place, chosen, network="host")
    return Measured(engine, _version(engine), mode, held, let, networked, time.monotonic() - began)


def _counted(trial: _Trial, advance: Callable[[int], None]) -> _Trial:
    def counted(members: tuple[str, ...]) -> str:
        advance(1)
        return trial(members)

    return counted


def _grantable(mode: str) -> tuple[str, ...]:
    """Those that an engine of this machine can give: not what our own bounding set lacks.

    Podman gives them to users who are not root too, and a runsc with CAP_SYS_ADMIN takes itself for root.
    """
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    bounding = next(int(line.split()[1], 16) for line in lines if line.startswith("CapBnd:"))
    left_out = {"CAP_SYS_ADMIN"} if mode == "rootless" else set()
    return tuple(
        name for name, number in CAPABILITIES.items() if bounding >> number & 1 and name not in left_out
    )


def _version(engine: GvisorEngine) -> str:
    form = "{{.Server.Version}}" if engine == "docker" else "{{.Client.Version}}"
    return process.run(engine, "version", "--format", form, timeout=30).text


def _runsc(engine: GvisorEngine) -> dict[str, str]:
    """Which runsc the image holds, by its own word and by its digest."""
    script = "/usr/bin/runsc --version; sha256sum /usr/bin/runsc"
    options = ["run", "--rm", "--pull=never", "--network=none", "--entrypoint=/bin/busybox"]
    options += own_limits() if engine == "podman" else []
    said = process.run(engine, *options, IMAGE, "sh", "-c", script, timeout=60, check=False)
    lines = said.text.splitlines()
    if not said or len(lines) < 2:
        raise HostError(f"{engine} has no image {IMAGE} that can be started: {said.stderr.strip()}")
    return {"version": lines[0].removeprefix("runsc version "), "sha256": lines[-1].split()[0]}


def rows(document: Mapping[str, Any]) -> Iterator[list[str]]:
    """A table's rows: engine, mode, capabilities, system calls, trials."""
    for each in document["found"]:
        trials = len(each["capabilities"]["trials"]) + len(each["calls"]["trials"])
        yield [
            f"{each['engine']} {each['engine_version']}",
            each["mode"],
            " ".join(name.removeprefix("CAP_") for name in each["capabilities"]["least"]) or "none",
            " ".join(each["calls"]["least"]) or "none",
            each["network_host"] or "works",
            str(trials),
            f"{each['seconds']:.0f} s",
        ]


COLUMNS = ["engine", "runsc", "capabilities", "calls beyond default", "host's network", "trials", "time"]


def encode(document: Mapping[str, Any]) -> bytes:
    """The document as JSON."""
    return f"{json.dumps(document, indent=1, sort_keys=True)}\n".encode()


def main() -> None:
    """Run it: `python -m benchmarks.outer_capabilities [--engine ENGINE] [--mode MODE] [--rootfs DIR]`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", action="append", default=[], help="docker or podman (default: both)")
    parser.add_argument("--mode", action="append", default=[], help="rootful or rootless (default: both)")
    parser.add_argument("--rootfs", default="", help="an unpacked root with a shell")
    parser.add_argument("--to", default="build/outer.json", type=Path, help="file for the measurements")
    asked = parser.parse_args()
    document = minimise(engines(asked.engine), asked.mode or MODES, root(asked.rootfs))
    asked.to.parent.mkdir(parents=True, exist_ok=True)
    asked.to.write_bytes(encode(document))
    for row in ([*COLUMNS], *rows(document)):
        print("\t".join(row))
    print(f"runsc {document['runsc']['version']}, Linux {document['kernel']}: {asked.to}")


if __name__ == "__main__":
    main()
