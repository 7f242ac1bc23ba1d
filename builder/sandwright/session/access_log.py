r"""Reads what the launcher recorded of a run: lines of JSON (`launcher/source/recorded.c`).

| line | what |
|---|---|
| `path` | as it was named, made absolute |
| `real`, `found`, `kinds` | what it led to, where that is another; what was there; what was asked |
| `connect`, `send`, `listen` | `tcp`, `udp`, `unix` or `other`; `address`, and `port` |
| `call` | the number of a system call that `strict` doesn't allow |
| `unresolved` | how often nobody could tell what a call names |
| `host`, `port`, `refused` | what the proxy was asked for, and why it refused that; empty: it didn't |
| `end`, `calls`, `dropped` | the last line: how many calls with paths there were, and what found no room |

Names are those of programs inside. A byte that is no printable ASCII is `\u00XX`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandwright.documents import strictjson
from sandwright.errors import UsageError

KINDS = ("read", "write", "create", "exec", "list", "look", "remove")
"""What is asked of a path. `look`: only whether it is there, and what it is."""

CHANGES = frozenset({"write", "create", "remove"})


@dataclass(frozen=True)
class Access:
    """What was asked of a path. `path` is as it was named, `real` what it led to: equal without links."""

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
class AccessLog:
    """All of one run. `hosts` are host, port, and why the proxy refused it, empty where it let it through."""

    accesses: tuple[Access, ...] = ()
    contacts: tuple[Contact, ...] = ()
    calls: frozenset[int] = frozenset()
    hosts: frozenset[tuple[str, int, str]] = frozenset()
    seen: int = 0
    dropped: int = 0
    unresolved: int = 0
    whole: bool = field(default=False)


def read(file: Path) -> AccessLog:
    """The record in a file. Raise UsageError for what is none."""
    try:
        with file.open(encoding="ascii") as opened:
            return parse(opened)
    except OSError as fault:
        raise UsageError(f"{file} can't be read: {fault.strerror}") from fault
    except (ValueError, KeyError, TypeError, AttributeError) as fault:
        raise UsageError(f"{file} is no record of a run: {fault}") from fault


def parse(lines: Iterable[str]) -> AccessLog:
    """The record that lines say. Raise ValueError, KeyError, TypeError or AttributeError for what is none."""
    accesses, contacts, calls, hosts = [], [], set(), set()
    seen = dropped = unresolved = 0
    whole = False
    for data in map(strictjson.loads_record, lines):
        if "path" in data:
            accesses.append(_access(data))
        elif "call" in data:
            calls.add(int(data["call"]))
        elif "host" in data:
            hosts.add((str(data["host"]), int(data["port"]), str(data["refused"])))
        elif "unresolved" in data:
            unresolved += int(data["unresolved"])
        elif "end" in data:
            whole, seen, dropped = True, seen + int(data["calls"]), dropped + int(data["dropped"])
        else:
            contacts.append(_contact(data))
    return AccessLog(
        tuple(sorted(accesses, key=lambda each: (each.path, each.real))),
        tuple(contacts),
        frozenset(calls),
        frozenset(hosts),
        seen,
        dropped,
        unresolved,
        whole,
    )


def lines(record: AccessLog) -> Iterator[str]:
    """A record as `parse` reads it."""
    for access in record.accesses:
        real = {} if access.real == access.path else {"real": _bytes(access.real)}
        said = {"path": _bytes(access.path), **real, "found": access.found, "kinds": sorted(access.kinds)}
        yield json.dumps(said)
    for each in record.contacts:
        yield json.dumps({each.action: each.type, "address": _bytes(each.address), "port": each.port})
    for call in sorted(record.calls):
        yield json.dumps({"call": call})
    for host, port, refused in sorted(record.hosts):
        yield json.dumps({"host": host, "port": port, "refused": refused})
    yield json.dumps({"unresolved": record.unresolved})
    yield json.dumps({"end": True, "calls": record.seen, "dropped": record.dropped})


def _access(data: dict[str, Any]) -> Access:
    path = _text(data["path"])
    real = _text(data.get("real", data["path"]))
    if not path.startswith("/") or not real.startswith("/") or "\0" in path + real:
        raise ValueError("a path is not absolute")
    kinds = frozenset(data["kinds"])
    if not kinds <= set(KINDS):
        raise ValueError("a kind of access is not known")
    return Access(path, real, str(data["found"]), kinds)


def _contact(data: dict[str, Any]) -> Contact:
    action = next((each for each in ("connect", "send", "listen") if each in data), "")
    return Contact(action, str(data[action]), _text(data["address"]), int(data.get("port", 0)))


def _text(escaped: str) -> str:
    """A name as Python has it, of one whose characters are its bytes."""
    return os.fsdecode(escaped.encode("latin-1"))


def _bytes(name: str) -> str:
    return os.fsencode(name).decode("latin-1")
