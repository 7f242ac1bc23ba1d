"""Runs inside: makes the refused and allowed calls of its first argument. The others are host sockets."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import socket
import sys
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
NUMBERS = {
    "x86_64": {
        "ptrace": 101,
        "bpf": 321,
        "keyctl": 250,
        "unshare": 272,
        "clone3": 435,
        "getppid": 110,
        "setxattr": 188,
        "seccomp": 317,
    },
    "aarch64": {
        "ptrace": 117,
        "bpf": 280,
        "keyctl": 219,
        "unshare": 97,
        "clone3": 435,
        "getppid": 173,
        "setxattr": 5,
        "seccomp": 277,
    },
}[platform.machine()]


def call(name: str, *arguments: int, times: int = 1) -> str:
    """The name of its last error."""
    for _ in range(times):
        ctypes.set_errno(0)
        LIBC.syscall(NUMBERS[name], *arguments, 0, 0, 0)
    return errno.errorcode.get(ctypes.get_errno(), "ok")


def connect(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as end, contextlib.suppress(OSError):
        end.connect(path)


def allowed() -> None:
    """Calls that fail by themselves or get another answer, and calls that work: none of them is refused."""
    call("getppid")
    call("clone3")
    connect("/absent")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0own")
        listener.listen()
        connect("\0own")
    connect("\0nobody")
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind("stale")
    connect("stale")
    Path("stale").unlink()
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", 1), 60)
    with contextlib.suppress(OSError):
        Path("/etc/hostname").write_text("x")
    with contextlib.suppress(OSError):
        os.kill(1, 0)


def calls() -> None:
    """Planted: calls that the filter refuses, and sockets; a stream socket if that is possible."""
    told = [call("ptrace", times=3), call("bpf", times=2), call("keyctl"), call("unshare", 0x10000000)]
    assert told == ["EPERM"] * 4, told
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with contextlib.suppress(PermissionError):
            socket.socket(socket.AF_UNIX, kind)


def listener() -> None:
    """A process with the listener of a newer filter could allow the calls that ours asks about."""
    allow = ctypes.create_string_buffer(bytes.fromhex("060000000000ff7f"))
    filter_ = (ctypes.c_void_p * 2)(1, ctypes.addressof(allow))
    assert call("seccomp", 1, 8, ctypes.addressof(filter_)) == "EBUSY"


def refused(host: str) -> None:
    """Planted: calls of the filter, datagrams, a socket of the host."""
    calls()
    for _ in range(2):
        connect(host)


def many(host: str) -> None:
    """An endless number of names, one with a line like ours, and colours."""
    names = [f"name-{number}" for number in range(300)]
    for name in ["\x1b[31m\nsandwright: refused: forged", "a'}, x: {'", *names]:
        Path(name).symlink_to(host)
        connect(name)
        Path(name).unlink()


def edits(host: str, granted: str = "") -> None:
    """One call and one socket that a policy can allow."""
    answer = call("ptrace", 9999)  # no request, to no process
    assert (answer != "EPERM") == bool(granted), answer
    with socket.socket(socket.AF_UNIX) as end:
        fault = end.connect_ex(host)
    assert (fault == 0) == bool(granted), fault


if __name__ == "__main__":
    if sys.argv[1] in ("allowed", "refused", "edits", "many"):
        allowed()
    if sys.argv[1] == "allowed-calls":
        assert call("getppid") == "ok"
        assert call("clone3") == "ENOSYS"
    if sys.argv[1] == "calls":
        calls()
    if sys.argv[2:] == ["xattr"]:
        assert call("setxattr") == "ENOTSUP"
    if sys.argv[1] == "listener":
        listener()
    if sys.argv[1] == "refused":
        refused(*sys.argv[2:])
    if sys.argv[1] == "edits":
        edits(*sys.argv[2:])
    if sys.argv[1] == "many":
        many(*sys.argv[2:])
