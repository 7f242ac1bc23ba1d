"""Reads the log of an inspecting proxy's requests while it runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sandwright.documents import strictjson

LOG = "requests.log"

_HANDSHAKE = "SSL handshake"
"""The part that haproxy's errors about a client that gave up have in common, with an alert or without."""


@dataclass(frozen=True)
class RequestDecision:
    """A request to a host of `network.http`, whose query is in no log.

    `reason` is a key of `render.proxyfacts.REFUSALS` or `TOOL_REFUSALS`, or `UNTRUSTED`, empty for one that
    was let through; `status` is the answer's, `sent` and `received` bytes from and to the sandbox, `seconds`
    how long it took. `tool` is that of a call at an MCP server, or the method of MCP that was refused.
    """

    time: float
    host: str
    method: str
    path: str
    reason: str
    status: int
    sent: int
    received: int
    seconds: float
    tool: str = ""


class RequestLog:
    """A log that is read while its proxy runs."""

    def __init__(self, path: Path) -> None:
        self._path, self._at = path, 0

    def new(self) -> Iterator[RequestDecision]:
        """The decisions since the last call, oldest first.

        An incomplete line at the end is left for the next.

        haproxy's own messages, and requests that it could not parse, are passed over.
        """
        try:
            with self._path.open("rb") as lines:
                lines.seek(self._at)
                for line in lines:
                    if not line.endswith(b"\n"):
                        return
                    self._at += len(line)
                    found = _request_decision(line)
                    if found is not None:
                        yield found
        except FileNotFoundError:
            return


UNTRUSTED = "untrusted"
"""The reason of a connection that the client gave up, most likely as it does not trust the authority."""


def _request_decision(line: bytes) -> RequestDecision | None:
    try:
        fields = strictjson.loads_record(line)
        if _HANDSHAKE in fields.get("error", ""):
            host, time = str(fields["host"]), float(fields["time"])
            if fields["name"] != host.rpartition(":")[0]:
                return None  # of another name: we gave up
            return RequestDecision(time, host, "CONNECT", "", UNTRUSTED, 0, 0, 0, 0.0)
        return RequestDecision(
            time=float(fields["time"]),
            host=str(fields["host"]),
            method=str(fields["method"]),
            path=str(fields["path"]),
            reason="" if fields["reason"] == "-" else str(fields["reason"]),
            status=int(fields["status"]),
            sent=int(fields["sent"]),
            received=int(fields["received"]),
            seconds=fields["milliseconds"] / 1000,
            tool="" if fields["tool"] == "-" else str(fields["tool"]),
        )
    except (ValueError, KeyError, TypeError):
        return None
