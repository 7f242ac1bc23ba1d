"""Makes the snapshots that QEMU restores: the host's newest kernel, started once and copied when it is ready.

A machine lies in a directory that is the user's alone, named by the digest of all its inputs. It contains no
data of the host or of a policy: the host's files are mounted after each restore.
"""

from __future__ import annotations

import hashlib
import lzma
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import zstandard

from sandwright import process, user_dirs
from sandwright.environment import MACHINE as MACHINE_VARIABLE
from sandwright.errors import CommandFailed, HostError
from sandwright.launcher import GUEST, LAUNCH_VM
from sandwright.methods.contract import Notify, quiet

QEMU = "qemu-system-x86_64"
MACHINE = MACHINE_VARIABLE.name
"""The variable with the directory of a machine, for the launcher."""

TIMEOUTS = {"kvm": 15.0, "tcg": 180.0}
"""Seconds for a first start: with KVM it takes one or two, and where KVM doesn't work it hangs."""

_NEEDED = ("virtio_pci", "virtio_console", "9pnet_virtio", "9p")
_DEPENDS = re.compile(rb"\0depends=([^\0]*)\0")
_FILES = ("machine", "memory", "state")


def machine(memory: int, accelerator: str = "kvm", *, notify: Notify = quiet) -> Path:
    """The directory of a machine with so many MiB; it is made when it is not there, or not whole.

    `accelerator` is `kvm`, or in tests `tcg`. Raise HostError when it can't be made here, or doesn't start.
    """
    kernel, modules = _newest_kernel()
    initial = initramfs(GUEST.path("linux/amd64").read_bytes(), modules)
    version = process.run(QEMU, "--version").stdout
    parts = (kernel.read_bytes(), initial, version, f"{memory} {accelerator} {os.uname().machine}".encode())
    key = hashlib.sha256(b"".join(hashlib.sha256(each).digest() for each in parts)).hexdigest()
    store = Path(user_dirs.private(str(Path(user_dirs.private(user_dirs.cache())).parent / "machines")))
    directory = store / key[:32]
    if not _is_whole(directory):
        notify(f"starting a machine with {memory} MiB, to be restored from then on")
        _make_machine(directory, kernel, initial, memory, accelerator)
    return directory


def initramfs(agent: bytes, modules: list[bytes]) -> bytes:
    """The initial file system of a machine: its first program, and modules in the order of loading."""
    members = [(name, 0o040755, b"") for name in ("dev", "proc", "sys", "modules")]
    members += [("init", 0o100755, agent)]
    members += [(f"modules/{index:02}", 0o100644, each) for index, each in enumerate(modules)]
    return b"".join(_members([*members, ("TRAILER!!!", 0, b"")]))


def _members(members: list[tuple[str, int, bytes]]) -> Iterator[bytes]:
    """In the format `newc` (Documentation/driver-api/early-userspace/buffer-format.rst)."""
    for number, (name, mode, content) in enumerate(members, 1):
        fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
        head = b"070701" + b"".join(b"%08X" % each for each in fields) + name.encode() + b"\0"
        yield head + bytes(-len(head) % 4) + content + bytes(-len(content) % 4)


def _newest_kernel() -> tuple[Path, list[bytes]]:
    """The newest kernel of this host that can be read and has the drivers, and these. Raise HostError."""
    for kernel in sorted(Path("/boot").glob("vmlinuz-*"), key=_by_version, reverse=True):
        tree = Path("/lib/modules") / kernel.name.removeprefix("vmlinuz-")
        if os.access(kernel, os.R_OK) and (modules := _modules(tree)) is not None:
            return kernel, modules
    raise HostError("no kernel in /boot can be read and has drivers for 9p: on Debian, linux-image-amd64 has")


def _by_version(path: Path) -> list[int]:
    return [int(each) for each in re.findall(r"\d+", path.name)]


def _modules(tree: Path) -> list[bytes] | None:
    """The modules to load, in order; None when a module is neither there nor built in."""
    files = {_module_name(path.name): path for path in tree.glob("kernel/**/*.ko*")}
    try:
        built_in = {
            _module_name(Path(line).name) for line in (tree / "modules.builtin").read_text().splitlines()
        }
    except OSError:
        return None
    order: dict[str, bytes] = {}

    def load(name: str) -> bool:
        if name in order or name in built_in:
            return True
        if name not in files:
            return False
        content = _unpacked(files[name])
        found = _DEPENDS.search(content)
        before = [_module_name(each) for each in found[1].decode().split(",") if each] if found else []
        if not all(map(load, before)):
            return False
        order[name] = content
        return True

    return list(order.values()) if all(map(load, _NEEDED)) else None


def _module_name(file: str) -> str:
    return file.partition(".ko")[0].replace("-", "_")


def _unpacked(path: Path) -> bytes:
    match path.suffix:
        case ".xz":
            return lzma.decompress(path.read_bytes())
        case ".zst":
            with path.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as reader:
                return reader.read()
        case _:
            return path.read_bytes()


def _is_whole(directory: Path) -> bool:
    """Whether all of it is there, ours, and of the size that it was made with; the launcher sums it up."""
    try:
        words = (directory / "machine").read_text().split()
        sizes = [(directory / name).stat().st_size for name in ("memory", "state")]
        owned = all(each.st_uid == os.geteuid() and not each.st_mode & 0o077 for each in _stats(directory))
        return owned and len(words) == 7 and [int(words[3]), int(words[5])] == sizes
    except (OSError, ValueError):
        return False


def _stats(directory: Path) -> list[os.stat_result]:
    return [directory.lstat(), *((directory / name).lstat() for name in _FILES)]


def _make_machine(directory: Path, kernel: Path, initial: bytes, memory: int, accelerator: str) -> None:
    launch, qemu = LAUNCH_VM.path("linux/amd64"), process.which(QEMU)
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix="new-") as scratch:
        made = Path(scratch, "machine")
        made.mkdir(mode=0o700)
        Path(scratch, "initramfs").write_bytes(initial)
        argv = (launch, "--snapshot", qemu, accelerator, str(memory), kernel, Path(scratch, "initramfs"))
        try:
            process.run(*argv, cwd=made, timeout=TIMEOUTS[accelerator])
        except CommandFailed as error:
            lines = error.stderr.strip().splitlines()
            how = "hangs" if error.status is None else lines[-1] if lines else "starts no machine"
            raise HostError(f"QEMU with {accelerator}: {how}") from error
        shutil.rmtree(directory, ignore_errors=True)
        made.rename(directory)
