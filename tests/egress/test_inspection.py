"""Attempts to get past the rules of an opened host, each beside one of nearly the same bytes that passes.

The upstream's record counts: a refused request never arrives, and its control does.

Tests of oci/proxy/haproxy.cfg.j2.
Tests of render/haproxy.py.
"""

from __future__ import annotations

import pytest

from support.inspecting import (
    API,
    GIT,
    NPM,
    OPEN,
    PART,
    PLACEHOLDER,
    PORT,
    TARGET,
    Inspected,
    request,
)

pytestmark = pytest.mark.needs("squid", "haproxy", "openssl", "ip", "setpriv")

PLAIN = request()
REFS = "/acme/tool/info/refs"
FETCH = f"{REFS}?service=git-upload-pack"
POST = ("Content-Length: 3",)


def post(*headers: str, body: bytes = b"abc", target: str = TARGET) -> bytes:
    return request(target, *headers, method="POST", body=body)


def line(first: str) -> bytes:
    """A request with this first line."""
    return PLAIN.replace(PLAIN.split(b"\r\n")[0], first.encode("latin-1"), 1)


def hosts(*headers: str) -> bytes:
    """A request with these headers in the place of Host."""
    return request(TARGET, *headers, host=None)


PATHS = {
    "dot segment": "/repos/acme/./x",
    "two dots": "/repos/acme/../x",
    "two dots to the rule": "/repos/other/../acme/x",
    "two dots at the beginning": "/../repos/acme/x",
    "two dots at the end": "/repos/acme/..",
    "a dot at the end": "/repos/acme/.",
    "an escaped dot segment": "/repos/acme/%2e",
    "two escaped dots": "/repos/acme/%2e%2e",
    "two escaped dots in capitals": "/repos/acme/%2E%2E",
    "half escaped dots": "/repos/acme/.%2e",
    "two dots with a parameter": "/repos/acme/..;x",
    "an escaped slash": "/repos/acme/x%2fy",
    "an escaped slash in capitals": "/repos/acme/x%2Fy",
    "an escaped slash in the rule's words": "/repos%2facme/x",
    "an escaped dot segment with slash": "/repos/acme/..%2fother",
    "a parameter": "/repos/acme/x;y=z",
    "a parameter before": "/repos;y=z/acme/x",
    "an escaped semicolon": "/repos/acme/x%3by",
    "a backslash": "/repos/acme/x\\y",
    "dots behind backslashes": "/repos/acme/..\\..\\x",
    "an escaped backslash": "/repos/acme/x%5cy",
    "doubly escaped dots": "/repos/acme/%252e%252e",
    "a doubly escaped slash": "/repos/acme/x%252fy",
    "an escaped percent": "/repos/acme/x%25y",
    "an escaped letter": "/%72epos/acme/x",
    "an escaped tilde": "/repos/acme/%7ex",
    "an escaped hyphen": "/repos/acme/%2dx",
    "an escaped underscore": "/repos/acme/%5fx",
    "overlong dots": "/repos/acme/%c0%ae%c0%ae",
    "an overlong slash": "/repos/acme/x%c0%afy",
    "an overlong slash of three bytes": "/repos/acme/x%e0%80%afy",
    "an overlong slash of four bytes": "/repos/acme/x%f0%80%80%afy",
    "a byte that begins nothing": "/repos/acme/x%c1",
    "beyond Unicode": "/repos/acme/x%f5%80%80%80",
    "raw UTF-8": "/repos/acme/x\xc3\xa9",
    "raw Latin-1": "/repos/acme/x\xe9",
    "a wide slash": "/repos/acme/x\xef\xbc\x8fy",
    "half an escape": "/repos/acme/x%2",
    "no escape": "/repos/acme/x%zz",
    "a bare percent": "/repos/acme/x%",
    "an escape of IIS": "/repos/acme/x%u002fy",
    "an escaped NUL": "/repos/acme/x%00",
    "an escaped line feed": "/repos/acme/x%0ay",
    "an escaped return": "/repos/acme/x%0d%0ay",
    "an escaped tab": "/repos/acme/x%09",
    "an escaped delete": "/repos/acme/x%7f",
    "an empty segment": "/repos//acme/x",
    "an empty segment at the beginning": "//repos/acme/x",
    "an empty segment at the end": "/repos/acme/x//",
    "a fragment": "/repos/acme/x#y",
    "another case": "/Repos/acme/x",
    "a segment more": "/repos/acme/x/y",
    "a segment less": "/repos/acme",
    "a slash at the end": "/repos/acme/x/",
    "a prefix": "/repos/acmeevil/x",
    "a query for a path": "/?/repos/acme/x",
    "the rule behind a query": "/other?x=/repos/acme/x",
    "no slash": "repos/acme/x",
    "an asterisk": "*",
    "brackets": "/repos/acme/[x]",
    "braces": "/repos/acme/{x}",
    "a bar": "/repos/acme/x|y",
    "a quotation mark": '/repos/acme/x"y',
    "a caret": "/repos/acme/x^y",
    "a NUL": "/repos/acme/x\x00",
    "a NUL before the rule": "/other\x00/repos/acme/x",
    "a control character": "/repos/acme/x\x01y",
    "a tab": "/repos/acme/x\ty",
    "a delete": "/repos/acme/x\x7f",
    "a return": "/repos/acme/x\ry",
    "a control character in the query": "/repos/acme/x?y=\x01",
    "a NUL in the query": "/repos/acme/x?y=\x00",
    "a fragment in the query": "/repos/acme/x?y=#z",
    "8 bits in the query": "/repos/acme/x?y=\xe9",
}  # fmt: skip

