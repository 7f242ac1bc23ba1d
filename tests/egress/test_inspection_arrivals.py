"""Requests as they arrive at the upstream of an opened host: with one reading, and the secret in one
place."""

from __future__ import annotations

import itertools
import re
import time

import pytest

from support.inspecting import (
    API,
    OPEN,
    PART,
    PLACEHOLDER,
    PORT,
    SECRET,
    TARGET,
    TUNNEL,
    Inspected,
    head,
    request,
    rest,
)

pytestmark = pytest.mark.needs("squid", "haproxy", "openssl", "ip", "setpriv")

FIRST = f"GET {TARGET} HTTP/1.1"
SECOND = "GET /repos/acme/y HTTP/1.1"
HOST = f"Host: {API}:{PORT}"
POST = f"POST {TARGET} HTTP/1.1"


def lines(*each: str) -> bytes:
    return "\r\n".join(each).encode("latin-1") + b"\r\n\r\n"


NORMALISED = {
    "as it is": request(),
    "a version that is to come": request(version="HTTP/1.2"),
    "a version of HTTP/2": request(version="HTTP/2.0"),
    "the whole URL": request(f"https://{API}:{PORT}{TARGET}"),
    "the whole URL in capitals": request(f"HTTPS://{API.upper()}:{PORT}{TARGET}"),
    "the URL of another scheme": request(f"http://{API}:{PORT}{TARGET}"),
    "a host in capitals": request(host=f"{API.upper()}:{PORT}"),
    "a folded host": request(TARGET, "Host:", f" {API}:{PORT}", host=None),
    "the same host twice": request(TARGET, HOST),
    "bare line feeds": request().replace(b"\r\n", b"\n"),
    "an empty line before": b"\r\n" + request(),
    "the placeholder": request(TARGET, f"X-Api-Key: {PLACEHOLDER}"),
    "the placeholder among blanks": request(TARGET, f"X-Api-Key:  \t{PLACEHOLDER} "),
}  # fmt: skip


@pytest.mark.parametrize("name", NORMALISED)
def test_it_arrives_in_one_form(opened: Inspected, name: str) -> None:
    with opened.arriving() as arrived:
        assert opened.ask(NORMALISED[name]).status == 200
    assert [each.line for each in arrived] == [FIRST]
    assert [each.header("host") for each in arrived] == [[f"{API}:{PORT}"]]
    assert arrived[0].header("x-api-key") == [SECRET]
    assert re.fullmatch(rb"[^\n\r]+\r\n([!-9;-~]+: [^\n\r]*\r\n)+\r\n", arrived[0].head)


HEADERS = {
    "a folded value": ("X-A: b\r\n c", "x-a", ["b   c"]),
    "a folded value with a tab": ("X-A: b\r\n\tc", "x-a", ["b  \tc"]),
    "named by Connection": ("X-A: b\r\nConnection: x-a", "x-a", ["b"]),
    "the secret's header named by Connection": ("Connection: x-api-key", "x-api-key", [SECRET]),
    "the host named by Connection": ("Connection: host", "host", [f"{API}:{PORT}"]),
    "what Connection names": ("Connection: x-api-key, host", "connection", []),
    "a placeholder in another header": (f"X-Other: {PLACEHOLDER}", "x-other", [PLACEHOLDER]),
    "continuing": ("Expect: 100-continue", "x-api-key", [SECRET]),
    "8 bits": ("X-A: \xe9", "x-a", ["\xe9"]),
}  # fmt: skip


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_arrives_in_one_form(opened: Inspected, name: str) -> None:
    sent, header, values = HEADERS[name]
    with opened.arriving() as arrived:
        assert opened.ask(request(TARGET, *sent.split("\r\n"))).status in (100, 200)
    assert [each.header(header) for each in arrived] == [values]


BODY = "GET /other HTTP/1.1\r\nHost: x\r\n\r\n"
CHUNKS = lines(POST, HOST, "Transfer-Encoding: chunked", "Connection: close")
CHUNKED = f"{len(BODY):x}\r\n{BODY}\r\n0\r\n\r\n".encode()

