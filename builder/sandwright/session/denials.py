"""Reports the denials of a run: each access, how often, by which line of which layer, and the edit for it.

`session.post_run` passes the events that the launcher wrote (`session.events`); `collect_denials` adds the
reasons, which `session.denial_sources` found when the sandbox was rendered; `Denial.text` makes the lines
for a person. A line of `run --denials FILE` (`session.live_denials`) is JSON:

| field | meaning |
|---|---|
| `kind` | a `Kind`, `path` or `omitted` |
| `what` | the call's name, the path as the program gave it, HOST:PORT, IP:PORT, program and arguments |
| `why` | the bridge's message; for a `syscall` that is refused by its arguments, their purpose; else absent |
| `error` | the name of the error that the program got; absent for `proxy`, `bridge` and `path` |
| `access`, `how` | `read` or `write`; `hidden`, `masked`, `read-only` or `placeholder`; only for `path` |
| `count` | how often since an earlier line with the same fields; null for `path`: its calls are not counted |
| `field`, `source` | the policy's field that decided, and the position of its value |
| `edit` | the smallest edit of `sandbox.yaml` that allows it; null where none does |
| `opens` | other accesses that the edit allows |
| `advice` | without an edit: another way to allow it, or that there is none; absent if unknown |

`unix` is a call that makes a Unix socket, `datagram` one that makes a Unix socket of datagrams, `connect` a
connection to a Unix socket, `network` one to an address that the sandbox's network does not lead to (for port
53, a question to a name server), `request` one to a host of `network.http`, `mcp` a message of a client of
MCP to the command (`mcp.tools`). `omitted` has only a count, of denials without room. Programs inside choose
paths and hosts: they are cut to `MOST_TEXT` characters, and control characters are escaped.
"""

import csv
import errno
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from sandwright.documents import strictjson
from sandwright.egress.request_log import UNTRUSTED
from sandwright.policy.hosts import ListedHost, listed_pattern
from sandwright.policy.mcp_rules import tool_pattern
from sandwright.policy.spelling import checked_path
from sandwright.render.proxyfacts import REFUSALS, TOOL_REFUSALS
from sandwright.resources import data_path
from sandwright.session.denial_context import BlamedField, DenialContext
from sandwright.session.events import (
    BridgedCall,
    DeniedCall,
    DeniedConnection,
    DeniedHost,
    DeniedMessage,
    DeniedRequest,
    RunDenied,
    RunEvent,
    RunOmitted,
    UnreachableAddress,
)
from sandwright.session.request_rules import request_rule, request_words
from sandwright.visible import one_line

MOST_TEXT = 256
MOST_LINES = 20
"""The most refusals that a report prints."""

_MOST_CALLS = 256
_COLUMNS = {0xC000003E: "amd64", 0xC00000B7: "arm64", 0x40000003: "i386", 0x40000028: "arm"}
"""Of `syscalls.csv`, by the architecture of linux/audit.h."""

_SOCKET = "everything that the program listening there does for its clients"
_HOST = "this host, to every program inside"
_OWN = "Unix sockets between programs inside"

_SENTENCES = {
    "syscall": "the system call {}",
    "unix": "a Unix socket by {}",
    "datagram": "a Unix socket of datagrams by {}",
    "connect": "to connect to {}",
    "network": "to connect to {}",
    "proxy": "the host {}",
    "request": "the request {}",
    "mcp": "the message {}",
    "bridge": "the call of {}",
}


Kind = Literal["syscall", "unix", "datagram", "connect", "network", "proxy", "request", "mcp", "bridge"]


@dataclass(frozen=True, kw_only=True)
class Denial:
    """One kind of refusal with its reasons, as the table in this module has it. Empty: absent."""

    kind: Kind | Literal["path"]
    what: str
    count: int | None
    field: str
    source: str
    edit: str | None = None
    opens: str = ""
    advice: str = ""
    why: str = ""
    error: str = ""
    access: str = ""
    how: str = ""

    def json_line(self) -> bytes:
        """The denial as a JSON line."""
        optional = ("advice", "why", "error", "access", "how")
        found = {name: value for name, value in asdict(self).items() if value != "" or name not in optional}
        return strictjson.dumps(found) + b"\n"

    def text(self) -> Iterator[str]:
        """The lines for the user."""
        sentence = f"to {self.access} {{}}" if self.kind == "path" else _SENTENCES[self.kind]
        reasons = ": ".join(each for each in (self.error, self.why, self.how) if each)
        reason = f" ({reasons})" if reasons else ""
        times = {None: "", 1: ", once"}.get(self.count, f", {self.count} times")
        yield f"refused: {sentence.format(self.what)}{reason}{times}: {self.field}, {self.source}"
        if self.edit:
            yield f"  allow it with: `{self.edit}` (opens {self.opens})"
        else:
            yield f"  {self.advice or 'no known edit of the policy allows it'}"


