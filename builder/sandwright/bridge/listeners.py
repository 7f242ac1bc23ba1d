"""Receives the listener that `sandwright-enter` made on its sandbox's loopback, and checks that it is one."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from pathlib import Path

from sandwright.bridge.directory import PORT, write_number
from sandwright.launcher.shim_names import PROTOCOL

_NETNS_COOKIE = 71
"""SO_NETNS_COOKIE (asm-generic/socket.h, Linux 5.14)."""


class NotListening(Exception):
    """A sandbox passed something other than a listener on its loopback. The bridge catches it."""


def receive_listener(channel: socket.socket, public: Path) -> socket.socket | None:
    """Receive a listener over a channel, publish its port and answer; None if the peer has closed its end.

    Raise NotListening for everything else that is passed.
    """
    try:
        message, fds, _, _ = socket.recv_fds(channel, 1, 4)
    except OSError:
        message, fds = b"", []
    if not message:
        return None
    with contextlib.ExitStack() as stack:
        for fd in fds[1:]:
            stack.callback(os.close, fd)
        if fault := _listener_fault(fds[:1]):
            for fd in fds[:1]:
                os.close(fd)
            raise NotListening(fault)
        listener = socket.socket(fileno=fds[0])
        listener.setblocking(False)
        write_number(public / PORT, listener.getsockname()[1])
        for answer in fds[1:2]:
            with contextlib.suppress(OSError):  # the client has gone
                os.write(answer, bytes([PROTOCOL]))
        return listener


def _listener_fault(fds: list[int]) -> str:
    """The reason why a passed descriptor is no loopback listener of a network other than the host's."""
    if len(fds) != 1 or not stat.S_ISSOCK(os.fstat(fds[0]).st_mode):
        return "no socket"
    with socket.socket(fileno=os.dup(fds[0])) as listener:
        if listener.family != socket.AF_INET or listener.type != socket.SOCK_STREAM:
            return "not TCP"
        if not listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            return "it does not listen"
        if listener.getsockname()[0] != "127.0.0.1":
            return "not the loopback"
        with socket.socket(socket.AF_INET) as here:
            same = _network_cookie(listener) == _network_cookie(here)
    return "the sandbox has the host's network, where everybody could connect" if same else ""


def _network_cookie(listener: socket.socket) -> bytes:
    """The number by which the kernel distinguishes network namespaces."""
    return listener.getsockopt(socket.SOL_SOCKET, _NETNS_COOKIE, 8)
