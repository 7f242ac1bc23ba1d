"""Attempts to get past the rules of an opened host by HTTP/2, whose requests have no line and no lengths."""

from __future__ import annotations

import contextlib
import ssl

import pytest

from support.http2frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PREFACE,
    SETTINGS,
    Answer,
    answer,
    frame,
    opening,
    packed,
)
from support.inspecting import API, OPEN, PART, PLACEHOLDER, PORT, SECRET, TARGET, Inspected

pytestmark = pytest.mark.needs("squid", "haproxy", "openssl", "ip", "setpriv")

HERE = f"{API}:{PORT}"


def plain(
    method: str = "GET", path: str = TARGET, authority: str = HERE, scheme: str = "https"
) -> list[tuple[str, str]]:
    return [(":method", method), (":scheme", scheme), (":authority", authority), (":path", path)]


def without(*names: str) -> list[tuple[str, str]]:
    return [each for each in plain() if each[0] not in names]


REFUSED = {
    "another path": plain(path="/other"),
    "another method": plain("DELETE"),
    "a method in small letters": plain("get"),
    "a method with a blank": plain("GET /repos/acme/x HTTP/1.1"),
    "a method with a line break": plain("GET\r\n"),
    "another authority": plain(authority=f"{OPEN}:{PORT}"),
    "an authority with a user": plain(authority=f"{HERE}@{OPEN}"),
    "an authority with a path": plain(authority=f"{HERE}/x"),
    "no authority and no host": without(":authority"),
    "another host alone": [*without(":authority"), ("host", f"{OPEN}:{PORT}")],
    "two authorities": [*plain(), (":authority", f"{OPEN}:{PORT}")],
    "two authorities together": [*plain()[:3], (":authority", f"{OPEN}:{PORT}"), plain()[3]],
    "two paths": [*plain(), (":path", "/other")],
    "two methods": [*plain(), (":method", "DELETE")],
    "two schemes": [*plain(), (":scheme", "http")],
    "no path": without(":path"),
    "an empty path": plain(path=""),
    "a path without slash": plain(path="repos/acme/x"),
    "a path that is a URL": plain(path=f"https://{OPEN}:{PORT}{TARGET}"),
    "a path with two slashes": plain(path=f"//{OPEN}{TARGET}"),
    "a path with a blank": plain(path=f"{TARGET} HTTP/1.1"),
    "a path with a request": plain(path=f"{TARGET} HTTP/1.1\r\nHost: {HERE}\r\n\r\nGET /other"),
    "a path with a NUL": plain(path=f"{TARGET}\x00"),
    "a path with a fragment": plain(path=f"{TARGET}#x"),
    "a path in 8 bits": plain(path=f"{TARGET}\xe9"),
    "a path with dots": plain(path="/repos/acme/../x"),
    "a query in 8 bits": plain(path=f"{TARGET}?\xe9"),
    "a query with a blank": plain(path=f"{TARGET}?a b"),
    "a query with a control character": plain(path=f"{TARGET}?\x01"),
    "an asterisk": plain("OPTIONS", path="*"),
    "no scheme": without(":scheme"),
    "no method": without(":method"),
    "an unknown pseudo-header": [*plain(), (":other", "x")],
    "a pseudo-header of answers": [*plain(), (":status", "200")],
    "a pseudo-header behind headers": [*plain()[:3], ("x-a", "b"), plain()[3]],
    "a header in capitals": [*plain(), ("X-A", "b")],
    "a header with a blank": [*plain(), ("x a", "b")],
    "a header with a colon": [*plain(), ("x-a: b\r\nx-b", "c")],
    "a header without name": [*plain(), ("", "b")],
    "a value with a line break": [*plain(), ("x-a", "b\r\nx-b: c")],
    "a value with a line feed": [*plain(), ("x-a", "b\nx-b: c")],
    "a value with a return": [*plain(), ("x-a", "b\rc")],
    "a value with a NUL": [*plain(), ("x-a", "b\x00c")],
    "a connection's header": [*plain(), ("connection", "close")],
    "a coding": [*plain("POST"), ("transfer-encoding", "chunked")],
    "an upgrade": [*plain(), ("upgrade", "websocket")],
    "a kept connection": [*plain(), ("keep-alive", "1")],
    "a proxy's connection": [*plain(), ("proxy-connection", "close")],
    "te with more than trailers": [*plain(), ("te", "gzip")],
    "two lengths": [*plain("POST"), ("content-length", "0"), ("content-length", "3")],
    "a signed length": [*plain("POST"), ("content-length", "+0")],
    "another key": [*plain(), ("x-api-key", "mine")],
    "two keys": [*plain(), ("x-api-key", PLACEHOLDER), ("x-api-key", "mine")],
    "a key with underscores": [*plain(), ("x_api_key", "mine")],
    "another method in a header": [*plain(), ("x-http-method-override", "DELETE")],
    "a tunnel": [(":method", "CONNECT"), (":authority", HERE)],
    "a tunnel with a path": plain("CONNECT"),
    "a WebSocket where methods are listed": [*plain("CONNECT"), (":protocol", "websocket")],
    "another protocol": [*plain("CONNECT"), (":protocol", "connect-udp")],
}  # fmt: skip


