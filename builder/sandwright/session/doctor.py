"""Describes this machine: its facts, the methods that work on it, and the reasons against the others."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from sandwright import user_dirs
from sandwright.egress.upstream_trial import try_upstream
from sandwright.errors import HostError
from sandwright.host import MachineFacts, collect_host
from sandwright.landlock import landlock_version
from sandwright.launcher.restrict import PORTS
from sandwright.methods import registry
from sandwright.methods.contract import Backend, Preflight
from sandwright.methods.shared.escapes import escapes
from sandwright.policy.declaration import REFUSED, Refused
from sandwright.session import preflights

_AT_ONCE = 4
_BOARD = ("proc/device-tree/compatible", "sys/class/dmi/id/sys_vendor")
_VIRTUAL_BOARDS = ("linux,dummy-virt", "QEMU")
"""Names of QEMU's board in the device tree, and in the tables of its firmware."""


@dataclass(frozen=True)
class Surroundings:
    """The environment of this process.

    `kind` is one of: bare machine, virtual machine, machine (either of the two), container, gVisor.
    `restrictions` are the general obstacles to sandboxes on this machine, and `outer` the options that the
    surrounding container needs for nested ones.
    """

    kind: str
    restrictions: tuple[str, ...]
    outer: tuple[str, ...]


@dataclass(frozen=True)
class Rung:
    """A method that `sandwright init` tries: whether it starts, and otherwise the reason and the remedy."""

    method: str
    starts: bool
    why: str = ""
    change: str = ""


