"""Each wait of the launcher has a time limit (timeout): a process that doesn't answer delays nothing.

Tests of launcher/source/monitor.c.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher import tracing
from launcher.conftest import WAIT
from sandwright.launcher import LAUNCH
from support.launchers import launcher_of
from support.processtrees import children
from support.waiting import until
from support.weakening import LATE, edited

pytestmark = pytest.mark.needs("cc")

CLIENT = """#!/bin/sh
case "$*" in
*"{waits}"*) echo >{directory}/asked; exec sleep 1000 ;;
info*) echo 'memory=true cpu=true pids=true ' ;;
"network inspect"*) exit 1 ;;
esac
"""
"""A stand-in for Docker's client that never answers one request."""


def _rendered(tmp_path: Path, program: Path, method: str, rest: str = "") -> Path:
    (tmp_path / "home/p/.git").mkdir(parents=True)
    text = f"schema: 1\nmethod: {method}\nfilesystem: {{write: [$PROJECT]}}\n{rest}"
    made = launcher_of(text, method, tmp_path / "out", project=tmp_path / "home/p")
    made.write_bytes(program.read_bytes())
    return made


def _engine(tmp_path: Path, environ: dict[str, str], waits: str) -> None:
    """A Docker that delays an answer."""
    (tmp_path / "bin").mkdir()
    client = tmp_path / "bin/docker"
    client.write_text(CLIENT.format(waits=waits, directory=tmp_path))
    client.chmod(0o755)
    environ["PATH"] = f"{tmp_path}/bin:{environ['PATH']}"


def _monitor(launcher: int) -> int:
    return next(each for each in children(launcher) if os.getpgid(each) == each)


def _nobody_has(launcher: Path) -> bool:
    """Whether no process runs this launcher's program."""
    number = launcher.stat().st_ino
    for each in Path("/proc").glob("[0-9]*"):
        try:
            if (each / "exe").stat().st_ino == number:
                return False
        except OSError:
            continue
    return True


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("who", ["launcher", "command"])
def test_a_watch_that_is_stopped(who: str, tmp_path: Path, program: Path, environ: dict[str, str]) -> None:
    """The watch gets another request when the run ends. Without an answer, both watch and run are ended."""
    launcher = _rendered(tmp_path, program, "bwrap")
    with subprocess.Popen(
        [launcher, "sh", "-c", "echo up; read x"], env=environ,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as running:  # fmt: skip
        assert running.stdin is not None
        assert running.stdout is not None
        assert running.stdout.readline() == b"up\n"
        below = children(_monitor(running.pid))
        for each in below:
            threads = len(list(Path(f"/proc/{each}/task").iterdir()))
            if Path(f"/proc/{each}/comm").read_text() == f"{launcher.name}\n" and threads == 1:
                os.kill(each, signal.SIGSTOP)
        if who == "launcher":
            running.kill()
        running.stdin.close()
        status = running.wait(WAIT)
        until(lambda: _nobody_has(launcher), "somebody goes on")
    assert status == (-signal.SIGKILL if who == "launcher" else 137)
    assert [each.name for each in (tmp_path / "home/p").iterdir()] == [".git"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_an_engine_that_does_not_answer_before_the_start(
    number: int, tmp_path: Path, program: Path, environ: dict[str, str]
) -> None:
    _engine(tmp_path, environ, "network create")
    launcher = _rendered(tmp_path, program, "docker", "network: {mode: proxy, allow: [example.com]}\n")
    with subprocess.Popen(
        [launcher, "true"], env=environ, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as running:  # fmt: skip
        until(lambda: (tmp_path / "asked").exists() or running.poll() is not None, "nothing was asked")
        running.send_signal(number)
        began = time.monotonic()
        _, said = running.communicate(timeout=WAIT)
        until(lambda: _nobody_has(launcher), "somebody goes on")
    assert running.returncode == (-number if number == signal.SIGKILL else 128 + number), said
    assert time.monotonic() - began < WAIT * 0.75  # each question has a minute
    assert list((tmp_path / "state/sandwright/runs").iterdir()) == []


@pytest.fixture
def orphans() -> Iterator[None]:
    """During the test, orphans become children of this process, which waits for none of them."""
    tracing.become_subreaper()
    yield
    tracing.become_subreaper(yes=False)


@pytest.mark.usefixtures("orphans")
@pytest.mark.skipif(os.getuid() != 0, reason="its processes are traced as root")
def test_a_watch_that_never_begins(tmp_path: Path, program: Path, environ: dict[str, str]) -> None:
    """A stopped watch stands for one that waits for a dead file system; the launcher is killed meanwhile."""
    _engine(tmp_path, environ, "no question")
    launcher = _rendered(tmp_path, program, "docker")

    def act(run: tracing.Traced) -> bool:
        monitors = [each for each in run.processes if each != run.main and os.getpgid(each) == each]
        watches = [each for monitor in monitors for each in children(monitor)]
        for each in (*watches[:1], *([run.main] if watches else [])):
            os.kill(each, signal.SIGSTOP if each != run.main else signal.SIGKILL)
        return bool(watches)

    found = tracing.run(
        (str(launcher), "true"), environ, tmp_path, tmp_path / "said",
        programs={"launch"}, at=1, act=act, steady=lambda: False,
    )  # fmt: skip
    assert found.acted
    until(lambda: _nobody_has(launcher), "somebody goes on")
    assert list((tmp_path / "state/sandwright/runs").iterdir()) == []


@pytest.mark.needs("bwrap")
def test_a_supervisor_that_begins_late(tmp_path: Path, environ: dict[str, str]) -> None:
    """Messages from before its start also name their sender; otherwise no command would run, silently."""
    late = tmp_path / "late"
    late.write_bytes(edited(LAUNCH, (LATE,)))
    launcher = _rendered(tmp_path, late, "bwrap")
    ended = subprocess.run(
        [launcher, "sh", "-c", "exit 7"], env=environ, stdin=subprocess.DEVNULL,
        capture_output=True, timeout=WAIT, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout, ended.stderr) == (7, b"", b"")
