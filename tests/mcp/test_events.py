"""Streams of server-sent events, with any line ends and in any parts.

Tests of mcp/events.py.
"""

from __future__ import annotations

import pytest

from sandwright.mcp.events import EventFilter


def rewrite(data: bytes) -> bytes | None:
    """Messages in capitals; a text with `no` at its beginning is withheld, one with `bad` is no message."""
    if data.startswith(b"bad"):
        raise ValueError(data)
    return None if data.startswith(b"no") else data.upper().replace(b"\n", b"|")


def passed(*parts: bytes, limit: int = 1000) -> bytes:
    events = EventFilter(rewrite, limit)
    return b"".join(map(events.feed, parts))


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_every_line_end_and_every_part(end: bytes) -> None:
    stream = b"\xef\xbb\xbf: hello\nevent: message\nid: 7\ndata: a\ndata:b\nretry: 10\nother: x\n\ndata\n\n"
    stream = stream.replace(b"\n", end)
    whole = b":\nid: 7\nretry: 10\nevent: message\ndata: A|B\n\ndata: \n\n"
    assert passed(stream) == whole
    for at in range(len(stream)):
        assert passed(stream[:at], stream[at:]) == whole, at
    assert passed(*(bytes([each]) for each in stream)) == whole


def test_a_blank_line_does_not_wait_for_more() -> None:
    assert passed(b"data: a\r\r") == b"data: A\n\n"
    assert passed(b"data: a\r\n\r\n") == b"data: A\n\n"
    assert passed(b"data: a\r\n\r", b"\n", b"data: b\n\n") == b"data: A\n\ndata: B\n\n"
    assert passed(b":\r") == b":\n"


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: no\nid: 3\n\n", b"id: 3\n\n"),
        (b"data: no\n\n", b""),
        (b"event: endpoint\ndata: a\n\n", b""),
        (b"event: message\nevent: other\ndata: a\n\n", b""),
        (b"Data: a\n\n", b""),
        (b" data: a\n\n", b""),
        (b"data : a\n\n", b""),
        (b"id: a\0b\n\n", b""),
        (b"retry: 1x\n\n", b""),
        (b"data: a", b""),
        (b"data: a\n", b""),
        (b"data: x\xe2\x80\xa8data: y\n\n", b"data: X\xe2\x80\xa8DATA: Y\n\n"),
        (b"data:  a\n\n", b"data:  A\n\n"),
        (b"id: 1\ndata: \n\n", b"id: 1\ndata: \n\n"),
        (b"\n\n\n", b""),
    ],
)  # fmt: skip
def test_what_the_format_says(stream: bytes, expected: bytes) -> None:
    assert passed(stream) == expected


def test_what_is_no_message_ends_the_stream() -> None:
    events = EventFilter(rewrite)
    assert events.feed(b"data: a\n\n") == b"data: A\n\n"
    with pytest.raises(ValueError, match="bad"):
        events.feed(b"data: bad\n\ndata: a\n\n")


@pytest.mark.parametrize(
    "parts",
    [[b"data: " + b"x" * 1000], [b"data: x\n"] * 200, [b"x" * 900, b"x" * 900], [b"id: 1234\n"] * 200],
)
def test_an_event_is_bounded(parts: list[bytes]) -> None:
    with pytest.raises(ValueError, match="too long"):
        passed(*parts)
    assert passed(*([b"data: x\n\n"] * 500)) == b"data: X\n\n" * 500
