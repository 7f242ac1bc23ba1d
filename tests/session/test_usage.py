"""The resource use of a session's processes, as `sandwright status` shows it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from sandwright.session.usage import usage_of
from session.conftest import WAIT, Project
from session.jobs import place
from session.test_keys import SOME
from support.waiting import until

HOLDING = 'x=$(head -c 30000000 /dev/zero | tr "\\0" x); echo up; sleep 1000; echo $x'
DEEP = """
import os, time
for _ in range(200):
    if os.fork():
        break
else:
    print("up", flush=True)
time.sleep(1000)
"""
NOT_BELOW = ("docker",)


@pytest.mark.skipif(os.getuid() != 0, reason="becomes other users")
@pytest.mark.needs("bash", "busybox", "setpriv")
@pytest.mark.parametrize(("method", "uid"), [each for each in SOME if each.values[0] not in NOT_BELOW])
def test_memory_and_time_of_all_processes(method: str, uid: int) -> None:
    with place(method, uid) as at:
        process = subprocess.Popen(
            [*at.before, str(at.launcher), "sh", "-c", HOLDING],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            cwd=at.root,
            env=dict(at.environ),
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"up\n"
            # While the shell forks, half of its memory belongs to a child that may not be listed yet.
            until(
                lambda: (each := usage_of(process.pid)) is not None and each.memory > 30_000_000,
                "less memory than the command holds",
            )
            found = usage_of(process.pid)
            assert found is not None
            assert found.memory < 1_000_000_000
            assert 0 < found.cpu < WAIT
            assert found.processes >= 3
        finally:
            process.terminate()
            process.communicate(timeout=WAIT)


def test_processes_however_deep() -> None:
    """A program inside determines the depth."""
    words = [sys.executable, "-S", "-c", DEEP]
    with subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"up\n"
            found = usage_of(process.pid)
            assert found is not None
            assert found.processes == 201
        finally:
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.needs("bwrap")
def test_status_shows_them(project: Project) -> None:
    script = 'x=$(head -c 30000000 /dev/zero | tr "\\0" x); touch up; sleep 1000; echo $x'
    assert project.run("sh", "-c", f"{script}", options=("--detach", "--name", "web")).returncode == 0
    until((project.root / "up").exists, "the command has not begun")
    (found,) = json.loads(project.sandwright("status", "--json").stdout)["sessions"]
    assert found["usage"]["memory"] > 30_000_000
    assert b" MiB " in project.sandwright("status").stdout
    assert project.sandwright("stop", "web").returncode == 0
