"""Runs work on files in a child process, with a time limit.

A process that accesses a file system which has stopped answering (FUSE, a lost server) waits until it
answers, and even SIGKILL doesn't end it. Therefore a child process does the work; it can be left behind.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterator

from sandwright.documents import strictjson

Progress = Callable[[str], None]
_DESCRIPTORS = 1 << 16


class UnresponsiveFilesystem(Exception):
    """The work took too long. `path` is the last one that it named, or empty."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path or 'a file system'} doesn't answer")
        self.path = path


def run_in_child(work: Callable[[Progress], list[str]], timeout: float) -> list[str]:
    """Do work in a child and return its result. `work` names each path before it asks for it.

    Raise UnresponsiveFilesystem when it takes more than `timeout` seconds, and OSError with its message when
    it fails.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _work(work, writing)
    os.close(writing)
    path = ""
    try:
        for message in _messages(reading, time.monotonic() + timeout):
            if isinstance(message, str):
                path = message
                continue
            os.waitpid(child, 0)
            result, fault = message
            if fault:
                raise OSError(fault)
            return list(result)
    finally:
        os.close(reading)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, os.WNOHANG)
    raise UnresponsiveFilesystem(path)


def _work(work: Callable[[Progress], list[str]], writing: int) -> None:
    """In the child: write a line for each path, and at the end one with the result and the fault.

    Other descriptors are closed: a reader of the run's output waits until every holder of the pipe has ended.
    """
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(nothing, descriptor)
        os.closerange(3, writing)
        os.closerange(writing + 1, _DESCRIPTORS)
        try:
            outcome: list[object] = [work(lambda path: _write_result(writing, path)), ""]
        except Exception as fault:  # noqa: BLE001 - the parent raises it
            outcome = [None, str(fault) or type(fault).__name__]
        _write_result(writing, outcome)
    finally:
        os._exit(0)


def _write_result(writing: int, value: object) -> None:
    raw = strictjson.dumps(value) + b"\n"
    while raw:
        raw = raw[os.write(writing, raw) :]


def _messages(reading: int, until: float) -> Iterator[str | tuple[list[str], str]]:
    """The child's lines, until the time is up or the child has ended."""
    held = b""
    while select.select([reading], [], [], max(0.0, until - time.monotonic()))[0]:
        raw = os.read(reading, 1 << 16)
        if not raw:
            return
        *lines, held = (held + raw).split(b"\n")
        yield from map(strictjson.loads_record, lines)
