"""Runs in the background: `run --detach`, `logs`, their retention, and `stop`.

Tests of cli/detaching.py.
Tests of foreground.py: the status of a command for which Python waits.
Tests of session/supervise.py.
"""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from sandwright.session import detached as detached_runs
from sandwright.session.request import RunRequest
from sandwright.signalling import children_of
from session.conftest import WAIT, Project
from support.waiting import until

TRAPPING = "trap '' TERM; echo up; while :; do sleep 0.1; done"


@pytest.fixture
def detached(project: Project) -> Project:
    project.policy.write_text("schema: 1\nmethod: bwrap\nfilesystem: {write: [$PROJECT]}\n")
    return project


def _start(project: Project, script: str, *options: str) -> str:
    ended = project.sandwright("run", "--detach", *options, "--", "sh", "-c", script)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.decode().strip()


def _sessions(project: Project) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(project.sandwright("status", "--json").stdout)["sessions"]
    return found


def _log(project: Project, *words: str) -> str:
    ended = project.sandwright("logs", *words)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.decode()


@pytest.mark.needs("bwrap")
def test_its_output_and_status_are_in_its_log(detached: Project) -> None:
    script = "echo out; echo err >&2; while [ ! -e go ]; do sleep 0.05; done; exit 3"
    assert _start(detached, script, "--name", "web") == "web"
    (found,) = _sessions(detached)
    assert (found["name"], found["command"]) == ("web", "sh")
    until(lambda: _log(detached, "web") == "out\nerr\n", "the output is not in the log")
    assert _log(detached, str(found["session"])) == "out\nerr\n"
    again = detached.sandwright("run", "--detach", "--name", "web", "--", "true")
    assert (again.returncode, again.stdout) == (125, b"")
    assert b"a session named web runs" in again.stderr
    (detached.root / "go").touch()
    assert _log(detached, "--follow", "web").endswith("the command ended with status 3\n")
    assert _sessions(detached) == []
    assert _start(detached, "true", "--name", "web") == "web"


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize(
    ("command", "status", "message"),
    [
        ("/nowhere", 127, "sandbox: /nowhere: not found\n"),
        ("./file", 126, "sandbox: ./file: Permission denied\n"),
    ],
)
def test_a_command_that_cannot_be_executed_is_no_start(
    detached: Project, command: str, status: int, message: str
) -> None:
    """It used to print a name, and end with 0."""
    (detached.root / "file").touch(mode=0o644)
    ended = detached.sandwright("run", "--detach", "--name", "web", "--", command)
    assert (ended.returncode, ended.stdout) == (status, b"")
    assert message in ended.stderr.decode()
    assert _sessions(detached) == []
    assert list((detached.home / ".cache/sandwright/sessions/logs").iterdir()) == []
    for code in (0, 127):
        assert _start(detached, f"exit {code}", "--name", "web") == "web"
        assert _log(detached, "--follow", "web").endswith(f"the command ended with status {code}\n")


@pytest.mark.needs("bwrap")
def test_notes_before_the_start_are_shown(detached: Project) -> None:
    detached.policy.unlink()
    ended = detached.sandwright("run", "--detach", "--name", "web", "--", "true")
    assert (ended.returncode, ended.stdout) == (0, b"web\n")
    assert b"taking preset default" in ended.stderr
    assert b"ended with status" in _log(detached, "--follow", "web").encode()


REPORTS_WHEN_TOLD = """\
import time
from pathlib import Path
from sandwright.cli import main
from sandwright.session import supervise

def wait(*words, report=supervise.report_run, **more):
    Path("over").touch()
    until = time.monotonic() + 180
    while not Path("report").exists() and time.monotonic() < until:
        time.sleep(0.02)
    report(*words, **more)

supervise.report_run = wait
main()
"""


@pytest.mark.needs("bwrap")
def test_who_follows_reads_to_the_end(detached: Project) -> None:
    """This includes the report after the command's end."""
    waiting = replace(detached, forked=(sys.executable, "-P", "-c", REPORTS_WHEN_TOLD))
    _start(waiting, "echo up; while [ ! -e end ]; do sleep 0.05; done", "--name", "web")
    (detached.root / "end").touch()
    until((detached.root / "over").exists, "the command does not end")
    words = [*detached.forked, "logs", "--follow", "web"]
    with subprocess.Popen(words, cwd=detached.root, env=detached.environ, stdout=subprocess.PIPE) as follows:
        assert follows.stdout is not None
        assert follows.stdout.readline() == b"up\n"
        with pytest.raises(subprocess.TimeoutExpired):
            follows.wait(1)
        (detached.root / "report").touch()
        assert follows.communicate(timeout=WAIT)[0] == b"sandwright: the command ended with status 0\n"
    assert _sessions(detached) == []


