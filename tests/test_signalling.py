"""A process gets a signal only if it is the intended one.

Tests of signalling.py.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandwright import signalling
from sandwright.session import stale, state
from support.sessionrecords import session_record

NOBODY = 65534


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "100"], env={"SANDWRIGHT_SESSION": "0" * 16}) as process:
        yield process
        process.kill()


def test_a_process_of_ours(child: subprocess.Popen[bytes]) -> None:
    assert signalling.is_same_user_process(child.pid)
    assert signalling.started(child.pid) > 0
    assert not signalling.kill(child.pid, sure=lambda: False)
    assert child.poll() is None
    assert signalling.kill(child.pid, sure=lambda: True)
    assert child.wait(60) == -signal.SIGKILL
    assert not signalling.is_same_user_process(child.pid)
    assert signalling.started(child.pid) == 0
    assert not signalling.kill(child.pid, sure=lambda: True)


@pytest.mark.skipif(sys.platform != "linux", reason="the state is in /proc")
def test_one_that_has_ended_is_gone_though_nobody_waits_for_it() -> None:
    with subprocess.Popen(["true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        assert signalling.started(process.pid) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user takes root")
def test_a_process_of_somebody_else() -> None:
    with subprocess.Popen(["sleep", "100"], user=NOBODY, group=NOBODY, extra_groups=[]) as process:
        try:
            assert not signalling.is_same_user_process(process.pid)
        finally:
            process.kill()


@pytest.mark.needs("unshare")
@pytest.mark.skipif(os.geteuid() != 0, reason="making namespaces takes root")
def test_a_process_of_a_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    """It belongs to this user and chooses its own name: it is not mistaken for a session's leftover."""
    monkeypatch.setattr(state, "read", session_record)
    words = (
        "unshare",
        "--pid",
        "--fork",
        "--kill-child",
        sys.executable,
        "-c",
        "print(1, flush=True); input()",
    )
    marked = {"SANDWRIGHT_SESSION": "0" * 16, "PATH": os.environ["PATH"]}
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=marked) as outside:
        assert outside.stdout is not None
        assert outside.stdout.readline() == b"1\n"
        (inside,) = map(int, Path(f"/proc/{outside.pid}/task/{outside.pid}/children").read_text().split())
        assert signalling.is_same_user_process(outside.pid)
        assert not signalling.is_same_user_process(inside)
        assert stale.marked_with(outside.pid) == "0" * 16
        assert stale.marked_with(inside) == ""
        outside.kill()


def test_a_killed_process_has_ended_when_that_is_said() -> None:
    """`cleanup` searches for leftovers of a session right after it has killed it."""
    big = "import sys; kept = bytearray(200 << 20); print(flush=True); sys.stdin.read()"
    for _ in range(3):
        with subprocess.Popen(
            (sys.executable, "-c", big), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as child:
            assert child.stdout is not None
            child.stdout.readline()
            assert signalling.kill(child.pid, sure=lambda: True)
            assert signalling.started(child.pid) == 0
