"""A user at a terminal, for tests: starts a program, types, reads, changes the window's size."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

WAIT = 60.0


class Terminal:
    """A terminal, and the program that it controls."""

    def __init__(
        self, argv: Sequence[str], cwd: Path, environ: Mapping[str, str], size: tuple[int, int]
    ) -> None:
        self.master, self.slave = os.openpty()
        self.resize(*size)
        self.before = termios.tcgetattr(self.slave)
        self._seen = b""
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setsid()
                fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)
                for descriptor in range(3):
                    os.dup2(self.slave, descriptor)
                os.closerange(3, 256)
                os.chdir(cwd)
                os.execve(argv[0], list(argv), dict(environ))
            finally:
                os._exit(99)

    def resize(self, rows: int, columns: int) -> None:
        """Change the size, like a window: the kernel signals the foreground process group."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def read_until(self, text: bytes) -> bytes:
        """The output up to `text`; the output after it is for the next call."""
        deadline = time.monotonic() + WAIT
        while text not in self._seen:
            assert time.monotonic() < deadline, self._seen
            if select.select([self.master], [], [], 0.1)[0]:
                try:
                    self._seen += os.read(self.master, 65536)
                except OSError:
                    raise AssertionError(f"the terminal ended: {self._seen!r}") from None
        shown, found, self._seen = self._seen.partition(text)
        return shown + found

    def shows(self, text: bytes) -> bool:
        """Whether it has shown this text by now."""
        while select.select([self.master], [], [], 0)[0]:
            self._seen += os.read(self.master, 65536)
        return text in self._seen

    def rest(self) -> bytes:
        """The output that was not read yet."""
        return self._seen

    def end(self) -> int:
        """The exit status, in the form of shells."""
        deadline = time.monotonic() + WAIT
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = 0
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
            assert time.monotonic() < deadline, "it does not end"
            if select.select([self.master], [], [], 0.02)[0]:
                self._seen += os.read(self.master, 65536)

    @property
    def settings(self) -> list[object]:
        """The current settings of the terminal (termios(3))."""
        return list(termios.tcgetattr(self.slave))

    def hang_up(self) -> None:
        """Close it, like a window or sshd: the kernel sends SIGHUP to the session's leader."""
        os.close(self.master)
        os.close(self.slave)
        self.master = self.slave = -1

    def close(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        if self.master >= 0:
            self.hang_up()


@contextmanager
def terminal(
    argv: Sequence[str], cwd: Path, environ: Mapping[str, str], *, size: tuple[int, int] = (31, 117)
) -> Iterator[Terminal]:
    made = Terminal(argv, cwd, environ, size)
    try:
        yield made
    finally:
        made.close()
