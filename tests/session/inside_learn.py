# ruff: noqa: PTH103, PTH104, PTH108, PTH116, PTH123, PTH208, PTH211
"""Runs inside: makes requests that a record has to show, or that could be used against it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import sys


def kinds() -> None:
    """One access of each kind."""
    home = os.environ["HOME"]
    with open("read.txt") as file:
        file.read()
    with open("new.txt", "w") as file:
        file.write("x")
    os.makedirs("made/deep", exist_ok=True)
    with open("made/deep/file", "a") as file:
        file.write("x")
    os.listdir("listed")
    os.stat("looked")
    os.rename("moved", "made/moved")
    os.rename("made/moved", "moved")
    with contextlib.suppress(OSError), open(f"{home}/.ssh/key") as file:
        file.read()
    with contextlib.suppress(OSError), open(f"{home}/outside", "w") as file:
        file.write("x")
    with open("link/inner") as file:
        file.read()
    directory = os.open("listed", os.O_RDONLY)
    os.close(os.open("below", os.O_RDONLY, dir_fd=directory))
    with contextlib.suppress(OSError), socket.socket() as one:
        one.connect(("192.0.2.7", 443))
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.sendto(b"x", ("192.0.2.8", 53))
    os.execv("/bin/true", ["true"])


def families() -> None:
    """An IPv4 address in IPv6, and addresses that are not of IP: of netlink(7), and of no family."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as one:
        one.sendto(b"x", ("::ffff:192.0.2.9", 53))
    for family in (socket.AF_NETLINK, socket.AF_UNSPEC):
        address = family.to_bytes(2, sys.byteorder) + b"\1" * 26
        ctypes.CDLL(None).sendto(-1, b"x", 1, 0, address, len(address))


def names() -> None:
    """Names that would be misread if they were written unescaped."""
    for name in (b"a\n- b", b'b": ["read"]}\n{"path": "x', b"c\xff\x1b[31m", b"# d", b"e\\u0041"):
        with open(name, "w") as file:
            file.write("x")


def flood(count: int) -> None:
    """More names than a record has room for, followed by one that is needed."""
    library = ctypes.CDLL(None)
    for index in range(count):
        library.access(b"/" + b"x" * 4000 + b"%d" % index, 0)
    with open("read.txt") as file:
        file.read()


def relink() -> None:
    """A link whose target changes when it is examined, and a name that leads out of the project."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink("turned")
    os.symlink("read.txt", "turned")
    with open("turned") as file:
        file.read()
    os.unlink("turned")
    os.symlink(os.environ["HOME"] + "/.ssh", "turned")
    with contextlib.suppress(OSError), open("turned/key") as file:
        file.read()


def long_address() -> None:
    """An address of the local family that exceeds the maximum length."""
    with socket.socket(socket.AF_UNIX) as one:
        address = ctypes.create_string_buffer(socket.AF_UNIX.to_bytes(2, sys.byteorder) + b"a" * 126, 128)
        ctypes.CDLL(None).bind(one.fileno(), address, 128)


def turn() -> None:
    """Give the link in the record's path another target."""
    os.unlink("out")
    os.symlink("../.ssh", "out")


if __name__ == "__main__":
    all_of_them = (kinds, families, names, relink, long_address, turn)
    known = {each.__name__: each for each in all_of_them}
    known.get(sys.argv[1], lambda: flood(int(sys.argv[2])))()
