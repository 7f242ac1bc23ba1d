"""Reads the log of a proxy's decisions, one line at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from sandwright.documents import strictjson
from sandwright.render.proxyfacts import REASONS


@dataclass(frozen=True)
class ProxyDecision:
    """One request: when it ended (seconds since 1970), its target, and its result.

    `method` is CONNECT for a tunnel. `reason` is one of `sandwright.render.proxyfacts.REASONS` when it was
    refused by a rule, empty when it was let through; `malformed` when it was no request that could be read.
    `status` is the HTTP status that was answered, `address` where it led, empty for nowhere. `sent` and
    `received` are bytes to and from the sandbox, `seconds` how long it took.
    """

    time: float
    method: str
    host: str
    port: int
    reason: str
    status: int
    address: str
    sent: int
    received: int
    seconds: float

    @property
    def allowed(self) -> bool:
        """Whether the rules let it through; it may have failed after that."""
        return not self.reason


class ProxyLog:
    """A log that is read while its proxy runs."""

    def __init__(self, path: Path) -> None:
        self._path, self._at = path, 0

    def new(self) -> Iterator[ProxyDecision]:
        """The decisions since the last call, oldest first; none when there is no log yet.

        An incomplete line at the end is left for the next call.
        """
        try:
            with self._path.open("rb") as lines:
                lines.seek(self._at)
                for line in lines:
                    if not line.endswith(b"\n"):
                        return
                    self._at += len(line)
                    yield _decision(strictjson.loads_record(line))
        except FileNotFoundError:
            return


def decisions(log: Path) -> Iterator[ProxyDecision]:
    """All decisions in a log."""
    return ProxyLog(log).new()


def _decision(fields: dict[str, Any]) -> ProxyDecision:
    event: dict[str, Any] = {
        name: unquote(value) if isinstance(value, str) else value for name, value in fields.items()
    }
    reason = event["reason"] if event["reason"] in REASONS else ""
    unread = event["result"].startswith("NONE") and 400 <= event["status"] < 500
    return ProxyDecision(
        time=event["time"],
        method="" if event["method"] == "-" else event["method"],
        host="" if event["host"] == "-" else event["host"],
        port=int(event["port"]) if event["port"].isdigit() else 0,
        reason=reason or ("malformed" if unread else ""),
        status=event["status"],
        address="" if event["address"] == "-" else event["address"],
        sent=event["sent"],
        received=event["received"],
        seconds=event["milliseconds"] / 1000,
    )
