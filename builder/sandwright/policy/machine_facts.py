"""Collects facts about this machine and its user, apart from files."""

from __future__ import annotations

import hashlib
import os
import pwd
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from sandwright.errors import HostError
from sandwright.inputs import LiveHost
from sandwright.policy.facts import HostFacts
from sandwright.policy.hidden import NETWORK
from sandwright.policy.limits import CONTROLLERS
from sandwright.policy.path_resolver import GOOGLE_KEY

OSRELEASE = "/proc/sys/kernel/osrelease"
"""The kernel's version (proc(5))."""

_MACHINES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


def machine_facts(
    names: Iterable[str], environ: Mapping[str, str], project: str, tmp: str | None, inputs: LiveHost
) -> HostFacts:
    """Facts about this machine: the system, the user, the limits, and the variables of `names` that are set.

    Raise HostError for a system that is neither Linux nor macOS.
    """
    system = sys.platform
    if system not in ("linux", "darwin"):
        raise HostError(f"sandboxes run on Linux and macOS, not on {system}")
    account = _current_account()
    home = environ.get("HOME") or account.pw_dir
    variables = {*names, GOOGLE_KEY, "DOCKER_HOST", "XDG_CONFIG_HOME"}
    inputs.ask_all([("machine", ""), ("content", OSRELEASE), ("stamp", "/etc/passwd")])
    inputs.entry(home.swapcase())
    inputs.ask_all(("variable", name) for name in sorted({*variables, "HOME", "TMPDIR"}))
    machine = os.uname().machine.lower()
    return HostFacts(
        os="linux" if system == "linux" else "darwin",
        home=home,
        project=project,
        user=account.pw_name,
        uid=os.getuid(),
        gid=os.getgid(),
        tmp=tmp or _temporary_directory(environ, project),
        platform=f"{system}/{_MACHINES.get(machine, machine)}",
        kernel=os.uname().release,
        case_sensitive=system == "linux" or not _ignores_case(home),
        memory=int(inputs.ask("machine")[0]),
        landlock=int(inputs.ask("machine")[1]),
        controllers=_controllers(inputs) if system == "linux" else (),
        environment={name: environ[name] for name in sorted(variables & environ.keys())},
    )


def _controllers(inputs: LiveHost) -> tuple[str, ...]:
    """The cgroup controllers here: from the file of version 2, or the directories of version 1."""
    names = (inputs.text(f"{_GROUPS}/cgroup.controllers") or "").split()
    return tuple(
        name
        for name in sorted(CONTROLLERS.values())
        if name in names or inputs.kind_behind(f"{_GROUPS}/{name}") == "directory"
    )


_GROUPS = "/sys/fs/cgroup"


def _current_account() -> pwd.struct_passwd:
    try:
        return pwd.getpwuid(os.getuid())
    except KeyError:
        uid = os.getuid()
        return pwd.struct_passwd((f"uid{uid}", "x", uid, os.getgid(), "", "/", "/bin/sh"))


def _temporary_directory(environ: Mapping[str, str], project: str) -> str:
    if sys.platform == "linux":
        return "/tmp"  # noqa: S108 - the sandbox's path, not the host's
    parent = environ.get("TMPDIR", "/private/tmp").rstrip("/")
    return f"{parent}/sandwright-{hashlib.sha256(project.encode()).hexdigest()[:12]}"


def _ignores_case(path: str) -> bool:
    other = path.swapcase()
    try:
        return other != path and Path(other).samefile(path)
    except OSError:
        return False


def network_devices() -> list[str]:
    """The links to physical network devices; those of containers come and go, and lie in one directory."""
    folder = Path(NETWORK[0])
    links = sorted(str(path) for path in folder.iterdir()) if folder.is_dir() else []
    return [path for path in links if not os.path.realpath(path).startswith(f"{NETWORK[1]}/")]
