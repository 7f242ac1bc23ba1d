"""`sandwright attach`: connects the user's terminal to that of a detached run (`session.held_terminal`)."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import socket
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator

from sandwright import user_dirs
from sandwright.errors import UsageError
from sandwright.session import state
from sandwright.session.detached import copy_log, find_log, find_running
from sandwright.session.held_terminal import (
    BLOCK,
    KEYS,
    SHOWN,
    SIZE,
    STATUS,
    is_ours,
    window_size,
)
from sandwright.sockets import socket_name
from sandwright.streams import write_all

DETACH_KEYS = "ctrl-p,ctrl-q"
_MODES = re.compile(rb"\x1b\[\?([0-9;]{1,30})([hl])")
_DIGITS = 4
_DEFAULT_ON = (b"7", b"25")
"""Of a terminal's private modes (xterm, ctlseqs): lines wrap, the cursor is shown."""
_ANSWERING = 0.2
"""Seconds in which the answers of a terminal to a program's questions arrive (`ESC [ 6 n`)."""
_KEY = re.compile(r"ctrl-([a-z@\[\\\]^_])|([!-+\--~])")


def parse_keys(text: str) -> bytes:
    """The bytes of a sequence such as `ctrl-p,ctrl-q`; nothing for an empty one. Raise UsageError."""
    found = [_KEY.fullmatch(each) for each in text.split(",")] if text else []
    if not all(found):
        raise UsageError(
            f"--detach-keys {text}: list characters and ctrl-X (a-z @ [ \\ ] ^ _), comma-separated"
        )
    return b"".join(
        bytes([ord(each[1].upper()) & 0x1F]) if each[1] else each[2].encode() for each in found if each
    )


class KeyFilter:
    """Finds a sequence among keys that are typed one by one, and holds back keys that may begin it."""

    def __init__(self, sequence: bytes) -> None:
        self._sequence, self._held = sequence, b""

    def pass_on(self, keys: bytes) -> tuple[bytes, bool]:
        """The keys for the program, and whether the sequence was typed; keys after it are dropped."""
        keys, self._held = self._held + keys, b""
        at = keys.find(self._sequence) if self._sequence else -1
        if at >= 0:
            return keys[:at], True
        for length in range(min(len(self._sequence) - 1, len(keys)), 0, -1):
            if keys.endswith(self._sequence[:length]):
                self._held = keys[-length:]
                return keys[:-length], False
        return keys, False


class ModeTracker:
    """Finds the private modes that a program has changed: alternate screen, reports of the mouse."""

    def __init__(self) -> None:
        self._modes: dict[bytes, bytes] = {}
        self._rest = b""

    def follow(self, output: bytes) -> None:
        """Read output of the program, in blocks of any length."""
        text = self._rest + output
        for found in _MODES.finditer(text):
            modes = (mode for mode in found[1].split(b";") if len(mode) <= _DIGITS)
            self._modes.update(dict.fromkeys(modes, found[2]))
        self._rest = text[-40:]

    def undo(self) -> bytes:
        """The bytes that reset these modes and the colours."""
        defaults = {mode: b"h" if mode in _DEFAULT_ON else b"l" for mode in self._modes}
        changed = (mode for mode, state in self._modes.items() if defaults[mode] != state)
        return b"".join(b"\x1b[?" + mode + defaults[mode] for mode in changed) + b"\x1b[m"


def attach(address: str, keys: bytes, notify: Callable[[str], None]) -> int:
    """Join the terminal of a detached run until it ends, or `keys` are typed; give the exit status.

    It is the run's, or 0 if the run goes on. If the run has no terminal, show its output. Raise UsageError
    where no such session runs, or it is in the foreground; HostError where its terminal can't be joined.
    """
    record = find_running(address)
    path = state.terminal_of(record.session)
    if not os.path.lexists(path):
        find_log(address)  # or it is in the foreground
        notify(f"session {address} has no terminal (`run --detach --tty`): only its output is shown")
        status = copy_log(record.session, sys.stdout.buffer, follow=True)
        if status is None:
            raise user_dirs.error(f"session {address} was killed: its log has no exit status")
        return status
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as end:
        try:
            with socket_name(path) as name:
                end.connect(name)
        except OSError as error:
            raise user_dirs.error(f"cannot join the terminal of {address}: {error.strerror}") from error
        if not is_ours(end):
            raise user_dirs.error(f"the terminal of {address} is held by another user")
        modes = ModeTracker()
        with _raw_terminal(lambda: _send_size(end), modes):
            _send_size(end)
            status = _relay(end, KeyFilter(keys), modes)
    if status is None:
        raise user_dirs.error(f"the terminal of {address} was closed")
    if status < 0:
        notify(f"detached; session {address} goes on")
    return max(status, 0)


def _send_size(end: socket.socket) -> None:
    if size := window_size(0):
        with contextlib.suppress(OSError):  # its end is read
            end.send(SIZE + size)


def _relay(end: socket.socket, filtered: KeyFilter, modes: ModeTracker) -> int | None:
    """Copy in both directions.

    Give the run's status; -1 if the keys were typed, None if the other side was lost.
    """
    reads = [end.fileno(), 0]
    while True:
        ready, _, _ = select.select(reads, [], [])
        if 0 in ready:
            typed = _read_keys()
            passed, leaves = filtered.pass_on(typed)
            try:
                if passed:
                    end.send(KEYS + passed)
            except OSError:  # earlier data is read below
                reads = reads[:1]
            if leaves:
                return -1
            reads = reads if typed else reads[:1]
        if reads[0] in ready:
            try:
                message = end.recv(BLOCK + 1)
            except ConnectionResetError:
                message = b""
            if message[:1] == SHOWN:
                modes.follow(message[1:])
                write_all(1, message[1:])
            elif message[:1] == STATUS:
                return int(message[1:])
            elif not message:
                return None


def _read_keys() -> bytes:
    try:
        return os.read(0, BLOCK)
    except OSError:  # its other side is closed
        return b""


@contextlib.contextmanager
def _raw_terminal(resize: Callable[[], None], modes: ModeTracker) -> Iterator[None]:
    """Set the terminal to raw mode, if standard input is one, and restore it at the end.

    Then changed `modes` are reset, and answers of the terminal to a program's questions are discarded.
    `resize` is called when the window has another size, or the process was continued.
    """
    if not os.isatty(0):
        yield
        return
    before = termios.tcgetattr(0)

    def go_on(*_: object) -> None:
        tty.setraw(0, termios.TCSANOW)
        resize()

    handlers = {
        signal.SIGWINCH: lambda *_: resize(),
        signal.SIGCONT: go_on,
        signal.SIGTERM: _end,
        signal.SIGHUP: _end,
    }
    saved = {number: signal.signal(number, each) for number, each in handlers.items()}
    try:
        tty.setraw(0, termios.TCSANOW)
        yield
    finally:
        for number, handler in saved.items():
            signal.signal(number, handler)
        with contextlib.suppress(termios.error, OSError):  # it is gone
            if os.isatty(1):
                write_all(1, modes.undo())
            time.sleep(_ANSWERING)  # a shell would read the answer
            termios.tcsetattr(0, termios.TCSAFLUSH, before)


def _end(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)