@pytest.mark.needs("bwrap")
def test_of_two_starts_with_one_name_one_fails(detached: Project) -> None:
    words = [*detached.command, "run", "--detach", "--name", "web", "--", "sleep", "300"]
    starts = [
        subprocess.Popen(
            words, cwd=detached.root, env=detached.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(4)
    ]
    ends = [(*each.communicate(timeout=WAIT), each.returncode) for each in starts]
    assert sorted(code for *_, code in ends) == [0, 125, 125, 125], ends
    assert all(b"web" in error for _, error, code in ends if code)
    assert [each["name"] for each in _sessions(detached)] == ["web"]
    assert detached.sandwright("stop", "web").returncode == 0


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_start_leaves_nothing(detached: Project, number: signal.Signals, code: int) -> None:
    words = [*detached.command, "run", "--detach", "--name", "web", "--", "sleep", "300"]
    start = subprocess.Popen(
        words, cwd=detached.root, env=detached.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    logs = detached.home / ".cache/sandwright/sessions/logs"
    until(lambda: logs.exists() and list(logs.iterdir()) != [], "no log is made")
    start.send_signal(number)
    assert (*start.communicate(timeout=WAIT), start.returncode) == (b"", b"", code)
    time.sleep(0.5)
    until(lambda: _sessions(detached) == [], "the run goes on")
    assert list(logs.iterdir()) == []


@pytest.mark.needs("bwrap")
def test_what_the_start_reports_is_shown(detached: Project) -> None:
    detached.policy.write_text(
        "schema: 1\nmethod: bwrap\nextends: []\nfilesystem: {read: [/usr, /nowhere], write: [$PROJECT]}\n"
    )
    ended = detached.sandwright("run", "--detach", "--name", "web", "--", "sleep", "300")
    assert ended.returncode == 0, ended.stderr
    assert b"/nowhere grants nothing" in ended.stderr
    assert "/nowhere grants nothing" in _log(detached, "web")
    assert detached.sandwright("stop", "web").returncode == 0


@pytest.mark.needs("bwrap")
def test_the_log_is_invisible_inside(detached: Project) -> None:
    _start(detached, "echo secret; sleep 60", "--name", "web")
    (log,) = (detached.home / ".cache/sandwright/sessions/logs").iterdir()
    until(lambda: log.read_text() == "secret\n", "the output is not in the log")
    ended = detached.run("cat", str(log))
    assert ended.returncode != 0
    assert ended.stdout == b""
    assert detached.sandwright("stop", "web").returncode == 0


@pytest.mark.needs("bwrap")
def test_stop_kills_what_ignores_it(detached: Project) -> None:
    name = _start(detached, TRAPPING)
    until(lambda: _log(detached, name) == "up\n", "the program does not run")
    ended = detached.sandwright("stop", "--time", "1s", name)
    assert ended.returncode == 0
    assert b"did not end within 1 s" in ended.stderr
    assert _sessions(detached) == []
    assert detached.run("true").returncode == 0
    until(lambda: _sessions(detached) == [] and detached.records() == [], "a record is left")


@pytest.mark.needs("bwrap")
def test_stop_ends_a_run_in_the_foreground(detached: Project) -> None:
    running = detached.start("sleep", "300")
    try:
        until(lambda: len(_sessions(detached)) == 1, "the run does not start")
        ended = detached.sandwright("stop", str(_sessions(detached)[0]["session"]))
        assert ended.returncode == 0, ended.stderr
        assert running.wait(timeout=WAIT) == 128 + signal.SIGTERM
    finally:
        running.kill()
        running.communicate()


@pytest.mark.needs("bwrap")
def test_it_outlives_the_terminal(detached: Project) -> None:
    """A closed terminal ends the programs of its session (SIGHUP)."""
    words = [*detached.command, "run", "--detach", "--name", "web", "--", "sh", "-c", "echo up; sleep 300"]
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(detached.root)
        os.execvpe(words[0], words, detached.environ)
    try:
        until(lambda: len(_sessions(detached)) == 1, "the run does not start")
        os.waitpid(child, 0)
    finally:
        os.close(terminal)
    time.sleep(0.5)
    assert len(_sessions(detached)) == 1
    assert _log(detached, "web") == "up\n"
    assert detached.sandwright("stop", "web").returncode == 0


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "--name", "x", "--", "true"), "--name names a detached run"),
        (("run", "--detach", "--name", "../x", "--", "true"), "is no name"),
        (("run", "--detach", "--name", "0" * 16, "--", "true"), "is no name"),
        (("run", "--detach", "--set", "network.mode=nope", "--", "true"), "network.mode"),
        (("run", "--detach"), "give a command to run"),
    ],
)
def test_refused(detached: Project, words: tuple[str, ...], message: str) -> None:
    ended = detached.sandwright(*words)
    assert (ended.returncode, ended.stdout) == (125, b""), ended.stderr
    assert message.encode() in ended.stderr
    logs = detached.home / ".cache/sandwright/sessions/logs"
    assert not logs.exists() or list(logs.iterdir()) == []


