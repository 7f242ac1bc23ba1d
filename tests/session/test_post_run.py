"""A native launcher replaces `sandwright run`, and becomes the program for the end of the run.

The launcher is a stand-in without a sandbox, in place of the rendered one.

Tests of session/command_session.py: when Python stays (can_exec_launcher).
Tests of session/post_run.py.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from session.conftest import Project
from session.entries import entry, starting, with_artifacts, write

pytestmark = [pytest.mark.needs("bwrap", "git"), pytest.mark.real_start]

STANDIN = r"""#!/bin/sh
[ "$1" = --run ] || exit 99
after=$(tr '\0' '\n' <"/proc/$$/fd/$2" | sed '1,/^post_run$/d' | { read -r count && head -n "$count"; })
shift 2
"$@"
set -- $?
IFS='
'
[ -n "$after" ] || exit "$1"
exec $after "$@"
"""


@pytest.fixture
def native(project: Project) -> Project:
    """A project whose rendered sandbox is the stand-in."""
    assert project.run("true").returncode == 0
    slot, data = entry(project)
    folder = project.home / "standin"
    folder.mkdir()
    (folder / "launch").write_text(STANDIN)
    (folder / "launch").chmod(0o755)
    (folder / "launch.plan").touch()
    digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    found = {name: f"sha256:{digest}" for name, digest in digests.items()}
    write(project, slot, with_artifacts(starting(data, str(folder / "launch")), str(folder), found))
    return project


def test_it_is_the_same_process(native: Project) -> None:
    """Shells' jobs, `status` and the run's parent know the launcher by its pid."""
    running = native.start("sh", "-c", "echo $PPID $$; read -r x </dev/null; exec sleep 50")
    assert running.stdout is not None
    parent, command = map(int, running.stdout.readline().split())
    assert parent == running.pid
    words = Path(f"/proc/{running.pid}/cmdline").read_bytes()
    assert b"standin/launch" in words
    assert b"python" not in os.fsencode(Path(f"/proc/{running.pid}/exe").readlink())
    (session,) = json.loads(native.sandwright("status", "--json").stdout)["sessions"]
    assert session["pid"] == running.pid
    assert "after" not in session
    running.kill()
    os.kill(
        command, signal.SIGKILL
    )  # processes that hold its standard output, because the stand-in has no sandbox
    running.communicate(timeout=60)
    assert native.sandwright("status").stdout == b"no session runs\n"
    assert len(native.records()) == 1
    assert native.run("true").returncode == 0
    assert native.records() == []


def test_what_is_left_is_named(native: Project) -> None:
    ended = native.run("sh", "-c", "git init -q x; exit 3")
    said = f"sandwright: new or changed while it ran: {native.root}/x/.git: a repository"
    assert ended.returncode == 3
    assert ended.stderr.decode().startswith(said)
    assert native.records() == []
    ended = native.run("sh", "-c", "echo out; exit 0")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"out\n", b"")


def test_signals_are_as_the_caller_has_them(native: Project) -> None:
    """Python ignores SIGPIPE and SIGXFSZ, and children would inherit that."""
    shown = native.run("grep", "Sig", "/proc/self/status").stdout.decode().splitlines()
    fields = dict(line.split(":\t") for line in shown)
    ignored = int(fields["SigIgn"], 16)
    assert not [each for each in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT) if ignored >> each - 1 & 1]
    assert int(fields["SigBlk"], 16) == 0


def test_variables_are_the_callers(native: Project) -> None:
    native.environment["MINE"] = "a\nb"
    said = native.run("env", "-0").stdout.split(b"\0")
    assert b"MINE=a\nb" in said
    assert not [each for each in said if each.startswith(b"PYTHON")]


def test_the_event_is_told_at_the_end(native: Project) -> None:
    file = native.home / "events"
    assert native.run("sh", "-c", "exit 5", options=("--telemetry", str(file))).returncode == 5
    event = json.loads(file.read_text())
    assert (event["outcome"], event["status"], event["rendered"]) == ("exited", 5, "before")
    assert event["command"] == "sh"


def test_no_event_goes_through_a_link(native: Project) -> None:
    """A sandbox of the project that contains the file may have made it."""
    file = native.home / "events"
    file.symlink_to("victim")
    ended = native.run("sh", "-c", "exit 5", options=("--telemetry", str(file)))
    assert (ended.returncode, b"events is a symbolic link to victim" in ended.stderr) == (5, True)
    assert not (native.home / "victim").exists()


def test_a_file_that_cant_be_written_leaves_the_status(native: Project) -> None:
    ended = native.run("sh", "-c", "exit 5", options=("--telemetry", str(native.home)))
    assert ended.returncode == 5
    assert b"cannot write " in ended.stderr


def test_a_launcher_that_is_none(native: Project) -> None:
    """A file that can't be executed starts no command, and leaves no record."""
    launcher = native.home / "standin" / "launch"
    launcher.chmod(0o644)
    ended = native.run("true")
    assert ended.returncode == 125
    assert b"/launch: Permission denied" in ended.stderr
    assert native.records() == []


@pytest.mark.parametrize("variable", ["OTEL_SERVICE_NAME", "PYTHONHOME"])
def test_where_it_stays(native: Project, variable: str) -> None:
    """OpenTelemetry's exporters are in this process; an interpreter may need its home."""
    native.environment[variable] = sys.base_prefix
    running = native.start("sh", "-c", "echo $PPID")
    out, err = running.communicate(timeout=60)
    assert running.returncode == 0, err
    assert int(out) != running.pid
