"""An MCP server behind the inspecting proxy: its listed tools can be called and seen, and no others.

The canary's server offers more, and accepts everything. Each refusal has its pair that passes.

Tests of egress/mcp_filter.py.
Tests of egress/mcp_wire.py.
Tests of egress/inspection.py: the filter of messages.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandwright.verify.tool_requests import allowed_tool_requests, refused_tool_requests
from support.http2frames import answer, opening
from support.inspecting import PLACEHOLDER, PORT, SECRET, TOOLS, Inspected, Reply, head, request, rest
from support.mcpserver import McpServer, catalogue
from support.waiting import until

pytestmark = pytest.mark.needs("squid", "haproxy", "openssl", "ip", "setpriv")

AUTHORITY = f"{TOOLS}:{PORT}"
SHOWN = ["search", "fetch", "get_issue"]
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


def call(name: str, **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": "a-1", "method": "tools/call", "params": {"name": name, **more}}


@pytest.fixture(autouse=True)
def server(opened: Inspected) -> Iterator[McpServer]:
    """The MCP server of a test."""
    opened.canary.mcp = McpServer()
    opened.canary.pause = 0.0
    yield opened.canary.mcp
    opened.canary.mcp = McpServer()


def post(message: object, *headers: str, target: str = "/mcp") -> bytes:
    """A request as clients of MCP write it."""
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    usual = ("Content-Type: application/json", "Accept: application/json, text/event-stream")
    sent = (*usual, f"Content-Length: {len(body)}", *headers)
    return request(target, *sent, method="POST", host=AUTHORITY, body=body)


def ask(opened: Inspected, message: object, *headers: str, target: str = "/mcp") -> Reply:
    return opened.ask(post(message, *headers, target=target), TOOLS)


def body(reply: Reply) -> bytes:
    """The body of an answer, without chunks."""
    first, _, data = reply.raw.partition(b"\r\n\r\n")
    if b"chunked" not in first:
        return data
    found = b""
    while data and (size := int(data.partition(b"\r\n")[0], 16)):
        data = data.partition(b"\r\n")[2]
        found += data[:size]
        data = data[size + 2 :]
    return found


def names(reply: Reply) -> list[str]:
    """The tools that an answer shows."""
    text = body(reply)
    if b"data: " in text:
        text = text.partition(b"data: ")[2].partition(b"\n")[0]
    return [each["name"] for each in json.loads(text)["result"]["tools"]]


def test_a_listed_tool_is_called_and_another_is_not(opened: Inspected, server: McpServer) -> None:
    with opened.arriving() as arrived:
        good = ask(opened, call("search", arguments={"q": "é"}))
        bad = ask(opened, call("delete_repo"))
    assert server.called == ["search"]
    (one,) = arrived
    assert json.loads(one.body) == call("search", arguments={"q": "é"})
    assert json.loads(body(good))["id"] == "a-1"
    assert (bad.status, json.loads(body(bad))["id"]) == (200, "a-1")
    assert "delete_repo: no mcp rule lists it" in json.loads(body(bad))["error"]["message"]


@pytest.mark.parametrize("style", ["json", "events"])
def test_a_list_shows_listed_tools_only(opened: Inspected, server: McpServer, style: str) -> None:
    server.style = style
    assert names(ask(opened, LIST)) == SHOWN


def test_the_secret_comes_behind_the_filter_and_is_masked(opened: Inspected, server: McpServer) -> None:
    server.said = (
        "application/json",
        json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"x": SECRET}}).encode(),
    )
    with opened.arriving() as arrived:
        said = ask(opened, call("search"), f"x-api-key: {PLACEHOLDER}")
        assert ask(opened, call("search"), "x-api-key: mine").status == 403
    assert [each.header("x-api-key") for each in arrived] == [[SECRET]]
    assert json.loads(body(said))["result"]["x"] == "*" * len(SECRET)


def test_every_refusal_of_verify_stays_here(opened: Inspected) -> None:
    """The probes' requests, with a server behind the filter that would answer them."""

    def sent(raw: bytes) -> bytes:
        return raw.replace(b"Host: tools.verify.sandwright.invalid", f"Host: {AUTHORITY}".encode())

    with opened.arriving() as arrived:
        for each in refused_tool_requests():
            opened.ask(sent(each), TOOLS)
    assert [each.line for each in arrived] == []
    with opened.arriving() as arrived:
        for each in allowed_tool_requests():
            assert opened.ask(sent(each), TOOLS).status in (200, 302)
    assert len(arrived) == 6


