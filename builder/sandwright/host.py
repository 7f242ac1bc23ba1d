"""The facts of this machine, collected once: kernel, user namespaces, cgroups, capabilities, programs.

Collecting reads small files and looks for programs; it starts nothing and opens no connection.
"""

from __future__ import annotations

import dataclasses
import os
import resource
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from sandwright import process
from sandwright.errors import HostError

PackageManager = Literal["apt", "apk", "dnf", "brew"]
Cgroups = Literal["v1", "v2", "hybrid", "none"]
Surroundings = Literal["machine", "container", "gvisor"]

ARCHITECTURES: Mapping[str, str] = {
    "x86_64": "amd64",
    "amd64": "amd64",
    "aarch64": "arm64",
    "arm64": "arm64",
    "armv7l": "arm",
    "i686": "386",
    "ppc64le": "ppc64le",
    "riscv64": "riscv64",
    "s390x": "s390x",
}
"""The machine name of `uname` → the architecture name that OCI images use (those of Go's GOARCH)."""

PROGRAMS = (
    *("apt-get", "apt-cache", "apt-config", "mmdebstrap", "arch-test", "newuidmap", "unshare", "sudo"),
    *("update-binfmts", "qemu-aarch64-static", "qemu-x86_64-static"),
    *(
        "runc",
        "crun",
        "runsc",
        "bwrap",
        "linux.uml",
        "qemu-system-x86_64",
        "podman",
        "slirp4netns",
        "pasta",
        "docker",
        "dockerd",
        "buildah",
        "skopeo",
        "umoci",
    ),
    *(
        "docker-registry",
        "squid",
        "haproxy",
        "strace",
        "rsync",
        "setfattr",
        "lowntfs-3g",
        "busybox",
        "openssl",
        "gpg",
        "gh",
        "cc",
        "hg",
        "shasum",
    ),
    *("make", "zsh", "fish"),
)
"""Programs that `collect_host` looks for."""

_PACKAGE_MANAGERS: Mapping[PackageManager, str] = {
    "apt": "apt-get",
    "apk": "apk",
    "dnf": "dnf",
    "brew": "brew",
}
_LIMITS = {
    "memlock": resource.RLIMIT_MEMLOCK,
    "nofile": resource.RLIMIT_NOFILE,
    "nproc": resource.RLIMIT_NPROC,
}
_CGROUP_MARKS = {"kubepods": "kubernetes", "docker": "docker", "libpod": "podman", "lxc": "lxc"}
_APPARMOR_SWITCH = "kernel/apparmor_restrict_unprivileged_userns"
_GVISOR_VERSION = "#1 SMP Sun Jan 10 15:06:54 PST 2016"
"""The build line of gVisor's kernel in /proc/version: a constant of its source (seen in 20221219)."""


@dataclass(frozen=True)
class Binfmt:
    """An interpreter registered with the kernel's binfmt_misc, such as `qemu-aarch64`.

    With `fix_binary` the kernel holds the interpreter open, so that it works inside any root directory.
    """

    name: str
    enabled: bool
    interpreter: str
    fix_binary: bool


