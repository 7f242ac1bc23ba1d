"""Moves bytes between a shim and its program until the program ends, in one thread with one poll.

At most one chunk of output is held here; while the shim doesn't read it, the program's pipes fill and it
waits. The shim sends only the input that it was granted. So the memory of a call is bounded.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import socket
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from sandwright.bridge import frames
from sandwright.bridge.configuration import CallLimits
from sandwright.bridge.frames import FrameKind, ProtocolError
from sandwright.bridge.secret import Redactor

CHUNK = 256 * 1024
"""Bytes that are read at once; also the size of the output pipes, if the kernel allows it."""

CREDIT = 256 * 1024
"""Bytes of input that may be in transit."""

SIGNALS: Mapping[int, signal.Signals] = {
    1: signal.SIGHUP, 2: signal.SIGINT, 3: signal.SIGQUIT,
    10: signal.SIGUSR1, 12: signal.SIGUSR2, 15: signal.SIGTERM,
}  # fmt: skip
"""The signals that a shim may send, by their numbers in the protocol."""

End = Literal["exit", "time", "output", "input", "gone", "protocol", "stopped"]
"""The reason for a call's end: by itself, by a limit, or by its shim or the bridge."""

_DRAIN = 0.2
"""Seconds to wait for output of an ended program's children."""


@dataclass
class Pipes:
    """The bridge's ends of a program's standard streams; `stdin` is None where it has none."""

    stdin: int | None
    stdout: int
    stderr: int

    def close(self) -> None:
        """Close them."""
        for fd in (self.stdin, self.stdout, self.stderr):
            if fd is not None:
                os.close(fd)
        self.stdin = None


