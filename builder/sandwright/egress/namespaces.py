"""Makes a listening socket inside the network namespace of another process.

The kernel lets us in where the namespace belongs to a user namespace that we own, or where we are root
(setns(2), user_namespaces(7)). A process that has entered can't come back without rights, so a child enters,
and hands the socket over.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import socket
import struct
import time
from pathlib import Path

from sandwright.errors import HostError

_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1  # linux/sockios.h, linux/if.h
_IFREQ = "16sh22x"
_NS_GET_USERNS = 0xB701  # linux/nsfs.h: the user namespace that a namespace belongs to (ioctl_ns(2))


def listen_in(
    pid: int, host: str, port: int, *, raise_loopback: bool, patience: float = 5.0
) -> socket.socket:
    """A socket that listens on an IPv4 address and port in the network namespace of a process.

    `raise_loopback` brings the loopback interface up there; otherwise another process must do so within
    `patience` seconds. Raise HostError when the process is gone, the namespace is our own, or can't be
    entered.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with ours, theirs:
        child = os.fork()
        if not child:
            _child(theirs, pid, (host, port), raise_loopback=raise_loopback, patience=patience)
        theirs.close()
        try:
            ours.settimeout(patience + 1)
            data, descriptors, _, _ = socket.recv_fds(ours, 4096, 1)
        except OSError as fault:
            raise HostError(f"the network namespace of process {pid} was not entered: {fault}") from None
        finally:
            os.waitpid(child, 0)
    if not descriptors:
        raise HostError(f"cannot use the network namespace of process {pid}: {data.decode() or 'no answer'}")
    return socket.socket(fileno=descriptors[0])


def _child(
    theirs: socket.socket, pid: int, address: tuple[str, int], *, raise_loopback: bool, patience: float
) -> None:
    """Work in the child, which ends here in any case."""
    try:
        listener = _enter_and_listen(pid, address, raise_loopback=raise_loopback, patience=patience)
        socket.send_fds(theirs, [b"ok"], [listener.fileno()])
    except Exception as fault:  # noqa: BLE001 - nothing above may run twice
        theirs.sendall(str(fault).encode()[:4000])
    finally:
        os._exit(0)


def _enter_and_listen(
    pid: int, address: tuple[str, int], *, raise_loopback: bool, patience: float
) -> socket.socket:
    _enter_network(pid)
    if raise_loopback:
        _raise_loopback()
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    until = time.monotonic() + patience
    while True:
        try:
            listener.bind(address)
            break
        except OSError as fault:
            if fault.errno != errno.EADDRNOTAVAIL or time.monotonic() > until:
                raise
        time.sleep(0.001)
    listener.listen(128)
    return listener


def _enter_network(pid: int) -> None:
    network, own_namespaces = _open_namespace(Path(f"/proc/{pid}/ns/net")), Path("/proc/self/ns")
    if os.fstat(network).st_ino == (own_namespaces / "net").stat().st_ino:
        raise HostError("it is ours, and no sandbox's")
    if os.geteuid() != 0:
        # Not the process's own: bubblewrap's may be in a second one by now, without a right over the network.
        user = fcntl.ioctl(network, _NS_GET_USERNS)
        if os.fstat(user).st_ino != (own_namespaces / "user").stat().st_ino:
            _setns(user)
    _setns(network)


def _open_namespace(path: Path) -> int:
    """Left to the end of the child to close."""
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _setns(descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_:
        current = fcntl.ioctl(any_, _SIOCGIFFLAGS, struct.pack(_IFREQ, b"lo", 0))
        flags = struct.unpack(_IFREQ, current)[1]
        fcntl.ioctl(any_, _SIOCSIFFLAGS, struct.pack(_IFREQ, b"lo", flags | _IFF_UP))
