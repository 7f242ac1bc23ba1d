"""A bubblewrap whose launcher is gone is found and ended; one with a launcher is not.

Tests of methods/bwrap/backend.py: leftovers.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandwright.errors import HostError
from sandwright.methods import registry
from sandwright.methods.contract import Leftover
from sandwright.methods.shared.launched import status_numbers
from support.waiting import until

pytestmark = pytest.mark.needs("bwrap")


def _first(bwrap: int) -> int:
    children = Path(f"/proc/{bwrap}/task/{bwrap}/children").read_text().split()
    return int(children[0]) if children else 0


def _parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[1])


def _found() -> set[str]:
    return {each.name for each in registry.backend("bwrap").leftovers(())}


@contextlib.contextmanager
def _waiting(*, whole_pipe: bool, program: str = "bwrap") -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A bubblewrap that waits for its launcher, and its process 1."""
    read, write = os.pipe()
    words = ("--ro-bind", "/", "/", "--unshare-pid", "--json-status-fd", "2", "--block-fd", "0", "--", "true")
    given = os.open(f"/proc/self/fd/{read}", os.O_RDWR if whole_pipe else os.O_RDONLY)
    waiting = subprocess.Popen(
        ("bwrap", *words), executable=program, stdin=given, stdout=given, stderr=subprocess.DEVNULL
    )
    handle = -1
    try:
        until(lambda: _first(waiting.pid) != 0, "bubblewrap has no child")
        handle = os.pidfd_open(first := _first(waiting.pid))
        yield waiting, first
    finally:
        waiting.kill()
        waiting.wait()
        with contextlib.suppress(ProcessLookupError, OSError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        for each in {read, write, given, handle} - {-1}:
            os.close(each)


def test_one_that_waits_for_nobody_is_ended() -> None:
    """It starts as from a launcher: it can write to the pipe that it reads, whose end does not release it."""
    with _waiting(whole_pipe=True) as (bwrap, first):
        assert str(first) not in _found(), "its bubblewrap is there"
        bwrap.kill()
        bwrap.wait()
        until(lambda: _is_found_or_ended(first), "it is not found")
        with contextlib.suppress(HostError):
            registry.backend("bwrap").remove(Leftover("bwrap", "process", str(first)))
        until(lambda: _has_ended(first), "it is still there")


def _has_ended(process: int) -> bool:
    return not Path(f"/proc/{process}/exe").exists()


def _is_found_or_ended(first: int) -> bool:
    """Only a `cleanup` ends it, perhaps one of a test that runs at the same time."""
    return str(first) in _found() or _has_ended(first)


def test_one_whose_bubblewrap_has_another_name_is_not(tmp_path: Path) -> None:
    """bubblewrap started from memory has this name (`memfd:bwrap`)."""
    program = shutil.copy(str(shutil.which("bwrap")), tmp_path / "memfd:bwrap")
    with _waiting(whole_pipe=True, program=str(program)) as (bwrap, first):
        assert str(first) not in _found()
        bwrap.kill()
        bwrap.wait()
        until(lambda: _is_found_or_ended(first), "it is not found")


def test_one_that_another_program_can_let_go_is_not() -> None:
    with _waiting(whole_pipe=False) as (bwrap, first):
        bwrap.kill()
        bwrap.wait()
        until(lambda: _parent(first) != bwrap.pid, "it has no other parent")
        assert str(first) not in _found()
        with pytest.raises(HostError):
            registry.backend("bwrap").remove(Leftover("bwrap", "process", str(first)))
        assert Path(f"/proc/{first}").exists()


def test_a_process_may_call_itself_what_it_likes() -> None:
    """A name that is not valid text doesn't prevent `cleanup` from examining the other processes."""
    named = (
        "import ctypes, sys; ctypes.CDLL(None).prctl(15, b'\\xff\\xfe'); print(flush=True); sys.stdin.read()"
    )
    words = (sys.executable, "-c", named)
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        assert status_numbers(process.pid, b"Uid") == [os.getuid()] * 4
        process.communicate()
