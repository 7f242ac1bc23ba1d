"""The terminal of a detached run under each method: keys, sizes, its start, stops and its end.

Tests of session/held_terminal.py.
Tests of launcher/source/init.c: a job that stops on the terminal of a detached run is continued.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from sandwright.launcher.run_document import RunDocument, open_run_document, with_document
from sandwright.session.held_terminal import (
    BLOCK,
    KEYS,
    SHOWN,
    SIZE,
    STATUS,
    run_on_terminal,
)
from sandwright.sockets import socket_name
from session.conftest import WAIT
from session.jobs import Place, place
from session.test_closed_terminal import EACH
from session.test_closed_terminal import pytestmark as pytestmark  # noqa: PLC0414 - the same needs
from support.waiting import until


class _Joined:
    def __init__(self, path: Path) -> None:
        self.end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.end.settimeout(60)
        with socket_name(str(path)) as name:
            self.end.connect(name)
        self.seen = b""

    def send(self, kind: bytes, content: bytes) -> None:
        self.end.send(kind + content)

    def read_until(self, text: bytes) -> None:
        while text not in self.seen:
            message = self.end.recv(BLOCK + 1)
            assert message[:1] == SHOWN, (message, self.seen)
            self.seen += message[1:]
        self.seen = self.seen.partition(text)[2]

    def resize_until(self, size: tuple[int, int], text: bytes) -> None:
        """Send a size repeatedly: Docker's client misses a change in the first moments of a run."""
        self.end.settimeout(2)
        for _ in range(30):
            self.send(SIZE, struct.pack("HHHH", *size, 0, 0))
            with suppress(TimeoutError):
                self.read_until(text)
                break
        else:
            pytest.fail(f"not {text!r}: {self.seen!r}")
        self.end.settimeout(60)

    def status(self) -> int:
        while (message := self.end.recv(BLOCK + 1))[:1] != STATUS:
            assert message, self.seen
        return int(message[1:])


def _hold(at: Place, script: str, path: Path, started: int) -> int:
    """The work of a detached run in its child."""
    os.setsid()
    log = os.open(at.root / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream, file in ((0, os.open(os.devnull, os.O_RDONLY)), (1, log), (2, log)):
        os.dup2(file, stream)

    def run() -> int:
        document = open_run_document(RunDocument(started=started))
        words = with_document([str(at.launcher), "sh", "-c", script], document)
        return subprocess.run(
            [*at.before, *words], check=False, cwd=at.root, env=dict(at.environ), pass_fds=(document, started)
        ).returncode

    return run_on_terminal(run, str(path), b"")


@contextmanager
def _held(at: Place, script: str) -> Iterator[_Joined]:
    path = at.root.parent / "terminal.attach"
    reports, started = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os._exit(_hold(at, script, path, started))
        finally:
            os._exit(99)
    os.close(started)
    try:
        assert select.select([reports], [], [], WAIT)[0], "the start is not reported"
        os.read(reports, 1)
        yield _Joined(path)
    finally:
        os.close(reports)
        os.kill(child, 15)
        until(lambda: os.waitpid(child, os.WNOHANG)[0] == child, "it does not end")
        assert not path.exists()


@pytest.mark.parametrize(("method", "uid"), EACH)
def test_keys_sizes_stops_and_the_end(method: str, uid: int) -> None:
    shown = 'case $word in *" "*) until [ "$(stty size)" = "$word" ]; do sleep 0.1; done; esac'
    script = f"echo up; while read word; do {shown}; echo got $word; done; exit 5"
    with place(method, uid) as at, _held(at, script) as joined:
        for size in ((20, 50), (31, 99)):
            joined.send(KEYS, b"%d %d\n" % size)
            joined.resize_until(size, b"got %d %d" % size)
        joined.send(KEYS, b"\x1a")
        time.sleep(0.5)
        joined.send(KEYS, b"three\n")
        joined.read_until(b"got three")
        joined.send(KEYS, b"\x04")
        assert joined.status() == 5