@dataclass(frozen=True)
class MachineFacts:
    """The properties of this machine. The same facts give the same artifacts.

    `os` is `linux` or `darwin`; `machine` is the machine name of `uname`. `distribution` is the ID of
    os-release, and `distribution_like` its ID_LIKE. `limits` holds soft and hard resource limits, -1 for
    none; `memlock` is in bytes. `capabilities` are the effective ones as a bit set. `container` names the
    container engine if `surroundings` is `container`, as far as it is known. `programs` maps names to paths.
    """

    os: str
    kernel: str
    machine: str
    uid: int
    gid: int
    distribution: str
    distribution_like: tuple[str, ...]
    package_manager: PackageManager | None
    systemd: bool
    cgroups: Cgroups
    max_user_namespaces: int
    unprivileged_user_namespaces: bool
    apparmor_restricts_user_namespaces: bool
    binfmt: tuple[Binfmt, ...]
    surroundings: Surroundings
    container: str
    capabilities: int
    limits: Mapping[str, tuple[int, int]]
    programs: Mapping[str, str]

    @property
    def architecture(self) -> str:
        """The machine's architecture as OCI names it; an unknown machine name is given as it is."""
        return ARCHITECTURES.get(self.machine, self.machine)

    @property
    def platform(self) -> str:
        """The platform of images that run here without emulation: containers are Linux everywhere."""
        return f"linux/{self.architecture}"

    @property
    def is_root(self) -> bool:
        """Whether we run with user id 0."""
        return self.uid == 0

    @property
    def user_namespaces(self) -> bool:
        """Whether the settings allow this user to create a user namespace; only an attempt proves it."""
        if self.max_user_namespaces == 0:
            return False
        return self.is_root or (
            self.unprivileged_user_namespaces and not self.apparmor_restricts_user_namespaces
        )

    def emulator(self, platform_name: str) -> Binfmt | None:
        """The enabled, fix-binary interpreter for programs of a foreign platform, if one is registered."""
        machines = {m for m, name in ARCHITECTURES.items() if platform_name.split("/")[1:2] == [name]}
        names = {f"qemu-{machine}" for machine in machines}
        return next((b for b in self.binfmt if b.name in names and b.enabled and b.fix_binary), None)

    def to_json(self) -> dict[str, Any]:
        """Plain data that `from_json` reads back to an equal value."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> MachineFacts:
        """Decode the output of `to_json`, also after a trip through a JSON file.

        Raise HostError when fields are missing, unknown, or not of their type.
        """
        names = {field.name for field in dataclasses.fields(cls)}
        if set(data) != names:
            wrong = ", ".join(sorted(names ^ set(data)))
            raise HostError(f"host facts: fields missing or not known: {wrong}")
        try:
            return cls(
                **{
                    **data,
                    "distribution_like": tuple(data["distribution_like"]),
                    "binfmt": tuple(Binfmt(**handler) for handler in data["binfmt"]),
                    "limits": {str(k): (int(soft), int(hard)) for k, (soft, hard) in data["limits"].items()},
                    "programs": {str(k): str(v) for k, v in data["programs"].items()},
                }
            )._check_choices()
        except (TypeError, ValueError, AttributeError) as error:
            raise HostError(f"host facts: {error}") from error

    def _check_choices(self) -> MachineFacts:
        choices: tuple[tuple[str, object, tuple[object, ...]], ...] = (
            ("cgroups", self.cgroups, get_args(Cgroups)),
            ("surroundings", self.surroundings, get_args(Surroundings)),
            ("package_manager", self.package_manager, (*get_args(PackageManager), None)),
        )
        for name, value, allowed in choices:
            if value not in allowed:
                raise ValueError(f"{name}: {value!r} is not one of {', '.join(map(str, allowed))}")
        return self


def collect_host(root: Path = Path("/")) -> MachineFacts:
    """Collect the facts of this machine. /proc, /etc and /run are looked for under `root`, for tests."""
    sysctl = root / "proc/sys"
    system = os.uname()
    release = os_release(_read_small(root / "etc/os-release") or _read_small(root / "usr/lib/os-release"))
    surroundings, container = _surroundings(root)
    programs = process.find_all(PROGRAMS)
    return MachineFacts(
        os=system.sysname.lower(),
        kernel=system.release,
        machine=system.machine,
        uid=os.getuid(),
        gid=os.getgid(),
        distribution=release.get("ID", ""),
        distribution_like=tuple(release.get("ID_LIKE", "").split()),
        package_manager=next((name for name, tool in _PACKAGE_MANAGERS.items() if process.find(tool)), None),
        systemd=(root / "run/systemd/system").is_dir(),
        cgroups=_cgroups(_read_small(root / "proc/self/mountinfo")),
        max_user_namespaces=_read_number(sysctl / "user/max_user_namespaces", absent=0),
        unprivileged_user_namespaces=_read_number(sysctl / "kernel/unprivileged_userns_clone", absent=1) != 0,
        apparmor_restricts_user_namespaces=_read_number(sysctl / _APPARMOR_SWITCH, absent=0) != 0,
        binfmt=_binfmt(sysctl / "fs/binfmt_misc"),
        surroundings=surroundings,
        container=container,
        capabilities=_effective_capabilities(_read_small(root / "proc/self/status")),
        limits={name: resource.getrlimit(number) for name, number in _LIMITS.items()},
        programs=programs,
    )


def os_release(text: str) -> dict[str, str]:
    """Read the assignments of an os-release file (os-release(5)): shell-like, no expansion."""
    values = {}
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        if name and equals and not name.startswith("#"):
            quote = value[:1] if value[:1] in {'"', "'"} else ""
            values[name] = value.removeprefix(quote).removesuffix(quote) if quote else value
    return values


def _read_small(path: Path, limit: int = 1 << 20) -> str:
    """The text of a small file; empty when it is not there or not ours to read."""
    try:
        with path.open("rb") as file:
            return file.read(limit).decode(errors="replace")
    except OSError:
        return ""


def _read_number(path: Path, *, absent: int) -> int:
    text = _read_small(path).strip()
    return int(text) if text.isdecimal() else absent


def _cgroups(mountinfo: str) -> Cgroups:
    """The mounted cgroup hierarchies, by the type behind the dash of each mountinfo line (proc(5))."""
    types = {line.partition(" - ")[2].split(" ")[0] for line in mountinfo.splitlines()}
    match ("cgroup" in types, "cgroup2" in types):
        case (True, True):
            return "hybrid"
        case (True, False):
            return "v1"
        case (False, True):
            return "v2"
        case _:
            return "none"


def _binfmt(directory: Path) -> tuple[Binfmt, ...]:
    """The registered interpreters, by name. The kernel shows each as a file of lines (binfmt-misc.rst)."""
    try:
        names = sorted(path.name for path in directory.iterdir())
    except OSError:
        return ()
    handlers = []
    for name in names:
        words = [line.split() for line in _read_small(directory / name).splitlines() if line]
        fields = {line[0].rstrip(":"): line[1] for line in words if len(line) > 1}
        if "interpreter" in fields:
            enabled = words[0] == ["enabled"]
            handlers.append(Binfmt(name, enabled, fields["interpreter"], "F" in fields.get("flags", "")))
    return tuple(handlers)


def _surroundings(root: Path) -> tuple[Surroundings, str]:
    """The surroundings of this process. Engines leave a file, a variable of process 1, or a cgroup path."""
    if _GVISOR_VERSION in _read_small(root / "proc/version"):
        return "gvisor", ""
    if (root / "run/.containerenv").exists():
        return "container", "podman"
    if (root / ".dockerenv").exists():
        return "container", "docker"
    named = _read_small(root / "run/systemd/container").strip() or _container_variable(root)
    if named:
        return "container", named
    paths = _read_small(root / "proc/1/cgroup")
    for mark, name in (
        ("kubepods", "kubernetes"),
        ("docker", "docker"),
        ("libpod", "podman"),
        ("lxc", "lxc"),
    ):
        if mark in paths:
            return "container", name
    return "machine", ""


def _container_variable(root: Path) -> str:
    for variable in _read_small(root / "proc/1/environ").split("\0"):
        name, _, value = variable.partition("=")
        if name == "container":
            return value
    return ""


def _effective_capabilities(status: str) -> int:
    for line in status.splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    return 0
