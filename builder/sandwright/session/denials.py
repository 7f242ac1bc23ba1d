"""Tells what a run was refused, how often, by which line of which layer, and what would allow it.

The launcher counts what the filters of system calls and its supervisor of connections refuse, and writes it
to a private file; refusals of a proxy and of a bridge come from `beside`. A line of `run --denials FILE` is
JSON:

| field | what |
|---|---|
| `kind` | `syscall`, `unix`, `datagram`, `connect`, `proxy`, `bridge`, `path`, `omitted` |
| `what` | the call's name, the path as the program gave it, HOST:PORT, the program and its arguments |
| `why` | what the bridge said; for a `syscall` that is refused by its arguments, what for; else absent |
| `error` | the name of the error that the program was told; absent for `proxy`, `bridge` and `path` |
| `access`, `how` | `read` or `write`; `hidden`, `masked`, `read-only` or `placeholder`; only for `path` |
| `count` | how often; null for `path`, whose calls are not counted |
| `field`, `source` | the policy's field that decided, and where its value stands |
| `edit` | the smallest edit of `sandbox.yaml` that allows it; null where none does |
| `opens` | what else the edit opens |

`unix` is a call that makes a Unix socket, `datagram` one that makes a Unix socket of datagrams, `connect` a
connection to a Unix socket, `omitted` counts what found no room, and has nothing else. Programs inside choose
paths and hosts: they are cut to `MOST_TEXT` characters, and what no terminal should obey is escaped.
"""

from __future__ import annotations

import csv
import errno
import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from sandwright.documents import strictjson
from sandwright.errors import HostError
from sandwright.outputs import append_output
from sandwright.policy.hosts import ListedHost, listed_pattern
from sandwright.policy.spelling import checked_path
from sandwright.resources import data_path
from sandwright.visible import one_line

MOST_TEXT = 256
MOST_LINES = 20
"""Refusals that a person is shown."""

_MOST_BYTES = 1 << 20
_MOST_CALLS = 256
_COLUMNS = {0xC000003E: "amd64", 0xC00000B7: "arm64", 0x40000003: "i386", 0x40000028: "arm"}
"""Of `syscalls.csv`, by the architecture of linux/audit.h."""

_SOCKET = "whatever the program that listens there does for who connects"
_HOST = "this host, to every program inside"
_OWN = "Unix sockets between programs inside"


def collect_denials(
    file: str,
    decided: dict[str, Any],
    proxied: dict[str, int] | None = None,
    called: dict[tuple[str, str], int] | None = None,
    addresses: Collection[str] = (),
) -> list[dict[str, object]]:
    """What was refused: as the launcher wrote it to `file`, by a proxy, and by a bridge, with the reasons.

    `decided` is of `session.denial_context`. `addresses` are hosts that are listed, but lead where none may.
    """
    found = list(_written(file, decided))
    for host, count in sorted((proxied or {}).items()):
        found.append(_host(host, count, decided, listed=host in addresses))
    for (call, why), count in sorted((called or {}).items())[:_MOST_CALLS]:
        found.append(
            {"kind": "bridge", "what": line(call), "why": line(why), "count": count}
            | _why("credentials.shims", decided["shims"].get(call.split(" ")[0], "nowhere"), None, "")
        )
    if left := sum(count for _, count in sorted((called or {}).items())[_MOST_CALLS:]):
        found.append({"kind": "omitted", "count": left})
    return found


def lines(found: list[dict[str, Any]]) -> list[str]:
    """The block for a person: empty when nothing was refused."""
    shown = [each for each in found if each["kind"] != "omitted"]
    shown.sort(key=lambda each: -(each["count"] or 0))
    said = [line for each in shown[:MOST_LINES] for line in _lines(each)]
    left = len(shown) - MOST_LINES
    others = sum(each["count"] for each in found if each["kind"] == "omitted")
    if left > 0:
        said.append(f"refused: {left} more kinds: `run --denials FILE` has them")
    if others:
        said.append(f"refused: {others} times more, of other kinds, for which there was no room")
    return said


def write(path: str, found: list[dict[str, object]]) -> str:
    """Append them to a file, a line each; give what went wrong."""
    try:
        append_output(path, b"".join(strictjson.dumps(each) + b"\n" for each in found))
    except HostError as fault:
        return str(fault)
    return ""


def report_denials(
    asked: dict[str, Any],
    proxied: dict[str, int] | None,
    called: dict[tuple[str, str], int] | None,
    tell: Callable[[str], None],
) -> list[str]:
    """Tell of what a run was refused, whose record has `asked`; give what went wrong."""
    try:
        found = collect_denials(asked["file"], asked["decided"], proxied, called, asked["addresses"])
        found += asked["paths"]
        if asked["to"] and (wrong := write(asked["to"], found)):
            return [f"what was refused can't be told: {wrong}"]
    except (OSError, ValueError, KeyError, IndexError) as fault:
        return [f"what was refused can't be told: {fault}"]
    finally:
        Path(asked["file"]).unlink(missing_ok=True)
    for line in () if asked["quiet"] else lines(found):
        tell(line)
    return []


def _lines(each: dict[str, Any]) -> Iterator[str]:
    what = {
        "syscall": "the system call {}",
        "unix": "a Unix socket by {}",
        "datagram": "a Unix socket of datagrams by {}",
        "connect": "to connect to {}",
        "proxy": "the host {}",
        "bridge": "the call of {}",
        "path": f"to {each.get('access')} {{}}",
    }[each["kind"]]
    told_ = ": ".join(each[key] for key in ("error", "why", "how") if each.get(key))
    error = f" ({told_})" if told_ else ""
    times = {None: "", 1: ", once"}.get(each["count"], f", {each['count']} times")
    yield f"refused: {what.format(each['what'])}{error}{times}: {each['field']}, {each['source']}"
    if each["edit"]:
        yield f"  `{each['edit']}` would allow it, and with it {each['opens']}"
    else:
        yield "  no edit of the policy is known that allows it"


