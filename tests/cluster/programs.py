"""The programs of a test cluster: Debian's, and those that Go builds from the modules in `modules/`.

Built programs are kept outside of the repository, under a digest of all their sources.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sandwright import crossbuild, process
from sandwright.host import collect_host

MODULES = Path(__file__).parent / "modules"
BUILD_LIMIT = 3 * 3600.0
NEEDED = ("etcd", "unshare", "ip", "umount")
"""Programs that the machine must have, etcd from Debian's `etcd-server`."""

PLUGINS = Path("/usr/lib/cni")
"""The directory of Debian's `containernetworking-plugins`."""


@dataclass(frozen=True)
class GoModule:
    """A directory of `modules/`: the programs that it builds, by name, and how."""

    name: str
    packages: Mapping[str, str]
    cgo: bool = False
    tags: str = ""
    version: str = ""

    @property
    def digest(self) -> str:
        """The digest of everything that determines the programs, except the compiler."""
        found = hashlib.sha256(
            repr((sorted(self.packages.items()), self.cgo, self.tags, self.version)).encode()
        )
        for each in sorted((MODULES / self.name).iterdir()):
            found.update(f"{each.name} {hashlib.sha256(each.read_bytes()).hexdigest()}\n".encode())
        return found.hexdigest()[:32]


_CONTAINERD = "github.com/containerd/containerd/v2/cmd"
GO_MODULES = (
    GoModule("kubernetes", {"kubernetes": "."}, version="1.35.4"),
    GoModule("runc", {"runc": "github.com/opencontainers/runc"}, cgo=True, tags="seccomp"),
    GoModule(
        "containerd",
        {name: f"{_CONTAINERD}/{name}" for name in ("containerd", "containerd-shim-runc-v2", "ctr")},
        tags="no_btrfs no_zfs no_devmapper",
    ),
)


def directory() -> Path:
    """The directory of built programs."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "sandwright-cluster"


def find(name: str) -> Path:
    """The path of a program that Go builds, whether or not it exists yet."""
    module = next(each for each in GO_MODULES if name in each.packages)
    return directory() / f"{module.name}-{module.digest}" / name


def runtimes() -> dict[str, Path]:
    """The container runtimes: runc, and gVisor if Debian's package is installed."""
    gvisor = {"runsc": Path(__file__).with_name("gvisor.py")} if process.find("runsc") else {}
    return {"runc": find("runc"), **gvisor}


def missing() -> list[str]:
    """The missing requirements of a cluster on this machine, by name; empty if a cluster can start."""
    built = [name for module in GO_MODULES for name in module.packages]
    lacking = [f"{name} (python -m cluster build)" for name in built if not find(name).exists()]
    lacking += [name for name in NEEDED if process.find(name) is None]
    if not (PLUGINS / "ptp").exists():
        lacking.append("containernetworking-plugins")
    if os.geteuid() != 0:
        lacking.append("root")
    return lacking


def build() -> None:
    """Build the missing programs. Raise CommandFailed."""
    for module in GO_MODULES:
        for name, package in module.packages.items():
            if not find(name).exists():
                sys.stderr.write(f"building {name}\n")
                _build(module, name, package)


def _build(module: GoModule, name: str, package: str) -> None:
    target = find(name)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{name}.part")
    environment = {**os.environ, "CGO_ENABLED": str(int(module.cgo)), "GOFLAGS": "-p=2 -buildvcs=false"}
    linked = ["-s", "-w", *_version(module.version)]
    words = (
        "go",
        "build",
        "-trimpath",
        "-tags",
        module.tags,
        "-ldflags",
        " ".join(linked),
        "-o",
        part,
        package,
    )
    process.run("nice", "-n", "19", *words, cwd=MODULES / module.name, env=environment, timeout=BUILD_LIMIT)
    part.rename(target)


def _version(version: str) -> Iterator[str]:
    """The linker's flags for Kubernetes' programs: the version that they report to clients."""
    if version:
        major, minor, _ = version.split(".")
        for name, value in (("gitVersion", f"v{version}"), ("gitMajor", major), ("gitMinor", minor)):
            yield f"-X=k8s.io/component-base/version.{name}={value}"


def pause() -> bytes:
    """The first process of each Pod: a static program of ours."""
    target = directory() / "pause"
    directory().mkdir(parents=True, exist_ok=True)
    source = Path(__file__).parent / "pause.c"
    return crossbuild.build([source], target=collect_host().platform, output=target).read_bytes()