@dataclass(frozen=True)
class OmittedDenials:
    """The number of refusals of further kinds, beyond the limit."""

    count: int

    def json_line(self) -> bytes:
        """As a line of a file."""
        return strictjson.dumps({"kind": "omitted", "count": self.count}) + b"\n"


Denials = list[Denial | OmittedDenials]


def collect_denials(events: Iterable[RunEvent], context: DenialContext) -> Denials:
    """The refusals among some events, with the reasons. Calls of the bridge beyond some are counted."""
    found: Denials = []
    calls = remaining = 0
    for each in events:
        if isinstance(each, RunOmitted) and each.count:
            found.append(OmittedDenials(each.count))
        elif isinstance(each, RunDenied) and isinstance(each.what, BridgedCall) and calls >= _MOST_CALLS:
            remaining += each.count
        elif isinstance(each, RunDenied):
            calls += isinstance(each.what, BridgedCall)
            found.append(explain_denial(each, context))
    return [*found, *([OmittedDenials(remaining)] if remaining else [])]


def explain_denial(event: RunDenied, context: DenialContext) -> Denial:
    """One refusal, with the reasons."""
    match event.what:
        case DeniedCall():
            return _call(event.what, event.count, context)
        case DeniedConnection():
            return _connection(event.what, event.count, context)
        case UnreachableAddress():
            return _unreachable(event.what, event.count, context)
        case DeniedHost():
            return _host_denial(event.what, event.count, context)
        case DeniedRequest():
            return _denied_request(event.what, event.count, context)
        case DeniedMessage():
            return _denied_message(event.what, event.count, context)
        case BridgedCall():
            return _bridged(event.what, event.count, context)


def denial_lines(found: Denials, *, most: int = MOST_LINES) -> list[str]:
    """The lines for the user, of at most some kinds; empty if nothing was denied."""
    denials = [each for each in found if isinstance(each, Denial)]
    denials.sort(key=lambda each: -(each.count or 0))
    lines = [line for each in denials[:most] for line in each.text()]
    remaining = len(denials) - most
    others = sum(each.count for each in found if isinstance(each, OmittedDenials))
    if remaining > 0:
        lines.append(f"refused: {remaining} more kinds: `run --denials FILE` and `logs --denials` have them")
    if others:
        lines.append(f"refused: {others} times more, of other kinds, for which there was no room")
    return lines


def _call(call: DeniedCall, count: int, context: DenialContext) -> Denial:
    name, error = _syscall_name(call.architecture, call.number), _error(call.error)
    if call.socket and (call.filter or context.shipped):
        return _socket(call, name, count, context)
    blamed, opens, why = BlamedField(field="process.seccomp", source=context.seccomp), "", ""
    if call.filter:
        blamed = BlamedField(field="method", source=context.method)
    elif not context.shipped and (call.socket or name == "io_uring_setup"):
        blamed = BlamedField(field="process.seccomp or network.own_sockets", source=context.seccomp)
    else:
        looser = next((each for each in context.looser if name in each.calls), None)
        calls = [each for each in looser.calls if each != name] if looser else []
        opens, why = _also_allowed(calls, context), context.partly.get(name, "")
        edit = f"process: {{seccomp: {looser.profile}}}" if looser else None
        blamed = BlamedField(field="process.seccomp", source=context.seccomp, edit=edit)
    return _denial("syscall", name, count, blamed, opens, error=error, why=why)


def _also_allowed(names: Sequence[str], context: DenialContext) -> str:
    """The other calls that another profile allows, and those that it allows with any arguments."""
    more, others = (
        [each for each in names if (each in context.partly) is is_partly] for is_partly in (False, True)
    )
    text = f"{len(more)} more {'call' if len(more) == 1 else 'calls'}: {', '.join(more)}"
    return text + (f"; and whatever their arguments are: {', '.join(others)}" if others else "")


def _socket(call: DeniedCall, name: str, count: int, context: DenialContext) -> Denial:
    """A Unix socket that could not be made. One of datagrams can't be in any case."""
    own_sockets_source, error = context.own_sockets, _error(call.error)
    if call.socket == "datagram":
        return _denial("datagram", name, count, replace(own_sockets_source, edit=None), error=error)
    return _denial("unix", name, count, own_sockets_source, _OWN, error=error)


def _host_denial(refused: DeniedHost, count: int, context: DenialContext) -> Denial:
    name = printable_line(refused.host)
    bare = name.rpartition(":")[0]
    item = f"{{host: '{bare}', private: true}}" if refused.listed else f"'{name}'"
    possible = _accepts(listed_pattern, ListedHost(bare, private=True) if refused.listed else name)
    edit = f"network: {{allow: [{item}]}}" if is_plain(name) and possible else None
    opens = "private addresses to which this name leads, to every program inside" if refused.listed else _HOST
    blamed = BlamedField(field="network.allow", source=context.allow, edit=edit)
    return _denial("proxy", name, count, blamed, opens)


