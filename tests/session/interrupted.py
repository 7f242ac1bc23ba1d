"""Runs inside, or bare: connections that signals interrupt, and the values of SO_ERROR, as JSON."""

from __future__ import annotations

import collections
import contextlib
import ctypes
import errno
import json
import signal
import socket
import struct
import sys
import tempfile
import time

LIBC = ctypes.CDLL(None, use_errno=True)


def so_error(end: socket.socket) -> str:
    """Under landlock the supervisor can't write to a program's memory: the call fails with that error."""
    try:
        value = end.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    except OSError as error:
        value = error.errno or 0
    return errno.errorcode[value] if value else "0"


def _listener(family: int) -> socket.socket:
    made = socket.socket(family)
    made.bind(tempfile.mkdtemp() + "/s" if family == socket.AF_UNIX else ("127.0.0.1", 0))
    made.listen(4096)
    return made


def _drain(listener: socket.socket) -> None:
    listener.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            listener.accept()[0].close()


def _connected(end: socket.socket) -> bool:
    with contextlib.suppress(OSError):
        return end.getpeername() is not None
    return False


def _storm(family: int, count: int) -> dict[str, int]:
    """Connect until a timer's signal has interrupted a call; `lost` ones were reported but don't exist."""
    listener = _listener(family)
    outcomes: collections.Counter[str] = collections.Counter(lost=0, ECONNABORTED=0)
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.siginterrupt(signal.SIGALRM, True)
    signal.setitimer(signal.ITIMER_REAL, 0.0004, 0.0004)
    for number in range(10 * count):
        if number >= count and outcomes["ECONNABORTED"] > 0:
            break
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})  # socket(2) is interrupted under landlock
        with socket.socket(family) as end:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
            try:
                end.connect(listener.getsockname())
                outcomes["connected" if _connected(end) else "lost"] += 1
            except OSError as error:
                outcomes[errno.errorcode[error.errno or 0]] += 1
        if number % 50 == 0:
            _drain(listener)
    signal.setitimer(signal.ITIMER_REAL, 0)
    return outcomes


def _pending() -> str:
    """A connection that no server accepts: its SYN stays unanswered."""
    small = socket.socket()
    small.bind(("127.0.0.1", 0))
    small.listen(0)
    ends = [socket.socket() for _ in range(4)]
    for end in ends:
        end.setblocking(False)
        end.connect_ex(small.getsockname())
    time.sleep(0.1)
    told = so_error(ends[-1])
    for end in (*ends, small):
        end.close()
    return told


def _raw(end: socket.socket, length: int) -> list[int]:
    """Status or error, value and length, as the kernel writes them."""
    value, size = ctypes.c_int(-1), ctypes.c_int(length)
    options = (end.fileno(), socket.SOL_SOCKET, socket.SO_ERROR)
    status = LIBC.getsockopt(*options, ctypes.byref(value), ctypes.byref(size))
    return [ctypes.get_errno() if status else 0, value.value, size.value]


def _inet() -> dict[str, object]:
    listener = _listener(socket.AF_INET)
    told: dict[str, object] = {}
    with socket.socket() as end, socket.create_connection(listener.getsockname()) as client:
        told |= {"fresh": so_error(end), "fresh again": so_error(end)}
        told["fresh lengths"] = [_raw(end, length) for length in (0, 2, 4, 9)]
        accepted = listener.accept()[0]
        told |= {"listening": so_error(listener), "connected": so_error(client)}
        told |= {"accepted": so_error(accepted), "lengths": [_raw(client, n) for n in (-1, 0, 2, 4, 9)]}
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        accepted.close()
        time.sleep(0.1)
        told |= {"reset": so_error(client), "after reset": so_error(client)}
    with socket.create_connection(listener.getsockname()) as client:
        listener.accept()[0].close()
        client.recv(1)
        told["ended"] = so_error(client)
        client.shutdown(socket.SHUT_WR)
        time.sleep(0.1)
        told["closed"] = so_error(client)
    name = listener.getsockname()
    listener.close()
    with socket.socket() as end:
        end.setblocking(False)
        end.connect_ex(name)
        time.sleep(0.1)
        told |= {"refused": so_error(end), "after refused": so_error(end)}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        told["datagrams"] = so_error(end)
    return {**told, "pending": _pending()}


def _unix() -> dict[str, object]:
    listener = _listener(socket.AF_UNIX)
    with socket.socket(socket.AF_UNIX) as end, socket.socket(socket.AF_UNIX) as client:
        client.connect(listener.getsockname())
        accepted = listener.accept()[0]
        told: dict[str, object] = {
            "fresh": so_error(end),
            "listening": so_error(listener),
            "connected": so_error(client),
            "accepted": so_error(accepted),
        }
        client.send(b"x")
        accepted.close()
        told |= {"closed": so_error(client), "after closed": so_error(client)}
    one, other = socket.socketpair()
    other.close()
    return {**told, "pair": so_error(one)}


if __name__ == "__main__":
    if sys.argv[1] == "storm":
        outcome: object = _storm(getattr(socket, sys.argv[2]), int(sys.argv[3]))
    else:
        outcome = {"unix": _unix(), **({"inet": _inet()} if sys.argv[1] == "all" else {})}
    sys.stdout.write(json.dumps(outcome))
