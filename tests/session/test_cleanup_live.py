"""`cleanup` beside active runs: sessions that begin during its search, or that are invisible from here, stay.

Tests of session/cleanup.py.
Tests of session/stale.py.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sandwright import signalling
from sandwright.documents.record import encode_record
from sandwright.errors import HostError
from sandwright.methods import registry
from sandwright.methods.contract import Leftover
from sandwright.methods.shared import rundirs
from sandwright.policy.facts import persistent_directories
from sandwright.session import cleanup, render_store, stale, state
from session.conftest import SANDWRIGHT, WAIT, Project
from support.sessionrecords import session_record
from support.waiting import until

BEGUN = "import sys; sys.stdin.read()"
OTHER_NAMESPACE = ("unshare", "--pid", "--fork", "--mount-proc")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home and a runtime directory of this test only."""
    for name, path in (("XDG_RUNTIME_DIR", tmp_path / "run"), ("HOME", tmp_path / "home")):
        path.mkdir(mode=0o700)
        monkeypatch.setenv(name, str(path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    return tmp_path


def _record(project: Path, process: subprocess.Popen[bytes], **more: Any) -> str:
    """The record of a session for a process."""
    session = state.new_id()
    state.write(session_record(session, process.pid, project=str(project), **more))
    return session


def _session(**variables: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        (sys.executable, "-c", BEGUN), stdin=subprocess.PIPE, env={**os.environ, **variables}
    )


def test_what_began_after_it_was_found_stays(here: Path) -> None:
    """All facts about a session are checked again before a part of it is removed."""
    session = state.new_id()
    with _session(SANDWRIGHT_SESSION=session) as running:
        state.write(session_record(session, running.pid, project=str(here)))
        until(lambda: stale.marked_with(running.pid) == session, "it has not started")
        for kind, name in (("process", str(running.pid)), ("record", session), ("file", f"{here}/x")):
            assert not cleanup.remove_leftover(Leftover(cleanup.OURS, kind, name, session)), kind
        assert not cleanup.remove_leftover(Leftover("docker", "container", "sandwright-x", session))
        assert running.poll() is None
        assert state.read(session)
        assert cleanup.leftovers() == []
        state.write(session_record(session, running.pid, project=str(here), start=1))
        assert cleanup.remove_leftover(Leftover(cleanup.OURS, "process", str(running.pid), session))
        assert running.wait(WAIT) == -signal.SIGKILL
    assert cleanup.remove_leftover(Leftover(cleanup.OURS, "record", session, session))
    assert not state.read(session)


def test_who_removes_something_of_a_session_has_its_lock(here: Path) -> None:
    with _session() as ended:
        session = _record(here, ended)
        ended.communicate()
    with (
        stale.locked(session),
        pytest.raises(HostError, match="locked by another process"),
        stale.locked(session, within=0.05),
    ):
        pytest.fail("two have it")
    assert stale.forget(session)


def test_a_record_stays_as_long_as_something_it_leads_to(here: Path) -> None:
    """A run's sweep, too, keeps the only record of a killed run's leftovers (S4)."""
    made = here / "placeholder"
    made.mkdir(mode=0o555)
    made.chmod(0o1555)
    with _session() as ended:
        session = _record(here, ended, placeholders=(str(made),))
        ended.communicate()
    assert not stale.forget(session)
    with pytest.raises(HostError, match="stays"):
        cleanup.remove_leftover(Leftover(cleanup.OURS, "record", session, session))
    assert state.read(session)
    made.rmdir()
    assert stale.forget(session)
    assert not state.read(session)


def test_containers_go_before_placeholders_and_records_last(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A running container could create a name that a placeholder protects; only the record names both."""
    made = here / "placeholder"
    made.mkdir(mode=0o555)
    made.chmod(0o1555)
    with _session() as ended, _session() as outlived:
        session = _record(here, ended, placeholders=(str(made),))
        ended.communicate()
        found = {
            name: Leftover(name, "container", f"sandwright-{name}", session) for name in registry.names()
        }
        for each in registry.names():
            monkeypatch.setattr(
                type(registry.backend(each)), "leftovers", lambda self, _going_on: [found[self.name]]
            )
        monkeypatch.setattr(stale, "processes", lambda: {outlived.pid: session})
        monkeypatch.setattr(cleanup, "_GRACE", 0.0)
        kinds = [each.kind for each in cleanup.leftovers() if each.session == session]
        outlived.communicate()
    assert kinds == ["process", *["container"] * len(found), "file", "record"]


def test_a_cache_of_a_project_in_which_a_session_began_stays(here: Path) -> None:
    cache = here / "home/.local/state/sandwright/caches"
    with _session() as running:
        path = Path(persistent_directories(str(here / "home"), str(here))["CACHE"])
        path.mkdir(parents=True)
        assert path.parent == cache
        session = _record(here, running)
        assert not cleanup.remove_leftover(Leftover(cleanup.OURS, "cache", str(path)))
        assert path.exists()
        running.communicate()
    assert stale.forget(session)
    assert cleanup.remove_leftover(Leftover(cleanup.OURS, "cache", str(path)))
    assert not path.exists()


def test_the_rendering_of_a_recorded_session_stays(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds at any age: `cleanup` starts the launcher in it to remove the session's placeholders."""
    monkeypatch.setattr(render_store, "MOST", 0)
    rendered = here / "home/.cache/sandwright/sessions/rendered"
    for name in ("a1", "b2"):
        (rendered / name).mkdir(parents=True)
        os.utime(rendered / name, (0, 0))
    with _session() as ended:
        session = _record(here, ended, directory=str(rendered / "a1"))
        ended.communicate()
    render_store.sweep_renderings("")
    assert [path.name for path in rendered.iterdir()] == ["a1"]
    assert stale.forget(session)
    render_store.sweep_renderings("")
    assert list(rendered.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({}, "running"),
        ({"start": 1}, "ended"),
        ({"pid_namespace": "pid:[1]"}, "elsewhere"),
        ({"boot": "another"}, "ended"),
        ({"boot": "another", "machine": "another"}, "elsewhere"),
        ({"boot": "another", "pid_namespace": "pid:[1]"}, "ended"),
    ],
)
def test_whether_a_recorded_process_runs(change: dict[str, Any], found: str) -> None:
    assert signalling.liveness(dataclasses.replace(signalling.identity(), **change)) == found


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"session": "0123456789abcdef"}', "one key more"])
def test_a_damaged_record_is_ignored(here: Path, damage: str) -> None:
    """docs/state.md says so."""
    session = "0123456789abcdef"
    file = Path(state.write(session_record(session, project=str(here))))
    whole = state.read(session)
    assert whole is not None
    assert whole.project == str(here)
    file.write_text(damage if damage != "one key more" else f'{{"other": 1, {file.read_text()[1:]}')
    assert state.read(session) is None
    assert state.read_all() == []
    assert state.half_written() == []
    os.utime(file, (1, 1))
    runs = damage == "one key more"
    assert state.half_written() == ([] if runs else [str(file)])


def test_a_process_that_can_not_be_looked_at_has_not_ended(here: Path) -> None:
    """No file of /proc can be read without a free descriptor."""
    asking = (
        "import os, resource; from sandwright import signalling\n"
        "own = signalling.identity(); resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))\n"
        "print(signalling.started(own.pid))\n"
    )
    ended = subprocess.run((sys.executable, "-c", asking), capture_output=True, check=False, timeout=WAIT)
    assert here.exists()
    assert ended.returncode != 0
    assert b"Too many open files" in ended.stderr


def test_refusals_of_a_session_that_runs_stay(here: Path) -> None:
    with _session() as running:
        session = _record(here, running)
        file = Path(state.file_of(session)).with_suffix(".denials")
        file.touch()
        os.utime(file, (0, 0))
        assert state.half_written() == []
        running.communicate()
    assert stale.forget(session)
    assert state.half_written() == [str(file)]


def test_the_directory_of_a_run_elsewhere(here: Path) -> None:
    """It belongs to a process in another pid namespace, whose number here is unused or another process's."""
    with rundirs.record_directory("oci", "sandwright-0123456789"):
        directory = here / "run/sandwright/runs/sandwright-0123456789"
        owner = directory / "owner"
        assert list(rundirs.abandoned_directories("oci")) == []
        boot, namespace, machine = owner.read_text().splitlines()[3].split(" ")
        for where, found in (
            (f"{boot} {namespace} {machine}", [directory]),
            (f"{boot} pid:[1] {machine}", []),
            (f"other {namespace} other", []),
            (f"other {namespace} {machine}", [directory]),
        ):
            owner.write_text(f"oci\n1 1\n1 1\n{where}\n")
            assert list(rundirs.abandoned_directories("oci")) == found, where


@pytest.mark.needs("bwrap", "unshare")
@pytest.mark.skipif(os.getuid() != 0, reason="root makes pid namespaces without one of users")
def test_a_run_in_another_pid_namespace_forgets_none_here(project: Project) -> None:
    """`cleanup` and `status` there do not treat it as ended either (L1)."""
    project.apart()
    with project.start("sh", "-c", "echo up; exec sleep 50") as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"up\n"
        (record,) = project.records()
        for words in (("run", "--", "true"), ("cleanup",), ("status",)):
            there = subprocess.run(
                [*OTHER_NAMESPACE, *SANDWRIGHT, *words], capture_output=True, timeout=WAIT, check=False,
                cwd=project.root, env=project.environ, stdin=subprocess.DEVNULL,
            )  # fmt: skip
            assert there.returncode == 0, there.stderr
            assert (
                words[0] == "run" or f"session {record.stem} belongs to another PID" in there.stdout.decode()
            )
            assert project.records() == [record]
        running.terminate()
        running.communicate(timeout=WAIT)
    assert project.records() == []


@pytest.mark.needs("bwrap")
def test_placeholders_are_found_after_another_project_s_run(project: Project, tmp_path: Path) -> None:
    """Launcher and monitor were killed at once (S4)."""
    project.apart()
    other = tmp_path / "home" / "other"
    shutil.copytree(project.root, other)
    before = project.tree()
    with project.start("sh", "-c", "echo up; exec sleep 50") as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"up\n"
        (record,) = project.records()
        assert json.loads(record.read_bytes())["pid"] == running.pid
        running.send_signal(signal.SIGSTOP)
        for pid in sorted(_marked(record.stem) - {running.pid}):
            os.kill(pid, signal.SIGKILL)
        running.kill()
        running.communicate(timeout=WAIT)
    until(lambda: not _marked(record.stem), "a process is left")
    assert project.tree() > before
    assert project.sandwright("run", "--", "true", cwd=other).returncode == 0
    assert project.records() == [record]
    assert project.sandwright("cleanup").returncode == 0
    assert project.tree() == before
    assert project.records() == []


def _marked(session: str) -> set[int]:
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if f"SANDWRIGHT_SESSION={session}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.add(int(entry.name))
        except OSError:
            continue
    return found


@pytest.mark.needs("bwrap")
def test_cleanup_beside_runs_that_begin(project: Project) -> None:
    """Each run ends by itself, with its record, while a leftover keeps `cleanup` busy."""
    project.apart()
    assert project.run("true").returncode == 0
    with _session() as ended:
        session = state.new_id()
        (project.runtime / "sandwright/sessions" / f"{session}.json").write_text(
            encode_record(session_record(session, ended.pid)).decode()
        )
        ended.communicate()
    marked = {**project.environ, "SANDWRIGHT_SESSION": session}
    with subprocess.Popen(("sleep", "100"), env=marked) as left:  # `cleanup` waits for it, then ends it
        with subprocess.Popen([*SANDWRIGHT, "cleanup"], cwd=project.root, env=project.environ) as looking:
            runs = [project.start("sleep", "5") for _ in range(4)]
            assert left.wait(WAIT) == -signal.SIGKILL  # at once: a zombie is still there
            assert looking.wait(WAIT) == 0
        for each in runs:
            _, said = each.communicate(timeout=WAIT)
            assert (each.returncode, said) == (0, b"")
    assert project.records() == []


def test_a_process_that_another_cleanup_ended_is_no_fault() -> None:
    with subprocess.Popen(("true",)) as ended:
        until(lambda: not Path(f"/proc/{ended.pid}/exe").exists(), "it has not ended")
        registry.backend("bwrap").remove(Leftover("bwrap", "process", str(ended.pid)))
    registry.backend("bwrap").remove(Leftover("bwrap", "process", str(ended.pid)))
