"""Running sessions are shown; leftovers of killed ones are removed; the event (telemetry) of each.

Tests of session/cleanup.py.
Tests of session/session_record.py.
Tests of session/telemetry.py: the event of a session.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from pathlib import Path

import pytest

from session.conftest import Project
from support.waiting import until

pytestmark = pytest.mark.needs("bwrap")


def test_status_shows_what_runs(project: Project) -> None:
    project.apart()
    assert project.sandwright("status").stdout == b"no session runs\n"
    running = project.start("sh", "-c", "echo up; exec sleep 50", options=("--time", "60s"))
    assert running.stdout is not None
    assert running.stdout.readline() == b"up\n"
    (session,) = json.loads(project.sandwright("status", "--json").stdout)["sessions"]
    assert session["method"] == "bwrap"
    assert session["pid"] == running.pid
    assert session["project"] == str(project.root)
    assert session["enforced"]["network"] == "none"
    assert session["enforced"]["limits"] == {"time": 60}
    assert set(session["artifacts"]) == {
        "args",
        "launch",
        "launch-init",
        "launch.plan",
        "mounts",
        "seccomp.bpf",
    }
    assert b"bwrap" in project.sandwright("status").stdout
    assert project.sandwright("cleanup").stdout == b"nothing is left\n"
    assert running.poll() is None, "what runs is not cleared up"
    running.terminate()
    running.communicate(timeout=60)
    assert project.sandwright("status").stdout == b"no session runs\n"


def test_cleanup_after_everything_was_killed(project: Project) -> None:
    """Session, launcher and monitor are killed: the placeholder stays in the project until `cleanup`."""
    project.apart()
    before = project.tree()
    running = project.start("sh", "-c", "echo up; exec sleep 50")
    assert running.stdout is not None
    assert running.stdout.readline() == b"up\n"
    placeholders = project.tree() - before
    assert ".git/commondir" in placeholders
    session = project.records()[0].stem
    running.send_signal(signal.SIGSTOP)
    for pid in (*(each for each in _session(session) if each != running.pid), running.pid):
        os.kill(pid, signal.SIGKILL)
    running.communicate(timeout=60)
    until(lambda: not _session(session), "a process is left")
    assert project.tree() == before | placeholders
    said = project.sandwright("cleanup", "--dry-run").stdout.decode()
    assert f"would remove file {project.root}/.git/commondir" in said
    assert "would remove record" in said
    assert project.tree() == before | placeholders
    done = project.sandwright("cleanup")
    assert done.returncode == 0, done.stderr
    assert project.tree() == before
    assert project.records() == []
    assert project.sandwright("cleanup").stdout == b"nothing is left\n"


def _session(session: str) -> list[int]:
    """The processes that name a session in their environment: its launcher, and the monitor of that."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environment = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"SANDWRIGHT_SESSION={session}".encode() in environment:
            found.append(int(entry.name))
    return found


def test_the_event_of_a_session(project: Project) -> None:
    project.environment |= {"TOKEN": "PLANTED", "SANDWRIGHT_TELEMETRY": str(project.home / "events")}
    for script, outcome, status in (
        ("exit 0", "exited", 0),
        ("exit 7", "exited", 7),
        ("kill -TERM $$", "signalled", 143),
    ):
        project.run("sh", "-c", f": PLANTED; {script}")
        text = (project.home / "events").read_text()
        event = json.loads(text.splitlines()[-1])
        assert (event["outcome"], event["status"], event["command"]) == (outcome, status, "sh")
        assert event["method"] == "bwrap"
        assert event["policy"].startswith("sha256:")
        assert all(digest.startswith("sha256:") for digest in event["artifacts"].values())
        assert "PLANTED" not in text
        assert "denials" not in event
        assert event["unseen"] == "no proxy ran, and the kernel reports refusals only to the program"
    assert project.run("sleep", "30", options=("--time", "1s")).returncode == 124
    assert json.loads((project.home / "events").read_text().splitlines()[-1])["outcome"] == "time-up"


@pytest.mark.needs("squid", "curl")
def test_what_the_proxy_refused(project: Project) -> None:
    project.policy.write_text("schema: 1\nmethod: bwrap\nnetwork: {mode: proxy, allow: [good.example]}\n")
    project.environment["SANDWRIGHT_TELEMETRY"] = str(project.home / "events")
    asked = (
        "for n in 1 2; do curl -s -o /dev/null http://bad.example:81/; done; curl -s https://other.example/"
    )
    project.run("sh", "-c", asked)
    event = json.loads((project.home / "events").read_text().splitlines()[-1])
    assert event["denials"] == {"bad.example:81": 2, "other.example:443": 1}
    assert "unseen" not in event


def test_cleanup_of_a_bridge_that_was_killed(project: Project) -> None:
    """Its directory contains the socket of the shims; one whose lock is held is in use."""
    project.apart()
    base = project.home / ".cache/sandwright/sessions/bridge"
    for name in ("0123456789ab", "ba9876543210"):
        (base / name / "public").mkdir(parents=True)
    (base / "lock").touch()
    with (base / "ba9876543210" / "lock").open("wb") as used:
        fcntl.flock(used, fcntl.LOCK_EX)
        said = project.sandwright("cleanup").stdout.decode()
        assert said == f"removed bridge {base}/0123456789ab\n"
        assert sorted(path.name for path in base.iterdir()) == ["ba9876543210", "lock"]


def test_doctor(project: Project) -> None:
    found = json.loads(
        project.sandwright("doctor", "--method", "bwrap", "--method", "seatbelt", "--json").stdout
    )
    states = {each["method"]: each["code"] for each in found["methods"]}
    assert states == {"bwrap": "ready", "seatbelt": "wrong-system"}
    assert found["surroundings"]["kind"]
    shown = project.sandwright("doctor", "--method", "seatbelt").stdout.decode()
    assert "Seatbelt is macOS'; this is linux" in shown


@pytest.mark.parametrize("content", ["", "docker\n"], ids=["no owner", "half an owner"])
def test_the_directory_of_a_run_that_was_killed_while_it_was_made(project: Project, content: str) -> None:
    """A new one may belong to a run that starts."""
    project.apart()
    directory = project.runtime / "sandwright" / "runs" / "sandwright-0123456789"
    for each in (directory.parent.parent, directory.parent, directory):
        each.mkdir(mode=0o700, exist_ok=True)
    if content:
        (directory / "owner").write_text(content)
    os.utime(directory, (later := time.time() + 3600, later))  # however long this test takes
    (directory.parent / "mine").mkdir()
    (directory.parent / "mine" / "file").touch()
    os.utime(directory.parent / "mine", (0, 0))
    assert project.sandwright("cleanup").stdout == b"nothing is left\n"
    os.utime(directory, (0, 0))
    assert f"removed run's directory {directory}" in project.sandwright("cleanup").stdout.decode()
    assert not directory.exists()
    assert (directory.parent / "mine" / "file").exists(), "no run makes a directory like this"