@dataclass(frozen=True)
class Instead:
    """A method that starts here only in another form: the form, its weakness, and the reason."""

    method: str
    form: str
    weaker: str
    why: str
    change: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """The machine, and each method on it.

    `ladder` are the methods of a new policy in the order in which they are tried, down to the one that
    starts; it is empty if methods were named. `fallback` are those that start in another form. `untold`
    lists, for each method that starts, the denials that its runs cannot report, each with the reason.
    `untried` are forms that were not started, since the method that they replace starts. `upstream` is the
    result of the check of the host's proxies (HTTPS_PROXY), through which `network.mode: proxy` connects.
    """

    surroundings: Surroundings
    methods: tuple[Preflight, ...]
    ladder: tuple[Rung, ...] = ()
    fallback: tuple[Instead, ...] = ()
    untold: Mapping[str, Mapping[Refused, str]] = field(default_factory=dict)
    untried: Mapping[str, str] = field(default_factory=dict)
    upstream: tuple[str, ...] = ()

    @property
    def held_back(self) -> bool:
        """Whether the environment prevents a method from working."""
        return any(each.code in ("container-masks", "container-filter") for each in self.methods)

    def as_data(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


def diagnose(*, fresh: bool = False, methods: Sequence[str] = ()) -> Diagnosis:
    """Examine this machine, and try each method (or those named) by starting a sandbox of it.

    A form that replaces a method is tried if that method does not start, or if the form is named. Without
    `fresh`, the result of the last trial is reused while its inputs are unchanged. Raise
    UsageError for an unknown method.
    """
    host = collect_host()
    chosen = dict.fromkeys(methods, ()) or registry.with_substitutes()

    def tried(name: str) -> list[Preflight]:
        preflight = _run_preflight(name, host, fresh=fresh)
        return [
            preflight,
            *(_run_preflight(form, host, fresh=fresh) for form in chosen[name] if not preflight.ready),
        ]

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = [each for group in pool.map(tried, chosen) for each in group]
    there = {each.method for each in found}
    around = surroundings(host)
    return Diagnosis(
        replace(around, restrictions=(*around.restrictions, *unrestricted(host.os), *_block_reasons())),
        tuple(found),
        () if methods else ladder(found, host.os),
        tuple(in_other_forms(found)),
        unreported_denials(found),
        {form: name for name, others in chosen.items() for form in others if form not in there},
        tuple(try_upstream(os.environ)),
    )


def _block_reasons() -> Iterator[str]:
    return (f"nothing can start: {error}" for error in unusable_directories())


def unusable_directories() -> Iterator[HostError]:
    """An error for each directory of sandwright's that cannot be created: without it nothing starts."""
    for directory in (user_dirs.cache, user_dirs.runtime):
        try:
            user_dirs.private(directory())
        except HostError as error:
            yield error


def unreported_denials(found: Sequence[Preflight]) -> dict[str, dict[Refused, str]]:
    """For each method that starts: the refusals that a run does not report, and why."""
    declared = [registry.declaration(each.method) for each in found if each.ready]
    return {
        each.method: {refused: why for refused in REFUSED if (why := each.why_unreported(refused))}
        for each in declared
        if each.enforces
    }


def ladder(found: Sequence[Preflight], system: str) -> tuple[Rung, ...]:
    """The methods that a new policy would name, in order, to the first that starts; all where none does."""
    by_name = {each.method: each for each in found}
    rungs: list[Rung] = []
    for name in registry.default_methods(system, last_resort=True):
        each = by_name[name]
        rungs.append(Rung(name, each.ready, "" if each.ready else each.message or each.code, each.remedy))
        if each.ready:
            break
    return tuple(rungs)


def in_other_forms(found: Sequence[Preflight]) -> Iterator[Instead]:
    """The methods that do not start, but have a form that does, with that form."""
    by_name = {each.method: each for each in found}
    for name in by_name.keys() & set(registry.policy_names()):
        for variant, each in registry.method(name).variants.items():
            result, other = by_name[name], by_name.get(variant)
            if each.fallback and not result.ready and other is not None and other.ready:
                yield Instead(name, variant, each.fallback, result.message or result.code, result.remedy)


def _run_preflight(name: str, host: MachineFacts, *, fresh: bool) -> Preflight:
    backend = registry.backend(name)
    found = preflights.run_preflight(backend, host) if fresh else preflights.cached_preflight(backend, host)
    return with_untested_faults(backend, found, host)


def with_untested_faults(backend: Backend, found: Preflight, host: MachineFacts) -> Preflight:
    """The result of a preflight, and of checks outside it: a missing image, a runtime with known escapes."""
    if not found.ready:
        return found
    if without := backend.without_image():
        return without
    known_escapes = escapes(found.runtime or backend.runtime_version(host))
    if not known_escapes:
        return found
    message, remedy = (
        "; ".join(filter(None, both))
        for both in zip(known_escapes, (found.message, found.remedy), strict=True)
    )
    return replace(found, message=message, remedy=remedy)


def surroundings(host: MachineFacts, root: Path = Path("/")) -> Surroundings:
    """Determine the environment from the facts and some files of /proc, which are read below `root`."""
    return Surroundings(
        _machine_kind(host, root), tuple(_restrictions(host, root)), tuple(_outer(host, root))
    )


def _machine_kind(host: MachineFacts, root: Path) -> str:
    match host.surroundings:
        case "gvisor":
            return "gVisor"
        case "container":
            return f"container ({host.container})" if host.container else "container"
        case _:
            return _hardware(host, root)


def _hardware(host: MachineFacts, root: Path) -> str:
    """The kind of the machine. Only processors of x86 tell programs of a hypervisor."""
    if host.architecture == "amd64":
        return "virtual machine" if " hypervisor" in _read_text(root / "proc/cpuinfo") else "bare machine"
    board = [
        _read_text(root / path) for path in ("proc/device-tree/compatible", "sys/class/dmi/id/sys_vendor")
    ]
    return "virtual machine" if any(name in each for each in board for name in _VIRTUAL_BOARDS) else "machine"


def _restrictions(host: MachineFacts, root: Path) -> list[str]:
    found = []
    if host.os == "linux" and not host.user_namespaces:
        restricted = host.apparmor_restricts_user_namespaces
        found.append("user namespaces are " + ("restricted by AppArmor" if restricted else "switched off"))
    if _masked(root):
        found.append("/proc is covered in places, so no new one can be mounted")
    if host.os == "linux" and host.cgroups in ("hybrid", "none"):
        found.append(
            "cgroups of both versions are mounted, which crun refuses"
            if host.cgroups == "hybrid"
            else "no cgroups are mounted, so memory, processors and the number of processes cannot be limited"
        )
    return found


def _outer(host: MachineFacts, root: Path) -> list[str]:
    """The options that the container around us needs (measured with runc 1.1 and crun 1.8)."""
    if host.surroundings != "container":
        return []
    needs = ["a seccomp profile that allows clone and unshare with namespaces, mount, umount2 and pivot_root"]
    if _masked(root):
        needs.append("an unmasked /proc: --security-opt systempaths=unconfined")
    return needs


def unrestricted(system: str) -> Iterator[str]:
    """The missing restrictions of host programs that parse data of a sandbox (`launch-init --restrict`)."""
    parsers = "squid (network.mode: proxy) and git (credentials.shims) on the host"
    if system != "linux":
        yield f"{parsers} run with all rights of this account, because this system has no Landlock"
        return
    match landlock_version():
        case 0:
            yield f"Landlock is off: {parsers} are restricted only by a filter of system calls"
        case version if version < PORTS:
            yield f"Landlock has version {version}: ports of {parsers} are not restricted (Linux 6.7)"


def _masked(root: Path) -> bool:
    points = [line.split()[4] for line in _read_text(root / "proc/self/mountinfo").splitlines()]
    return any(point.startswith("/proc/") and point != "/proc/sys/fs/binfmt_misc" for point in points)


def _read_text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
