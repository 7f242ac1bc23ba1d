"""The audit log: the lines of runs, its protection from sandboxes, and the detection of a broken chain.

Tests of session/audit.py.
Tests of session/audit_check.py.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sandwright import locking
from sandwright.errors import HostError, UsageError
from sandwright.session import audit
from sandwright.session.audit import MAX_TEXT, AuditLog, line_digest
from sandwright.session.audit_check import check_audit_log
from session.conftest import WAIT, Project
from support.waiting import until


def written(path: Path, *, sessions: int = 1, each: int = 3) -> list[bytes]:
    """A log of some sessions, each with this number of refusals between its start and its end."""
    for number in range(sessions):
        log = AuditLog(str(path))
        log.session = f"session-{number}"
        log.write("start", command="true")
        for at in range(each):
            log.write("refused", by="proxy", host=f"host-{at}:443", count=at)
        log.end(0, 0.1)
        log.close()
    return path.read_bytes().splitlines(keepends=True)


def test_a_whole_log(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    lines = written(path, sessions=2)
    found = check_audit_log(path, head=line_digest(lines[-1][:-1]))
    assert (found.lines, found.sessions, found.faults) == (10, 2, [])
    assert check_audit_log(path, head=found.head).faults == []
    assert check_audit_log(path, head="0" * 64).faults == [
        f"no line has the digest {'0' * 64}: lines were changed, or cut off at the end"
    ]
    assert path.stat().st_mode & 0o777 == 0o600


CHANGES: dict[str, tuple[Callable[[list[bytes]], object], str]] = {
    "a word": (
        lambda lines: lines.__setitem__(2, lines[2].replace(b"host-1", b"host-7")), "line 3 was changed",
    ),
    "what a line says of the one before": (
        lambda lines: lines.__setitem__(2, lines[2].replace(b'"previous": "', b'"previous": "0')),
        "line 3 was changed, and perhaps line 2",
    ),
    "the first line": (
        lambda lines: lines.__setitem__(0, lines[0].replace(b"true", b"evil")), "line 1 was changed",
    ),
    "a line that is none any more": (
        lambda lines: lines.__setitem__(2, b"oh\n"),
        "line 3 does not belong to an audit log: it was changed or inserted",
    ),
    "a line dropped": (lambda lines: lines.pop(2), "number 3 was removed, or changed, before line 3"),
    "two lines dropped": (
        lambda lines: lines.__delitem__(slice(1, 3)),
        "numbers 2 to 3 were removed, or changed, before line 2",
    ),
    "the beginning dropped": (
        lambda lines: lines.__delitem__(slice(0, 2)), "numbers 1 to 2 were removed from the beginning",
    ),
    "two lines swapped": (
        lambda lines: lines.__setitem__(slice(1, 3), [lines[2], lines[1]]),
        "line 3 was moved or inserted: its number is 2",
    ),
    "the end cut": (
        lambda lines: lines.pop(), "session session-0 has no end: it was killed, or lines were cut off",
    ),
    "half of a line cut": (
        lambda lines: lines.__setitem__(4, lines[4][:20]), "line 5 is cut off in the middle",
    ),
    "a line inserted": (
        lambda lines: lines.insert(2, lines[2].replace(b"host-1", b"host-7")),
        "line 4 was moved or inserted: its number is 3",
    ),
    "the line break of the last one": (
        lambda lines: lines.__setitem__(4, lines[4][:-1]), "line 5 is cut off in the middle",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("change", "fault"), CHANGES.values(), ids=CHANGES)
def test_what_was_done_to_a_log_is_told(
    change: Callable[[list[bytes]], object], fault: str, tmp_path: Path
) -> None:
    path = tmp_path / "audit"
    lines = written(path)
    change(lines)
    path.write_bytes(b"".join(lines))
    assert fault in check_audit_log(path).faults


def test_any_byte_of_any_line_but_the_last_is_missed(tmp_path: Path) -> None:
    """The last line has no successor: its digest is the one that the run printed."""
    path = tmp_path / "audit"
    lines = written(path, each=1)
    whole, head = b"".join(lines), line_digest(lines[-1][:-1])
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert check_audit_log(path, head=head).faults, at


def test_a_session_that_goes_on_is_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    log = AuditLog(str(path))
    log.session = "now"
    log.write("start")
    log.close()
    found = check_audit_log(path, runs="now".__eq__)
    assert (found.faults, found.notes) == ([], ["session now is still running"])


def test_runs_at_the_same_time_write_one_chain(tmp_path: Path) -> None:
    path = tmp_path / "audit"

    def session(number: int) -> None:
        log = AuditLog(str(path))
        log.session = str(number)
        log.write("start")
        for at in range(20):
            log.write("refused", at=at)
        log.end(0, 0.0)
        log.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(session, range(8)))
    found = check_audit_log(path)
    assert (found.lines, found.sessions, found.faults) == (8 * 22, 8, [])


def test_texts_of_a_sandbox_are_cut_and_escaped(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    log = AuditLog(str(path))
    log.session = "it"
    log.write("refused", host='x"\n{"number": 9}\u2028\udc80' + "y" * 5000, words=["z" * 5000] * 500)
    assert path.read_bytes().count(b"\n") == 1
    data = json.loads(path.read_bytes())
    assert data["host"].endswith("(5018 characters)")
    assert len(data["words"]) == 64
    assert all(len(each) < MAX_TEXT + 40 for each in data["words"])
    log.write("refused", words=["\N{PILE OF POO}" * 5000] * 500)
    assert all(len(line) < audit.MAX_LINE for line in path.read_bytes().splitlines())
    log.close()
    assert check_audit_log(path).lines == 2


def test_no_session_fills_a_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "MAX_LINES", 5)
    lines = written(tmp_path / "audit", each=100)
    events = [json.loads(line)["event"] for line in lines]
    assert events == ["start", *["refused"] * 4, "omitted", "exit"]
    assert json.loads(lines[-2])["count"] == 96


def test_what_can_not_be_a_log(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    (tmp_path / "link").symlink_to(path)
    (tmp_path / "notes").write_text("what I wrote\n")
    (tmp_path / "notes").chmod(0o600)
    os.mkfifo(tmp_path / "pipe", 0o600)
    written(path)
    os.link(path, tmp_path / "hard")
    for name, fault in {
        "link": "cannot open the audit log",
        "notes": "does not belong to an audit log",
        "pipe": "is no regular file",
        "hard": "has another name elsewhere",
        "none/audit": "cannot open the audit log",
    }.items():
        with pytest.raises(UsageError, match=fault):
            AuditLog(str(tmp_path / name))
    (tmp_path / "hard").unlink()
    path.chmod(0o620)
    with pytest.raises(UsageError, match="may be read or written by others"):
        AuditLog(str(path))
    assert (tmp_path / "notes").read_text() == "what I wrote\n"


def test_a_log_that_somebody_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "PATIENCE", 0.05)
    path = tmp_path / "audit"
    written(path)
    with locking.exclusive(path, within=0), pytest.raises(HostError, match="another process has locked"):
        AuditLog(str(path))


@pytest.mark.needs("bwrap")
def test_a_run_writes_it_and_nothing_inside_reaches_it(project: Project) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:  # inside, the host's /tmp does not exist
        _nothing_inside_reaches(Path(folder, "logs", "audit"), project)


def _nothing_inside_reaches(log: Path, project: Project) -> None:
    log.parent.mkdir()
    (log.parent / "beside").write_text("is there\n")
    tries = (
        f"cat {log.parent}/beside {log}; echo x >> {log}; rm -f {log}; mv {log.parent} {log.parent}2; exit 7"
    )
    done = project.run("sh", "-c", tries, options=("--audit", str(log)))
    assert (done.returncode, done.stdout) == (7, b"is there\n"), done.stderr
    lines = log.read_bytes().splitlines()
    start, end = map(json.loads, lines)
    assert (start["event"], start["command"], start["project"]) == ("start", "sh", str(project.root))
    assert (end["event"], end["status"], end["previous"]) == ("exit", 7, line_digest(lines[0]))
    assert f"2 lines, head {line_digest(lines[1])}".encode() in done.stderr
    assert project.sandwright("audit", str(log), "--head", line_digest(lines[1])).returncode == 0
    log.write_bytes(b"\n".join([lines[0].replace(b'"sh"', b'"ls"'), lines[1], b""]))
    found = project.sandwright("audit", str(log))
    assert (found.returncode, b"line 1 was changed" in found.stderr) == (8, True)


@pytest.mark.needs("bwrap", "unshare")
def test_a_refusal_is_written_when_it_happens(project: Project) -> None:
    log, end = project.home / "audit", project.root / "end"
    script = "unshare --user true; unshare --user true; until [ -e end ]; do sleep 0.1; done"
    with project.start("sh", "-c", script, options=("--audit", str(log))) as running:
        until(lambda: log.exists() and b'"refused"' in log.read_bytes(), "nothing is written")
        refused = json.loads(log.read_bytes().splitlines()[1])
        assert running.poll() is None
        end.touch()
        _, said = running.communicate(timeout=WAIT)
    assert {name: refused[name] for name in ("event", "by", "kind", "what", "error", "field")} == {
        "event": "refused",
        "by": "filter",
        "kind": "syscall",
        "what": "unshare",
        "error": "EPERM",
        "field": "process.seccomp",
    }
    events = [json.loads(line) for line in log.read_bytes().splitlines()]
    assert [each["event"] for each in events] == ["start", "refused", "repeated", "exit"], said
    assert events[2]["count"] == 2
    assert check_audit_log(log).faults == []


@pytest.mark.needs("bwrap")
def test_a_log_where_the_sandbox_may_write_is_refused(project: Project) -> None:
    inside = project.root / "audit"
    done = project.run("true", options=("--audit", str(inside)))
    assert (done.returncode, b"which the sandbox may write" in done.stderr) == (125, True)
    assert not inside.exists()
    (project.home / "way").symlink_to(project.root)
    assert project.run("true", options=("--audit", str(project.home / "way" / "audit"))).returncode == 125
    assert not inside.exists()
