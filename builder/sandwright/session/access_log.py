r"""Reads the launcher's recording of a run: lines of JSON (`launcher/source/recorded.c`).

| line | content |
|---|---|
| `path` | as it was named, made absolute |
| `real`, `found`, `kinds` | the resolved path, if different; the kinds of files; the kinds of access |
| `connect`, `send`, `listen` | `tcp`, `udp`, `unix` or `other`; `address`, and `port` |
| `call` | the number of a system call that `strict` doesn't allow |
| `unresolved` | the number of calls with an unknown path |
| `host`, `port`, `refused` | the request to the proxy, and the reason of a refusal; empty: allowed |
| `request`, `method`, `path`, `tool`, `refused` | the same of a request to a host of `network.http` |
| `end`, `calls`, `dropped` | the last line: the number of calls with paths, and of calls without room |

Names are those of programs inside. A byte that is no printable ASCII is `\u00XX`.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from sandwright.documents import strictjson
from sandwright.errors import UsageError
from sandwright.reading import open_named

KINDS = ("read", "write", "create", "exec", "list", "look", "remove")
"""The kind of access to a path. `look`: only its existence and kind were requested."""

CHANGES = frozenset({"write", "create", "remove"})


@dataclass(frozen=True)
class Access:
    """An access to a path. `path` is as it was named, `real` the path that it led to: equal without links."""

    path: str
    real: str
    found: str
    kinds: frozenset[str]


@dataclass(frozen=True)
class Contact:
    """An address: `action` is connect, send or listen, `type` tcp, udp, unix or other."""

    action: str
    type: str
    address: str
    port: int


@dataclass(frozen=True)
class RequestedHost:
    """A host in a request to the proxy, and the reason of its refusal; empty if it was allowed."""

    host: str
    port: int
    refused: str


@dataclass(frozen=True)
class RecordedRequest:
    """A request to a host of `network.http`. `host` is HOST:PORT, `path` without a query.

    `method` is empty for a WebSocket; `tool` and `refused` are those of `egress.request_log.RequestDecision`.
    """

    host: str
    method: str
    path: str
    tool: str
    refused: str


@dataclass(frozen=True)
class AccessLog:
    """The accesses of one run. `calls` are numbers of system calls; `seen` counts calls with paths."""

    accesses: tuple[Access, ...] = ()
    contacts: tuple[Contact, ...] = ()
    calls: frozenset[int] = frozenset()
    hosts: frozenset[RequestedHost] = frozenset()
    requests: frozenset[RecordedRequest] = frozenset()
    seen: int = 0
    dropped: int = 0
    unresolved: int = 0
    whole: bool = False


@dataclass(frozen=True)
class RecordedCall:
    """A system call that `strict` doesn't allow."""

    number: int


@dataclass(frozen=True)
class UnresolvedCalls:
    """The number of calls with an unknown path."""

    count: int


@dataclass(frozen=True)
class LogEnd:
    """The last line of a log."""

    calls: int
    dropped: int


Entry = Access | Contact | RecordedCall | RequestedHost | RecordedRequest | UnresolvedCalls | LogEnd


def read_access_log(file: Path) -> AccessLog:
    """The record in a file. Raise UsageError if it is malformed."""
    try:
        with open_named(file) as opened:
            return parse_access_log(io.TextIOWrapper(opened, encoding="ascii"))
    except OSError as fault:
        raise UsageError(f"cannot read {file}: {fault.strerror}") from fault
    except (ValueError, KeyError, TypeError, AttributeError) as fault:
        raise UsageError(f"{file} is no record of a run: {fault}") from fault


def parse_access_log(lines: Iterable[str]) -> AccessLog:
    """Parse a log's lines. Raise ValueError, KeyError, TypeError or AttributeError if malformed."""
    found = list(entries(lines))
    ends = [each for each in found if isinstance(each, LogEnd)]
    accesses = [each for each in found if isinstance(each, Access)]
    return AccessLog(
        tuple(sorted(accesses, key=lambda each: (each.path, each.real))),
        tuple(each for each in found if isinstance(each, Contact)),
        frozenset(each.number for each in found if isinstance(each, RecordedCall)),
        frozenset(each for each in found if isinstance(each, RequestedHost)),
        frozenset(each for each in found if isinstance(each, RecordedRequest)),
        sum(each.calls for each in ends),
        sum(each.dropped for each in ends),
        sum(each.count for each in found if isinstance(each, UnresolvedCalls)),
        bool(ends),
    )


def entries(lines: Iterable[str | bytes]) -> Iterator[Entry]:
    """The entries of a log, line by line. Raise like `parse_access_log`."""
    for data in map(strictjson.loads_record, lines):
        if "request" in data:
            words = (str(data[name]) for name in ("request", "method", "path", "tool", "refused"))
            yield RecordedRequest(*words)
        elif "path" in data:
            yield _access(data)
        elif "call" in data:
            yield RecordedCall(int(data["call"]))
        elif "host" in data:
            yield RequestedHost(str(data["host"]), int(data["port"]), str(data["refused"]))
        elif "unresolved" in data:
            yield UnresolvedCalls(int(data["unresolved"]))
        elif "end" in data:
            yield LogEnd(int(data["calls"]), int(data["dropped"]))
        else:
            yield _contact(data)


def access_log_lines(record: AccessLog) -> Iterator[str]:
    """A record as `parse_access_log` reads it."""
    for access in record.accesses:
        real = {} if access.real == access.path else {"real": _escape_name(access.real)}
        row = {
            "path": _escape_name(access.path),
            **real,
            "found": access.found,
            "kinds": sorted(access.kinds),
        }
        yield json.dumps(row)
    for each in record.contacts:
        yield json.dumps({each.action: each.type, "address": _escape_name(each.address), "port": each.port})
    for call in sorted(record.calls):
        yield json.dumps({"call": call})
    for host in sorted(record.hosts, key=lambda each: (each.host, each.port, each.refused)):
        yield json.dumps({"host": host.host, "port": host.port, "refused": host.refused})
    for each_request in sorted(record.requests, key=astuple):
        host, method, path, tool, refused = astuple(each_request)
        line = {"request": host, "method": method, "path": path, "tool": tool, "refused": refused}
        yield json.dumps(line)
    yield json.dumps({"unresolved": record.unresolved})
    yield json.dumps({"end": True, "calls": record.seen, "dropped": record.dropped})


def _access(data: dict[str, Any]) -> Access:
    path = _unescape_name(data["path"])
    real = _unescape_name(data.get("real", data["path"]))
    if not path.startswith("/") or not real.startswith("/") or "\0" in path + real:
        raise ValueError("a path is not absolute")
    kinds = frozenset(data["kinds"])
    if not kinds <= set(KINDS):
        raise ValueError("a kind of access is not known")
    return Access(path, real, str(data["found"]), kinds)


def _contact(data: dict[str, Any]) -> Contact:
    action = next((each for each in ("connect", "send", "listen") if each in data), "")
    return Contact(action, str(data[action]), _unescape_name(data["address"]), int(data.get("port", 0)))


def _unescape_name(escaped: str) -> str:
    """Python's form of a name whose characters are its bytes."""
    return os.fsdecode(escaped.encode("latin-1"))


def _escape_name(name: str) -> str:
    return os.fsencode(name).decode("latin-1")