REQUESTS = {
    # First lines
    "a method in small letters": line(f"get {TARGET} HTTP/1.1"),
    "a method that begins alike": line(f"GETX {TARGET} HTTP/1.1"),
    "another method": line(f"DELETE {TARGET} HTTP/1.1"),
    "tracing": line(f"TRACE {TARGET} HTTP/1.1"),
    "a tunnel in the tunnel": line(f"CONNECT {API}:{PORT} HTTP/1.1"),
    "a tunnel with a path": line(f"CONNECT {TARGET} HTTP/1.1"),
    "a method with a control character": line(f"GET\x01 {TARGET} HTTP/1.1"),
    "a method with a quotation mark": line(f'GET" {TARGET} HTTP/1.1'),
    "no method": line(f" {TARGET} HTTP/1.1"),
    "two paths": line(f"GET {TARGET} /other HTTP/1.1"),
    "HTTP/0.9": f"GET {TARGET}\r\n".encode(),
    "a request of HTTP/0.9 with headers": line(f"GET {TARGET}"),
    "a version in small letters": line(f"GET {TARGET} http/1.1"),
    "a long version": line(f"GET {TARGET} HTTP/1.10"),
    "another protocol": line(f"GET {TARGET} RTSP/1.0"),
    "a preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9),
    # The host
    "no host": hosts(),
    "an empty host": hosts("Host:"),
    "two hosts": hosts(f"Host: {API}:{PORT}", f"Host: {OPEN}:{PORT}"),
    "two hosts the other way": hosts(f"Host: {OPEN}:{PORT}", f"Host: {API}:{PORT}"),
    "two hosts in one": hosts(f"Host: {API}:{PORT}, {OPEN}:{PORT}"),
    "another opened host": hosts(f"Host: {OPEN}:{PORT}"),
    "no port": hosts(f"Host: {API}"),
    "another port": hosts(f"Host: {API}:443"),
    "a port with a zero": hosts(f"Host: {API}:0{PORT}"),
    "a dot at the end of the host": hosts(f"Host: {API}.:{PORT}"),
    "a host below": hosts(f"Host: x.{API}:{PORT}"),
    "a host with a user": hosts(f"Host: {API}:{PORT}@{OPEN}"),
    "a host with a path": hosts(f"Host: {API}:{PORT}/x"),
    "a host with a NUL": hosts(f"Host: {API}:{PORT}\x00.{OPEN}"),
    "a host in wide letters": hosts(f"Host: \xef\xbd\x81pi.example:{PORT}"),
    "an address": hosts(f"Host: 45.33.32.2:{PORT}"),
    "an address of IPv6": hosts(f"Host: [2a00:1234::2]:{PORT}"),
    "a blank before the colon": hosts(f"Host : {API}:{PORT}"),
    "a host in the first line": line(f"GET https://{OPEN}:{PORT}{TARGET} HTTP/1.1"),
    "a user in the first line": line(f"GET https://{API}:{PORT}@{OPEN}:{PORT}{TARGET} HTTP/1.1"),
    "a host without scheme": line(f"GET //{OPEN}:{PORT}{TARGET} HTTP/1.1"),
    "dots in the first line's host": line(f"GET https://{API}:{PORT}/../x HTTP/1.1"),
    # Headers
    "another header for the path": request(TARGET, "X-Original-URL: /other"),
    "a rewritten path": request(TARGET, "X-Rewrite-URL: /other"),
    "a host behind the proxy": request(TARGET, f"X-Forwarded-Host: {OPEN}"),
    "a prefix behind the proxy": request(TARGET, "X-Forwarded-Prefix: /other"),
    "what was forwarded": request(TARGET, f"Forwarded: host={OPEN}"),
    "another method in a header": request(TARGET, "X-HTTP-Method-Override: DELETE"),
    "another method in small letters": request(TARGET, "x-http-method-override: DELETE"),
    "another method with underscores": request(TARGET, "X_HTTP_Method_Override: DELETE"),
    "another method by Microsoft": request(TARGET, "X-HTTP-Method: DELETE"),
    "another method by IBM": request(TARGET, "X-Method-Override: DELETE"),
    "an empty method": request(TARGET, "X-HTTP-Method-Override:"),
    "another method in the query": request(f"{TARGET}?_method=DELETE"),
    "another method behind a parameter": request(f"{TARGET}?a=b&_method=DELETE"),
    "another method behind a semicolon": request(f"{TARGET}?a=b;_method=DELETE"),
    "another method escaped": request(f"{TARGET}?%5fmethod=DELETE"),
    "another method, escaped letters": request(f"{TARGET}?_%6dethod=DELETE"),
    "another method as PHP reads it": request(f"{TARGET}?.method=DELETE"),
    "another method as an array": request(f"{TARGET}?_method[]=DELETE"),
    "another method of Salesforce": request(f"{TARGET}?_HttpMethod=DELETE"),
    "another method as a header's parameter": request(f"{TARGET}?X-HTTP-Method-Override=DELETE"),
    "an upgrade to HTTP/2": request(TARGET, "Upgrade: h2c", "HTTP2-Settings: AAMAAABk"),
    "a WebSocket where methods are listed": request(TARGET, "Upgrade: websocket"),
    "a header without colon": request(TARGET, "X-A"),
    "a header without name": request(TARGET, ": x"),
    "a blank in a name": request(TARGET, "X A: b"),
    "a control character in a name": request(TARGET, "X\x01A: b"),
    "a NUL in a value": request(TARGET, "X-A: b\x00c"),
    "a return in a value": request(TARGET, "X-A: b\rX-B: c"),
    # The credential
    "another key": request(TARGET, "X-Api-Key: mine"),
    "an empty key": request(TARGET, "X-Api-Key:"),
    "a key with a placeholder before": request(TARGET, f"X-Api-Key: {PLACEHOLDER}, mine"),
    "two keys": request(TARGET, f"X-Api-Key: {PLACEHOLDER}", "X-Api-Key: mine"),
    "two keys the other way": request(TARGET, "X-Api-Key: mine", f"X-Api-Key: {PLACEHOLDER}"),
    "a placeholder in capitals": request(TARGET, "X-Api-Key: SK-FAKE-0123456789ABCDEF-FAKE"),
    "a key with underscores": request(TARGET, "X_Api_Key: mine"),
    "a key with underscores behind the placeholder": request(
        TARGET, f"X-Api-Key: {PLACEHOLDER}", "X_Api_Key: mine"
    ),
    "a key with a dot": request(TARGET, "X.Api-Key: mine"),
    # Lengths
    "two lengths": post("Content-Length: 3", "Content-Length: 4"),
    "two lengths in one": post("Content-Length: 3, 4"),
    "a signed length": post("Content-Length: +3"),
    "a negative length": post("Content-Length: -3"),
    "a length in hexadecimal": post("Content-Length: 0x3"),
    "a length with a blank": post("Content-Length: 3 3"),
    "a length of letters": post("Content-Length: three"),
    "an empty length": post("Content-Length:"),
    "an endless length": post("Content-Length: 99999999999999999999999"),
    "chunks in capitals": post("Transfer-Encoding: CHUNKED", body=b"3\r\nabc\r\n0\r\n\r\n"),
    "another coding": post("Transfer-Encoding: xchunked"),
    "a coding behind chunks": post("Transfer-Encoding: chunked, identity", body=b"3\r\nabc\r\n0\r\n\r\n"),
    "chunks twice": post("Transfer-Encoding: chunked, chunked", body=b"3\r\nabc\r\n0\r\n\r\n"),
    "chunks in two headers": post(
        "Transfer-Encoding: chunked", "Transfer-Encoding: chunked", body=b"3\r\nabc\r\n0\r\n\r\n"
    ),
    "chunks with a control character": post("Transfer-Encoding: \x0bchunked", body=b"3\r\nabc\r\n0\r\n\r\n"),
    "a blank before the coding's colon": post("Transfer-Encoding : chunked", body=b"3\r\nabc\r\n0\r\n\r\n"),
}  # fmt: skip


