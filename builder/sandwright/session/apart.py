"""Does work on files in a process of its own, for a time.

Whoever asks a file system that has stopped answering (FUSE, a server that is gone) waits until it does; not
even SIGKILL is an end of that. So the process that waits is another one.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable
from typing import Any

from sandwright.documents import strictjson

_DESCRIPTORS = 1 << 16


class SilentError(Exception):
    """The work took too long. `told` is what it told of last, empty where it told nothing."""

    def __init__(self, told: str) -> None:
        """As above."""
        super().__init__(f"{told or 'a file system'} doesn't answer")
        self.told = told


def done(work: Callable[[Callable[[str], None]], Any], seconds: float) -> Any:  # noqa: ANN401 - what JSON can hold
    """Do work in a child, and give what it gives, as JSON. It is given a function that tells what it does.

    Raise SilentError when it takes longer, and OSError with its message when it fails.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _do(work, writing)
    os.close(writing)
    told = ""
    try:
        for said in _heard(reading, time.monotonic() + seconds):
            if isinstance(said, str):
                told = said
                continue
            os.waitpid(child, 0)
            if said[1]:
                raise OSError(said[1])
            return said[0]
    finally:
        os.close(reading)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, os.WNOHANG)
    raise SilentError(told)


def _do(work: Callable[[Callable[[str], None]], Any], writing: int) -> None:
    """In the child: a line for each text, and at the end one with the outcome and what is wrong.

    It holds nothing that others wait for the end of, as who reads what a run writes.
    """
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(nothing, descriptor)
        os.closerange(3, writing)
        os.closerange(writing + 1, _DESCRIPTORS)
        try:
            outcome = [work(lambda text: _write(writing, text)), ""]
        except Exception as fault:  # noqa: BLE001 - it is told
            outcome = [None, str(fault) or type(fault).__name__]
        _write(writing, outcome)
    finally:
        os._exit(0)


def _write(writing: int, value: object) -> None:
    raw = strictjson.dumps(value) + b"\n"
    while raw:
        raw = raw[os.write(writing, raw) :]


def _heard(reading: int, until: float) -> Any:  # noqa: ANN401 - what JSON can hold
    """What the child says, until nothing more comes in time."""
    held = b""
    while select.select([reading], [], [], max(0.0, until - time.monotonic()))[0]:
        raw = os.read(reading, 1 << 16)
        if not raw:
            return
        *lines, held = (held + raw).split(b"\n")
        yield from map(strictjson.loads_record, lines)
