"""Lines between a client and a server of MCP over stdio: those that pass, and the answers to each side.

Tests of mcp/stdio.py.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from sandwright.mcp import stdio
from sandwright.mcp.messages import ClientMessage, McpRefusal
from sandwright.mcp.stdio import MAX_REQUEST, StdioFilter
from sandwright.verify import tool_requests
from support.mcpserver import catalogue

LISTED = frozenset(("search", "get_issue"))


class Seen:
    """The decisions of the filter."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.refusals: list[tuple[str, str]] = []
        self.faults: list[str] = []

    def passed(self, message: ClientMessage) -> None:
        self.messages.append(f"{message.method} {message.tool}".strip())

    def refused(self, refusal: McpRefusal) -> None:
        self.refusals.append((refusal.reason, refusal.what))

    def dropped(self, fault: str) -> None:
        self.faults.append(fault)


class Pair:
    """A client and a server with the filter between them."""

    def __init__(self) -> None:
        self.seen = Seen()
        self.filter = StdioFilter(LISTED.__contains__, self.seen)

    def client(self, *lines: object) -> tuple[list[bytes], list[bytes]]:
        """The output to server and client for lines from the client."""
        self.filter.read_client(b"".join(text(each) + b"\n" for each in lines))
        return self.taken()

    def server(self, *lines: object) -> tuple[list[bytes], list[bytes]]:
        """The output to server and client for lines from the server."""
        self.filter.read_server(b"".join(text(each) + b"\n" for each in lines))
        return self.taken()

    def taken(self) -> tuple[list[bytes], list[bytes]]:
        found = bytes(self.filter.to_server), bytes(self.filter.to_client)
        self.filter.to_server.clear()
        self.filter.to_client.clear()
        assert all(each[-1:] in (b"", b"\n") for each in found)
        return found[0].splitlines(), found[1].splitlines()


@pytest.fixture
def pair() -> Pair:
    return Pair()


def text(message: object) -> bytes:
    return message if isinstance(message, bytes) else json.dumps(message).encode()


def request(method: str, number: object = 1, **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, **more}


def call(name: str, number: object = 1) -> dict[str, Any]:
    return request("tools/call", number, params={"name": name})


def result(value: object, number: object = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "result": value}


def test_a_listed_tool_is_called_and_another_is_answered_by_us(pair: Pair) -> None:
    to_server, to_client = pair.client(call("search", "a"), call("delete", "b"))
    assert [json.loads(each) for each in to_server] == [call("search", "a")]
    (answer,) = map(json.loads, to_client)
    assert answer["id"] == "b"
    assert answer["error"]["message"] == "sandwright: refused: the tool delete: no mcp rule lists it"
    assert (pair.seen.messages, pair.seen.refusals) == (["tools/call search"], [("tool", "delete")])


def test_a_list_shows_listed_tools_only(pair: Pair) -> None:
    pair.client(request("tools/list"))
    _, (line,) = pair.server(result({"tools": catalogue(), "nextCursor": "x"}))
    found = json.loads(line)["result"]
    assert [each["name"] for each in found["tools"]] == ["search", "get_issue"]
    assert found["nextCursor"] == "x"


@pytest.mark.parametrize("message", list(tool_requests._REFUSED))
def test_what_verify_refuses_over_http_is_refused_here(pair: Pair, message: str) -> None:
    to_server, to_client = pair.client(message.encode())
    # A line break inside makes two messages, and the filter decides on each.
    assert [json.loads(each) for each in to_server] == ([call("search")] if "\n" in message else [])
    assert bool(pair.seen.refusals) is bool(message)
    assert all(json.loads(each)["error"] for each in to_client)


@pytest.mark.parametrize("message", list(tool_requests._ALLOWED))
def test_what_verify_allows_over_http_passes(pair: Pair, message: str) -> None:
    to_server, to_client = pair.client(message.encode())
    assert (len(to_server), to_client, pair.seen.refusals) == (1, [], [])


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "method": "tools/call"}',
        b'[{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}]',
        b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"} {}',
        b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}\0',
        b'\xef\xbb\xbf{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}',
        b"Content-Length: 58\r",
        b"\0",
        b"\x0c",
        b"\xff",
    ],
)
def test_what_is_no_message_is_answered_without_an_id(pair: Pair, line: bytes) -> None:
    to_server, (answer,) = pair.client(line)
    assert to_server == []
    assert (json.loads(answer)["id"], json.loads(answer)["error"]["code"]) == (None, -32600)
    assert pair.seen.refusals == [("message", "")]


def test_a_refused_notification_is_not_answered(pair: Pair) -> None:
    assert pair.client({"jsonrpc": "2.0", "method": "notifications/anything"}) == ([], [])
    assert pair.client(result({"role": "assistant"})) == ([], [])
    assert [reason for reason, _ in pair.seen.refusals] == ["call", "call"]


def test_line_ends_within_a_message_do_not_reach_the_server(pair: Pair) -> None:
    """Python's text files split a stream at a carriage return, other programs at U+2028."""
    written = b'{"jsonrpc":"2.0",\r"id":1,\r\n'[:-1] + b'"method":"tools/call",'
    written += '"params":{"name":"search","arguments":{"q":"a\u2028b\u0085"}}}\r'.encode()
    (line,), _ = pair.client(written)
    assert b"\r" not in line
    assert line.isascii()
    assert json.loads(line)["params"]["arguments"] == {"q": "a\u2028b\u0085"}


