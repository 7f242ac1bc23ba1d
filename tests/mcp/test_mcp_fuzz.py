"""Random messages, streams and requests: nothing unlisted passes, and no reader understands a passed message
differently.

Each test starts from a random seed; the message of a failure contains the input.

Tests of mcp/messages.py.
Tests of mcp/events.py.
Tests of mcp/rules.py.
Tests of egress/mcp_filter.py.
Tests of egress/mcp_wire.py.
"""

from __future__ import annotations

import contextlib
import json
import random
import re
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

from sandwright.documents.record import decode_record, encode_record
from sandwright.egress.mcp_filter import serve_connection
from sandwright.egress.mcp_wire import WireFault
from sandwright.mcp.events import EventFilter
from sandwright.mcp.messages import McpRefusal, client_message, server_message
from sandwright.mcp.methods import CALL, NOTIFICATIONS, REQUESTS
from sandwright.mcp.rules import Entrance, FilteredHost, FilterSettings, ToolRule
from support.thorough import THOROUGH

SEED = 38
CASES = 200_000 if THOROUGH else 12_000

LISTED = ("search", "fetch")
NAMES = (*LISTED, "delete", "Search", "", "search\0", "s\u0435arch", "search ", "tools/call", "ſearch")
KEYS = (
    *(
        "jsonrpc",
        "id",
        "method",
        "params",
        "name",
        "arguments",
        "_meta",
        "result",
        "error",
        "tools",
        "Method",
    ),
    *(
        "NAME",
        "paramſ",
        "Params",
        "x",
        "",
        "tool\u017f",
        "n\\u0061me",
        "meth\\u006fd",
        "\u212aey",
        "__proto__",
    ),
)
METHODS = (
    *(
        CALL,
        CALL,
        "tools/list",
        "initialize",
        "ping",
        "resources/read",
        "notifications/initialized",
        "Tools/call",
    ),
    "notifications/x",
)
PIECES = (
    '"',
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\\",
    "null",
    "1e999",
    "NaN",
    "\ufeff",
    "\0",
    "\n",
    "\u2028",
    '"name":"delete",',
)


def allows(name: str) -> bool:
    return name in LISTED


def random_value(draw: random.Random, depth: int = 0) -> str:
    """A value, usually of JSON; keys may be duplicate."""
    kind = draw.randrange(8 if depth < 3 else 5)
    if kind == 0:
        return draw.choice(("1", "0", "-1", "1.5", "null", "true", "9" * 30, '"2.0"'))
    if kind in (1, 2):
        return json.dumps(draw.choice(NAMES), ensure_ascii=draw.random() < 0.5)
    if kind in (3, 4):
        return json.dumps(draw.choice(METHODS))
    if kind == 5:
        return "[" + ",".join(random_value(draw, depth + 1) for _ in range(draw.randint(0, 3))) + "]"
    return random_object(draw, {}, depth + 1)


def random_object(draw: random.Random, fields: dict[str, str], depth: int, noise: float = 0.5) -> str:
    pairs = [(f'"{key}"', value) for key, value in fields.items() if draw.random() > noise / 10]
    for _ in range(draw.choice((1, 1, 2)) if draw.random() < noise else 0):
        key = draw.choice(KEYS)
        pairs.insert(draw.randint(0, len(pairs)), (f'"{key}"', random_value(draw, depth)))
    space = draw.choice(("", " ", "\n\t"))
    return "{" + ",".join(f"{space}{key}{space}:{value}" for key, value in pairs) + "}"


