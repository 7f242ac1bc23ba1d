"""Our own records: a written record can be read again, and nothing else is accepted.

Tests of documents/record.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sandwright.documents.record import decode_record, encode_record
from sandwright.egress.proxy_plan import ProxyPlan, SquidAccount
from sandwright.session.absent_guard import GuardRecord
from sandwright.session.events import (
    BridgedCall,
    DeniedCall,
    DeniedConnection,
    DeniedHost,
    DeniedMessage,
    DeniedRequest,
    RunCalled,
    RunDenied,
    RunEnded,
    RunEvent,
    RunExecuted,
    RunMessage,
    RunOmitted,
    RunStarted,
    decode_event,
    encode_event,
    read_events,
)
from sandwright.session.render_cache import SandboxStart
from sandwright.session.trust import Loosened
from sandwright.signalling import identity
from sandwright_kubernetes.records import JobRecord
from support.sessionrecords import session_record

LOOSENED = Loosened("/p/\udcff", "0", ("reads ~/.ssh",))
PROXY = ProxyPlan("conf", {"page": "x"}, ("squid",), SquidAccount(1, 2), None, "00ff")
START = SandboxStart(
    terminal_argv=("a",), terminal="passed", proxy=PROXY, needs_bridge=True, changes_platform="",
    notes=("n",), default_policy="", loosened=LOOSENED, retired=("w",),
    argv0_override=(), unsigned="", mcp_tools=("a",),
)  # fmt: skip
RECORDS: list[Any] = [
    session_record("0" * 16),
    START,
    LOOSENED,
    GuardRecord(process=identity(), policy="/p", absent=("/a",)),
    JobRecord("s", "j", "n", "k", "c", identity()),
]
EVENTS: list[RunEvent] = [
    RunStarted(method="bwrap", project="/p", command="true", policy="sha256:0", uid=0),
    RunDenied(what=DeniedCall(architecture=1, number=2, error=1, filter=0, socket="local"), count=3),
    RunDenied(what=DeniedConnection(path="/\u00ff", error=13)),
    RunDenied(what=DeniedHost(host="a:1", listed=True)),
    RunDenied(what=DeniedRequest(host="a:443", method="GET", path="/x", reason="rule")),
    RunDenied(what=DeniedMessage(message="delete", reason="tool")),
    RunMessage(method="tools/call", tool="search"),
    RunDenied(what=BridgedCall(program="gh", arguments=("a",), why="no")),
    RunOmitted(count=0),
    RunCalled(what=BridgedCall(program="gh", status=0)),
    RunExecuted(command="true"),
    RunEnded(status=None, seconds=0.5),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda each: type(each).__name__)
def test_a_record_is_read_as_it_was_written(record: Any) -> None:
    text = encode_record(record)
    assert text.isascii()
    assert decode_record(type(record), text) == record


@pytest.mark.parametrize("record", RECORDS, ids=lambda each: type(each).__name__)
def test_nothing_else_is_read(record: Any) -> None:
    text = encode_record(record)
    for damaged in (b"", text[:-1], b"[]", b'{"one": 1, ' + text[1:], text.replace(b'"', b"", 2), b"{}"):
        with pytest.raises(ValueError, match=r"."):
            decode_record(type(record), damaged)


@pytest.mark.parametrize("event", EVENTS, ids=lambda each: type(each).__name__)
def test_an_event_is_read_as_it_was_written(event: RunEvent, tmp_path: Path) -> None:
    (tmp_path / "events").write_bytes(encode_event(event) * 2)
    assert list(read_events(tmp_path / "events")) == [event, event]


@pytest.mark.parametrize(
    "line",
    [
        "", "x", "[]", "{}", '{"event": "other"}', '{"event": 1}', '{"event": "omitted"}',
        '{"event": "omitted", "count": "1"}', '{"event": "omitted", "count": true}',
        '{"event": "omitted", "count": 1, "more": 1}', '{"event": "omitted", "count": 1, "count": 2}',
        '{"event": "refused", "what": {}}', '{"event": "refused", "what": {"path": "/x", "host": "y"}}',
    ],
)  # fmt: skip
def test_a_line_that_is_no_event(line: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_event(line)


@dataclass
class _Postponed:
    field: int


def test_a_module_that_postpones_annotations_is_told_at_once() -> None:
    with pytest.raises(TypeError, match="postpones the annotations of _Postponed"):
        decode_record(_Postponed, b'{"field": 1}')