def test_blank_lines_are_nothing(pair: Pair) -> None:
    assert pair.client(b"", b"\r", b" \t") == ([], [])
    assert pair.server(b"", b"\r") == ([], [])
    assert (pair.seen.refusals, pair.seen.faults) == ([], [])


def test_a_line_may_come_in_any_parts(pair: Pair) -> None:
    wire = text(call("search")) + b"\r\n" + text(call("delete", 2)) + b"\n" + text(call("search", 3)) + b"\n"
    draw = random.Random(38)
    for _ in range(200):
        rest = wire
        while rest:
            size = draw.randint(1, 40)
            pair.filter.read_client(rest[:size])
            rest = rest[size:]
        to_server, to_client = pair.taken()
        assert [json.loads(each)["id"] for each in to_server] == [1, 3]
        assert [json.loads(each)["id"] for each in to_client] == [2]


def test_half_a_line_waits_and_is_decided_on_at_the_end(pair: Pair) -> None:
    pair.filter.read_client(text(call("search")))
    pair.filter.read_server(b"half")
    assert pair.taken() == ([], [])
    pair.filter.read_client(b"")
    assert pair.taken()[0] == [text(call("search")).replace(b": ", b":").replace(b", ", b",")]
    pair.filter.read_server(b"")
    assert pair.taken() == ([], [])
    assert len(pair.seen.faults) == 1


def test_a_line_that_is_too_long_is_left_out_whole(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    long = text(request("tools/list"))[:-1] + b" " * MAX_REQUEST
    for at in range(0, len(long), 1 << 16):
        pair.filter.read_client(long[at : at + (1 << 16)])
        assert len(pair.filter._from_client._held) <= MAX_REQUEST
    pair.filter.read_client(b"}\n" + text(call("search", 2)) + b"\n")
    to_server, (answer,) = pair.taken()
    assert [json.loads(each)["id"] for each in to_server] == [2]
    assert "longer than 4 MiB" in json.loads(answer)["error"]["message"]
    monkeypatch.setattr(stdio, "MAX_ANSWER", 100)
    other = Pair()
    other.client(request("tools/list"))
    assert other.server(result("x" * 101)) == ([], [])
    assert other.seen.faults == ["a message is longer than 0 MiB"]


def test_only_requests_that_passed_are_answered_and_each_once(pair: Pair) -> None:
    pair.client(call("search", 1), call("delete", 2))
    assert pair.server(result("guessed", 2), result("early", 3)) == ([], [])
    assert len(pair.server(result("found", 1))[1]) == 1
    assert pair.server(result("again", 1)) == ([], [])
    assert pair.seen.faults == ["message: it answers no request that passed"] * 3
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "no"}}
    assert len(pair.server(error)[1]) == 1


def test_an_id_is_compared_with_its_type(pair: Pair) -> None:
    pair.client(call("search", 1))
    assert pair.server(result("x", "1")) == ([], [])
    assert len(pair.server(result("x", 1))[1]) == 1


def test_awaited_requests_are_bounded(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "_MOST_AWAITED", 3)
    pair.client(*(call("search", number) for number in range(5)))
    assert len(pair.server(*(result("x", number) for number in range(5)))[1]) == 3


@pytest.mark.parametrize("method", ["sampling/createMessage", "elicitation/create", "roots/list", "x"])
def test_a_request_of_the_server_is_answered_and_does_not_reach_the_client(pair: Pair, method: str) -> None:
    (answer,), to_client = pair.server(request(method, "s-1"))
    assert to_client == []
    assert (json.loads(answer)["id"], json.loads(answer)["error"]["code"]) == ("s-1", -32601)
    assert pair.server(request("ping", 4)) == (
        [],
        [text(request("ping", 4)).replace(b": ", b":").replace(b", ", b",")],
    )


@pytest.mark.parametrize(
    "line", [b"Server listening", b"[]", b'{"jsonrpc":"2.0","id":1,"result":1,"result":2}']
)
def test_what_a_server_prints_besides_does_not_pass(pair: Pair, line: bytes) -> None:
    pair.client(call("search"))
    assert pair.server(line) == ([], [])
    assert len(pair.seen.faults) == 1
    assert len(pair.server({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})[1]) == 1


def test_random_lines_never_carry_a_call_that_is_not_listed(pair: Pair) -> None:
    draw = random.Random(380)
    parts = (
        *(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search"}}', b'"name":"delete"'),
        *(b"\n",) * 12,
        *(b"\r", b"\0", b"{", b"}", b",", b"[", b'"', b"\\u0064elete", b"\xe2\x80\xa8", b"delete"),
        b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"delete"}}',
    )
    passed = 0
    for _ in range(20_000):
        pair.filter.read_client(draw.choice(parts))
        if pair.filter.to_server:
            for line in pair.taken()[0]:
                passed += 1
                assert json.loads(line)["params"]["name"] == "search"
        pair.filter.to_client.clear()
    assert passed > 100
