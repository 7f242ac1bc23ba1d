"""Runs inside: connects to Unix sockets, and prints the outcomes as JSON. Arguments are sockets of the host;
@ stands for NUL."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import signal
import socket
import stat
import struct
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path


def outcome(act: Callable[[], object]) -> str:
    """`ok`, or the name of the error."""
    try:
        act()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    return "ok"


def connect(path: str, kind: int = socket.SOCK_STREAM) -> str:
    """Connect to a socket by its path or, with @, by its abstract name."""

    def act() -> None:
        with socket.socket(socket.AF_UNIX, kind) as end:
            end.connect(path.replace("@", "\0"))

    return outcome(act)


def own(path: str, kind: int = socket.SOCK_STREAM) -> str:
    """Listen, connect to the own socket, send a word, and read each other's names."""

    def act() -> None:
        with socket.socket(socket.AF_UNIX, kind) as listener, socket.socket(socket.AF_UNIX, kind) as end:
            listener.bind(path.replace("@", "\0"))
            listener.listen()
            end.connect(path.replace("@", "\0"))
            with listener.accept()[0] as peer:
                end.send(b"word")
                assert peer.recv(9) == b"word"
                assert end.getpeername() == listener.getsockname()

    return outcome(act)


def sockets(hosts: list[str]) -> dict[str, str]:
    """All sockets that one run can show."""
    temporary, project = tempfile.gettempdir(), Path.cwd()
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(f"{temporary}/stale")
        gone.listen()
    Path("below").mkdir()
    Path(temporary, "link").symlink_to(project)
    found = {
        "temporary": own(f"{temporary}/a"),
        "project": own(f"{project}/a"),
        "relative": own("below/a"),
        "packets": own(f"{temporary}/packets", socket.SOCK_SEQPACKET),
        "abstract": own("@own"),
        "datagrams": outcome(lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)),
        "stale": connect(f"{temporary}/stale"),
        "absent": connect(f"{temporary}/absent"),
        "no socket": connect(__file__),
        "long": own(f"{temporary}/{'l' * (107 - len(temporary) - 1)}"),
    }
    os.chdir("below")
    found |= {"up": own("../b"), "link": own(f"{temporary}/link/c")}
    os.chdir(project)
    found |= {f"host {Path(each).name}": connect(each) for each in hosts}
    written = next(each for each in hosts if each.endswith("/later"))
    Path("symlink").symlink_to(written)
    Path("hardlink").hardlink_to(written)
    found |= {name: connect(name) for name in ("symlink", "hardlink")}
    Path(written).rename("a")
    found["renamed"] = connect("a")
    Path("a").rename(written)
    for name in ("symlink", "hardlink", "b", "c", "below/a"):
        Path(name).unlink()
    Path("below").rmdir()
    return found | others()


def others() -> dict[str, str]:
    """The outcomes of sockets other than Unix ones: connect(2) works as usual."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as patient:
        where = listener.getsockname()
        patient.setblocking(False)
        at_once = outcome(lambda: patient.connect(where))
        patient.setblocking(True)
        return {
            "tcp": outcome(lambda: socket.create_connection(where, 60)),
            "at once": at_once,
            "again": outcome(lambda: patient.connect(where)),
            "refused": outcome(lambda: socket.create_connection(("127.0.0.1", 1), 60)),
            "out": outcome(lambda: socket.create_connection(("192.0.2.1", 80), 60)),
            "closed": outcome(lambda: socket.socket(fileno=os.dup(listener.fileno())).connect(where)),
        }


def race(hosts: list[str]) -> dict[str, int]:
    """Change address and descriptor during connect(2): `own` counts the connections that arrived in here."""
    libc = ctypes.CDLL(None, use_errno=True)
    host, mine = hosts[0].encode(), b"./mine"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(mine.decode())
    listener.listen(4096)
    address = ctypes.create_string_buffer(110)
    over = threading.Event()

    def flip() -> None:
        paths = [b"\1\0" + each + b"\0" for each in (host, mine)]
        while not over.is_set():
            for each in paths:
                ctypes.memmove(address, each, len(each))

    flipping = threading.Thread(target=flip)
    flipping.start()
    counts = {"own": 0, "refused": 0, "other": 0}
    for _ in range(2000):
        with socket.socket(socket.AF_UNIX) as end:
            failed = libc.connect(end.fileno(), address, 110)
            error = ctypes.get_errno() if failed else 0
            counts["refused" if error == errno.EACCES else "other" if error else "own"] += 1
    over.set()
    flipping.join()
    Path(mine.decode()).unlink()
    return counts


def full(_hosts: list[str]) -> dict[str, str]:
    """A connect(2) without accept(2): a signal ends it, others go on, and it ends by itself."""

    class Alarm(Exception):
        pass

    def alarm(_number: int, _frame: object) -> None:
        raise Alarm

    signal.signal(signal.SIGALRM, alarm)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("@full".replace("@", "\0"))
        listener.listen(0)
        first, second, third = (socket.socket(socket.AF_UNIX) for _ in range(3))
        first.connect("\0full")
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        try:
            second.connect("\0full")
            told = "connected"
        except Alarm:
            told = "interrupted"
        waiting = threading.Thread(target=third.connect, args=("\0full",))
        waiting.start()
        beside = own("@beside")
        listener.accept()[0].close()
        waiting.join(60)
        return {"signal": told, "beside": beside, "in the end": str(not waiting.is_alive())}


def waits(_hosts: list[str]) -> dict[str, str]:
    """Whether the own socket is reached before and after a line of standard input."""
    before = own("@before")
    sys.stdout.write("up\n")
    sys.stdout.flush()
    sys.stdin.readline()
    return {"before": before, "after": own("@after"), "listener": listener(), "filters": filters()}


def listener() -> str:
    """Request a listener, with which this program could answer the supervisor's questions itself."""
    allow = ctypes.create_string_buffer(struct.pack("<HBBI", 0x06, 0, 0, 0x7FFF0000))
    filter_ = ctypes.create_string_buffer(struct.pack("@HP", 1, ctypes.addressof(allow)))
    number = {"x86_64": 317, "aarch64": 277}[platform.machine()]
    libc = ctypes.CDLL(None, use_errno=True)
    made = libc.syscall(number, 1, 8, filter_)  # SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER
    return errno.errorcode[ctypes.get_errno()] if made < 0 else "ok"


def filters() -> str:
    """The number of filters of each process whose memory (/proc/N/mem) could be used to make its calls."""
    found = {
        line.split()[1]
        for status in Path("/proc").glob("[0-9]*/status")
        for line in status.read_text().splitlines()
        if line.startswith("Seccomp_filters:")
    }
    return " ".join(sorted(found))


def inherited(hosts: list[str]) -> dict[str, str]:
    """Whether a pipe has replaced an unconnected socket of the host on standard input."""
    if not stat.S_ISSOCK(os.fstat(0).st_mode):
        return {"inherited": "no socket"}
    with socket.socket(fileno=os.dup(0)) as end:
        return {"inherited": outcome(lambda: end.connect(hosts[0].replace("@", "\0")))}


def which(hosts: list[str]) -> dict[str, str]:
    """The host's sockets by their names, and the own ones."""
    return {"own": own("@own"), **{Path(each).name: connect(each) for each in hosts}}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(globals()[sys.argv[1]](sys.argv[2:])) + "\n")
