"""Filters the messages in a stream of server-sent events, with any line ends, in blocks of any length.

The stream is written again, event by event. Unknown fields, comments, and events other than `message` do not
pass. Source: HTML, "Server-sent events", 9.2.6.
"""

from __future__ import annotations

import re
from collections.abc import Callable

MAX_EVENT = 16 << 20
"""Bytes of one event, with all its lines."""

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"

Rewrite = Callable[[bytes], bytes | None]
"""Gives the line that replaces a message; None to drop it."""


class EventFilter:
    """The filter of one stream, which arrives in blocks of any length."""

    def __init__(self, rewrite: Rewrite, limit: int = MAX_EVENT) -> None:
        """`rewrite` raises ValueError for data that is not a message."""
        self._rewrite, self._limit = rewrite, limit
        self._rest = bytearray()
        self._started = self._ended_by_cr = False
        self._clear()

    def feed(self, data: bytes) -> bytes:
        """Give the part that passes of the events that these bytes complete; an incomplete event waits.

        Raise ValueError for an event that is no message, or longer than the limit; nothing follows it.
        """
        if self._ended_by_cr and data:
            data = data.removeprefix(b"\n")
            self._ended_by_cr = False
        scanned, at = len(self._rest), 0
        self._rest += data
        if not self._started:
            if len(self._rest) < len(_BOM) and _BOM.startswith(self._rest):
                return b""
            self._started, scanned = True, 0
            self._rest = self._rest.removeprefix(_BOM)
        written = []
        for found in _LINE_END.finditer(self._rest, scanned):
            written.append(self._read_field(bytes(self._rest[at : found.start()])))
            at = found.end()
            self._ended_by_cr = at == len(self._rest) and found[0] == b"\r"
        self._rest = self._rest[at:]
        if self.size > self._limit:
            raise ValueError("an event is too long")
        return b"".join(written)

    @property
    def size(self) -> int:
        """The bytes of the event that has not ended."""
        return self._size + len(self._rest)

    def _clear(self) -> None:
        self._size = 0
        self._data: list[bytes] = []
        self._kind = b""
        self._fields: list[bytes] = []

    def _read_field(self, line: bytes) -> bytes:
        if not line:
            return self._dispatch()
        self._size += len(line)
        if self._size > self._limit:
            raise ValueError("an event is too long")
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if not name:
            return b":\n"
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._kind = value
        elif (name == b"id" and b"\0" not in value) or (name == b"retry" and value.isdigit()):
            self._fields.append(name + b": " + value + b"\n")
        return b""

    def _dispatch(self) -> bytes:
        """The event that a blank line ends."""
        data, kind, written = b"\n".join(self._data), self._kind, b"".join(self._fields)
        has_data = bool(self._data)
        self._clear()
        if kind not in (b"", b"message"):
            data, has_data = b"", False
        message = self._rewrite(data) if data else b""
        if has_data and message is not None:
            written += (b"event: message\n" if kind else b"") + b"data: " + message + b"\n"
        return written + b"\n" if written else b""
