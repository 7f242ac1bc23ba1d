"""The machines of the lab: whole systems of our own image definitions, booted in QEMU without a network.

A machine has two disks: the root file system of its image, and a tar with agent, wheels and an image. Changes
to the disks are lost when it stops. Commands go to `agent.py` in it through a virtio port.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from sandwright import process
from sandwright.errors import HostError
from sandwright.image.cache import default_cache

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BOOT_TIMEOUT = 600.0
DISK = 6 << 30
"""Bytes; the file is sparse."""
AMD64 = ("qemu-system-x86_64", "-machine", "q35,accel=tcg", "-cpu", "max")
ARM64 = ("qemu-system-aarch64", "-machine", "virt,accel=tcg", "-cpu", "max,pauth-impdef=on")
USER = "lab"
IMAGE = "debian"
APPARMOR_PROFILE = ROOT / "oci/apparmor/sandwright-bwrap"


@dataclass(frozen=True)
class Platform:
    """A kind of host. `kernel` has parameters of its kernel; root runs the command `setup` after the boot.

    `python` is the version of its interpreter as pip writes it (`311`). `patience` multiplies the time
    limits of builds, boot and commands, for an architecture that is slow to emulate.
    """

    name: str
    image: str
    shows: str
    kernel: str = ""
    setup: str = "true"
    qemu: tuple[str, ...] = AMD64
    console: str = "ttyS0"
    python: str = "311"
    architecture: str = "amd64"
    patience: int = 1


RESTRICT = "sysctl -q kernel.unprivileged_userns_clone=0"
HARDENED = "; ".join(
    (
        "sysctl -q kernel.yama.ptrace_scope=3",
        "mount -o remount,hidepid=2 /proc",
        "mount -o remount,noexec,nosuid,nodev /dev/shm",
        "mount -t tmpfs -o noexec,nosuid,nodev,mode=1777 tmpfs /tmp",
    )
)
PLATFORMS = {
    each.name: each
    for each in (
        Platform("debian-12", "debian-12", "Debian 12: Linux 6.1, systemd, cgroup version 2"),
        Platform(
            "debian-12-cgroup-v1",
            "debian-12",
            "Debian 12 with the controllers in cgroup version 1, and version 2 beside it (hybrid)",
            kernel="systemd.unified_cgroup_hierarchy=0",
        ),
        Platform("debian-12-no-landlock", "debian-12", "Debian 12 without Landlock", kernel="lsm=apparmor"),
        Platform(
            "debian-12-hardened",
            "debian-12",
            "Debian 12 without ptrace, with hidden processes, and with /tmp and /dev/shm mounted noexec",
            setup=HARDENED,
        ),
        Platform("debian-13", "debian-13", "Debian 13: Linux 6.12, Landlock version 6", python="313"),
        Platform(
            "debian-13-apparmor",
            "debian-13",
            "Debian 13 with the AppArmor profile for bubblewrap that `doctor` proposes",
            setup=f"apparmor_parser -r /opt/lab/{APPARMOR_PROFILE.name}",
            python="313",
        ),
        Platform(
            "debian-13-no-userns",
            "debian-13",
            "Debian 13 without user namespaces for normal users",
            setup=RESTRICT,
            python="313",
        ),
        Platform(
            "debian-12-arm64",
            "debian-12-arm64",
            "Debian 12 on arm64",
            qemu=ARM64,
            console="ttyAMA0",
            architecture="arm64",
            patience=3,
        ),
    )
}


@dataclass(frozen=True)
class Answer:
    """A command's output on both streams, its exit status (-1: its time was up), and its seconds."""

    status: int
    output: str
    seconds: float


class Machine:
    """A running machine. `boot` is the number of seconds until its agent was ready."""

    def __init__(self, stream: IO[bytes], link: socket.socket, began: float, patience: int) -> None:
        self._stream, self._link, self._patience = stream, link, patience
        if not self._answer().get("ready"):
            raise HostError("the machine's agent did not start")
        self.boot = time.monotonic() - began

    def run(self, command: str, *, user: str = "root", timeout: float = 300) -> Answer:
        """Run a command in a shell, as in a login of the user; `patience` multiplies `timeout`."""
        began, timeout = time.monotonic(), timeout * self._patience
        request = {"command": command, "user": user, "timeout": timeout}
        self._link.settimeout(timeout + 60)
        self._link.sendall(json.dumps(request).encode() + b"\n")
        answer = self._answer()
        return Answer(int(str(answer["status"])), str(answer["output"]), time.monotonic() - began)

    def check(self, command: str, *, user: str = "root", timeout: float = 300) -> str:
        """Run a command that must exit with 0, and return its output. Raise HostError otherwise."""
        answer = self.run(command, user=user, timeout=timeout)
        if answer.status != 0:
            raise HostError(f"{command}: exit status {answer.status}: {answer.output[-2000:]}")
        return answer.output

    def _answer(self) -> dict[str, object]:
        line = self._stream.readline()
        if not line:
            raise HostError("the machine ended")
        answer: dict[str, object] = json.loads(line)
        return answer


def cache() -> Path:
    """The directory of the lab's images, disks and wheels."""
    return default_cache(os.environ) / "lab"


def _sandwright(platform: Platform, *words: str | Path) -> None:
    program = Path(sys.executable).with_name("sandwright")
    process.run(program, *words, timeout=1800 * platform.patience, cwd=ROOT)