def _written(file: str, decided: dict[str, Any]) -> Iterator[dict[str, object]]:
    try:
        with Path(file).open("rb") as opened:
            content = opened.read(_MOST_BYTES).decode("ascii")
    except FileNotFoundError:
        return
    yield from parsed(content, decided)


def parsed(content: str, decided: dict[str, Any]) -> Iterator[dict[str, object]]:
    """What the launcher wrote, line by line (`launcher/source/refusals.c`)."""
    for line in content.splitlines():
        kind, *words = line.split()
        if kind in ("call", "local", "datagram"):
            yield _call(kind, [int(each) for each in words], decided)
        elif kind == "connect":
            yield _connect(int(words[0]), int(words[1]), bytes.fromhex(words[2]), decided)
        elif int(words[0]):
            yield {"kind": "omitted", "count": int(words[0])}


def _call(kind: str, numbers: list[int], decided: dict[str, Any]) -> dict[str, object]:
    """`numbers` are the architecture, the call, its error, how often, and which filter: 0 is the policy's."""
    architecture, number, error, count, own = numbers
    name = _name(architecture, number)
    head: dict[str, object] = {"what": name, "error": _error(error), "count": count}
    if kind != "call" and (own or decided["shipped"]):
        return _socket(kind, decided, head)
    field, source, edit, opens = "process.seccomp", decided["seccomp"], None, ""
    if own:
        field, source = "method", decided["method"]
    elif not decided["shipped"] and (kind != "call" or name == "io_uring_setup"):
        field = "process.seccomp or network.own_sockets"
    else:
        profile, names = next((each for each in decided["looser"] if name in each[1]), ("", []))
        opens = _opened([each for each in names if each != name], decided["partly"])
        edit = f"process: {{seccomp: {profile}}}" if profile else None
        if why := decided["partly"].get(name):
            head["why"] = why
    return {"kind": "syscall"} | head | _why(field, source, edit, opens)


def _opened(names: list[str], partly: dict[str, str]) -> str:
    """What another profile allows besides: calls, and those that are allowed already by other arguments."""
    more, others = ([each for each in names if (each in partly) is known] for known in (False, True))
    said = f"{len(more)} more {'call' if len(more) == 1 else 'calls'}: {', '.join(more)}"
    return said + (f"; and whatever their arguments are: {', '.join(others)}" if others else "")


def _socket(kind: str, decided: dict[str, Any], head: dict[str, object]) -> dict[str, object]:
    """A Unix socket that could not be made. One of datagrams can't be in any case."""
    field, source, edit = decided["own"]
    told = {"kind": "datagram" if kind == "datagram" else "unix"}
    return told | head | _why(field, source, None if kind == "datagram" else edit, _OWN)


def _host(host: str, count: int, decided: dict[str, Any], *, listed: bool) -> dict[str, object]:
    name = line(host)
    bare = name.rpartition(":")[0]
    item = f"{{host: '{bare}', private: true}}" if listed else f"'{name}'"
    possible = _accepts(listed_pattern, ListedHost(bare, private=True) if listed else name)
    edit = f"network: {{allow: [{item}]}}" if is_plain(name) and possible else None
    opens = "private addresses to which this name leads, to every program inside" if listed else _HOST
    head: dict[str, object] = {"kind": "proxy", "what": name, "count": count}
    return head | _why("network.allow", decided["allow"], edit, opens)


def _connect(error: int, count: int, path: bytes, decided: dict[str, Any]) -> dict[str, object]:
    text = path.decode("utf-8", "backslashreplace")

    canonical = text.startswith("/") and os.path.normpath(text) == text and is_plain(text)
    canonical = canonical and _accepts(checked_path, text)
    never = any(f"{text}/".startswith(f"{each}/") for each in decided["never"])
    edit = f"network: {{unix_sockets: ['{text}']}}" if canonical and not never else None
    head = {"kind": "connect", "what": line(text), "error": _error(error), "count": count}
    return head | _why("network.unix_sockets", decided["sockets"], edit, _SOCKET)


def _accepts(check: Callable[[Any], object], value: object) -> bool:
    """Whether the policy's own check of a field takes a value: else the edit would be refused."""
    try:
        check(value)
    except ValueError:
        return False
    return True


def _why(field: str, source: str, edit: str | None, opens: str) -> dict[str, object]:
    return {"field": field, "source": source, "edit": edit, "opens": opens if edit else ""}


def line(text: str) -> str:
    """What a program inside chose, as a part of one line, cut off."""
    return one_line(text)[:MOST_TEXT]


def is_plain(text: str) -> bool:
    """Whether it can stand in a line of YAML as it is."""
    return (
        text.isascii()
        and text.isprintable()
        and not set(text) & set("'\"{}[]$`\\*")
        and len(text) < MOST_TEXT
    )


def _error(number: int) -> str:
    return errno.errorcode.get(number, str(number))


def _name(architecture: int, number: int) -> str:
    """A call's name. There is no YAML here, which `sandwright.seccomp` needs (`after`)."""
    column = _COLUMNS.get(architecture, "")
    with data_path("seccomp", "syscalls.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            if row.get(column) == str(number):
                return str(row["name"])
    return f"number {number}"
