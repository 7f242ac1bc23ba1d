"""A file system in user space (fuse(4)) that shows a directory, until it stops answering.

python deadfuse.py SHOWN MOUNTED [OTHER NAME]

It says `mounted`. A line on standard input makes it silent: it reads each request and answers none, so that a
process that waits can't even be killed. At the end of its input it ends, and all waiting processes get an
error. OTHER is a second name of the file NAME, which no listing has, like `GIT~1` for `.git` on Windows' file
systems.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import select
import stat
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

_LOOKUP, _FORGET, _GETATTR, _SETATTR, _READLINK, _MKNOD, _MKDIR, _UNLINK, _RMDIR = 1, 2, 3, 4, 5, 8, 9, 10, 11
_LINK, _OPEN, _READ, _WRITE, _RELEASE, _FLUSH = 13, 14, 15, 16, 18, 25
_INIT, _OPENDIR, _READDIR, _RELEASEDIR = 26, 27, 28, 29
_ACCESS, _CREATE, _INTERRUPT, _BATCH_FORGET = 34, 35, 36, 42
_UNANSWERED = {_FORGET, _INTERRUPT, _BATCH_FORGET}
_HEAD = struct.Struct("=IIQQIIIHH")


class _Shown:
    """The directory, by the kernel's numbers for its files."""

    def __init__(self, directory: str, other: str = "", name: str = "") -> None:
        self._paths = {1: directory}
        self._others = {other: name}

    def answer(self, code: int, node: int, body: bytes) -> bytes:
        """Raise OSError for an operation that it doesn't support."""
        path = self._paths.get(node, "")
        known: dict[int, Callable[[], bytes]] = {
            _INIT: lambda: struct.pack("=IIIIHHIIHHI28x", 7, 38, 0, 0, 0, 0, 4096, 1, 0, 0, 0),
            _LOOKUP: lambda: self._entry(self._named(path, body)),
            _GETATTR: lambda: struct.pack("=QII", 0, 0, 0) + _attributes(path),
            _SETATTR: lambda: struct.pack("=QII", 0, 0, 0) + _attributes(path),
            _READLINK: lambda: bytes(Path(path).readlink()),
            _MKNOD: lambda: self._made(_below(path, body[16:]), struct.unpack_from("=I", body)[0]),
            _LINK: lambda: self._linked(struct.unpack_from("=Q", body)[0], _below(path, body[8:])),
            _MKDIR: lambda: self._made(
                _below(path, body[8:]), struct.unpack_from("=I", body)[0] | stat.S_IFDIR
            ),
            _UNLINK: lambda: _removed(os.unlink, _below(path, body)),
            _RMDIR: lambda: _removed(os.rmdir, _below(path, body)),
            _CREATE: lambda: (
                self._made(_below(path, body[16:]), struct.unpack_from("=4xI", body)[0]) + bytes(16)
            ),
            _OPEN: lambda: bytes(16),
            _WRITE: lambda: _written(path, body),
            _OPENDIR: lambda: bytes(16),
            _READ: lambda: _part(Path(path).read_bytes(), body),
            _READDIR: lambda: _entries(path, *struct.unpack_from("=8xQI", body)),
            **dict.fromkeys((_RELEASE, _RELEASEDIR, _FLUSH, _ACCESS), lambda: b""),
        }
        if code not in known:
            raise OSError(errno.ENOSYS, "")
        return known[code]()

    def _named(self, path: str, body: bytes) -> str:
        folder, _, name = _below(path, body).rpartition("/")
        return f"{folder}/{self._others.get(name, name)}"

    def _linked(self, node: int, path: str) -> bytes:
        os.link(self._paths[node], path)
        return self._entry(path)

    def _entry(self, path: str) -> bytes:
        attributes = _attributes(path)
        node = next((each for each, known in self._paths.items() if known == path), len(self._paths) + 1)
        self._paths[node] = path
        return struct.pack("=QQQQII", node, 0, 0, 0, 0, 0) + attributes

    def _made(self, path: str, mode: int) -> bytes:
        if stat.S_ISDIR(mode):
            Path(path).mkdir()
        else:
            os.mknod(path, stat.S_IMODE(mode) | stat.S_IFREG)
        Path(path).chmod(stat.S_IMODE(mode))
        return self._entry(path)


def _below(path: str, name: bytes) -> str:
    return f"{path}/{os.fsdecode(name.split(bytes(1))[0])}"


def _removed(remove: Callable[[str], None], path: str) -> bytes:
    remove(path)
    return b""


def _attributes(path: str) -> bytes:
    found = os.lstat(path)
    times = [int(each) for each in (found.st_atime, found.st_mtime, found.st_ctime)]
    small = (found.st_mode, found.st_nlink, found.st_uid, found.st_gid, 0, 4096, 0)
    return struct.pack("=6Q10I", found.st_ino, found.st_size, 0, *times, 0, 0, 0, *small)


def _part(content: bytes, body: bytes) -> bytes:
    offset, size = struct.unpack_from("=8xQI", body)
    return content[offset : offset + size]


def _written(path: str, body: bytes) -> bytes:
    offset, size = struct.unpack_from("=8xQI", body)
    with Path(path).open("r+b") as opened:
        opened.seek(offset)
        opened.write(body[40 : 40 + size])
    return struct.pack("=II", size, 0)


def _entries(path: str, offset: int, size: int) -> bytes:
    made = b""
    for number, each in enumerate(sorted(Path(path).iterdir())):
        raw, kind = os.fsencode(each.name), stat.S_IFMT(each.lstat().st_mode) >> 12
        one = struct.pack("=QQII", number + 1, number + 1, len(raw), kind) + raw + bytes(-len(raw) % 8)
        if number >= offset and len(made) + len(one) <= size:
            made += one
    return made


def _serve(device: int, shown: _Shown) -> None:
    silent = False
    while True:
        ready, _, _ = select.select([device, 0], [], [])
        if 0 in ready:
            if not os.read(0, 64):
                return
            silent = True
            os.write(1, b"silent\n")
        if device not in ready:
            continue
        asked = os.read(device, 1 << 18)
        _, code, unique, node, *_ = _HEAD.unpack_from(asked)
        if silent or code in _UNANSWERED:
            continue
        try:
            said, fault = shown.answer(code, node, asked[_HEAD.size :]), 0
        except OSError as raised:
            said, fault = b"", raised.errno or errno.EIO
        os.write(device, struct.pack("=IiQ", 16 + len(said), -fault, unique) + said)


def _main(directory: str, place: str, *other: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    if libc.mount(b"dead", os.fsencode(place), b"fuse", 6, options) != 0:  # MS_NOSUID | MS_NODEV
        raise OSError(ctypes.get_errno(), "mount(2)")
    try:
        os.write(1, b"mounted\n")
        _serve(device, _Shown(directory, *other))
    finally:
        os.close(device)
        libc.umount2(os.fsencode(place), 2)  # MNT_DETACH


class DeadFuse:
    """A mounted one, which answers until `silence`."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        """`process` runs this program."""
        self._process = process

    def silence(self) -> None:
        """Answer no request from now on."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == b"silent\n"


@contextlib.contextmanager
def dead_fuse(shown: Path, place: Path, *other: str) -> Iterator[DeadFuse]:
    """Mount it at `place`, as root; unmount it at the end, when all waiting processes get an error.

    `other` is a second name and the name that it stands for.
    """
    words = (sys.executable, __file__, str(shown), str(place), *other)
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"mounted\n"
            yield DeadFuse(process)
        finally:
            process.communicate(timeout=30)


if __name__ == "__main__":
    _main(*sys.argv[1:])