def disk(platform: Platform) -> Path:
    """The directory with the platform's `disk`, `vmlinuz` and `initrd`; made once for each image digest."""
    output = cache() / "build" / platform.image
    options = ("--output", output, "--platform", f"linux/{platform.architecture}")
    _sandwright(platform, "build-images", platform.image, "--images", HERE / "images", *options, "--no-smoke")
    layout = output / "images" / platform.image
    index = json.loads((layout / "index.json").read_bytes())
    digest = str(index["manifests"][0]["digest"]).partition(":")[2]
    made = cache() / "disks" / digest
    if not made.is_dir():
        scratch = cache() / "disks" / f"{digest}.{os.getpid()}"
        try:
            _make_disk(platform, scratch, options)
            scratch.rename(made)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return made


def shipped_image(platform: Platform) -> Path:
    """The layout of the shipped image `debian`, which methods with an image use."""
    output = cache() / "shipped" / platform.architecture
    options = ("--output", output, "--platform", f"linux/{platform.architecture}")
    _sandwright(platform, "build-images", IMAGE, *options, "--no-smoke")
    return output / "images" / IMAGE


def _make_disk(platform: Platform, target: Path, options: Sequence[str | Path]) -> None:
    bundle = target / "bundle"
    target.mkdir(parents=True)
    _sandwright(
        platform, "bundle", platform.image, "--bundle", bundle, "--embed-root", "--writable", *options
    )
    root = bundle / "rootfs"
    for name, pattern in (("vmlinuz", "vmlinuz-*"), ("initrd", "initrd.img-*")):
        shutil.copyfile(next((root / "boot").glob(pattern)), target / name)
    with (target / "disk").open("wb") as file:
        file.truncate(DISK)
    process.run("mke2fs", "-q", "-t", "ext4", "-d", root, target / "disk", timeout=600)
    shutil.rmtree(bundle)


def _write_wheels(platform: Platform, target: Path) -> None:
    """Write the wheel of this checkout, and the wheels that it needs on the platform, into a directory."""
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    machine = {"amd64": "x86_64", "arm64": "aarch64"}[platform.architecture]
    environ = {**os.environ, "SANDWRIGHT_WHEEL": f"linux/{platform.architecture}"}
    process.run(*pip, "wheel", "--no-deps", "--wheel-dir", target, ROOT, timeout=600, env=environ)
    (own,) = target.iterdir()
    kept = cache() / f"wheels-{platform.python}-{machine}"
    tags = [f"--platform=manylinux{version}_{machine}" for version in ("2014", "_2_17", "_2_28")]
    options = ("--only-binary=:all:", f"--python-version={platform.python}", *tags)
    process.run(*pip, "download", "--dest", kept, *options, own, timeout=600)
    for each in kept.glob("*.whl"):
        if each.name != own.name:
            shutil.copyfile(each, target / each.name)


def _write_tar(platform: Platform, target: Path, scratch: Path) -> None:
    (scratch / "wheels").mkdir()
    _write_wheels(platform, scratch / "wheels")
    with tarfile.open(target, "w") as tar:
        tar.add(HERE / "agent.py", "agent.py")
        tar.add(scratch / "wheels", "wheels")
        tar.add(APPARMOR_PROFILE, APPARMOR_PROFILE.name)
        tar.add(shipped_image(platform), f"build/images/{IMAGE}")


@contextmanager
def booted(platform: Platform, scratch: Path) -> Iterator[Machine]:
    """Boot a machine of the platform, run `setup`, and stop it at the end. Its messages go to `console`."""
    if not process.find(platform.qemu[0]):
        raise HostError(f"{platform.qemu[0]} is not installed")
    made, tar = disk(platform), scratch / "files.tar"
    _write_tar(platform, tar, scratch)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(scratch / "port"))
    listener.listen()
    listener.settimeout(60)
    began = time.monotonic()
    with (scratch / "console").open("wb") as console:
        running = subprocess.Popen(
            _qemu_words(platform, made, tar, scratch / "port"),
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=subprocess.STDOUT,
        )
        try:
            link = listener.accept()[0]
            link.settimeout(BOOT_TIMEOUT * platform.patience)
            with link, link.makefile("rb") as stream:
                machine = Machine(stream, link, began, platform.patience)
                machine.check(platform.setup)
                yield machine
        finally:
            running.kill()
            running.wait(timeout=60)
            listener.close()


def _qemu_words(platform: Platform, made: Path, tar: Path, port: Path) -> list[str]:
    kernel = f"root=/dev/vda rw quiet console={platform.console} {platform.kernel}"
    return [
        *platform.qemu,
        *("-smp", "2", "-m", "2G", "-nographic", "-no-reboot", "-nic", "none"),
        *("-kernel", str(made / "vmlinuz"), "-initrd", str(made / "initrd"), "-append", kernel),
        *("-drive", f"file={made / 'disk'},if=virtio,format=raw,snapshot=on"),
        *("-drive", f"file={tar},if=virtio,format=raw,snapshot=on"),
        *("-device", "virtio-serial", "-chardev", f"socket,id=lab,path={port}"),
        *("-device", "virtserialport,chardev=lab,name=lab", "-device", "virtio-rng-pci"),
    ]