class Pump:
    """The standard streams of one call."""

    def __init__(
        self,
        connection: socket.socket,
        reader: frames.FrameReader,
        pid: int,
        pipes: Pipes,
        *,
        limits: CallLimits,
        secrets: Iterable[bytes],
        deadline: float,
        stop: int,
    ) -> None:
        """`pid` leads a process group. `deadline` is on the monotonic clock. `stop`: readable when to end."""
        secret_values = tuple(secrets)
        self._socket = connection
        self._reader = reader
        self._pid = pid
        self._pipes = pipes
        self._limits = limits
        self._deadline = deadline
        self._stop = stop
        self._redactors = {pipes.stdout: Redactor(secret_values), pipes.stderr: Redactor(secret_values)}
        self._kinds = {pipes.stdout: FrameKind.STDOUT, pipes.stderr: FrameKind.STDERR}
        self._open = [pipes.stdout, pipes.stderr]
        self._pending = memoryview(b"")
        self._input = bytearray()
        self._credit = self._granted = 0
        self._input_ended = False
        self._ended_at: float | None = None
        self.why: End = "exit"
        self.counts = {"stdin": 0, "stdout": 0, "stderr": 0}

    @property
    def redacted(self) -> int:
        """The number of masked secrets."""
        return sum(redactor.found for redactor in self._redactors.values())

    def run(self) -> End:
        """Move bytes until the program has ended and all it wrote is sent, or until something ends the call.

        The program is left as it is then: running, or ended and not waited for.
        """
        connection, exit_ = self._socket, _pidfd(self._pid)
        connection.setblocking(False)
        for fd in (*self._open, *([self._pipes.stdin] if self._pipes.stdin is not None else [])):
            os.set_blocking(fd, False)
        try:
            if self._pipes.stdin is not None:
                self._grant_credit(CREDIT)
            while self.why == "exit" and not self._finished():
                self._poll_once(exit_)
        except ProtocolError:
            self.why = "protocol"
        except (BrokenPipeError, ConnectionError):
            self.why = "gone"
        finally:
            if exit_ is not None:
                os.close(exit_)
        return self.why

    def _finished(self) -> bool:
        if self._ended_at is None and self._exited():
            self._ended_at = time.monotonic()
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, signal.SIGKILL)  # its leftover children; it itself waits to be reaped
        if self._ended_at is None or self._pending:
            return False
        return not self._open or time.monotonic() - self._ended_at > _DRAIN

    def _exited(self) -> bool:
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self._pid, options) is not None

    def _poll_once(self, exit_: int | None) -> None:
        poll, shim_fd = select.poll(), self._socket.fileno()
        poll.register(shim_fd, select.POLLIN | (select.POLLOUT if self._pending else 0))
        poll.register(self._stop, select.POLLIN)
        if not self._pending:
            for fd in self._open:
                poll.register(fd, select.POLLIN)
        if self._pipes.stdin is not None and self._input:
            poll.register(self._pipes.stdin, select.POLLOUT)
        if exit_ is not None and self._ended_at is None:
            poll.register(exit_, select.POLLIN)
        ready = dict(poll.poll(self._poll_timeout(exit_)))
        if self._stop in ready:
            self.why = "stopped"
        elif time.monotonic() > self._deadline:
            self.why = "time"
        else:
            self._move_ready(ready, shim_fd)

    def _poll_timeout(self, exit_: int | None) -> float:
        """Milliseconds until the next deadline."""
        remaining = max(0.0, self._deadline - time.monotonic()) * 1000 + 1
        if self._ended_at is not None:
            return min(remaining, 20.0)
        return remaining if exit_ is not None else min(remaining, 10.0)

    def _move_ready(self, ready: Mapping[int, int], shim_fd: int) -> None:
        if ready.get(shim_fd, 0) & (select.POLLIN | select.POLLHUP | select.POLLERR):
            self._receive_frames()
        if ready.get(shim_fd, 0) & select.POLLOUT:
            self._send_pending()
        if self._pipes.stdin is not None and self._pipes.stdin in ready:
            self._feed()
        for fd in tuple(self._open):
            if fd in ready and not self._pending:
                self._read_program(fd)

    def _receive_frames(self) -> None:
        try:
            data = self._socket.recv(CHUNK)
        except BlockingIOError:
            return
        if not data:
            self.why = "gone"
            return
        for frame in self._reader.feed(data):
            match frame.kind:
                case FrameKind.STDIN:
                    self._take_input(frame.payload)
                case FrameKind.SIGNAL:
                    self._signal(frame.payload)
                case _:
                    raise ProtocolError("a second call")

    def _take_input(self, data: bytes) -> None:
        if len(data) > self._credit or self._input_ended:
            raise ProtocolError("more input than was granted")
        self._credit -= len(data)
        self.counts["stdin"] += len(data)
        self._input_ended = not data
        if self.counts["stdin"] > self._limits.input_bytes:
            self.why = "input"
        if self._pipes.stdin is None:
            return
        self._input += data
        self._feed()

    def _feed(self) -> None:
        """Write as much input as the program reads, and grant as much again."""
        assert self._pipes.stdin is not None
        try:
            written = os.write(self._pipes.stdin, self._input) if self._input else 0
        except BlockingIOError:
            return
        except BrokenPipeError:  # it does not read: drop the data, and grant no more
            self._input.clear()
            self._close_input()
            return
        del self._input[:written]
        self._granted += written
        if self._granted >= CREDIT // 4:
            self._grant_credit(self._granted)
            self._granted = 0
        if self._input_ended and not self._input:
            self._close_input()

    def _close_input(self) -> None:
        assert self._pipes.stdin is not None
        os.close(self._pipes.stdin)
        self._pipes.stdin = None

    def _grant_credit(self, amount: int) -> None:
        self._credit += amount
        self._pending = memoryview(bytes(self._pending) + frames.encode_credit(amount))
        self._send_pending()

    def _signal(self, payload: bytes) -> None:
        number = SIGNALS.get(payload[0]) if len(payload) == 1 else None
        if number is None:
            raise ProtocolError("no signal that is sent on")
        if self._ended_at is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, number)

    def _read_program(self, fd: int) -> None:
        try:
            data = os.read(fd, CHUNK)
        except BlockingIOError:
            return
        kind, redactor = self._kinds[fd], self._redactors[fd]
        passed = redactor.feed(data) if data else redactor.end()
        if not data:
            self._open.remove(fd)
        self.counts["stdout" if kind == FrameKind.STDOUT else "stderr"] += len(data)
        if self.counts["stdout"] + self.counts["stderr"] > self._limits.output_bytes:
            self.why = "output"
        elif passed:
            self._emit(kind, passed)

    def _emit(self, kind: FrameKind, payload: bytes) -> None:
        head = frames.header(kind, len(payload))
        try:
            sent = self._socket.sendmsg([head, payload])
        except BlockingIOError:
            sent = 0
        if sent < len(head) + len(payload):
            self._pending = (
                memoryview(payload)[sent - len(head) :]
                if sent >= len(head)
                else memoryview(head[sent:] + payload)
            )

    def _send_pending(self) -> None:
        try:
            sent = self._socket.send(self._pending) if self._pending else 0
        except BlockingIOError:
            return
        self._pending = self._pending[sent:]


def output_pipe() -> tuple[int, int]:
    """A pipe for a program's output, with room for a chunk if the kernel allows it."""
    read, write = os.pipe()
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):  # pipe-user-pages-soft is used up
            fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, CHUNK)
    return read, write


def _pidfd(pid: int) -> int | None:
    """A descriptor that becomes readable when a process ends; None on macOS and Linux before 5.3."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None