def send(opened: Inspected, sent: bytes, host: str = API, patience: float = 2.0) -> Answer:
    with opened.tunnel(host, alpn=("h2",)) as connection, contextlib.suppress(ssl.SSLError):
        assert connection.selected_alpn_protocol() == "h2"
        connection.sendall(sent)
        return answer(connection, patience)
    return Answer(0, b"")


@pytest.mark.parametrize("name", REFUSED)
def test_no_such_request_passes(opened: Inspected, name: str) -> None:
    with opened.arriving() as arrived:
        assert send(opened, opening(REFUSED[name]), patience=1.0).status in (0, 400, 403)
        assert send(opened, opening(plain())).status == 200
    assert [each.line for each in arrived] == [f"GET {TARGET} HTTP/1.1"]


NORMALISED = {
    "as it is": plain(),
    "a host instead of the authority": [*without(":authority"), ("host", HERE)],
    "another host than the authority": [*plain(), ("host", f"{OPEN}:{PORT}")],
    "a protocol with GET": [*plain(), (":protocol", "websocket")],
    "the same host": [*plain(), ("host", HERE)],
    "an authority in capitals": plain(authority=HERE.upper()),
    "another scheme": plain(scheme="http"),
    "the placeholder": [*plain(), ("x-api-key", PLACEHOLDER)],
    "te": [*plain(), ("te", "trailers")],
}  # fmt: skip


@pytest.mark.parametrize("name", NORMALISED)
def test_it_arrives_in_one_form(opened: Inspected, name: str) -> None:
    with opened.arriving() as arrived:
        assert send(opened, opening(NORMALISED[name])).status == 200
    assert [each.line for each in arrived] == [f"GET {TARGET} HTTP/1.1"]
    assert [arrived[0].header(each) for each in ("host", "x-api-key", "upgrade")] == [[HERE], [SECRET], []]


def test_a_body_arrives_with_one_length(opened: Inspected) -> None:
    smuggled = b"0\r\n\r\nGET /other HTTP/1.1\r\n\r\n"
    with opened.arriving() as arrived:
        sent = opening([*plain("POST"), ("content-length", str(len(smuggled)))], smuggled)
        assert send(opened, sent).status == 200
        assert send(opened, opening(plain("POST"), smuggled)).status == 200
        assert send(opened, opening([*plain("POST"), ("content-length", "3")])).status == 200
    assert [each.body for each in arrived] == [smuggled, smuggled, b""]
    lengths = [len(each.header("content-length") + each.header("transfer-encoding")) for each in arrived]
    assert lengths == [1, 1, 0]


def test_a_body_that_is_longer_than_said(opened: Inspected) -> None:
    with opened.arriving() as arrived:
        sent = opening([*plain("POST"), ("content-length", "3")], b"abcGET /other HTTP/1.1\r\n\r\n")
        assert send(opened, sent).status in (0, 400)
    assert all(each.body in (b"abc", b"") for each in arrived)


def test_headers_in_several_frames(opened: Inspected) -> None:
    """The rules see them as one; a frame that interrupts them ends the connection."""
    first, second = packed(plain()[:3]), packed([plain()[3], ("x-api-key", "mine")])
    begin = PREFACE + frame(SETTINGS, 0, 0, b"") + frame(HEADERS, END_STREAM, 1, first)
    whole = frame(CONTINUATION, END_HEADERS, 1, second)
    with opened.arriving() as arrived:
        assert send(opened, begin + whole).status == 403
        assert send(opened, begin + frame(DATA, 0, 1, b"x") + whole).status == 0
        assert send(opened, begin + frame(CONTINUATION, END_HEADERS, 1, packed(plain()[3:]))).status == 200
    assert len(arrived) == 1


def test_trailers_bring_no_header(opened: Inspected) -> None:
    begin = PREFACE + frame(SETTINGS, 0, 0, b"") + frame(HEADERS, END_HEADERS, 1, packed(plain("POST")))
    trailers = frame(HEADERS, END_HEADERS | END_STREAM, 1, packed([("x-api-key", "mine")]))
    with opened.arriving() as arrived:
        assert send(opened, begin + frame(DATA, 0, 1, b"abc") + trailers).status in (0, 200, 400)
    assert all(each.header("x-api-key") == [SECRET] for each in arrived)


def test_a_websocket_by_a_request_for_a_tunnel(opened: Inspected) -> None:
    """Extended CONNECT (RFC 8441) is a WebSocket to the rules."""
    asked = [*plain("CONNECT", authority=f"{PART}:{PORT}", path="/ws/x"), (":protocol", "websocket")]
    refused = [each if each[0] != ":path" else (":path", "/other") for each in asked]
    begin = PREFACE + frame(SETTINGS, 0, 0, b"")
    with opened.arriving() as arrived:
        assert send(opened, begin + frame(HEADERS, END_HEADERS, 1, packed(refused)), PART).status == 403
        assert send(opened, begin + frame(HEADERS, END_HEADERS, 1, packed(asked)), PART, 1.0).status == 200
    assert [each.line for each in arrived] == ["GET /ws/x HTTP/1.1"]
