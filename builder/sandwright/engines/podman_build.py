"""Follows a build of Podman or Buildah: counts instructions, keeps the end of the output, ends it in time."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from sandwright import process, user_dirs
from sandwright.engines.client import our_environment
from sandwright.engines.contract import BUILD_TIMEOUT, LONGEST_LINE
from sandwright.errors import CommandFailed
from sandwright.progress import ProgressStep
from sandwright.signalling import descendants
from sandwright.visible import quoted

_END = 60.0
_PAUSE = 0.1
_STEP = re.compile(r"(?:\[\d+/\d+\] )?STEP \d+/\d+: ")


def follow_build(argv: Sequence[str], lines: deque[str], step: ProgressStep) -> int:
    """Start a build and read its output into `lines` until it ends; give its status.

    When this is interrupted, the build is made to end so that it removes the containers it works in, before
    it is killed. Raise CommandFailed when it runs out of time.
    """
    deadline = time.monotonic() + BUILD_TIMEOUT
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb", buffering=0) as output, contextlib.ExitStack() as stack:
        with os.fdopen(write_end, "wb") as sink:
            env = {**our_environment(), "TMPDIR": user_dirs.scratch()}  # of others, sandboxes may write it
            running = stack.enter_context(process.start(*argv, stdout=sink, stderr=sink, env=env))
        try:
            for line in _read_lines(output.fileno(), deadline):
                lines.append(line)
                if _STEP.match(line):
                    step.advance(1)
            if not process.ended_within(running.poll, deadline - time.monotonic()):
                raise _Late
        except _Late as late:
            _end_build(running.pid, running.poll)
            raise CommandFailed(argv, None, quoted(lines), timeout=BUILD_TIMEOUT) from late
        except BaseException:
            _end_build(running.pid, running.poll)
            raise
    return running.returncode


class _Late(Exception):
    """Time is up."""


def _read_lines(fd: int, deadline: float) -> Iterator[str]:
    """The lines that come from a pipe, cut, until its last writer closes it. Raise _Late at the deadline."""
    rest = b""
    while True:
        if time.monotonic() > deadline:
            raise _Late
        if not select.select([fd], [], [], _PAUSE)[0]:
            continue
        data = os.read(fd, 1 << 16)
        *whole, rest = (rest + data).split(b"\n")
        yield from (line[:LONGEST_LINE].decode(errors="replace") for line in whole)
        rest = rest[:LONGEST_LINE]
        if not data:
            if rest:
                yield rest.decode(errors="replace")
            return


def _end_build(pid: int, poll: Callable[[], int | None]) -> None:
    """See a build out: processes in its container are killed, so that it fails and removes its files.

    After SIGTERM it would leave containers and mounts behind (seen with Podman 4.3).
    """
    end = time.monotonic() + _END
    while poll() is None and time.monotonic() < end:
        for each in _containerized_pids(pid):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(each, signal.SIGKILL)
        time.sleep(_PAUSE)


def _containerized_pids(pid: int) -> set[int]:
    """The processes that descend from one and are in another process namespace: those in containers."""
    ours, found = Path("/proc/self/ns/pid").readlink(), set()
    for each in descendants({pid}):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{each}/ns/pid").readlink() != ours:
                found.add(each)
    return found
