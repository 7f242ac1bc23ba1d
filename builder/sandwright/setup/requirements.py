"""Requirements from a distribution: each program, its purpose, and the names of its packages.

The names for apt were installed and used. Those for apk, dnf and brew are only printed, and were not tried.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sandwright.host import PackageManager

Group = Literal["build", "smoke", "test"]

GROUPS: Mapping[Group, str] = {
    "build": "required for the main job",
    "smoke": "the runtimes that images and sandboxes start under, with their requirements; each is optional",
    "test": "used by the tests beyond that",
}

NEEDED: frozenset[Group] = frozenset({"build"})
"""The groups of required packages; in the others a missing package is only reported."""

INSTALL: Mapping[PackageManager, str] = {
    "apt": "apt-get install",
    "apk": "apk add",
    "dnf": "dnf install",
    "brew": "brew install",
}
"""The command of each package manager that installs packages."""


@dataclass(frozen=True)
class Requirement:
    """A required program (by name) or file (by absolute path), and the package that contains it.

    `packages` has no row for a manager that doesn't offer it. `service` is the service that its package
    starts under systemd.
    """

    wants: str
    group: Group
    why: str
    packages: Mapping[PackageManager, str]
    service: str = ""


@dataclass(frozen=True)
class Emulator:
    """The emulator of a foreign platform: qemu user emulation for `machine`, as `uname` calls it.

    `programs` show that the packages are installed; only the kernel's register shows that it works.
    """

    platform: str
    machine: str
    packages: Mapping[PackageManager, tuple[str, ...]]

    @property
    def programs(self) -> tuple[str, str]:
        """The interpreter, and the program that registers it."""
        return f"qemu-{self.machine}-static", "update-binfmts"


_APT: tuple[PackageManager, ...] = ("apt",)
_LINUX: tuple[PackageManager, ...] = ("apt", "apk", "dnf")
_ALL: tuple[PackageManager, ...] = ("apt", "apk", "dnf", "brew")
_QEMU: Mapping[PackageManager, tuple[str, ...]] = {
    "apt": ("qemu-user-static", "binfmt-support"),
    "dnf": ("qemu-user-static",),
}

EMULATORS = (Emulator("linux/amd64", "x86_64", _QEMU), Emulator("linux/arm64", "aarch64", _QEMU))
"""One for each platform that images are built for."""


def _same_name(package: str, managers: tuple[PackageManager, ...]) -> Mapping[PackageManager, str]:
    return dict.fromkeys(managers, package)


REQUIREMENTS = (
    Requirement("mmdebstrap", "build", "runs maintainer scripts", _same_name("mmdebstrap", ("apt", "dnf"))),
    Requirement(
        "arch-test", "build", "tells mmdebstrap which platforms run here", _same_name("arch-test", _APT)
    ),
    Requirement(
        "newuidmap",
        "build",
        "maps user IDs without root",
        {"apt": "uidmap", "apk": "shadow-uidmap", "dnf": "shadow-utils"},
    ),
    Requirement(
        "/usr/share/keyrings/debian-archive-keyring.gpg",
        "build",
        "the keys that sign Debian's archive",
        {"apt": "debian-archive-keyring", "dnf": "debian-keyring"},
    ),
    Requirement("bwrap", "smoke", "runtime", _same_name("bubblewrap", _LINUX)),
    Requirement("runc", "smoke", "runtime", _same_name("runc", _LINUX)),
    Requirement("crun", "smoke", "runtime", _same_name("crun", _LINUX)),
    Requirement("runsc", "smoke", "runtime: gVisor", _same_name("runsc", _APT)),
    Requirement("linux.uml", "smoke", "runtime: User-Mode Linux", _same_name("user-mode-linux", _APT)),
    Requirement(
        "qemu-system-x86_64",
        "smoke",
        "runtime: a machine for `vm`",
        {"apt": "qemu-system-x86", "dnf": "qemu-system-x86-core"},
    ),
    Requirement("/vmlinuz", "smoke", "the kernel in that machine", {"apt": "linux-image-amd64"}),
    Requirement("podman", "smoke", "engine", _same_name("podman", _ALL), service="podman.socket"),
    Requirement(
        "slirp4netns", "smoke", "networks of Podman 4 without root", _same_name("slirp4netns", _LINUX)
    ),
    Requirement("pasta", "smoke", "networks of Podman 5 without root", _same_name("passt", _LINUX)),
    Requirement(
        "squid",
        "smoke",
        "the proxy of bwrap, oci, gvisor and user",
        _same_name("squid", _LINUX),
        service="squid (port 3128)",
    ),
    Requirement(
        "haproxy",
        "smoke",
        "the proxy that reads requests (network.http)",
        _same_name("haproxy", _LINUX),
        service="haproxy",
    ),
    Requirement(
        "openssl", "smoke", "certificates of network.http, and tests of ours", _same_name("openssl", _ALL)
    ),
    Requirement(
        "dockerd",
        "smoke",
        "engine",
        {"apt": "docker.io", "apk": "docker", "dnf": "moby-engine"},
        service="docker",
    ),
    Requirement("skopeo", "test", "reads the layouts we write", _same_name("skopeo", _ALL)),
    Requirement("umoci", "test", "unpacks the layouts we write", _same_name("umoci", ("apt", "dnf"))),
    Requirement("buildah", "test", "reads the layouts we write", _same_name("buildah", _LINUX)),
    Requirement(
        "docker-registry",
        "test",
        "a registry on loopback",
        {"apt": "docker-registry", "apk": "docker-registry", "dnf": "docker-distribution"},
        service="docker-registry (port 5000)",
    ),
    Requirement("strace", "test", "sees what programs open", _same_name("strace", _LINUX)),
    Requirement(
        "gh",
        "test",
        "runs behind the bridge, against a stand-in for GitHub",
        {"apt": "gh", "apk": "github-cli", "dnf": "gh", "brew": "gh"},
    ),
    Requirement("rsync", "test", "copies a project for alcless", _same_name("rsync", _ALL)),
    Requirement("setfattr", "test", "sets extended attributes", _same_name("attr", _LINUX)),
    Requirement("lowntfs-3g", "test", "a file system that ignores case", _same_name("ntfs-3g", _LINUX)),
    Requirement(
        "busybox",
        "test",
        "a static program",
        {"apt": "busybox-static", "apk": "busybox-static", "dnf": "busybox"},
    ),
    Requirement("gpg", "test", "signs archives", {"apt": "gpg", "apk": "gnupg", "dnf": "gnupg2"}),
    Requirement("cc", "test", "compiles under a seccomp profile", _same_name("gcc", _LINUX)),
    Requirement("hg", "test", "reads a repository that was in a sandbox", _same_name("mercurial", _ALL)),
    Requirement("make", "test", "builds busybox from Debian's source", _same_name("make", _LINUX)),
    Requirement("zsh", "test", "loads its completion script", _same_name("zsh", _ALL)),
    Requirement("fish", "test", "loads its completion script", _same_name("fish", _ALL)),
    Requirement("shasum", "test", "macOS' digest program", {"apt": "perl", "apk": "perl-utils"}),
)


def how_to_get(wants: str, manager: PackageManager | None) -> str:
    """The command that installs a program of the table: `apt-get install crun`; empty when not known."""
    found = next((r.packages for r in REQUIREMENTS if r.wants == wants), {})
    return f"{INSTALL[manager]} {found[manager]}" if manager is not None and manager in found else ""
