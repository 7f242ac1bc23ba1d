"""What runs is shown; what was killed is cleared up, never what runs; the event of each session."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from session.conftest import Project, eventually

pytestmark = pytest.mark.needs("bwrap")


def test_status_shows_what_runs(project: Project) -> None:
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
    assert set(session["artifacts"]) == {"args", "launch", "seccomp.bpf", "watch"}
    assert b"bwrap" in project.sandwright("status").stdout
    assert project.sandwright("cleanup").stdout == b"nothing is left\n"
    assert running.poll() is None, "what runs is not cleared up"
    running.terminate()
    running.communicate(timeout=30)
    assert project.sandwright("status").stdout == b"no session runs\n"


def test_cleanup_after_everything_was_killed(project: Project) -> None:
    """The session, its launcher, and what watches both: the cover stays in the project until `cleanup`."""
    before = project.tree()
    running = project.start("sh", "-c", "echo up; exec sleep 50")
    assert running.stdout is not None
    assert running.stdout.readline() == b"up\n"
    (cover,) = project.tree() - before
    assert cover == ".git/commondir"
    session = project.records()[0].stem
    watching = [pid for pid in _session(session) if b"/watch" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    for pid in (*watching, running.pid):
        os.kill(pid, signal.SIGKILL)
    running.communicate(timeout=30)
    eventually(lambda: not _session(session), "a process is left")
    assert project.tree() == before | {cover}
    said = project.sandwright("cleanup", "--dry-run").stdout.decode()
    assert f"would remove file {project.root}/{cover}" in said
    assert "would remove record" in said
    assert project.tree() == before | {cover}
    done = project.sandwright("cleanup")
    assert done.returncode == 0, done.stderr
    assert project.tree() == before
    assert project.records() == []
    assert project.sandwright("cleanup").stdout == b"nothing is left\n"


def _session(session: str) -> list[int]:
    """The processes that name a session in their environment: its launcher, and what watches that."""
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
    assert project.run("sleep", "30", options=("--time", "1s")).returncode == 124
    assert json.loads((project.home / "events").read_text().splitlines()[-1])["outcome"] == "time-up"


def test_doctor(project: Project) -> None:
    found = json.loads(
        project.sandwright("doctor", "--method", "bwrap", "--method", "seatbelt", "--json").stdout
    )
    states = {each["method"]: each["code"] for each in found["methods"]}
    assert states == {"bwrap": "ready", "seatbelt": "wrong-system"}
    assert found["surroundings"]["kind"]
    shown = project.sandwright("doctor", "--method", "seatbelt").stdout.decode()
    assert "Seatbelt is macOS'; this is linux" in shown