def random_message(draw: random.Random) -> bytes:
    """A message that is almost valid, from a client or a server."""
    noise = draw.choice((0.0, 0.0, 0.2, 0.5))
    names = (*LISTED, *LISTED, "delete") if noise == 0 else NAMES
    fields = {"jsonrpc": '"2.0"'}
    if draw.random() < 0.8:
        fields["id"] = draw.choice(("1", '"a"', "0") if noise == 0 else ("1", "null", "1.0", "[]"))
    if draw.random() < 0.6:
        fields["method"] = json.dumps(draw.choice(METHODS))
        params = {"name": json.dumps(draw.choice(names)), "arguments": random_value(draw)}
        fields["params"] = random_object(draw, params, 1, noise)
    else:
        listed = [{"name": json.dumps(draw.choice(names))} for _ in range(draw.randint(0, 4))]
        tools = ",".join(random_object(draw, each, 3, noise) for each in listed)
        fields["result"] = random_object(draw, {"tools": f"[{tools}]"}, 1, noise)
    text = random_object(draw, fields, 0, noise)
    for _ in range(draw.random() < noise / 2):
        at = draw.randrange(len(text) + 1)
        text = text[:at] + draw.choice(PIECES) + text[at + draw.randint(0, 2) :]
    if draw.random() < noise / 10:
        text = f"[{text}]"
    return text.encode("utf-8", "surrogatepass")