@pytest.mark.parametrize("command", ["logs", "stop"])
def test_an_unknown_session_is_an_error(detached: Project, command: str) -> None:
    ended = detached.sandwright(command, "web")
    assert ended.returncode not in (0, 1)
    assert b"web" in ended.stderr


@pytest.mark.needs("bwrap")
def test_logs_go_after_a_week(detached: Project) -> None:
    name = _start(detached, "true")
    _log(detached, "--follow", name)
    log, status = sorted((detached.home / ".cache/sandwright/sessions/logs").iterdir())
    os.utime(log, (0, 0))
    other = _start(detached, "true")
    _log(detached, "--follow", other)
    assert not log.exists()
    assert not status.exists()


@pytest.mark.needs("bwrap")
def test_a_killed_supervisor_leaves_nothing(detached: Project) -> None:
    before = detached.tree()
    _start(detached, "sleep 300")
    (found,) = _sessions(detached)
    os.kill(int(str(found["pid"])), signal.SIGKILL)
    assert detached.run("true").returncode == 0
    until(lambda: detached.tree() == before, "something is left in the project")
    until(lambda: detached.records() == [], "a record is left")


@pytest.mark.needs("bwrap")
def test_cleanup_finds_what_a_killed_launcher_and_its_monitor_left(detached: Project) -> None:
    """The process that waited for them removed the record, by which placeholders are found."""
    before = detached.tree()
    _start(detached, "sleep 300")
    (found,) = _sessions(detached)
    (launcher,) = children_of(int(str(found["pid"])))
    (monitor,) = children_of(launcher)
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in (monitor, launcher):
            os.kill(pid, number)
    until(lambda: _sessions(detached) == [], "it does not end")
    assert detached.tree() != before, "they were killed too late"
    assert b".bash_login" in detached.sandwright("cleanup").stdout
    assert detached.tree() == before
    assert detached.records() == []


@pytest.mark.needs("bwrap")
def test_uninstall_refuses_while_it_runs(detached: Project) -> None:
    started = detached.sandwright("run", "--detach", "--name", "web", "--", "sleep", "300")
    assert started.returncode == 0, started.stderr
    refused = detached.sandwright("uninstall", "--yes")
    assert refused.returncode == 13
    assert b"sessions run" in refused.stderr
    assert detached.sandwright("stop", "web").returncode == 0
    assert detached.sandwright("uninstall", "--yes").returncode == 0
    assert not (detached.home / ".cache/sandwright").exists()


def test_a_bug_before_the_start_is_no_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The child ends with 125, and never returns into the caller's code."""
    for name, variable in (("home", "HOME"), ("run", "XDG_RUNTIME_DIR")):
        (tmp_path / name).mkdir(mode=0o700)
        monkeypatch.setenv(variable, str(tmp_path / name))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    written: list[str] = []
    assert detached_runs.start(RunRequest(["true"]), lambda: 1 // 0, written.append) == 125
    assert written == []
    assert "ZeroDivisionError" in capfd.readouterr().err
