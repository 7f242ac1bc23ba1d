"""Starts the process of a bridge, and ends it."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

from sandwright import process
from sandwright.bridge.configuration import Configuration
from sandwright.bridge.directory import SESSION_MARK, end_marked
from sandwright.errors import HostError
from sandwright.streams import write_all

READY_SECONDS = 30.0
END_SECONDS = 20.0


@contextlib.contextmanager
def start_process(
    configuration: Configuration, lock: int, channel: socket.socket, listeners: Sequence[socket.socket]
) -> Iterator[int]:
    """The bridge's process, with its listeners, its end of the channel and the lock. Give its pid."""
    with contextlib.ExitStack() as stack:
        reading, writing = os.pipe()
        # A file object closes once, however often close() is called: another thread may reuse the number.
        source = stack.enter_context(os.fdopen(reading, "rb", buffering=0))
        lifeline = stack.enter_context(os.fdopen(writing, "wb", buffering=0))
        fds = [channel.fileno(), *(each.fileno() for each in listeners)]
        started = stack.enter_context(
            process.start(
                sys.executable, "-P", "-s", "-m", "sandwright.bridge", *map(str, fds),
                stdin=source, pass_fds=(*fds, lock), cwd=configuration.private,
                env={
                    "PYTHONPATH": str(Path(__file__).parents[2]), "PATH": configuration.environment["PATH"],
                    SESSION_MARK: configuration.session,
                },
            )
        )  # fmt: skip
        source.close()
        try:
            _send_configuration(lifeline.fileno(), configuration)
            _await_ready(started.stdout, started.stderr)
            yield started.pid
        finally:
            lifeline.close()
            if not _wait_for_end(started.poll):
                process.kill(started)
            end_marked(configuration.session)


def _send_configuration(lifeline: int, configuration: Configuration) -> None:
    text = configuration.to_json()
    with contextlib.suppress(BrokenPipeError):  # it has died; its output is read next
        write_all(lifeline, struct.pack(">I", len(text)) + text)


def _await_ready(stdout: IO[bytes] | None, stderr: IO[bytes] | None) -> None:
    assert stdout is not None
    assert stderr is not None
    ready, _, _ = select.select([stdout], [], [], READY_SECONDS)
    if not ready:
        raise HostError(f"the bridge was not ready within {READY_SECONDS:g} s")
    if not os.read(stdout.fileno(), 1):
        raise HostError(f"the bridge did not start:\n{stderr.read().decode(errors='replace')[-4000:]}")


def _wait_for_end(poll: Callable[[], int | None]) -> bool:
    """Wait for the bridge's own end."""
    until = time.monotonic() + END_SECONDS
    while poll() is None:
        if time.monotonic() > until:
            return False
        time.sleep(0.005)
    return True