def lax_readings(text: bytes) -> Iterator[dict[str, Any]]:
    """Readings of a text: the first or last of two keys wins, or the case of keys does not matter."""

    def first(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return dict(reversed(pairs))

    def folded(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return {key.casefold().replace("ſ", "s"): value for key, value in pairs}

    def folded_first(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return folded(list(reversed(pairs)))

    for hook in (dict, first, folded, folded_first):
        yield json.loads(text, object_pairs_hook=hook)


def test_no_client_message_passes_that_any_reader_takes_for_another() -> None:
    draw = random.Random(SEED)
    passed = dict.fromkeys(("call", "other", "refused"), 0)
    answers = []
    for _ in range(CASES):
        raw = random_message(draw)
        try:
            found = client_message(raw, allows)
        except McpRefusal as refusal:
            passed["refused"] += 1
            answers.append(refusal.answer or b"null")
            continue
        passed["call" if found.tool else "other"] += 1
        assert client_message(found.text, allows) == found, raw
        assert json.loads(found.text) == json.loads(raw), raw
        for message in lax_readings(found.text):
            method = message.get("method")
            assert method in {None, CALL, *REQUESTS, *NOTIFICATIONS}, (raw, message)
            assert method != CALL or (message["params"]["name"] in LISTED and "id" in message), (raw, message)
            assert method is not None or message.get("result", {}) == {}, (raw, message)
    assert all(json.loads(each) is None or json.loads(each)["error"]["message"] for each in answers)
    assert min(passed.values()) > CASES // 50, passed


def test_no_server_message_shows_a_tool_that_is_not_listed() -> None:
    draw = random.Random(SEED + 1)
    lists = withheld = 0
    for _ in range(CASES):
        raw = random_message(draw)
        try:
            found = server_message(raw, allows)
        except ValueError:
            continue
        if found is None:
            withheld += 1
            continue
        for message in lax_readings(found):
            result = message.get("result")
            tools = result.get("tools", []) if isinstance(result, dict) else []
            lists += bool(tools)
            assert isinstance(tools, list), raw
            assert all(each["name"] in LISTED for each in tools), (raw, found)
    assert min(lists, withheld) > CASES // 50, (lists, withheld)


FIELDS = (
    "data:",
    "data: ",
    "data",
    "event: ",
    "event: message",
    "event: endpoint",
    "id: 1",
    "retry: 5",
    ": c",
    "Data: ",
    "\ufeff",
)


def random_stream(draw: random.Random) -> bytes:
    """Events with messages over several lines, with every line end, and nonsense between them."""
    lines = []
    for _ in range(draw.randint(1, 4)):
        lines += [draw.choice(FIELDS) for _ in range(draw.choice((0, 0, 1, 2)))]
        text = random_message(draw).decode("utf-8", "surrogatepass")
        parts = [part for part in re.split("[\r\n]", text) if part] if "\n" in text else [text]
        lines += [draw.choice(("data:", "data: ")) + part for part in parts]
        lines += [draw.choice(FIELDS)] * draw.choice((0, 0, 1))
        lines += [""] * draw.choice((0, 1, 1, 1, 2))
    end = draw.choice(("\n", "\r", "\r\n", None))
    ends = [end or draw.choice(("\n", "\r", "\r\n")) for _ in lines]
    return "".join(a + b for a, b in zip(lines, ends, strict=True)).encode("utf-8", "surrogatepass")


def read_events(stream: bytes) -> list[str]:
    """The messages of a stream, by another parser of the format than ours."""
    text = stream.decode("utf-8", "replace").removeprefix("\ufeff")
    found = []
    for block in re.split(r"\n\n|\r\r|\r\n\r\n", text):
        data = [
            line[5:].removeprefix(" ") for line in re.split("\r\n|\n|\r", block) if line.startswith("data:")
        ]
        found += ["\n".join(data)] if data else []
    return found


def filtered(parts: list[bytes]) -> tuple[bytes, bool]:
    """The output of the filter, and whether the stream came to its end."""
    events = EventFilter(lambda data: server_message(data, allows))
    passed = b""
    for part in parts:
        try:
            passed += events.feed(part)
        except ValueError:
            return passed, False
    return passed, True


def test_no_stream_shows_a_tool_that_is_not_listed() -> None:
    draw = random.Random(SEED + 2)
    lists = 0
    for _ in range(CASES // 4):
        stream = random_stream(draw)
        passed, _ = filtered([stream[at : at + 1] for at in range(len(stream))])
        for text in filter(None, read_events(passed)):
            result = json.loads(text).get("result")
            tools = result.get("tools", []) if isinstance(result, dict) else []
            assert all(each["name"] in LISTED for each in tools), (stream, passed)
            lists += bool(tools)
        at = sorted(draw.choices(range(len(stream) + 1), k=draw.randint(0, 6)))
        parts = [stream[a:b] for a, b in zip([0, *at], [*at, len(stream)], strict=True)]
        again, ended = filtered(parts)
        assert again == passed if ended else passed.startswith(again), (stream, parts)
    assert lists > CASES // 200, lists


# --- Whole requests -----------------------------------------------------------------------------------------

HOST = FilteredHost(0, "tools.example", (ToolRule(("^/mcp$",), LISTED),))
GREETING = b"PROXY TCP6 fd00::1 ::1 1 1\r\n"
HEADS = (
    b"Content-Type: application/json\r\n", b"Content-Type: text/plain\r\n", b"Content-Length: 5\r\n",
    b"Transfer-Encoding: chunked\r\n", b"Mcp-Method: tools/call\r\n", b"Mcp-Name: delete\r\n", b"\n", b"\r",
    b"x\r\n", b"X: \xff\r\n", b"Content-Encoding: gzip\r\n", b"MCP_NAME: search\r\n", b": x\r\n", b"\0",
)  # fmt: skip


def random_request(draw: random.Random) -> bytes:
    body = random_message(draw)
    head = [draw.choice(HEADS) for _ in range(draw.choice((0, 0, 0, 0, 1, 2)))]
    head += [b"Content-Type: application/json\r\n"] * (draw.random() < 0.9)
    if draw.random() < 0.3:
        at = draw.randint(0, len(body))
        body = (
            b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:at], body[at:]) if part)
            + b"0\r\n\r\n"
        )
        head.append(b"Transfer-Encoding: chunked\r\n")
    else:
        head.append(b"Content-Length: %d\r\n" % (len(body) + draw.choice((0, 0, 0, 0, 1, -1))))
    method = draw.choice((b"POST", b"POST", b"POST", b"POST", b"GET", b"DELETE", b"PUT"))
    if method in (b"GET", b"DELETE") and draw.random() < 0.7:
        head, body = [], b""
    target = draw.choice((b"/mcp", b"/mcp", b"/mcp", b"/mcp/", b"/mcp?x", b"/MCP", b"*"))
    whole = GREETING + method + b" " + target + b" HTTP/1.1\r\n" + b"".join(head) + b"\r\n" + body
    if draw.random() < 0.1:
        at = draw.randrange(len(whole))
        whole = (
            whole[:at] + draw.choice((b"\r\n", b"\0", b"\xff", b"0", b" ")) + whole[at + draw.randint(0, 2) :]
        )
    return whole


@contextlib.contextmanager
def upstream(answer: Callable[[], bytes]) -> Iterator[tuple[int, list[bytes]]]:
    """A server that accepts any data: its port, and the received data, one item a connection."""
    came: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    connection.settimeout(5)
                    data = b""
                    while b"\r\n\r\n" not in data and (block := connection.recv(65536)):
                        data += block
                    length = re.search(rb"content-length: (\d+)\r\n", data)
                    whole = data.index(b"\r\n\r\n") + 4 + (int(length[1]) if length else 0)
                    while len(data) < whole and (block := connection.recv(65536)):
                        data += block
                    came.append(data)
                    connection.sendall(answer())

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1], came
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)


