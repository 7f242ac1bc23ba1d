"""Starts a foreign sandbox command with the probe program, and ends all processes that it started."""

from __future__ import annotations

import contextlib
import os
import selectors
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, cast

from sandwright import process
from sandwright.errors import CommandFailed
from sandwright.signalling import kill
from sandwright.verify.sandbox import LIMIT, RenderedSandbox, inherited_descriptors

MOST = 32 << 20
"""The most bytes of output that are read; a probe's answers are a hundredth of that."""

_STEP, _LINGER = 0.5, 5.0
"""Seconds between two polls, and for which leftover children of an ended command may still write."""

MARK = "SANDWRIGHT_SUBJECT"
"""The variable that marks processes of the command: it contains this run's word."""


@dataclass(frozen=True)
class SubjectSandbox(RenderedSandbox):
    """A foreign sandbox command. `prefix` are its words; `word` identifies this run."""

    prefix: tuple[str, ...] = ()
    root: Path = Path("/nonexistent")
    word: str = ""

    def argv(self, words: Sequence[str]) -> list[str]:
        """The command line that starts the probe program with some words."""
        return [*self.prefix, str(self.program), *words]

    def run(self, words: Sequence[str], *, stdin: bytes = b"", limit: float = LIMIT) -> process.Result:
        """Start it. Raise CommandFailed when time runs out, or when it writes without end."""
        argv = self.argv(words)
        try:
            with (
                inherited_descriptors() as planted,
                process.start(
                    *argv, stdin=b"", env=self.environment, cwd=self.cwd, pass_fds=planted
                ) as started,
            ):
                assert started.stdin is not None
                assert started.stdout is not None
                assert started.stderr is not None
                exchange = _Exchange(
                    started.stdin, started.stdout, started.stderr, started.poll, memoryview(stdin)
                )
                ended = exchange.until(time.monotonic() + limit)
                err = exchange.err.decode(errors="replace")
                if not ended:
                    raise CommandFailed(tuple(argv), None, err, timeout=limit)
                status = started.returncode
                exit_status = status if status >= 0 else 128 - status  # as a shell says it
                return process.Result(tuple(argv), exit_status, bytes(exchange.out), err)
        finally:
            self.end_all()

    def end_all(self) -> None:
        """End its leftover processes: those that contain this run's word, or name a planted file.

        This is repeated, because one may start another meanwhile, and the kernel takes a moment to end one.
        """
        until = time.monotonic() + _LINGER
        while (remaining := list(self.processes())) and time.monotonic() < until:
            for pid in remaining:
                kill(pid, sure=partial(self._belongs_to_run, pid))
            time.sleep(0.01)

    def processes(self) -> Iterator[int]:
        """Its running processes."""
        for directory in Path("/proc").glob("[0-9]*"):
            pid = int(directory.name)
            if pid != os.getpid() and self._belongs_to_run(pid):
                yield pid

    def _belongs_to_run(self, pid: int) -> bool:
        mark, root = f"{MARK}={self.word}".encode(), os.fsencode(self.root)
        with contextlib.suppress(OSError):
            if root in Path(f"/proc/{pid}/cmdline").read_bytes():
                return True
        with contextlib.suppress(OSError):
            return mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        return False


@dataclass
class _Exchange:
    """Send a command its input and read its output, until it ends, its time is up, or it wrote too much."""

    stdin: IO[bytes]
    stdout: IO[bytes]
    stderr: IO[bytes]
    poll: Callable[[], int | None]
    rest: memoryview
    out: bytearray = field(default_factory=bytearray)
    err: bytearray = field(default_factory=bytearray)

    def until(self, end: float) -> bool:
        """Continue until a time of the monotonic clock; give whether the command ended by itself."""
        quiet = time.monotonic()
        with selectors.DefaultSelector() as waiting:
            waiting.register(self.stdout, selectors.EVENT_READ, self.out)
            waiting.register(self.stderr, selectors.EVENT_READ, self.err)
            os.set_blocking(self.stdin.fileno(), False)
            waiting.register(self.stdin, selectors.EVENT_WRITE)
            while waiting.get_map() and time.monotonic() < end and len(self.out) + len(self.err) < MOST:
                ready = waiting.select(_STEP)
                for key, _ in ready:
                    if self._transfer(key.fd, key.data):
                        waiting.unregister(key.fd)
                        cast("IO[bytes]", key.fileobj).close()
                quiet = time.monotonic() if ready else quiet
                if not ready and self.poll() is not None and time.monotonic() - quiet > _LINGER:
                    return True  # its leftover children hold the pipes open
            closed = not waiting.get_map()
        return closed and process.ended_within(self.poll, end - time.monotonic())

    def _transfer(self, descriptor: int, into: bytearray | None) -> bool:
        """Read and write available data; give whether that was the end."""
        if into is not None:
            data = os.read(descriptor, 1 << 16)
            into += data
            return not data
        try:
            self.rest = self.rest[os.write(descriptor, self.rest[: 1 << 16]) :]
        except BrokenPipeError:
            return True
        return not self.rest