SEVERAL = {
    "two in one write": (
        lines(FIRST, HOST) + lines(SECOND, HOST, "Connection: close"),
        [(FIRST, ""), (SECOND, "")],
    ),
    "one that is refused behind one": (
        lines(FIRST, HOST) + lines("GET /other HTTP/1.1", HOST, "Connection: close"),
        [(FIRST, "")],
    ),
    "one for another host behind one": (
        lines(FIRST, HOST) + lines("GET /x HTTP/1.1", f"Host: {OPEN}:{PORT}", "Connection: close"),
        [(FIRST, "")],
    ),
    "one behind a refused one": (
        lines("GET /other HTTP/1.1", HOST) + lines(SECOND, HOST, "Connection: close"),
        [(SECOND, "")],
    ),
    "a request in a body": (
        lines(POST, HOST, f"Content-Length: {len(BODY)}", "Connection: close") + BODY.encode(),
        [(POST, BODY)],
    ),
    "a request in the body of a GET": (
        lines(FIRST, HOST, f"Content-Length: {len(BODY)}", "Connection: close") + BODY.encode(),
        [(FIRST, BODY)],
    ),
    "a request in a chunk": (
        CHUNKS + CHUNKED,
        [(POST, BODY)],
    ),
    "a length and chunks": (
        lines(POST, HOST, "Content-Length: 4", "Transfer-Encoding: chunked", "Connection: close") + CHUNKED,
        [(POST, BODY)],
    ),
    "chunks and a length": (
        lines(POST, HOST, "Transfer-Encoding: chunked", "Content-Length: 4", "Connection: close") + CHUNKED,
        [(POST, BODY)],
    ),
    "an older version": (
        lines(FIRST.replace("1.1", "1.0"), HOST) + lines("GET /other HTTP/1.1", HOST),
        [(FIRST.replace("1.1", "1.0"), "")],
    ),
    "chunks in an older version": (
        lines(POST.replace("1.1", "1.0"), HOST, "Transfer-Encoding: chunked") + CHUNKED,
        [(POST.replace("1.1", "1.0"), BODY)],
    ),
    "an extension of a chunk": (
        CHUNKS + b"3;a=b\r\nabc\r\n0\r\n\r\n",
        [(POST, "abc")],
    ),
    "a quoted line break in an extension": (
        CHUNKS + b'3;a="\r\n\r\nGET /other HTTP/1.1\r\n"\r\nabc\r\n0\r\n\r\n',
        [],
    ),
    "a bare line feed behind a chunk's size": (
        CHUNKS + b"3\nabc\r\n0\r\n\r\n",
        [(POST, "abc")],
    ),
    "a size of a chunk that wraps around": (
        CHUNKS + b"10000000000000003\r\nabc\r\n0\r\n\r\n",
        [],
    ),
    "the same length twice": (
        lines(POST, HOST, "Content-Length: 3", "Content-Length: 3", "Connection: close") + b"abc",
        [(POST, "abc")],
    ),
    "a request behind no body": (
        lines(POST, HOST, "Content-Length: 0") + lines("GET /other HTTP/1.1", HOST, "Connection: close"),
        [(POST, "")],
    ),
    "a request behind a WebSocket that is none": (
        lines(FIRST, HOST, "Connection: upgrade") + lines("GET /other HTTP/1.1", HOST, "Connection: close"),
        [(FIRST, "")],
    ),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_requests_end_where_the_proxy_says(opened: Inspected, name: str) -> None:
    sent, expected = SEVERAL[name]
    with opened.arriving() as arrived:
        opened.ask(sent, patience=1.0)
    assert [(each.line, each.body.decode()) for each in arrived] == expected
    assert all(
        len(each.header("content-length")) + len(each.header("transfer-encoding")) <= 1 for each in arrived
    )


def test_trailers_bring_no_header(opened: Inspected) -> None:
    sent = lines(POST, HOST, "Transfer-Encoding: chunked", "Trailer: x-api-key", "Connection: close")
    with opened.arriving() as arrived:
        assert opened.ask(sent + b"3\r\nabc\r\n0\r\nX-Api-Key: mine\r\n\r\n").status in (200, 400)
    assert all(each.header("x-api-key") == [SECRET] for each in arrived)


def test_the_secret_goes_to_its_host_alone(opened: Inspected) -> None:
    with opened.arriving() as arrived:
        asked = request("/x", f"X-Api-Key: {PLACEHOLDER}", host=f"{OPEN}:{PORT}")
        assert opened.ask(asked, OPEN).status == 200
        assert opened.ask(request(f"{TARGET}?key={PLACEHOLDER}")).status == 200
        body = request(
            TARGET, f"Content-Length: {len(PLACEHOLDER)}", method="POST", body=PLACEHOLDER.encode()
        )
        assert opened.ask(body).status == 200
    other, query, body_ = arrived
    assert SECRET.encode() not in other.head + other.body
    for each in (query, body_):
        assert each.header("x-api-key") == [SECRET]
        assert (each.head + each.body).count(SECRET.encode()) == 1


def test_redirects_are_not_followed(opened: Inspected) -> None:
    with opened.arriving() as arrived:
        answer = opened.ask(request("/elsewhere"))
    assert answer.status == 302
    assert f"https://{TUNNEL}:{PORT}/secret".encode() in answer.raw
    assert [each.line for each in arrived] == ["GET /elsewhere HTTP/1.1"]


def test_a_websocket_becomes_a_channel_of_its_own(opened: Inspected) -> None:
    """Bytes in the channel that look like a request reach the same connection, not another request."""
    asked = lines(
        "GET /ws/x HTTP/1.1",
        f"Host: {PART}:{PORT}",
        "Connection: Upgrade, x-api-key",
        "Upgrade: websocket",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    )
    with opened.arriving() as arrived, opened.tunnel(PART) as connection:
        connection.sendall(asked)
        assert head(connection).startswith(b"HTTP/1.1 101 ")
        connection.sendall(request("/other"))
        assert rest(connection, 0.5) == request("/other")
    assert [each.line for each in arrived] == ["GET /ws/x HTTP/1.1"]
    assert [arrived[0].header(each) for each in ("connection", "upgrade")] == [["upgrade"], ["websocket"]]


def test_events_come_when_they_are_sent(opened: Inspected) -> None:
    opened.canary.parts, opened.canary.pause = [b"data: 1\n\n", b"data: 2\n\n", b"data: 3\n\n"], 0.4
    came: list[float] = []
    with opened.tunnel() as connection:
        connection.sendall(request("/parts"))
        head(connection)
        while block := connection.recv(65536):
            came += [time.monotonic()] * block.count(b"data:")
    assert len(came) == 3
    assert min(late - early for early, late in itertools.pairwise(came)) > 0.3