def check(opened: Inspected, refused: bytes, allowed: bytes, host: str = API) -> None:
    """Check that one request is refused and the other arrives."""
    with opened.arriving() as arrived:
        denied = opened.ask(refused, host, patience=1.0)
        passed = opened.ask(allowed, host)
    assert denied.status in (0, 400, 403, 422, 501, 505), denied.raw
    assert passed.status == 200, passed.raw
    assert [each.line for each in arrived] == [allowed.split(b"\r\n")[0].decode("latin-1")]


@pytest.mark.parametrize("name", PATHS)
def test_no_spelling_of_a_path_passes(opened: Inspected, name: str) -> None:
    check(opened, request(PATHS[name]), PLAIN)


@pytest.mark.parametrize("length", [1000, 3000, 7000])
@pytest.mark.parametrize("filling", ["_", "%20", "a&", "_a", "x_http_"])
def test_a_long_query_hides_no_other_method(opened: Inspected, filling: str, length: int) -> None:
    """A regular expression that repeats a group matches nothing when PCRE runs out of its stack."""
    query = filling * (length // len(filling))
    check(opened, request(f"{TARGET}?{query}&_method=DELETE"), request(f"{TARGET}?{query}&method=DELETE"))


def test_a_long_path_is_read(opened: Inspected) -> None:
    """The pattern may need as many characters as a request may have."""
    for filling in ("a", "%20", "%C3%A9", "a/"):
        for length in (1000, 3000, 7000):
            name = (filling * (length // len(filling))).rstrip("/")
            assert opened.ask(request(f"/stream/{name}")).status == 200, (filling, length)


@pytest.mark.parametrize("name", REQUESTS)
def test_no_such_request_passes(opened: Inspected, name: str) -> None:
    allowed = post(*POST) if REQUESTS[name].startswith(b"POST") else PLAIN
    check(opened, REQUESTS[name], allowed)


ELSEWHERE = {
    "tracing with any method": (OPEN, line("TRACE /x HTTP/1.1"), "GET /x HTTP/1.1"),
    "a tunnel with any method": (OPEN, line(f"CONNECT {OPEN}:{PORT} HTTP/1.1"), "GET /x HTTP/1.1"),
    "a switch to HTTP/2": (PART, request("/ws/x", "Upgrade: h2c"), "GET /ws/x HTTP/1.1"),
    "a choice of protocols": (PART, request("/ws/x", "Upgrade: websocket, h2c"), "GET /ws/x HTTP/1.1"),
    "a choice the other way": (PART, request("/ws/x", "Upgrade: h2c, websocket"), "GET /ws/x HTTP/1.1"),
    "two protocols": (PART, request("/ws/x", "Upgrade: h2c", "Upgrade: websocket"), "GET /ws/x HTTP/1.1"),
    "a protocol with a version": (PART, request("/ws/x", "Upgrade: websocket/13"), "GET /ws/x HTTP/1.1"),
    "an empty protocol": (PART, request("/ws/x", "Upgrade:"), "GET /ws/x HTTP/1.1"),
    "TLS in TLS": (PART, request("/ws/x", "Upgrade: TLS/1.0"), "GET /ws/x HTTP/1.1"),
    "a WebSocket elsewhere": (PART, request("/x", "Upgrade: websocket"), "GET /ws/x HTTP/1.1"),
    "another scope": (NPM, request("/@evil%2fx"), "GET /@acme%2fx HTTP/1.1"),
    "two escaped slashes": (NPM, request("/@acme%2fx%2fy"), "GET /@acme%2fx HTTP/1.1"),
    "escaped dots with a slash": (NPM, request("/@acme%2f%2e%2e"), "GET /@acme%2fx HTTP/1.1"),
    "dots with an escaped slash": (NPM, request("/@acme%2f.."), "GET /@acme%2fx HTTP/1.1"),
    "dots before an escaped slash": (NPM, request("/@acme/..%2fx"), "GET /@acme%2fx HTTP/1.1"),
    "a push's references": (GIT, request(f"{REFS}?service=git-receive-pack"), f"GET {FETCH} HTTP/1.1"),
    "both services": (GIT, request(f"{FETCH}&service=git-receive-pack"), f"GET {FETCH} HTTP/1.1"),
    "both services the other way": (
        GIT, request(f"{REFS}?service=git-receive-pack&service=git-upload-pack"), f"GET {FETCH} HTTP/1.1",
    ),
    "an escaped service": (GIT, request(f"{REFS}?service=git-upload%2dpack"), f"GET {FETCH} HTTP/1.1"),
    "no service": (GIT, request(REFS), f"GET {FETCH} HTTP/1.1"),
    "a query without a value": (GIT, request(f"{REFS}?"), f"GET {FETCH} HTTP/1.1"),
    "a push": (
        GIT, post(*POST, target="/acme/tool/git-receive-pack"), "POST /acme/tool/git-upload-pack HTTP/1.1",
    ),
    "a fetch with a query": (
        GIT, post(*POST, target="/acme/tool/git-upload-pack?x"), "POST /acme/tool/git-upload-pack HTTP/1.1",
    ),
    "another's repository": (GIT, request(FETCH.replace("acme", "evil")), f"GET {FETCH} HTTP/1.1"),
    "a repository below": (GIT, request(FETCH.replace("tool", "tool/x")), f"GET {FETCH} HTTP/1.1"),
    "a dumb fetch": (GIT, request("/acme/tool/objects/info/packs"), f"GET {FETCH} HTTP/1.1"),
}  # fmt: skip


@pytest.mark.parametrize("name", ELSEWHERE)
def test_other_rules_let_nothing_else_pass(opened: Inspected, name: str) -> None:
    host, refused, allowed = ELSEWHERE[name]
    there = f"{host}:{PORT}".encode()
    refused = refused.replace(f"{API}:{PORT}".encode(), there)
    control = refused if allowed.startswith("POST") else PLAIN.replace(f"{API}:{PORT}".encode(), there)
    check(opened, refused, allowed.encode() + control[control.index(b"\r\n") :], host)
