"""Decides on the lines between a client and a server of MCP that speak over standard input and output.

A line is a message (MCP, "stdio"). One that passes is serialized again by `messages`, in one line of ASCII,
so that both sides split the stream at the same places. Only answers to requests that passed reach the client.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from sandwright.documents import strictjson
from sandwright.mcp.messages import (
    Allows,
    ClientMessage,
    McpRefusal,
    RequestId,
    client_message,
    refuse_server_request,
    server_message,
)

MAX_REQUEST = 4 << 20
"""Bytes of a message of a client."""

MAX_ANSWER = strictjson.MAX_BYTES
"""Bytes of a message of a server."""

_MOST_AWAITED = 10_000
"""The number of unanswered requests that are remembered. A client can cancel any number, and no answer comes
to those."""


class MessageObserver(Protocol):
    """Receives the decisions of the filter."""

    def passed(self, message: ClientMessage) -> None:
        """A client's message passed."""

    def refused(self, refusal: McpRefusal) -> None:
        """A client's message was refused."""

    def dropped(self, fault: str) -> None:
        """A line of the server was dropped: it is not a message, or one that must not pass."""


class StdioFilter:
    """The filter between one client and one server.

    The caller writes out the bytes in `to_server` and `to_client`.
    """

    def __init__(self, allows: Allows, observer: MessageObserver) -> None:
        self._allows, self._observer = allows, observer
        self._from_client, self._from_server = _Lines(MAX_REQUEST), _Lines(MAX_ANSWER)
        self._awaited: dict[RequestId, None] = {}
        self.to_server, self.to_client = bytearray(), bytearray()

    def read_client(self, data: bytes) -> None:
        """Decide on the lines that end in these bytes of the client; empty bytes mean its end."""
        for line in self._from_client.feed(data or b"\n"):
            try:
                if line is None:
                    raise McpRefusal("message", f"the message is longer than {MAX_REQUEST >> 20} MiB")
                self._pass_to_server(client_message(line, self._allows))
            except McpRefusal as refusal:
                self._observer.refused(refusal)
                if answer := refusal.answer_in_stream:
                    self.to_client += answer + b"\n"

    def _pass_to_server(self, message: ClientMessage) -> None:
        if message.number is not None:
            if len(self._awaited) >= _MOST_AWAITED:
                del self._awaited[next(iter(self._awaited))]
            self._awaited[message.number] = None
        self.to_server += message.text + b"\n"
        self._observer.passed(message)

    def read_server(self, data: bytes) -> None:
        """Decide on the lines that end in these bytes of the server; empty bytes mean its end."""
        for line in self._from_server.feed(data or b"\n"):
            try:
                if line is None:
                    raise ValueError(f"a message is longer than {MAX_ANSWER >> 20} MiB")
                if text := server_message(line, self._allows, self._awaited):
                    self.to_client += text + b"\n"
                elif answer := refuse_server_request(line):
                    self.to_server += answer + b"\n"
            except ValueError as fault:
                self._observer.dropped(str(fault))


class _Lines:
    """Splits a stream, which arrives in blocks of any length, into lines."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = bytearray()
        self._too_long = False

    def feed(self, data: bytes) -> Iterator[bytes | None]:
        """Give the lines that end in these bytes, without blank ones; None for a line beyond the limit."""
        *ends, rest = data.split(b"\n")
        for end in ends:
            self._add_part(end)
            line = None if self._too_long else bytes(self._held)
            self._held.clear()
            self._too_long = False
            if line is None or line.strip(b" \t\r"):
                yield line
        self._add_part(rest)

    def _add_part(self, part: bytes) -> None:
        self._too_long = self._too_long or len(self._held) + len(part) > self._limit
        if self._too_long:
            self._held.clear()
        else:
            self._held += part
