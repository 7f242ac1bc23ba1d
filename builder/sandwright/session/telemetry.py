"""Telemetry: one event for each session: the command, its method and policy, and its end.

The event is a line of JSON, appended to a file that the caller names, and a span where OpenTelemetry's API is
in use. It contains the command's name, but no arguments and no variables.

| field | meaning |
|---|---|
| `event`, `schema` | `sandwright.session`, 1 |
| `session` | its id, as `sandwright status` shows it |
| `began`, `seconds` | time of the start (UTC, RFC 3339), and how long it took |
| `method` | the method that enforced the policy |
| `policy`, `artifacts` | digest of the policy's content; digests of the artifacts by name |
| `preflight` | `ready`: a real sandbox of the method was seen to hide a file on this boot |
| `rendered` | `now`, or `before` |
| `command` | the name of the program |
| `outcome` | `exited`, `signalled`, `time-up`, `refused` (by its launcher), `failed` (nothing was started) |
| `status` | the exit status; null when nothing was started |
| `enforced` | as `sandwright status` shows it: network, writable paths, limits, accepted gaps |
| `denials` | the number of refusals of the session's proxy for each HOST:PORT |
| `unreported` | instead of it: the reason why denials are not reported |
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import import_module

from sandwright.documents.model import plain
from sandwright.outputs import append_output
from sandwright.session.events import DeniedHost, RunDenials, RunDenied, RunEnded
from sandwright.session.session_record import SessionRecord

SCHEMA = 1

Attribute = str | int | float | bool


def _session_event(record: SessionRecord, ended: RunEnded, hosts: RunDenials | None) -> Mapping[str, object]:
    """The event, as the table in this module has it. `hosts` are None where no proxy of the session's ran."""
    return {
        "event": "sandwright.session",
        "schema": SCHEMA,
        "began": datetime.fromtimestamp(record.began, UTC).isoformat(),
        "seconds": round(ended.seconds, 6),
        "session": record.session,
        "method": record.method,
        "policy": record.policy,
        "artifacts": dict(record.artifacts),
        "command": record.command,
        "enforced": plain(record.enforced),
        "preflight": "ready",
        "rendered": record.after.rendered,
        "outcome": _how(ended.status),
        "status": ended.status,
        **_denial_fields(record, ended, hosts),
    }


def _denial_fields(record: SessionRecord, ended: RunEnded, hosts: RunDenials | None) -> Mapping[str, object]:
    """The denials, or the reason why they cannot be reported."""
    if hosts is not None:
        return {
            "denials": {
                each.what.host: each.count
                for each in hosts
                if isinstance(each, RunDenied) and isinstance(each.what, DeniedHost)
            }
        }
    if ended.status is None:
        return {"unseen": "nothing was started"}
    if record.enforced.network == "proxy":
        return {"unseen": f"the proxy of {record.method} runs in a container, which is removed with its log"}
    return {"unseen": "no proxy ran, and the kernel reports refusals only to the program"}


def report_telemetry(record: SessionRecord, ended: RunEnded, hosts: RunDenials | None, *, span: bool) -> None:
    """Append the event to the file that the record names, and create its span. Raise HostError."""
    data = _session_event(record, ended, hosts)
    if record.after.telemetry:
        line = json.dumps(data, sort_keys=True).encode("utf-8", "surrogateescape") + b"\n"
        append_output(record.after.telemetry, line)
    if span:
        _span(record.began, record.began + ended.seconds, data)


def _how(status: int | None) -> str:
    match status:
        case None:
            return "failed"
        case 124:
            return "time-up"
        case 125:
            return "refused"
        case int() if status > 128:
            return "signalled"
        case _:
            return "exited"


def _span(began: float, ended: float, data: Mapping[str, object]) -> None:
    """A span from the session's beginning to its end, where the API is installed."""
    try:
        trace = import_module("opentelemetry.trace")
    except ImportError:
        return
    attributes = {
        f"sandwright.{name}": _attribute(value) for name, value in data.items() if value is not None
    }
    tracer = trace.get_tracer("sandwright")
    span = tracer.start_span("sandwright.session", start_time=int(began * 1e9), attributes=attributes)
    span.end(end_time=int(ended * 1e9))


def _attribute(value: object) -> Attribute:
    """A value as attributes can have it: anything nested is JSON."""
    return value if isinstance(value, str | int | float | bool) else json.dumps(value, sort_keys=True)
