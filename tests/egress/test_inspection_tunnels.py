"""Attempts to reach an opened host past its rules: by the form of the request for a tunnel, and by TLS in it.

Tests of egress/certificates.py.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import ssl
import time
from pathlib import Path

import pytest

from sandwright.egress.inspection import control
from sandwright.egress.request_log import RequestLog
from support.inspecting import (
    API,
    OPEN,
    POLICY,
    PORT,
    TARGET,
    TUNNEL,
    Inspected,
    head,
    inspected,
    request,
    rest,
)
from support.netlab import WORLD, lab
from support.processtrees import held_up
from support.waiting import until

pytestmark = pytest.mark.needs("squid", "haproxy", "openssl", "ip", "setpriv")

END = b"\r\n\r\n"


def connect(name: str, *headers: str) -> bytes:
    return "\r\n".join((f"CONNECT {name} HTTP/1.1", *headers)).encode("latin-1") + END


INSPECTED = {
    "as it is": connect(f"{API}:{PORT}"),
    "with a host": connect(f"{API}:{PORT}", f"Host: {API}:{PORT}"),
    "with another host": connect(f"{API}:{PORT}", f"Host: {TUNNEL}:{PORT}"),
    "capitals": connect(f"API.Example:{PORT}"),
    "a dot at the end": connect(f"{API}.:{PORT}"),
    "a port with a zero": connect(f"{API}:0{PORT}"),
    "HTTP/1.0": connect(f"{API}:{PORT}").replace(b"1.1", b"1.0"),
    "many headers": connect(f"{API}:{PORT}", *[f"X-{number}: {'x' * 60}" for number in range(100)]),
}
"""Spellings that lead to the inspecting proxy."""

SPELLINGS = {
    "two dots at the end": connect(f"{API}..:{PORT}"),
    "two blanks": connect(f" {API}:{PORT}"),
    "a tab": b"CONNECT\t" + connect(f"{API}:{PORT}")[8:],
    "a small method": connect(f"{API}:{PORT}").lower(),
    "an empty line before": b"\r\n" + connect(f"{API}:{PORT}"),
    "a bare line feed": connect(f"{API}:{PORT}").replace(b"\r\n", b"\n"),
    "a bare line feed behind the first line": connect(f"{API}:{PORT}", "X: y").replace(b"\r\n", b"\n", 1),
    "an escaped letter": connect(f"%61pi.example:{PORT}"),
    "an escaped dot": connect(f"api%2eexample:{PORT}"),
    "a wide letter": connect(f"\xef\xbd\x81pi.example:{PORT}"),
    "a NUL": connect(f"{API}\x00:{PORT}"),
    "a NUL and another name": connect(f"{API}\x00.{TUNNEL}:{PORT}"),
    "a user": connect(f"x@{API}:{PORT}"),
    "a user of another name": connect(f"unlisted.example:{PORT}@{API}:{PORT}"),
    "a scheme": connect(f"https://{API}:{PORT}"),
    "a path": connect(f"{API}:{PORT}/"),
    "an underscore": connect(f"{API}_:{PORT}"),
    "brackets": connect(f"[{API}]:{PORT}"),
    "a port with many zeros": connect(f"{API}:000000{PORT}"),
    "a port in hexadecimal": connect(f"{API}:0x20fb"),
    "a port with a sign": connect(f"{API}:+{PORT}"),
    "a port behind a blank": connect(f"{API}: {PORT}"),
    "a port that wraps around": connect(f"{API}:{PORT + 65536}"),
    "another port": connect(f"{API}:443"),
    "port 0": connect(f"{API}:0"),
    "no port": connect(API),
    "an empty port": connect(f"{API}:"),
    "its address": connect(f"{WORLD}:{PORT}"),
    "its address as a number": connect(f"757080066:{PORT}"),
    "its address in IPv6": connect(f"[::ffff:{WORLD}]:{PORT}"),
    "a later HTTP": connect(f"{API}:{PORT}").replace(b"1.1", b"1.2"),
    "too many headers": connect(f"{API}:{PORT}", *[f"X-{number}: {'x' * 60}" for number in range(200)]),
    "a second greeting": b"PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n" + connect(f"{API}:{PORT}"),
    "cleartext": request(f"http://{API}:{PORT}{TARGET}"),
    "cleartext with another host": request(f"http://{API}:{PORT}{TARGET}", host=f"{TUNNEL}:{PORT}"),
    "cleartext on another port": request(f"http://{API}{TARGET}"),
    "cleartext with a dot": request(f"http://{API}.:{PORT}{TARGET}"),
    "cleartext in capitals": request(f"HTTP://API.EXAMPLE:{PORT}{TARGET}"),
    "https without a tunnel": request(f"https://{API}:{PORT}{TARGET}"),
    "no host to speak of": request(TARGET),
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS at once": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
}


@pytest.mark.parametrize("name", INSPECTED)
def test_a_tunnel_ends_at_the_rules(opened: Inspected, name: str) -> None:
    with opened.arriving() as arrived:
        for target, status in (("/other", 403), (TARGET, 200)):
            with opened.tunnel(API, request=INSPECTED[name]) as connection:
                connection.sendall(request(target))
                assert f" {status} ".encode() in rest(connection, 2)[:13]
    assert [each.line for each in arrived] == [f"GET {TARGET} HTTP/1.1"]


def handshake(opened: Inspected, first: bytes) -> str:
    """The result of a request that no rule allows, after these first bytes: refused, or the answer."""
    with opened.connection(first, timeout=2) as plain, contextlib.suppress(OSError):
        said = head(plain)
        if b" 200 " not in said.split(b"\r\n")[0]:
            return "refused"
        unread = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        unread.check_hostname, unread.verify_mode = False, ssl.CERT_NONE
        with unread.wrap_socket(plain, server_hostname=API) as connection:
            connection.sendall(request("/other"))
            return rest(connection, 1).split(b"\r\n")[0].decode("latin-1")
    return "closed"


@pytest.mark.parametrize("name", SPELLINGS)
def test_no_spelling_leads_past_the_rules(opened: Inspected, name: str) -> None:
    with opened.arriving() as arrived:
        assert handshake(opened, SPELLINGS[name]) in ("refused", "closed", "HTTP/1.1 403 Forbidden")
        assert opened.ask(request()).status == 200
    assert [each.line for each in arrived] == [f"GET {TARGET} HTTP/1.1"]


def test_a_listed_host_is_a_tunnel(opened: Inspected) -> None:
    """The control of all these: a tunnel through squid has the upstream's certificate, and no rules."""
    assert handshake(opened, connect(f"{TUNNEL}:{PORT}")) == "HTTP/1.1 200 OK"