@pytest.mark.parametrize("target", ["/mcp/", "/MCP", "/mcp/messages", "/mcp?x=1"])
def test_no_other_path_leads_to_the_raw_list(opened: Inspected, server: McpServer, target: str) -> None:
    with opened.arriving() as arrived:
        assert ask(opened, LIST, target=target).status == 403
        assert opened.ask(request(target, host=AUTHORITY), TOOLS).status == 403
        assert ask(opened, LIST, target="/other").status == 200
    assert (len(arrived), server.called) == (1, [])


@pytest.mark.parametrize("target", ["/mcp%2F", "/MCP%2fmessages"])
def test_an_escaped_slash_leads_to_no_other_rule(opened: Inspected, server: McpServer, target: str) -> None:
    """A rule of the host allows such slashes."""
    with opened.arriving() as arrived:
        assert ask(opened, call("delete_repo"), target=target).status == 403
        assert ask(opened, LIST, target="/other%2Fmcp").status == 200
    assert (len(arrived), server.called) == (1, [])


@pytest.mark.parametrize("filling", ["a", "%20", "%C3%A9", "a/"])
def test_a_long_path_leads_past_no_rule(opened: Inspected, filling: str) -> None:
    """A regular expression that repeats a group matches nothing when PCRE runs out of its stack."""
    end = "/more" if "/" in filling else "/tools"
    with opened.arriving() as arrived:
        for length in (*range(1500, 2600, 60), 7000):
            name = (filling * (length // len(filling))).rstrip("/")
            ask(opened, call("delete_repo"), target=f"/{name}{end}")
    assert [each.line[-20:] for each in arrived] == []


def test_a_chunked_message_is_read_as_a_whole(opened: Inspected, server: McpServer) -> None:
    for name in ("search", "delete_repo"):
        text = json.dumps(call(name)).encode()
        cut = text.index(b"tools/") + 3
        parts = b"".join(b"%x;x=y\r\n%s\r\n" % (len(each), each) for each in (text[:cut], text[cut:]))
        sent = request(
            "/mcp", "Content-Type: application/json", "Transfer-Encoding: chunked",
            method="POST", host=AUTHORITY,
            body=parts + b"0\r\n\r\n",
        )  # fmt: skip
        assert opened.ask(sent, TOOLS).status == 200
    assert server.called == ["search"]


@pytest.mark.parametrize("name", ["search", "delete_repo"])
def test_http2_is_no_way_around(opened: Inspected, server: McpServer, name: str) -> None:
    asked = [(":method", "POST"), (":scheme", "https"), (":authority", AUTHORITY), (":path", "/mcp")]
    with opened.tunnel(TOOLS, alpn=("h2",)) as connection:
        text = json.dumps(call(name)).encode()
        connection.sendall(opening([*asked, ("content-type", "application/json")], text))
        said = answer(connection, 3)
    assert said.status == 200
    assert ("error" in json.loads(said.body)) is (name != "search")
    assert server.called == ([name] if name == "search" else [])


def test_expect_continue_is_answered(opened: Inspected, server: McpServer) -> None:
    text = json.dumps(call("search")).encode()
    with opened.tunnel(TOOLS) as connection:
        sent = post(text, "Expect: 100-continue")
        connection.sendall(sent.removesuffix(text))
        assert b" 100 " in head(connection)
        connection.sendall(text)
        assert b" 200 " in head(connection)
    assert server.called == ["search"]


def get(opened: Inspected, *headers: str) -> Reply:
    return opened.ask(request("/mcp", "Accept: text/event-stream", *headers, host=AUTHORITY), TOOLS)


RAW = json.dumps({"jsonrpc": "2.0", "id": 9, "result": {"tools": catalogue()}})


STREAMS = {
    "LF": [f"data: {RAW}\n\n".encode()],
    "CR LF": [f"id: 4\r\ndata: {RAW}\r\n\r\n".encode()],
    "CR": [f"data: {RAW}\r\r".encode()],
    "bytes": [bytes([each]) for each in f"data: {RAW}\r\n\r\n".encode()],
    "several lines": [f"data: {RAW.replace(', ', chr(10) + 'data:  , ', 3)}\n\n".encode()],
    "a byte order mark": [b"\xef\xbb\xbf", f"event: message\ndata:{RAW}\n\n".encode()],
    "other fields": [b": x\n\n", f"retry: 1\ndata: {RAW}\nid: 2\n\n".encode()],
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_resumed_or_other_stream_shows_listed_tools_only(
    opened: Inspected, server: McpServer, name: str
) -> None:
    server.stream = STREAMS[name]
    with opened.arriving() as arrived:
        reply = get(opened, "Last-Event-ID: 3")
    assert arrived[0].header("last-event-id") == ["3"]
    assert names(reply) == SHOWN


AMBIGUOUS = {
    "a batch": f"[{RAW}]",
    "two results": RAW.replace('"result"', '"result":{"tools":[]},"result"'),
    "another case": RAW.replace('"tools"', '"Tools"'),
    "a name in another case": RAW.replace('"name": "admin"', '"name": "search", "Name": "admin"'),
    "two answers": RAW + RAW,
    "more behind it": f"{RAW}x",
}


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_an_answer_with_two_readings_does_not_come(opened: Inspected, server: McpServer, name: str) -> None:
    text = AMBIGUOUS[name]
    server.stream = [f"data: {text}\n\n".encode(), f"data: {RAW}\n\n".encode()]
    assert b"admin" not in get(opened).raw
    assert b"search" not in get(opened).raw
    server.said = ("application/json", text.encode())
    reply = ask(opened, LIST)
    assert (reply.status, b"admin" in reply.raw) == (502, False)


FORMS = {
    "text": ("text/plain", RAW.encode()),
    "UTF-16": ("application/json; charset=utf-16", RAW.encode("utf-16")),
    "compressed": ("application/json\r\nContent-Encoding: gzip", gzip.compress(RAW.encode())),
    "a compressed stream": (
        "text/event-stream\r\nContent-Encoding: gzip",
        gzip.compress(f"data: {RAW}\n\n".encode()),
    ),
    "two types": ("application/json\r\nContent-Type: text/plain", RAW.encode()),
    "no type": ("", RAW.encode()),
}


@pytest.mark.parametrize("name", FORMS)
def test_an_answer_in_another_form_has_no_body(opened: Inspected, server: McpServer, name: str) -> None:
    server.said = FORMS[name]
    reply = ask(opened, LIST)
    assert reply.status in (200, 502)
    assert body(reply) == b"" or reply.status == 502
    assert not [each for each in ("admin", "search") if each.encode() in reply.raw]


def test_no_answer_is_asked_for_compressed(opened: Inspected) -> None:
    with opened.arriving() as arrived:
        ask(opened, LIST, "Accept-Encoding: gzip, br")
    assert arrived[0].header("accept-encoding") == []


def test_requests_of_the_server_do_not_reach_the_client(opened: Inspected, server: McpServer) -> None:
    asked = {"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": {}}
    told = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "hello"}}
    server.stream = [f"data: {json.dumps(each)}\n\n".encode() for each in (asked, told)]
    said = get(opened).raw
    assert b"hello" in said
    assert b"sampling" not in said
    with opened.arriving() as arrived:
        assert ask(opened, {"jsonrpc": "2.0", "id": 1, "result": {"role": "x"}}).status == 403
        assert ask(opened, {"jsonrpc": "2.0", "id": 1, "result": {}}).status == 202
    assert len(arrived) == 1


def test_a_session_is_ended_by_delete(opened: Inspected) -> None:
    with opened.arriving() as arrived:
        sent = request("/mcp", "Mcp-Session-Id: s", method="DELETE", host=AUTHORITY)
        assert opened.ask(sent, TOOLS).status == 200
    assert (arrived[0].line, arrived[0].header("mcp-session-id")) == ("DELETE /mcp HTTP/1.1", ["s"])


def test_events_come_at_once_and_a_client_that_leaves_ends_them(opened: Inspected, server: McpServer) -> None:
    told = json.dumps({"jsonrpc": "2.0", "method": "notifications/message"}).encode()
    server.stream = [b"data: " + told + b"\n\n"] * 100
    opened.canary.pause = 0.3
    before = threading.active_count()
    with opened.tunnel(TOOLS) as connection:
        connection.sendall(request("/mcp", host=AUTHORITY))
        head(connection)
        came: list[float] = []
        while len(came) < 3:
            if b"notifications/message" in connection.recv(65536):
                came.append(time.monotonic())
    assert min(came[1] - came[0], came[2] - came[1]) > 0.15
    until(lambda: threading.active_count() <= before, "the upstream's connection has ended")


def test_a_long_message_is_refused_and_one_within_the_bound_is_not(
    opened: Inspected, server: McpServer
) -> None:
    assert ask(opened, call("search", arguments={"x": "y" * (3 << 20)})).status == 200
    assert server.called == ["search"]
    reply = ask(opened, call("search", arguments={"x": "y" * (5 << 20)}))
    assert reply.status in (403, 0)
    assert server.called == ["search"]


def test_a_long_list_is_filtered(opened: Inspected, server: McpServer) -> None:
    tools = catalogue([f"{kind}_{number}" for number in range(8000) for kind in ("get", "set")])
    answered = {"jsonrpc": "2.0", "id": 1, "result": {"tools": tools}}
    server.said = ("application/json", json.dumps(answered).encode())
    found = names(ask(opened, LIST))
    assert (len(found), {each[:4] for each in found}) == (8000, {"get_"})


def test_the_log_names_the_tool(opened: Inspected) -> None:
    log = opened.folder / "requests.log"
    before = len(log.read_text().splitlines())
    for message in (call("search"), call("delete_repo"), {**LIST, "method": "prompts/list"}, [LIST]):
        ask(opened, message)
    until(lambda: len(log.read_text().splitlines()) >= before + 4, "requests are logged")
    lines = [json.loads(line) for line in log.read_text().splitlines()[before:] if line.startswith("{")]
    assert [(each["reason"], each["tool"]) for each in lines] == [
        ("-", "search"), ("tool", "delete_repo"), ("call", "prompts/list"), ("message", "-"),
    ]  # fmt: skip


def test_many_at_a_time(opened: Inspected, server: McpServer) -> None:
    replies: list[int] = []

    def work() -> None:
        replies.extend(ask(opened, call("search")).status for _ in range(8))

    workers = [threading.Thread(target=work) for _ in range(16)]
    for each in workers:
        each.start()
    for each in workers:
        each.join(60)
    assert replies == [200] * 128
    assert len(server.called) == 128


def processes(opened: Inspected) -> dict[str, Path]:
    """haproxy and the filter of a proxy, below /proc."""
    found = {}
    for each in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (each / "cmdline").read_bytes().split(b"\0")
            if str(opened.folder / "haproxy.cfg").encode() in words:
                found["haproxy"] = each
    supervisor = parent(found["haproxy"])
    for each in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if b"egress.mcp_filter" in (each / "cmdline").read_bytes() and parent(each) == supervisor:
                found["filter"] = each
    return found


def parent(process: Path) -> str:
    return (process / "stat").read_text().rpartition(")")[2].split()[1]


def test_the_filter_is_restricted(opened: Inspected) -> None:
    """The filter has no new privileges, a seccomp filter, no capability, and no secret in its environment."""
    process = processes(opened)["filter"]
    lines = (process / "status").read_text().splitlines()
    status = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    bounding = {"CapBnd"} if os.geteuid() == 0 else set()  # to drop it takes a capability
    assert {status[each] for each in {"CapPrm", "CapEff", "CapAmb"} | bounding} == {"0" * 16}
    assert (process / "environ").read_bytes() == f"PATH={os.defpath}\0".encode()


def resident(process: Path) -> int:
    """The memory of a process, in MiB."""
    return int((process / "status").read_text().partition("VmRSS:")[2].split()[0]) >> 10


@pytest.mark.parametrize("way", ["requests", "events"])
def test_messages_that_do_not_end_take_bounded_memory(opened: Inspected, server: McpServer, way: str) -> None:
    """The memory is the host's: a sandbox's own limits do not apply. Small messages pass meanwhile."""
    process, text = processes(opened)["filter"], json.dumps({"x": "x" * (4 << 20)})[:-1].encode()
    before = resident(process)
    endless = post(call("search", arguments={"q": "x" * ((4 << 20) - 500)}))[:-2]
    if way == "events":
        server.said = ("text/event-stream", b"data: " + text)
        opened.canary.pause = 5.0
        endless = post(call("search"))
    with contextlib.ExitStack() as stack:
        for _ in range(60):
            connection = stack.enter_context(opened.tunnel(TOOLS))
            connection.setblocking(False)
            stack.callback(connection.close)
            threading.Thread(target=send_all, args=(connection, endless), daemon=True).start()
        time.sleep(4)
        grown = resident(process) - before
        server.said = None
        assert grown < 100
        assert ask(opened, call("search")).status == 200
    until(
        lambda: ask(opened, call("search", arguments={"q": "x" * (1 << 20)})).status == 200,
        "no place is free",
    )


def send_all(connection: ssl.SSLSocket, data: bytes) -> None:
    """Send as much as is accepted, for ten seconds."""
    end = time.monotonic() + 10
    with contextlib.suppress(OSError, ValueError):
        while data and time.monotonic() < end:
            try:
                data = data[connection.send(data[:65536]) :]
            except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
                time.sleep(0.01)


@pytest.mark.parametrize("greeting", [b"", b"PROXY TCP6 fd00::1 ::1 1 6\r\n", b"x" * 200])
def test_nobody_else_is_served_by_the_filter(opened: Inspected, greeting: bytes) -> None:
    """Its port is open to all users of this machine; only haproxy knows the greeting."""
    environment = (processes(opened)["haproxy"] / "environ").read_bytes()
    port = int(environment.partition(b"SW_FILTER=")[2].partition(b"\0")[0])
    with opened.arriving() as arrived, socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(greeting + post(call("search")))
        with contextlib.suppress(OSError):  # it has gone already
            connection.shutdown(socket.SHUT_WR)
        assert rest(connection, 2) == b""
    assert arrived == []
