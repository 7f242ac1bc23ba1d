"""What a run's proxy has refused reaches the audit log, be it told of only when the run has ended."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sandwright.session import audit_writer
from sandwright.session.audit import AuditLog
from sandwright.session.audit_check import check
from sandwright.session.audit_writer import AuditWriter
from sandwright.session.bridged import BridgeLog
from sandwright.session.run import CommandSession


def _session(folder: Path) -> CommandSession:
    """One without a launcher of ours: only a proxy tells of it."""
    record = {"method": "bwrap", "project": str(folder), "command": "true", "policy": "sha256:0"}
    made = SimpleNamespace(
        log=AuditLog(str(folder / "audit")),
        id="a-session",
        native=False,
        record=record,
        began=0.0,
        denials={"file": str(folder / "none"), "decided": {}},
    )
    return cast("CommandSession", made)


def _hosts(folder: Path) -> list[tuple[str, str, Any]]:
    lines = [json.loads(line) for line in (folder / "audit").read_bytes().splitlines()]
    return [(each["event"], each["host"], each.get("count")) for each in lines if "host" in each]


def _never() -> Mapping[str, int]:
    raise AssertionError("its log is gone")


def test_what_only_the_last_lines_of_the_proxy_have_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody looked while the run went on, and its log is not asked for again."""
    monkeypatch.setattr(audit_writer, "LOOK", 3600.0)
    said: list[str] = []
    one = AuditWriter(_session(tmp_path), said.append)
    one.begin(None, _never)
    one.finish(0, {"late.example:443": 2, "once.example:80": 1})
    assert _hosts(tmp_path) == [
        ("refused", "late.example:443", None),
        ("refused", "once.example:80", None),
        ("repeated", "late.example:443", 2),
    ]
    assert [line.partition(":")[0] for line in said] == [f"audit log {tmp_path}/audit"]
    assert check(tmp_path / "audit").faults == []


def test_hosts_beyond_the_limit_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_writer, "_MOST_HOSTS", 2)
    one = AuditWriter(_session(tmp_path), lambda _: None)
    one.begin(None, dict)
    one.finish(0, {f"{number}.example:80": 2 for number in range(5)})
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
    head = {"event": "refused", "program": "gh", "arguments": ["a"], "why": "no", "time": 1}
    own, other = (json.dumps({**head, "session": each}) for each in ("own", "other"))
    file.write_text(f"{own}\n")
    log = BridgeLog(file, "own")
    with file.open("a") as end:
        end.write(f"{other}\n{own}\n{own[:9]}")
        end.flush()
        assert [each["program"] for each in log.new()] == ["gh"]
        end.write(f"{own[9:]}\n")
        end.flush()
        assert len(list(log.new())) == 1
    assert dict(log.refused) == {("gh a", "no"): 2}
