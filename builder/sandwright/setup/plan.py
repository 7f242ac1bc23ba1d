"""Installs the packages of the distribution: first describes its actions, then executes them.

Only apt is driven. For apk, dnf and brew the plan names the packages and installs nothing. Where everything
is there, the plan is empty and nothing is started.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sandwright import process
from sandwright.errors import CommandFailed, HostError, ToolMissing, UsageError
from sandwright.host import MachineFacts, collect_host
from sandwright.progress import SILENT, Progress
from sandwright.setup.requirements import (
    EMULATORS,
    GROUPS,
    INSTALL,
    NEEDED,
    REQUIREMENTS,
    Emulator,
    Group,
    Requirement,
)

_BINFMT = Path("/proc/sys/fs/binfmt_misc")
_MINUTE = 60.0


class SetupStep(Protocol):
    """One step of a plan."""

    def describe(self) -> Sequence[str]:
        """One or more lines about the step for the user, who then confirms it."""
        ...

    def execute(self, progress: Progress) -> Sequence[str]:
        """Carry out the step, and return messages for the user. Raise HostError or CommandFailed."""
        ...


@dataclass(frozen=True)
class SetupPlan:
    """The steps that install the wanted groups.

    `advice` is for the user: the packages to install by hand on this kind of machine. `execute` may be
    called on an empty plan, and then does nothing.
    """

    groups: tuple[Group, ...]
    steps: tuple[SetupStep, ...] = ()
    advice: tuple[str, ...] = ()

    def describe(self) -> list[str]:
        """The lines to show before anything is done."""
        if not self.steps and not self.advice:
            return [f"everything is there for {', '.join(self.groups)}"]
        return [*itertools.chain.from_iterable(step.describe() for step in self.steps), *self.advice]

    def execute(self, progress: Progress = SILENT) -> list[str]:
        """Do all steps, in order; return remarks, such as unavailable packages.

        Raise HostError when rights are missing or a needed package is not offered, CommandFailed when a
        program fails. Packages installed before the failure stay installed.
        """
        return [note for step in self.steps for note in step.execute(progress)]


def plan_setup(groups: Iterable[str], host: MachineFacts) -> SetupPlan:
    """Plan the missing parts of the groups `build`, `smoke` and `test`. Uses only `host` and file names.

    Raise UsageError for a group that there isn't.
    """
    selected = _check_groups(groups)
    missing = [r for r in REQUIREMENTS if r.group in selected and not _is_installed(r, host)]
    emulators = [e for e in EMULATORS if e.platform != host.platform and not host.emulator(e.platform)]
    if "build" not in selected or host.os != "linux":
        emulators = []
    if host.package_manager == "apt":
        return SetupPlan(selected, tuple(_apt_steps(missing, emulators, host)))
    return SetupPlan(selected, advice=tuple(_advice(missing, emulators, host)))


@dataclass(frozen=True)
class InstallPackages:
    """Installs the available Debian packages, and reports the others."""

    packages: tuple[str, ...]
    needed: frozenset[str]
    as_root: tuple[str, ...]
    services: tuple[str, ...] = ()
    systemd: bool = False

    def describe(self) -> list[str]:
        """Name the packages, the rights, and the services they bring."""
        how = "through sudo" if self.as_root else "as root"
        lines = [f"install with apt-get, {how}: {' '.join(self.packages)}"]
        if self.services:
            when = "which systemd will start" if self.systemd else "not started, as systemd doesn't run here"
            lines.append(f"these bring services, {when}: {', '.join(self.services)}")
        return lines

    def execute(self, progress: Progress) -> list[str]:
        """Refresh the package lists and install. Raise HostError for a needed package that is not offered."""
        notes = []
        with progress.step("apt-get update"):
            updated = self._apt("update", minutes=10, check=False)
        if not updated:
            notes.append(f"apt-get update failed: {_last_output_line(updated.stderr)}")
        offered = _offered(self.packages)
        absent = [package for package in self.packages if package not in offered]
        if lost := [package for package in absent if package in self.needed]:
            raise HostError(f"apt offers no package {', '.join(lost)}, which is needed; " + "; ".join(notes))
        notes += [f"apt offers no package {package} here; going on without" for package in absent]
        if offered:
            with progress.step(f"apt-get install ({len(offered)} packages)"):
                self._apt("install", "--yes", "--no-install-recommends", *offered, minutes=30)
        return notes

    def _apt(self, *words: str, minutes: int, check: bool = True) -> process.Result:
        options = ("-q", "-o", "DPkg::Lock::Timeout=300")
        command = (*self.as_root, "env", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C", "apt-get")
        return _as_root(*command, *options, *words, timeout=minutes * _MINUTE, check=check)


@dataclass(frozen=True)
class RegisterEmulator:
    """Makes the kernel start a foreign platform's programs through qemu.

    The package does this itself where systemd mounts binfmt_misc. Elsewhere we mount it, and register again.
    """

    emulator: Emulator
    as_root: tuple[str, ...]

    def describe(self) -> list[str]:
        """Name the mount and the registration."""
        return [
            f"let the kernel run {self.emulator.platform} programs through qemu: mount binfmt_misc on "
            f"{_BINFMT} if it isn't, and register with update-binfmts"
        ]

    def execute(self, progress: Progress) -> list[str]:  # noqa: ARG002
        """Mount, register, and check the result; report the programs that will not run otherwise."""
        name = f"qemu-{self.emulator.machine}"
        try:
            if not (_BINFMT / "register").exists():
                mount = ("mount", "-t", "binfmt_misc", "binfmt_misc", str(_BINFMT))
                _as_root(*self.as_root, *mount, timeout=_MINUTE)
            _as_root(*self.as_root, "update-binfmts", "--enable", name, timeout=_MINUTE)
        except (CommandFailed, HostError, ToolMissing) as error:
            return [f"programs of {self.emulator.platform} won't run here: {_last_output_line(str(error))}"]
        if _registered(self.emulator):
            return []
        return [
            f"programs of {self.emulator.platform} won't run here: {name} is not registered with the "
            f"fix-binary flag in {_BINFMT}"
        ]


def _check_groups(names: Iterable[str]) -> tuple[Group, ...]:
    selected = list(names)
    if wrong := [name for name in selected if name not in GROUPS]:
        raise UsageError(f"no group {', '.join(wrong)}; there are {', '.join(GROUPS)}")
    return tuple(group for group in GROUPS if group in selected)


def _is_installed(requirement: Requirement, host: MachineFacts) -> bool:
    if requirement.wants.startswith("/"):
        return Path(requirement.wants).exists()
    return requirement.wants in host.programs


def _apt_steps(
    missing: Sequence[Requirement], emulators: Sequence[Emulator], host: MachineFacts
) -> list[SetupStep]:
    packages = dict.fromkeys(r.packages["apt"] for r in missing)
    needed = {r.packages["apt"] for r in missing if r.group in NEEDED}
    for emulator in emulators:
        if not all(program in host.programs for program in emulator.programs):
            needed.update(emulator.packages["apt"])
            packages.update(dict.fromkeys(emulator.packages["apt"]))
    as_root = () if host.is_root else ("sudo", "-n")
    services = tuple(r.service for r in missing if r.service)
    steps: list[SetupStep] = []
    if packages:
        steps.append(InstallPackages(tuple(packages), frozenset(needed), as_root, services, host.systemd))
    steps += [RegisterEmulator(emulator, as_root) for emulator in emulators]
    return steps


def _advice(missing: Sequence[Requirement], emulators: Sequence[Emulator], host: MachineFacts) -> list[str]:
    """The commands to type, for machines whose packages we don't install; and the unavailable packages."""
    manager = host.package_manager
    if manager is None:
        names = [r.wants for r in missing] + [f"qemu-{e.machine}" for e in emulators]
        return [f"no package manager that we know; please install: {', '.join(names)}"] if names else []
    packages = [r.packages[manager] for r in missing if manager in r.packages]
    packages += [package for e in emulators for package in e.packages.get(manager, ())]
    lines = [f"please run: {INSTALL[manager]} {' '.join(dict.fromkeys(packages))}"] if packages else []
    absent = [f"{r.wants} ({r.why})" for r in missing if manager not in r.packages]
    absent += [f"qemu-{e.machine} for {e.platform}" for e in emulators if manager not in e.packages]
    if absent:
        lines.append(f"{manager} has no package we know for: {', '.join(absent)}")
    return lines


def _offered(packages: Sequence[str]) -> list[str]:
    """The packages for which apt has a version to install."""
    policy = process.run("env", "LC_ALL=C", "apt-cache", "policy", *packages, timeout=_MINUTE).text
    found = dict(re.findall(r"^(\S+):\n  Installed: .*\n  Candidate: (.*)$", policy, re.MULTILINE))
    return [package for package in packages if found.get(package, "(none)") != "(none)"]


def _as_root(*words: str, timeout: float, check: bool = True) -> process.Result:
    """Run a program that needs root; `words` begin with sudo when we are not. Raise HostError without it."""
    if words[0] == "sudo":
        rest = " ".join(words[2:])
        if process.find("sudo") is None:
            raise HostError(f"this needs root, and there is no sudo; run it as root: {rest}")
        if not process.run("sudo", "-n", "true", timeout=_MINUTE, check=False):
            raise HostError(f"this needs root, and sudo asks for a password; run it as root: {rest}")
    return process.run(*words, timeout=timeout, check=check)


def _registered(emulator: Emulator) -> bool:
    return collect_host().emulator(emulator.platform) is not None


def _last_output_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it gave no reason"
