"""The terminal of a detached run (`run --detach --tty`), and its protocol with `sandwright attach`.

A process holds the master of a pseudo-terminal (pty(7)), whose other side is the run's controlling terminal,
as dtach and conmon do. It copies the output to the log and to each client, and keys and window sizes of
clients to the terminal. It listens at a Unix socket in the user's directory of sessions (0700), which no
sandbox sees, and hears this user and root only (SO_PEERCRED). When it dies, the kernel hangs up the terminal,
and the run ends.

A message begins with a byte: KEYS, SIZE (struct winsize) from a client; SHOWN, STATUS (digits) to it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import socket
import struct
import termios
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from sandwright.sockets import socket_name
from sandwright.streams import write_all

KEYS, SIZE, SHOWN, STATUS = b"k", b"w", b"o", b"s"
BLOCK = 16384
"""The most bytes of a message, without its first."""
DEFAULT_SIZE = struct.pack("HHHH", 24, 80, 0, 0)

_WINDOW = len(DEFAULT_SIZE)
_PATIENCE = 5.0
"""Seconds for which the run waits for a client that does not read, as for a slow terminal."""
_NOTICED = 0.1
"""Seconds in which a launcher passes a size on."""
_MOST_CLIENTS = 64
_CREDENTIALS = struct.Struct("iII")


def is_ours(end: socket.socket) -> bool:
    """Whether this user or root has made the other end of a connection."""
    _, user, _ = _CREDENTIALS.unpack(end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return user in (os.geteuid(), 0)


def window_size(terminal: int) -> bytes:
    """The size of a terminal's window; empty if there is none."""
    try:
        size = fcntl.ioctl(terminal, termios.TIOCGWINSZ, bytes(_WINDOW))
    except OSError:
        return b""
    return size if any(size) else b""


def run_on_terminal(run: Callable[[], int], path: str, size: bytes) -> int:
    """Run in a child on a new terminal, which clients reach by a socket at `path`; give the exit status.

    A session leader without a terminal calls this; its standard output is the log. SIGTERM is passed on to
    the child. Raise OSError.
    """
    master, slave = os.openpty()
    with _listener(path) as listener:
        fcntl.ioctl(master, termios.TIOCSWINSZ, size or DEFAULT_SIZE)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        child = os.fork()
        if child == 0:
            os.close(master)
            os._exit(_run_in_child(run, slave))
        os.close(slave)
        ended = os.pidfd_open(child)
        signal.signal(signal.SIGTERM, lambda *_: signal.pidfd_send_signal(ended, signal.SIGTERM))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        os.set_blocking(master, False)
        holder = _Holder(master, listener)
        try:
            holder.copy_until(ended)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            status = status if status >= 0 else 128 - status
        finally:
            Path(path).unlink(missing_ok=True)  # before clients hear of the end, and look
        holder.finish(status)
    return status


def _listener(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.setblocking(False)
    with socket_name(path) as name:
        listener.bind(name)
    listener.listen()
    return listener


def _run_in_child(run: Callable[[], int], slave: int) -> int:
    status = 125
    try:
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        for stream in range(3):
            os.dup2(slave, stream)
        os.close(slave)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        status = run()
    except BaseException:  # noqa: BLE001 - the child never returns into its copy of the caller
        traceback.print_exc()
    return status


class _Client:
    """An attached client."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self.end = end
        self.pending = b""
        """The bytes that it has not read yet."""
        self.since = 0.0

    def show(self, message: bytes) -> None:
        """Send bytes; keep those that it doesn't read now. Raise OSError if it is gone."""
        try:
            self.end.send(message)
            self.pending = b""
        except BlockingIOError:
            self.since = self.since if self.pending else time.monotonic()
            self.pending = message


class _Holder:
    def __init__(self, master: int, listener: socket.socket) -> None:
        self._master, self._listener = master, listener
        self._clients: list[_Client] = []
        self._keys = b""
        """The bytes that the terminal has not read yet; until then, nothing more is read from clients."""
        self._open = True

    def copy_until(self, ended: int) -> None:
        """Copy until a process (pidfd) has ended, and its last output was read."""
        while True:
            ready, writable = self._poll_ends(ended)
            if self._listener.fileno() in ready:
                self._accept()
            for each in tuple(self._clients):
                self._attend(each, ready, writable)
            if self._keys and self._open:
                with contextlib.suppress(BlockingIOError):
                    self._keys = self._keys[os.write(self._master, self._keys) :]
            if self._master in ready:
                self._copy_output()
            elif ended in ready:
                return

    def finish(self, status: int) -> None:
        """Send the exit status to each client."""
        for each in self._clients:
            with contextlib.suppress(OSError):
                each.end.settimeout(_PATIENCE)
                each.end.send(STATUS + str(status).encode())
            each.end.close()

    def _poll_ends(self, ended: int) -> tuple[set[int], set[int]]:
        behind = [each.end.fileno() for each in self._clients if each.pending]
        reads = [self._listener.fileno()] + [ended] * (not behind)
        reads += [self._master] * (self._open and not behind)
        reads += [each.end.fileno() for each in self._clients] * (not self._keys)
        writes = behind + [self._master] * bool(self._keys and self._open)
        poll = select.poll()
        for number in {*reads, *writes}:
            poll.register(number, select.POLLIN * (number in reads) | select.POLLOUT * (number in writes))
        found = poll.poll(1000 if behind else None)
        ready = {number for number, event in found if number in reads and event != select.POLLOUT}
        return ready, {number for number, event in found if event & ~select.POLLIN}

    def _accept(self) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionAbortedError):
            end, _ = self._listener.accept()
            if is_ours(end) and len(self._clients) < _MOST_CLIENTS:
                self._clients.append(_Client(end))
            else:
                end.close()

    def _attend(self, client: _Client, ready: set[int], writable: set[int]) -> None:
        number = client.end.fileno()
        try:
            if client.pending and number in writable:
                client.show(client.pending)
            if number in ready:
                self._handle_message(client.end.recv(BLOCK + 1))
            late = client.pending and time.monotonic() > client.since + _PATIENCE
        except BlockingIOError:
            return
        except OSError:
            late = True
        if late:
            client.end.close()
            self._clients.remove(client)

    def _handle_message(self, message: bytes) -> None:
        """Handle messages of a client. Raise ConnectionError at its end."""
        kind, content = message[:1], message[1:]
        if not kind:
            raise ConnectionResetError
        if kind == KEYS:
            self._keys += content
        elif kind == SIZE and len(content) == _WINDOW:
            self._resize(content)

    def _resize(self, size: bytes) -> None:
        """Have a program draw its window anew, also for one who attaches with the same size (SIGWINCH)."""
        if self._open and size == window_size(self._master):
            rows, columns, *rest = struct.unpack("HHHH", size)
            fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns + 1, *rest))
            time.sleep(_NOTICED)
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, size)

    def _copy_output(self) -> None:
        try:
            block = os.read(self._master, BLOCK)
        except BlockingIOError:
            return
        except OSError:  # EIO: all have closed the other side
            block = b""
        if not block:
            self._open, self._keys = False, b""
            return
        write_all(1, block)
        for each in self._clients:
            with contextlib.suppress(OSError):  # it is removed when its end is read
                each.show(SHOWN + block)
