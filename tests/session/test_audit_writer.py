"""What a run's proxy has refused reaches the audit log, be it told of only when the run has ended."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from sandwright.session import audit_writer
from sandwright.session.audit import AuditLog
from sandwright.session.audit_check import check_audit_log
from sandwright.session.audit_writer import AuditWriter
from sandwright.session.bridged import BridgeLog
from sandwright.session.events import (
    BridgedCall,
    DeniedHost,
    RunDenied,
    RunEnded,
    RunStarted,
)
from support.sessionrecords import CONTEXT

STARTED = RunStarted(method="bwrap", project="/p", command="true", policy="sha256:0", uid=0)


def _writer(folder: Path, notify: Callable[[str], None]) -> AuditWriter:
    return AuditWriter(AuditLog(str(folder / "audit")), "a-session", CONTEXT, notify)


def _refused(counts: Mapping[str, int]) -> list[RunDenied]:
    return [RunDenied(what=DeniedHost(host=host), count=count) for host, count in counts.items()]


def _hosts(folder: Path) -> list[tuple[str, str, Any]]:
    lines = [json.loads(line) for line in (folder / "audit").read_bytes().splitlines()]
    return [(each["event"], each["host"], each.get("count")) for each in lines if "host" in each]


def _never() -> list[RunDenied]:
    raise AssertionError("its log is gone")


def test_what_only_the_last_lines_of_the_proxy_have_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody looked while the run went on, and its log is not asked for again."""
    monkeypatch.setattr(audit_writer, "LOOK", 3600.0)
    said: list[str] = []
    one = _writer(tmp_path, said.append)
    one.begin(STARTED, None, _never)
    hosts = _refused({"late.example:443": 2, "once.example:80": 1})
    one.finish(RunEnded(status=0, seconds=1.0), hosts, tmp_path / "none")
    assert _hosts(tmp_path) == [
        ("refused", "late.example:443", None),
        ("refused", "once.example:80", None),
        ("repeated", "late.example:443", 2),
    ]
    assert [line.partition(":")[0] for line in said] == [f"audit log {tmp_path}/audit"]
    assert check_audit_log(tmp_path / "audit").faults == []


def test_hosts_beyond_the_limit_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_writer, "_MOST_HOSTS", 2)
    one = _writer(tmp_path, lambda _: None)
    one.begin(STARTED, None, list)
    hosts = _refused({f"{number}.example:80": 2 for number in range(5)})
    one.finish(RunEnded(status=0, seconds=1.0), hosts, tmp_path / "none")
    assert [each[:2] for each in _hosts(tmp_path)] == [
        ("refused", "0.example:80"),
        ("refused", "1.example:80"),
        ("repeated", "0.example:80"),
        ("repeated", "1.example:80"),
    ]
    lines = [json.loads(line) for line in (tmp_path / "audit").read_bytes().splitlines()]
    assert [each["hosts"] for each in lines if each["event"] == "omitted"] == [3]


def test_calls_of_other_sessions_are_none_of_this_one(tmp_path: Path) -> None:
    """The bridge writes one log for all; a line that is being written is read when it is whole."""
    file = tmp_path / "bridge.jsonl"
    head = {"event": "refused", "program": "gh", "arguments": ["a"], "why": "no", "time": "now"}
    own, other = (json.dumps({**head, "session": each}) for each in ("own", "other"))
    file.write_text(f"{own}\n")
    log = BridgeLog(file, "own")
    with file.open("a") as end:
        end.write(f"{other}\n{own}\n{own[:9]}")
        end.flush()
        assert [each.what.words() for each in log.new() if isinstance(each.what, BridgedCall)] == ["gh a"]
        end.write(f"{own[9:]}\n")
        end.flush()
        assert len(list(log.new())) == 1
    assert log.refused() == [RunDenied(what=BridgedCall(program="gh a", why="no"), count=2)]
