"""Gives a command pipes in place of the caller's files, devices and terminals.

A file that is standard input can be opened anew for writing through /proc/self/fd/0 (proc_pid_fd(5)), a
terminal that is standard error alone can be read, and gVisor writes to a file from its beginning, even over
existing content. Pipes of the caller, sockets and /dev/null are passed as they are.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import select
import stat
import termios
from collections.abc import Collection, Iterator

_BLOCK = 65536
_NAMES = ("standard input", "standard output", "standard error")


class Streams:
    """Standard input, output and errors of one command. With `keys` the first two are a terminal that stays.

    A terminal that is only some of them is written to and never read: another process reads its keys.
    """

    def __init__(self, *, keys: bool, descriptors: Collection[int] = range(3)) -> None:
        self._input: _Input | None = None
        self._outputs: list[_Output] = []
        self._given: dict[int, int] = {}
        self._ends: list[int] = []
        for descriptor in descriptors:
            if not (keys and os.isatty(descriptor)) and not _is_passed_through(descriptor):
                self._replace(descriptor)

    def _replace(self, descriptor: int) -> None:
        if descriptor == 0 and os.isatty(0):
            self._give(0, os.open(os.devnull, os.O_RDONLY))
            if not os.isatty(1) and os.isatty(2):
                warn("the command cannot read the terminal, because its standard output is not a terminal")
        elif descriptor == 0:
            read, write = os.pipe()
            self._give(0, read)
            self._input = _Input(os.dup(read), write)
        elif descriptor == 2 and 1 in self._given and _same_file(1, 2):
            self._given[2] = self._given[1]
        else:
            read, write = os.pipe()
            self._give(descriptor, write)
            self._outputs.append(_Output(read, descriptor))

    def _give(self, descriptor: int, end: int) -> None:
        self._given[descriptor] = end
        self._ends.append(end)

    def become(self) -> None:
        """In the child: take over the command's ends."""
        for descriptor, end in self._given.items():
            os.dup2(end, descriptor)

    def started(self) -> None:
        """In the parent: close the command's ends, so that both sides notice the end of the other."""
        while self._ends:
            os.close(self._ends.pop())

    def selected(self) -> tuple[list[int], list[int]]:
        """The descriptors to wait for: those to read, and those to write."""
        reads, writes = self._input.selected() if self._input else ([], [])
        return [*reads, *(each.read for each in self._outputs if each.read >= 0)], writes

    def copy(self, ready: Collection[int], writable: Collection[int]) -> None:
        """Copy data between descriptors that are ready."""
        if self._input:
            self._input.copy(ready, writable)
        for each in self._outputs:
            if each.read in ready:
                each.copy()

    def close(self) -> bool:
        """Pass on the command's last output. Return False if some of it could not be written."""
        self.started()
        if self._input:
            self._input.close()
            self._input = None
        for each in self._outputs:
            each.close()
        for each in self._outputs:
            if each.fault:
                warn(f"cannot write to {_NAMES[each.target]}: {each.fault}")
        return not any(each.fault for each in self._outputs)


def fill_standard() -> None:
    """Open /dev/null in place of closed standard descriptors, before something else gets their numbers."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) < 3:
        pass
    os.close(descriptor)


def write_all(descriptor: int, block: bytes) -> None:
    """Write a block, though the descriptor may be one that doesn't wait. Raise OSError."""
    while block:
        try:
            block = block[os.write(descriptor, block) :]
        except BlockingIOError:
            select.select([], [descriptor], [])


def warn(text: str) -> None:
    """Write a message to standard error, if possible."""
    with contextlib.suppress(OSError):
        write_all(2, f"sandbox: {text}\n".encode())


class _Input:
    """The data from standard input, until it ends. Of a file, the rest stays for the next reader."""

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write = read, write
        self._block = b""
        self._taken = 0
        os.set_blocking(write, False)

    def selected(self) -> tuple[list[int], list[int]]:
        """Nothing is read before the last block has gone on."""
        if self._write < 0:
            return [], []
        return ([], [self._write]) if self._block else ([0], [])

    def copy(self, ready: Collection[int], writable: Collection[int]) -> None:
        """Read a block, or write one."""
        if self._write < 0:
            return
        try:
            if not self._block and 0 in ready:
                self._block = os.read(0, _BLOCK)
                self._taken += len(self._block)
                if not self._block:
                    self._close_pipe()
            elif self._block and self._write in writable:
                self._block = self._block[os.write(self._write, self._block) :]
        except BlockingIOError:
            pass
        except OSError:  # it was not opened for reading, or its device has gone
            self._close_pipe()

    def _close_pipe(self) -> None:
        os.close(self._write)
        self._write = -1

    def close(self) -> None:
        """Leave the file at the command's first unread byte."""
        if self._write >= 0:
            self._close_pipe()
        waiting = array.array("i", [0])
        with contextlib.suppress(OSError):
            fcntl.ioctl(self._read, termios.FIONREAD, waiting)
            unread = min(
                waiting[0] + len(self._block), self._taken
            )  # the command may have written there itself
            if unread and stat.S_ISREG(os.fstat(0).st_mode):
                os.lseek(0, -unread, os.SEEK_CUR)
        os.close(self._read)


class _Output:
    """The data for standard output or errors, or for both where they are the same file."""

    def __init__(self, read: int, target: int) -> None:
        self.read, self.target = read, target
        self.fault = ""
        os.set_blocking(read, False)

    def copy(self) -> int:
        """Pass a block on, and give its length. When it can't be written the command's next write fails."""
        try:
            block = os.read(self.read, _BLOCK)
        except BlockingIOError:
            return 0
        try:
            write_all(self.target, block)
        except OSError as error:
            self.fault = error.strerror or str(error)
        if self.fault or not block:
            os.close(self.read)
            self.read = -1
        return len(block)

    def close(self) -> None:
        """Pass on the current content of the pipe; a process that was left behind may write for ever."""
        waiting = array.array("i", [0])
        if self.read >= 0:
            fcntl.ioctl(self.read, termios.FIONREAD, waiting)
        more = waiting[0]
        while self.read >= 0 and more > 0 and (copied := self.copy()):
            more -= copied
        if self.read >= 0:
            os.close(self.read)
            self.read = -1


def _is_passed_through(descriptor: int) -> bool:
    """Whether it is a pipe, a socket or /dev/null; or a directory, which launchers refuse."""
    found = os.fstat(descriptor)
    if stat.S_ISCHR(found.st_mode):
        return found.st_rdev == os.stat(os.devnull).st_rdev  # noqa: PTH116 - pathlib costs milliseconds
    return stat.S_ISFIFO(found.st_mode) or stat.S_ISSOCK(found.st_mode) or stat.S_ISDIR(found.st_mode)


def _same_file(first: int, second: int) -> bool:
    """Whether two descriptors are one open file, as behind `2>&1`: the same one, flags and position."""
    return list(_open_file_key(first)) == list(_open_file_key(second))


def _open_file_key(descriptor: int) -> Iterator[object]:
    found = os.fstat(descriptor)
    yield from (found.st_dev, found.st_ino, fcntl.fcntl(descriptor, fcntl.F_GETFL))
    with contextlib.suppress(OSError):  # of a terminal there is none
        yield os.lseek(descriptor, 0, os.SEEK_CUR)
