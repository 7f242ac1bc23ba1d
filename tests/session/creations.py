"""Runs inside a sandbox: tries every way to create the names in its arguments, and prints JSON by name."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

_RENAMEAT2, _EXCHANGE, _NOREPLACE = {"x86_64": 316, "aarch64": 276}[os.uname().machine], 2, 1
_HERE, _FOLLOW = -100, 0x400
_libc = ctypes.CDLL(None, use_errno=True)


def renameat2(old: str, new: str, flags: int) -> None:
    """rename(2) with flags, which Python lacks."""
    if _libc.syscall(_RENAMEAT2, _HERE, os.fsencode(old), _HERE, os.fsencode(new), flags) != 0:
        raise OSError(ctypes.get_errno(), "renameat2")


def nameless(folder: str, name: str) -> None:
    """Give a name to a file without one (open(2), O_TMPFILE)."""
    file = os.open(folder, os.O_TMPFILE | os.O_WRONLY)
    try:
        path = os.fsencode(f"/proc/self/fd/{file}")  # os.link doesn't follow it
        if _libc.linkat(_HERE, path, _HERE, os.fsencode(name), _FOLLOW) != 0:
            raise OSError(ctypes.get_errno(), "linkat")
    finally:
        os.close(file)


def dangling(name: str) -> None:
    """Create a file at the target of a link."""
    Path("way").unlink(missing_ok=True)
    os.symlink(name, "way")
    with open("way", "w"):
        pass


def ways(name: str) -> Iterator[tuple[str, Callable[[], object]]]:
    """The system calls, with their other arguments."""
    here = os.open(".", os.O_PATH)
    yield "open", lambda: os.close(os.open(name, os.O_CREAT | os.O_WRONLY))
    yield "open at", lambda: os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR, dir_fd=here))
    yield "open, absolute", lambda: os.close(os.open(os.path.abspath(name), os.O_CREAT | os.O_WRONLY))
    yield "open, roundabout", lambda: os.close(os.open(f"sub/../{name}", os.O_CREAT | os.O_WRONLY))
    yield (
        "open, descriptor",
        lambda: os.close(os.open(f"/proc/self/fd/{here}/{name}", os.O_CREAT | os.O_WRONLY)),
    )
    yield "creat", lambda: _checked(_libc.creat(os.fsencode(name), 0o644))
    yield "mkdir", lambda: os.mkdir(name)
    yield "mkdir, slash", lambda: os.mkdir(f"{name}/")
    yield "mkdir at", lambda: os.mkdir(name, dir_fd=here)
    yield "mknod", lambda: os.mknod(name, 0o100644)
    yield "fifo", lambda: os.mkfifo(name)
    yield "symlink", lambda: os.symlink("plain", name)
    yield "symlink at", lambda: os.symlink("plain", name, dir_fd=here)
    yield "link", lambda: os.link("file", name)
    yield "link from below", lambda: os.link("sub/file", name)
    yield "rename", lambda: os.rename("moved", name)
    yield "rename from below", lambda: os.rename("sub/moved", name)
    yield "rename a directory", lambda: os.rename("folder", name)
    yield "rename a directory from below", lambda: os.rename("sub/folder", name)
    yield "rename, no replacement", lambda: renameat2("moved", name, _NOREPLACE)
    yield "exchange", lambda: renameat2("moved", name, _EXCHANGE)
    yield "nameless", lambda: nameless(".", name)
    yield "nameless, from below", lambda: nameless("sub", name)
    yield "dangling link", lambda: dangling(name)


def _checked(file: int) -> None:
    if file < 0:
        raise OSError(ctypes.get_errno(), "creat")
    os.close(file)


def prepare() -> None:
    """Make the files that the attempts move and link. `sub` exists already."""
    for path in ("file", "moved", "sub/file", "sub/moved"):
        Path(path).write_text("x\n")
    for path in ("folder", "sub/folder"):
        Path(path).mkdir(exist_ok=True)


def attempt(name: str) -> dict[str, str]:
    """By way: `made`, the error, or `made and ERROR` if a file exists nevertheless."""
    found = {}
    for way, act in ways(name):
        prepare()
        try:
            act()
            answer = "made"
        except OSError as error:
            answer = errno.errorcode.get(error.errno or 0, str(error))
            answer = f"made and {answer}" if os.path.lexists(name) else answer
        found[way] = answer
        if os.path.lexists(name):
            os.rename(name, "sub/away")  # not unlink: it may be a directory
            (os.rmdir if os.path.isdir("sub/away") and not os.path.islink("sub/away") else os.unlink)(
                "sub/away"
            )
    return found


def main() -> None:
    """Prints the answers for each argument."""
    with socket.socket(socket.AF_UNIX) as own:
        own.bind("own.sock")
    os.unlink("own.sock")
    print(json.dumps({name: attempt(name) for name in sys.argv[1:]}))


if __name__ == "__main__":
    main()