def exchange(request: bytes, settings: FilterSettings) -> bytes:
    """The response to some bytes on a connection. Any error but WireFault and OSError is a fault."""
    inside, ours = socket.socketpair()
    with inside, ours:
        inside.sendall(request)
        with contextlib.suppress(WireFault, OSError):
            serve_connection(ours, settings, patience=0.02)
        ours.close()
        said = b""
        with contextlib.suppress(OSError):
            while block := inside.recv(65536):
                said += block
    return said


def test_no_request_reaches_the_server_with_another_tool() -> None:
    draw = random.Random(SEED + 3)
    answered = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
    forwarded = refused = 0
    with upstream(lambda: answered) as (port, came):
        settings = FilterSettings((Entrance(HOST, GREETING.decode(), "ONWARD\r\n"),), port)
        assert decode_record(FilterSettings, encode_record(settings)) == settings
        for _ in range(CASES // 8):
            request = random_request(draw)
            before = len(came)
            said = exchange(request, settings)
            refused += b"refused" in said
            for arrived in came[before:]:
                forwarded += 1
                head, _, body = arrived.partition(b"\r\n\r\n")
                assert head.startswith(
                    (b"ONWARD\r\nPOST /mcp ", b"ONWARD\r\nGET /mcp ", b"ONWARD\r\nDELETE /mcp ")
                )
                assert b"POST" in head or not body, request
                message = json.loads(body) if body else {}
                assert message.get("method") != CALL or message["params"]["name"] in LISTED, request
                assert b"\r\nmcp-name: delete" not in head.lower(), request
    assert min(forwarded, refused) > CASES // 200, (forwarded, refused)


def random_answer(draw: random.Random) -> bytes:
    kind = draw.choice(
        (b"application/json", b"text/event-stream", b"text/plain", b"Application/JSON; charset=utf-8")
    )
    body = random_stream(draw) if b"event" in kind else random_message(draw)
    head = b"HTTP/1.1 " + draw.choice((b"200 OK", b"200 OK", b"202 A", b"401 N", b"204 N", b"20 x", b"101 S"))
    head += (
        b"\r\nContent-Type: " + kind + b"\r\n" + draw.choice((b"", b"", b"", b"Content-Encoding: gzip\r\n"))
    )
    if draw.random() < 0.4:
        return head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    if draw.random() < 0.5:
        return head + b"\r\n" + body
    return head + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


def test_no_answer_shows_a_tool_that_is_not_listed() -> None:
    draw = random.Random(SEED + 4)
    question = b"POST /mcp HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 46\r\n\r\n"
    question += b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
    lists = 0
    with upstream(lambda: random_answer(draw)) as (port, _):
        settings = FilterSettings((Entrance(HOST, GREETING.decode(), ""),), port)
        for _ in range(CASES // 8):
            said = exchange(GREETING + question, settings)
            for name in re.findall(rb'"tools":\[\{[^]]*?"name":"([^"]*)"', said):
                lists += name.decode() in LISTED
                assert name.decode() in LISTED, said
    assert lists > CASES // 1000, lists