@pytest.mark.parametrize(
    ("sni", "alpn"),
    [
        (OPEN, ("http/1.1",)),
        (TUNNEL, ("http/1.1",)),
        (f"{API}.", ("http/1.1",)),
        (f"x.{API}", ("http/1.1",)),
        (WORLD, ("http/1.1",)),
        ("", ("http/1.1",)),
    ],
)
def test_another_name_gets_no_handshake(opened: Inspected, sni: str, alpn: tuple[str, ...]) -> None:
    unread = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unread.check_hostname, unread.verify_mode = False, ssl.CERT_NONE
    unread.set_alpn_protocols(list(alpn))
    with opened.arriving() as arrived:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            opened.tunnel(API, sni=sni, context=unread)
        assert opened.ask(request()).status == 200
    assert len(arrived) == 1


@pytest.mark.parametrize(
    ("alpn", "chosen"),
    [
        ((), None),
        (("h2", "http/1.1"), "h2"),
        (("http/1.1", "h2"), "h2"),
        (("http/1.0",), None),
        (("spdy/3", "http/1.1"), "http/1.1"),
        (("acme-tls/1",), None),
        (("h2c",), None),
        (("H2",), None),
    ],
)
def test_protocols_are_chosen_from_two(opened: Inspected, alpn: tuple[str, ...], chosen: str | None) -> None:
    with opened.arriving() as arrived, opened.tunnel(alpn=alpn) as connection:
        assert connection.selected_alpn_protocol() == chosen
        if chosen != "h2":
            connection.sendall(request("/other"))
            assert b" 403 " in rest(connection, 2)[:13]
    assert not arrived


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_old_versions_of_tls_are_refused(opened: Inspected, version: ssl.TLSVersion) -> None:
    old = opened.believing()
    old.set_ciphers("ALL:@SECLEVEL=0")
    old.minimum_version = version
    opened.tunnel(context=old).close()
    old.maximum_version = version
    with pytest.raises((ssl.SSLError, ConnectionError)):
        opened.tunnel(context=old)


def test_a_session_of_another_host_is_not_taken_up(opened: Inspected) -> None:
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = opened.believing()
        context.maximum_version = version
        with opened.tunnel(OPEN, context=context) as first:
            first.sendall(request("/x", host=f"{OPEN}:{PORT}"))
            assert b" 200 " in rest(first, 2)[:13]
            session = first.session
        plain = opened.connection(connect(f"{API}:{PORT}"))
        head(plain)
        with context.wrap_socket(plain, server_hostname=API, session=session) as second:
            second.sendall(request("/other"))
            assert b" 403 " in rest(second, 2)[:13]


def test_bytes_that_come_one_by_one(opened: Inspected) -> None:
    with opened.connection() as plain:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in connect(f"{API}:{PORT}"):
            plain.sendall(bytes([byte]))
            time.sleep(0.001)
        assert head(plain) == b"HTTP/1.1 200 Connection established\r\n\r\n"
        with opened.believing().wrap_socket(plain, server_hostname=API) as connection:
            connection.sendall(request("/other"))
            assert b" 403 " in rest(connection, 2)[:13]


