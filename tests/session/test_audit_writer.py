"""Denials by a run's proxy reach the audit log, even if they are reported only after its end.

Tests of session/audit_writer.py.
Tests of session/bridged.py.
Tests of session/refused_hosts.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sandwright.session import follower, refused_hosts
from sandwright.session.audit import AuditLog
from sandwright.session.audit_check import check_audit_log
from sandwright.session.audit_writer import AuditWriter
from sandwright.session.bridged import BridgeLog
from sandwright.session.events import (
    BridgedCall,
    RunDenied,
    RunEnded,
    RunStarted,
)
from sandwright.session.refused_hosts import RefusedHosts
from support.sessionrecords import CONTEXT

STARTED = RunStarted(method="bwrap", project="/p", command="true", policy="sha256:0", uid=0)


def _writer(folder: Path, notify: Callable[[str], None]) -> AuditWriter:
    return AuditWriter(AuditLog(str(folder / "audit")), "a-session", CONTEXT, notify)


def _hosts(folder: Path) -> list[tuple[str, str, Any]]:
    lines = [json.loads(line) for line in (folder / "audit").read_bytes().splitlines()]
    return [(each["event"], each["host"], each.get("count")) for each in lines if "host" in each]


def _decided(log: Path, *hosts: str) -> None:
    """Add lines as squid writes them."""
    fields = {"time": 1.0, "milliseconds": 1, "method": "GET", "port": "80", "status": 403, "reason": "host"}
    fields |= {"result": "TCP_DENIED", "address": "-", "sent": 1, "received": 1}
    with log.open("a") as file:
        file.writelines(f"{json.dumps({**fields, 'host': host})}\n" for host in hosts)


def test_what_only_the_last_lines_of_the_proxy_have_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log was not read during the run, and is not requested again."""
    monkeypatch.setattr(follower, "LOOK", 3600.0)
    said: list[str] = []
    one = _writer(tmp_path, said.append)
    one.begin(STARTED)
    hosts = RefusedHosts(tmp_path / "log")
    with follower.follow_run([one.write], said.append, None, hosts):
        _decided(tmp_path / "log", "late.example", "once.example", "late.example")
    total = hosts.total()
    (tmp_path / "log").unlink()
    one.finish(RunEnded(status=0, seconds=1.0), total, tmp_path / "none")
    assert _hosts(tmp_path) == [
        ("refused", "late.example:80", None),
        ("refused", "once.example:80", None),
        ("repeated", "late.example:80", 2),
    ]
    assert [line.partition(":")[0] for line in said] == [f"audit log {tmp_path}/audit"]
    assert check_audit_log(tmp_path / "audit").faults == []


def test_hosts_beyond_the_limit_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refused_hosts, "_MOST_HOSTS", 2)
    one = _writer(tmp_path, lambda _: None)
    one.begin(STARTED)
    hosts = RefusedHosts(tmp_path / "log")
    names = [f"{number}.example" for number in range(5)]
    _decided(tmp_path / "log", *names, *names)
    with follower.follow_run([one.write], lambda _: None, None, hosts):
        pass
    one.finish(RunEnded(status=0, seconds=1.0), hosts.total(), tmp_path / "none")
    assert [each[:2] for each in _hosts(tmp_path)] == [
        ("refused", "0.example:80"),
        ("refused", "1.example:80"),
        ("repeated", "0.example:80"),
        ("repeated", "1.example:80"),
    ]
    lines = [json.loads(line) for line in (tmp_path / "audit").read_bytes().splitlines()]
    assert [each["count"] for each in lines if each["event"] == "omitted"] == [6]


def _requested(log: Path, *requests: tuple[str, str, str]) -> None:
    """Add lines as the inspecting proxy writes them: method, path, and reason."""
    fields = {"time": 1.5, "milliseconds": 3, "host": "api.example:443", "state": "--", "masked": 0}
    with log.open("a") as file:
        for method, path, reason in requests:
            fields["tool"] = "-"
            line = {"method": method, "path": path, "reason": reason, "status": 200, "sent": 7, "received": 9}
            file.write(f"{json.dumps({**fields, **line})}\n")


def test_allowed_requests_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them is written, including the last; refused ones once, with their count."""
    monkeypatch.setattr(follower, "LOOK", 3600.0)
    one = _writer(tmp_path, lambda _: None)
    one.begin(STARTED)
    log = tmp_path / "requests"
    hosts = RefusedHosts(tmp_path / "log", log)
    with follower.follow_run([one.write], lambda _: None, None, hosts):
        _requested(log, ("GET", "/a", "-"), ("GET", "/a", "-"), ("PUT", "/a", "rule"), ("PUT", "/a", "rule"))
    _requested(log, ("POST", "/late", "-"))
    one.finish(RunEnded(status=0, seconds=1.0), hosts.total(), tmp_path / "none")
    lines = [json.loads(line) for line in (tmp_path / "audit").read_bytes().splitlines()]
    found = [(each["event"], each["method"], each["path"]) for each in lines if each.get("by") == "proxy"]
    assert found == [
        ("request", "GET", "/a"),
        ("request", "GET", "/a"),
        ("refused", "PUT", "/a"),
        ("repeated", "PUT", "/a"),
        ("request", "POST", "/late"),
    ]
    first = next(each for each in lines if each["event"] == "request")
    assert (first["host"], first["status"], first["sent"], first["received"]) == (
        "api.example:443",
        200,
        7,
        9,
    )
    assert check_audit_log(tmp_path / "audit").faults == []


def test_allowed_requests_are_not_collected_for_nobody(tmp_path: Path) -> None:
    log = tmp_path / "requests"
    hosts = RefusedHosts(tmp_path / "log", log)
    _requested(log, ("GET", "/a", "-"), ("PUT", "/a", "rule"))
    assert [type(each).__name__ for each in hosts.total()] == ["RunDenied"]


def test_calls_of_other_sessions_are_none_of_this_one(tmp_path: Path) -> None:
    """The bridge writes one log for all; an incomplete line is read when it is complete."""
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