def _denied_request(refused: DeniedRequest, count: int, context: DenialContext) -> Denial:
    """A request to an opened host: an edit allows it where the rules alone are against it."""
    host = refused.host.removesuffix(":443")
    what = printable_line(request_words(refused, host))
    possible = refused.reason in ("rule", "tool") and is_plain(refused.path)
    rule = request_rule(refused, host) if possible else None
    edit = f"network: {{http: [..., {rule}]}}" if rule else None
    field = "credentials.http" if refused.reason in ("credential", "signature", "secret") else "network.http"
    blamed = BlamedField(field=field, source=context.http, edit=edit)
    opens = f"such requests to {host}, to every program inside"
    why = {**REFUSALS, **TOOL_REFUSALS}.get(refused.reason, refused.reason)
    if refused.reason == UNTRUSTED:
        why = "the program gave up: it may not trust the run's authority"
        advice = (
            f"for a program that accepts certain certificates only, list {host} in network.allow: a tunnel"
        )
        return replace(_denial("request", what, count, blamed, why=why), advice=advice)
    return _denial("request", what, count, blamed, opens, why="" if edit else why)


def _denied_message(refused: DeniedMessage, count: int, context: DenialContext) -> Denial:
    """A message to the server of MCP that is the command: an edit lists a tool."""
    name = printable_line(refused.message)
    listable = refused.reason == "tool" and is_plain(refused.message) and "*" not in refused.message
    listable = listable and _accepts(tool_pattern, refused.message)
    blamed = BlamedField(
        field="mcp.tools",
        source=context.mcp,
        edit=f"mcp: {{tools: [..., '{refused.message}']}}" if listable else None,
    )
    what = {"tool": f"tools/call {name}", "call": name, "message": "of the client"}[refused.reason]
    why = "" if listable else TOOL_REFUSALS[refused.reason]
    return _denial("mcp", what, count, blamed, f"calls of {name} by the client", why=why)


def _bridged(call: BridgedCall, count: int, context: DenialContext) -> Denial:
    program = (call.program or "").split(" ")[0]
    blamed = BlamedField(field="credentials.shims", source=context.shims.get(program, "nowhere"))
    if program not in context.shims and context.signing:
        blamed = BlamedField(field="credentials.signing", source=context.signing)
    return _denial("bridge", printable_line(call.words()), count, blamed, why=printable_line(call.why or ""))


def _connection(refused: DeniedConnection, count: int, context: DenialContext) -> Denial:
    text = refused.path.encode("latin-1").decode("utf-8", "backslashreplace")
    canonical = text.startswith("/") and os.path.normpath(text) == text and is_plain(text)
    canonical = canonical and _accepts(checked_path, text)
    never = any(f"{text}/".startswith(f"{each}/") for each in context.never)
    edit = f"network: {{unix_sockets: ['{text}']}}" if canonical and not never else None
    blamed = BlamedField(field="network.unix_sockets", source=context.sockets, edit=edit)
    return _denial("connect", printable_line(text), count, blamed, _SOCKET, error=_error(refused.error))


_NETWORK_ADVICE = {
    "none": "allow hosts with `network: {mode: proxy, allow: [HOST]}`",
    "proxy": "only the proxy leads out, to hosts of network.allow: by HTTPS_PROXY, or by name",
}


def _unreachable(refused: UnreachableAddress, count: int, context: DenialContext) -> Denial:
    blamed = BlamedField(field="network.mode", source=f"{context.mode} {context.network}".rstrip())
    advice = _NETWORK_ADVICE.get(context.mode, "")
    address = printable_line(refused.address)
    what = f"a name server ({address})" if address.endswith(":53") else address
    return replace(_denial("network", what, count, blamed, error=_error(refused.error)), advice=advice)


def _denial(
    kind: Kind,
    what: str,
    count: int,
    blamed: BlamedField,
    opens: str = "",
    *,
    error: str = "",
    why: str = "",
) -> Denial:
    return Denial(
        kind=kind,
        what=what,
        count=count,
        field=blamed.field,
        source=blamed.source,
        edit=blamed.edit,
        opens=opens if blamed.edit else "",
        error=error,
        why=why,
    )


def _accepts(check: Callable[[Any], object], value: object) -> bool:
    """Whether the policy's own check of a field takes a value: else the edit would be refused."""
    try:
        check(value)
    except ValueError:
        return False
    return True


def printable_line(text: str) -> str:
    """A text of a program inside, as a part of one line, cut to a limit."""
    return one_line(text)[:MOST_TEXT]


def is_plain(text: str) -> bool:
    """Whether a text can stand in YAML without quotes."""
    return (
        text.isascii()
        and text.isprintable()
        and not set(text) & set("'\"{}[]$`\\*")
        and len(text) < MOST_TEXT
    )


def _error(number: int) -> str:
    return errno.errorcode.get(number, str(number))


def _syscall_name(architecture: int, number: int) -> str:
    """A call's name. The post-run report has no YAML (`-S`), which `sandwright.seccomp` needs."""
    column = _COLUMNS.get(architecture, "")
    with data_path("seccomp", "syscalls.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            if row.get(column) == str(number):
                return str(row["name"])
    return f"number {number}"