def test_bytes_that_come_too_early(opened: Inspected) -> None:
    """TLS bytes in the same write as the request for a tunnel arrive complete."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = opened.believing().wrap_bio(incoming, outgoing, server_hostname=API)
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    with opened.connection(connect(f"{API}:{PORT}") + outgoing.read()) as plain:
        assert head(plain).startswith(b"HTTP/1.1 200 ")
        incoming.write(plain.recv(65536))
        client.do_handshake()
        assert client.version() == "TLSv1.3"


def test_a_request_in_the_clear_behind_a_tunnel(opened: Inspected) -> None:
    with opened.arriving() as arrived, opened.connection(connect(f"{API}:{PORT}") + request()) as plain:
        assert head(plain).startswith(b"HTTP/1.1 200 ")
        assert b"200 OK" not in rest(plain, 2)
    assert not arrived


def test_the_keys_are_gone(opened: Inspected) -> None:
    """Neither the authority's key nor the hosts' keys are on disk once the proxy runs."""
    files = [each for each in Path(opened.proxy.directory).rglob("*") if each.is_file()]
    assert files
    assert not [each for each in files if b"PRIVATE KEY" in each.read_bytes()]


def test_requests_of_a_sandbox_that_ended_are_in_the_log(opened: Inspected) -> None:
    """The log is complete, even if haproxy writes it slowly."""
    log = RequestLog(opened.folder / "requests.log")
    assert opened.proxy.requests
    list(log.new())
    haproxy = int(re.search(r"Pid: ([0-9]+)", control(opened.folder, "show info\n"))[1])  # type: ignore[index]
    settings = opened.believing(("http/1.1",))
    settings.maximum_version = ssl.TLSVersion.TLSv1_2  # without tickets, which make a close a reset
    with opened.tunnel(context=settings) as connection, held_up(haproxy):
        connection.sendall(request("/late", method="DELETE"))
        connection.close()
        assert not list(log.new()), "the control: it is not there yet"
        opened.proxy.settle()
        assert [each.path for each in log.new()] == ["/late"]


def errors(opened: Inspected) -> list[dict[str, object]]:
    """The log's entries about connections without a request."""
    lines = (opened.folder / "requests.log").read_text().splitlines()
    return [found for found in map(json.loads, lines) if "error" in found]


@pytest.mark.parametrize(
    ("host", "sni", "believes", "why"),
    [
        (API, None, True, ("Success", "-", API)),
        (
            API,
            None,
            False,
            ("SSL handshake failure", "error:0A000418:SSL routines::tlsv1 alert unknown ca", API),
        ),
        (
            OPEN,
            None,
            False,
            ("SSL handshake failure", "error:0A000418:SSL routines::tlsv1 alert unknown ca", OPEN),
        ),
        (API, OPEN, True, ("SSL handshake failure", "error:0A0000EA:SSL routines::callback failed", OPEN)),
        (
            API,
            '"x\\',
            True,
            ("SSL handshake failure", "error:0A0000EA:SSL routines::callback failed", '"x\\'),
        ),
    ],
)
def test_the_log_says_why_a_handshake_failed(
    opened: Inspected, host: str, sni: str | None, believes: bool, why: tuple[str, str, str]
) -> None:
    """A client that trusts only its own authorities is distinguished from others, and named with its host."""
    before = len(errors(opened))
    context = opened.believing() if believes else ssl.create_default_context()
    with contextlib.suppress(ssl.SSLError, ConnectionError):
        opened.tunnel(host, sni=sni, context=context).close()
    until(lambda: len(errors(opened)) > before, "the connection is logged")
    (found,) = errors(opened)[before:]
    assert found["host"] == f"{host}:{PORT}"
    assert (found["error"], found["name"]) == (why[0], why[2])
    assert found["tls"] in (why[1], "-")  # the alert is lost where the client resets the connection behind it


def test_a_host_that_refuses_connections_is_tried_once(network_lab: None) -> None:
    """squid tries each address, so the client gets its answer without three more attempts."""
    closed = f"{API}:{PORT + 1}"
    text = POLICY.replace("  http:\n", f"  http:\n    - {{host: '{closed}'}}\n", 1)
    with lab() as apart, inspected(apart, text) as found:
        with found.tunnel(request=connect(closed)) as connection:
            connection.sendall(request("/x", host=closed))
            assert rest(connection, 10).startswith(b"HTTP/1.1 503 ")
        found.proxy.settle()
        log = (found.proxy.directory / "squid/access.log").read_text()
    assert log.count(f'"port":"{PORT + 1}"') == 1, log
