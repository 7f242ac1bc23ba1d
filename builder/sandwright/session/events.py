"""Events of a run: one stream, and its codec.

| event | written by | read by |
|---|---|---|
| `RunStarted`, `RunEnded` | `session.supervise`, `session.post_run` | audit log, telemetry |
| `RunDenied`, `RunOmitted` | the launcher (`launcher/source/refusals.c`), the proxy and the bridge of a session | denials, audit log, telemetry |
| `RunExecuted` | the launcher (`launcher/source/requests.c`) | audit log |
| `RunCalled` | the bridge of a session | audit log |
| `RunMessage` | the filter of messages to a server of MCP (`session.mcp_log`) | audit log |

As a line of JSON an event has its name in `event`, and its fields.
"""  # noqa: E501 - a table

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sandwright.documents import strictjson
from sandwright.documents.model import plain
from sandwright.documents.record import record_of

_MOST_BYTES = 1 << 20
"""Of a launcher's file: 256 kinds of refusal."""


@dataclass(frozen=True, kw_only=True)
class RunStarted:
    """The command is about to start. `policy` is the digest of the policy's settings."""

    method: str
    project: str
    command: str
    policy: str
    uid: int


@dataclass(frozen=True, kw_only=True)
class DeniedCall:
    """A system call. `architecture` is of linux/audit.h, `error` the errno that the program got.

    `filter` is 0 for the policy's own. `socket` is the kind of the refused socket: a Unix socket (`local`) or
    one of datagrams.
    """

    architecture: int
    number: int
    error: int
    filter: int
    socket: Literal["", "local", "datagram"] = ""


@dataclass(frozen=True, kw_only=True)
class DeniedConnection:
    """A connection to a Unix socket. Each character of `path` is a byte."""

    path: str
    error: int


@dataclass(frozen=True, kw_only=True)
class UnreachableAddress:
    """A connection to an IP address that the sandbox's network does not lead to. `address` is IP:PORT."""

    address: str
    error: int


@dataclass(frozen=True, kw_only=True)
class DeniedHost:
    """A request to the proxy. `host` is HOST:PORT; `listed`: it is listed, but its address is forbidden."""

    host: str
    listed: bool = False


@dataclass(frozen=True, kw_only=True)
class DeniedRequest:
    """A request to a host of network.http. `host` is HOST:PORT, `path` without a query.

    `reason` and `tool` are those of `egress.request_log.RequestDecision`.
    """

    host: str
    method: str
    path: str
    reason: str
    tool: str = ""


@dataclass(frozen=True, kw_only=True)
class DeniedMessage:
    """A message of a client of MCP to the command.

    `message` is its method, or its tool where that is refused. `reason` is `mcp.messages.RefusalReason`.
    """

    message: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class BridgedCall:
    """A call of a shim, as the bridge logged it; None for an unknown value."""

    program: str | None
    arguments: tuple[str, ...] | None = None
    directory: str | None = None
    why: str | None = None
    status: int | None = None
    call: int | None = None
    at: str = ""

    def words(self) -> str:
        """Program and arguments, for a person."""
        return " ".join([self.program or "", *(self.arguments or ())])


@dataclass(frozen=True, kw_only=True)
class RunDenied:
    """An access was denied, `count` times."""

    what: (
        DeniedCall
        | DeniedConnection
        | UnreachableAddress
        | DeniedHost
        | DeniedRequest
        | DeniedMessage
        | BridgedCall
    )
    count: int = 1


@dataclass(frozen=True, kw_only=True)
class RunOmitted:
    """The number of refusals of further kinds, beyond the limit."""

    count: int


@dataclass(frozen=True, kw_only=True)
class RunCalled:
    """A program of the host was called through the bridge."""

    what: BridgedCall


@dataclass(frozen=True, kw_only=True)
class RunRequested:
    """A request to a host of network.http was allowed. `host` is HOST:PORT, `path` without a query.

    `tool` is that of a call at an MCP server. `status` is the answer's, `sent` and `received` are bytes from
    and to the sandbox.
    """

    host: str
    method: str
    path: str
    status: int
    sent: int
    received: int
    tool: str = ""


@dataclass(frozen=True, kw_only=True)
class RunMessage:
    """A request of a client of MCP passed to the command. `tool` is that of a call."""

    method: str
    tool: str = ""


@dataclass(frozen=True, kw_only=True)
class RunExecuted:
    """A further command was requested (`sandwright exec`): its program's name, cut after 64 bytes.

    In `command` each byte is the character of that number.
    """

    command: str


@dataclass(frozen=True, kw_only=True)
class RunEnded:
    """The command has ended. `status` is None if nothing was started."""

    status: int | None
    seconds: float


RunDenials = Sequence[RunDenied | RunOmitted | RunRequested | RunMessage]
"""The log of a run's proxies and of its filter of messages: refusals, and the last allowed requests."""

RunEvent = (
    RunStarted | RunDenied | RunOmitted | RunCalled | RunRequested | RunMessage | RunExecuted | RunEnded
)

_NAMES: dict[str, type[RunEvent]] = {
    "started": RunStarted,
    "refused": RunDenied,
    "omitted": RunOmitted,
    "called": RunCalled,
    "requested": RunRequested,
    "message": RunMessage,
    "executed": RunExecuted,
    "ended": RunEnded,
}


def encode_event(event: RunEvent) -> bytes:
    """An event as a line, with its line break."""
    name = next(name for name, model in _NAMES.items() if isinstance(event, model))
    return strictjson.dumps({"event": name, **plain(event)}) + b"\n"


def decode_event(line: bytes | str) -> RunEvent:
    """Decode the output of `encode_event` or of the launcher. Raise ValueError for anything else."""
    data = strictjson.loads_record(line)
    name = data.pop("event", None) if isinstance(data, dict) else None
    if not isinstance(name, str) or name not in _NAMES:
        raise ValueError("a line is no event of a run")
    return record_of(_NAMES[name], data)


def decode_events(content: bytes) -> Iterator[RunEvent]:
    """The events of some lines. Raise ValueError."""
    return map(decode_event, content.splitlines())


def read_events(file: Path) -> Iterator[RunEvent]:
    """Read the events that a launcher wrote at the end of a run, if any. Raise OSError, ValueError."""
    try:
        with file.open("rb") as opened:
            content = opened.read(_MOST_BYTES)
    except FileNotFoundError:
        return
    yield from decode_events(content)
