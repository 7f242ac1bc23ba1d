"""The proxy leads to listed hosts only: each refusal of a real squid beside a request that passes."""

from __future__ import annotations

import contextlib
import ipaddress
import re
import socket
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sandwright.egress import Proxy, ProxyDecision, plan
from sandwright.egress.proxy_plan import ProxyPlan
from sandwright.policy.resolved import ResolvedPolicy
from support.egressing import ALLOWED, ask, connect, get, policy
from support.netlab import METADATA, OTHER, PRIVATE, WIRE, WORLD, World
from support.waiting import eventually

pytestmark = pytest.mark.needs("squid", "ip", "setpriv")

HOSTS = [
    # Listed hosts, and their other spellings
    ("web.example", *ALLOWED), ("WEB.Example", *ALLOWED), ("web.example.", *ALLOWED),
    ("sub.wild.example", *ALLOWED), ("a.b.wild.example", *ALLOWED), ("45.33.32.3", *ALLOWED),
    ("[::ffff:45.33.32.3]", *ALLOWED), ("0x2d212003", *ALLOWED), ("xn--bcher-kva.wild.example", *ALLOWED),
    # Unlisted hosts
    ("other.example", 403, "host"), ("web.example.evil.example", 403, "host"),
    ("evilweb.example", 403, "host"), ("wild.example", 403, "host"), ("evilwild.example", 403, "host"),
    ("45.33.32.2", 403, "host"), ("754982914", 403, "host"), ("[2a00:1234::3]", 403, "host"),
    # Internal addresses, whatever lists them
    ("private.example", 403, "address"), ("inside.wild.example", 403, "address"),
    ("meta.example", 403, "address"), ("self.example", 403, "address"),
    ("machine.example", 403, "address"), ("nat.example", 403, "address"),
    # Addresses in every spelling
    ("10.99.0.2", 403, "host"), ("174260226", 403, "host"), ("0xa.0x63.0.2", 403, "host"),
    ("012.0143.0.2", 403, "host"), ("[::ffff:10.99.0.2]", 403, "host"), ("169.254.169.254", 403, "host"),
    ("2852039166", 403, "host"), ("127.0.0.1", 403, "host"), ("127.1", 403, "host"), ("[::1]", 403, "host"),
    ("localhost", 403, "host"), ("10.25344.2", 403, "spelling"), ("0", 403, "spelling"),
    ("[::]", 403, "spelling"), ("1.2.3.4.5", 403, "spelling"), ("-a.wild.example", 403, "spelling"),
    # Invalid hosts
    ("[fe80::1%25eth0]", 400, "invalid_url"), ("a..wild.example", 400, "invalid_url"),
    ("%77eb.example", 400, "invalid_url"), ("web.example%00.evil.example", 400, "invalid_url"),
    ("a_b.wild.example", 400, "invalid_url"), ("b\xfccher.wild.example", 400, "invalid_req"),
    # Names that don't exist
    ("gone.example", 503, "unresolved"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("host", "status", "reason"), HOSTS, ids=lambda value: str(value).encode("unicode-escape")
)
def test_hosts(running: Proxy, world: World, host: str, status: int, reason: str) -> None:
    before = len(world.reached)
    assert ask(running, get(host)).verdict == (status, reason)
    answered = len(world.reached)
    assert ask(running, connect(f"{host}:443")).verdict == (status, reason)
    # the server's thread may not have had its turn
    eventually(lambda: status != 200 or len(world.reached) != answered, within=30)
    assert (len(world.reached) > before) is (status == 200)
    assert {PRIVATE, METADATA}.isdisjoint(world.reached[before:])


def test_what_is_refused_would_answer(world: World) -> None:
    """The control of all refusals: without the proxy, these hosts answer."""
    for address in (PRIVATE, METADATA, WIRE, WORLD):
        with socket.create_connection((address, 80), timeout=5) as connection:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert connection.recv(12) == b"HTTP/1.1 200"
    assert {PRIVATE, METADATA, WIRE, WORLD} <= set(world.reached)


@pytest.mark.parametrize(
    ("host", "status", "reason"),
    [
        ("web.example:80", *ALLOWED), ("web.example:443", *ALLOWED), ("web.example:8080", 403, "host"),
        ("web.example:22", 403, "host"), ("six.example:8080", *ALLOWED), ("six.example:443", 403, "host"),
        ("[2a00:1234::2]:80", *ALLOWED), ("[2A00:1234:0:0::2]:80", *ALLOWED),
        ("[2a00:1234::2]:443", 403, "host"), ("web.example:0", 400, "invalid_url"),
        ("web.example:65536", 400, "invalid_url"), ("web.example:-1", 400, "invalid_url"),
    ],
)  # fmt: skip
def test_ports(running: Proxy, host: str, status: int, reason: str) -> None:
    assert ask(running, get(host)).verdict == (status, reason)
    assert ask(running, connect(host)).verdict == (status, reason)


@pytest.mark.parametrize(
    ("raw", "status", "reason"),
    [
        (get("web.example"), *ALLOWED),
        (get("web.example", method="OPTIONS"), *ALLOWED),
        (get("web.example", method="TRACE"), 403, "method"),
        (get("web.example", method="PURGE"), 403, "method"),
        (get("web.example", scheme="https"), 403, "method"),
        (get("web.example", scheme="ftp"), 403, "method"),
        (get("web.example/squid-internal-mgr/info"), 403, "method"),
        (b"GET http://127.0.0.1/squid-internal-mgr/info HTTP/1.1\r\nHost: x\r\n\r\n", 403, "method"),
        (b"GET cache_object://127.0.0.1/info HTTP/1.1\r\nHost: x\r\n\r\n", 403, "method"),
        (b"GET / HTTP/1.1\r\nHost: web.example\r\n\r\n", 400, "invalid_url"),
        (b"GET /squid-internal-mgr/info HTTP/1.1\r\nHost: sandwright-proxy\r\n\r\n", 403, "method"),
        (b"nonsense\r\n\r\n", 400, "protocol_unknown"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(50) + b"\r\n\r\n", 400, "protocol_unknown"),
        (b"GET http://web.example/a b HTTP/1.1\r\nHost: x\r\n\r\n", 400, "invalid_req"),
        (b"GET http://web.example/\r\n", *ALLOWED),  # HTTP/0.9
        (b"GET http://other.example/\r\n", 403, "host"),
        (b"GET http://web.example/ HTTP/1.1\r\nHost : x\r\n\r\n", 400, "invalid_req"),
        (b"GET http://web.example/ HTTP/1.1\r\nHost: x\r\nA\0: b\r\n\r\n", 400, "invalid_req"),
        (b"GET http://web.example\0.evil.example/ HTTP/1.1\r\nHost: x\r\n\r\n", 400, "invalid_req"),
        (get("web.example", "X: " + "a" * 20_000), *ALLOWED),
        (get("web.example", "X: " + "a" * 40_000), 431, "too_big"),
        (get("web.example", *(f"X-{n}: {'a' * 100}" for n in range(400))), 431, "too_big"),
    ],
)
def test_requests(running: Proxy, raw: bytes, status: int, reason: str) -> None:
    assert ask(running, raw).verdict == (status, reason)


def test_a_connection_is_judged_request_by_request(running: Proxy) -> None:
    """On a connection that is kept alive, or pipelined: a refusal is not undone by its neighbours."""
    keep = [get(host).replace(b"Connection: close\r\n", b"") for host in ("web.example", "other.example")]
    said = ask(running, keep[0] + keep[1] + keep[0] + get("other.example"), whole=True).raw
    assert re.findall(rb"HTTP/1\.1 (\d+)", said) == [b"200", b"403", b"200", b"403"]


@pytest.mark.parametrize(
    "lengths",
    [
        ("Content-Length: 4", "Transfer-Encoding: chunked"),
        ("Content-Length: 4", "Content-Length: 47"),
        ("Transfer-Encoding: chunked", "Transfer-Encoding: identity"),
        ("Transfer-Encoding: xchunked",),
        ("Content-Length: +4",),
    ],
)
def test_no_request_hides_in_another_one(running: Proxy, world: World, lengths: tuple[str, ...]) -> None:
    """A request with two possible ends never arrives as one request, nor as a second one."""
    hidden = b"0\r\n\r\nGET http://other.example/hidden HTTP/1.1\r\nHost: a\r\n\r\n"
    before = len(world.reached)
    sent = get("web.example", *lengths, method="POST") + hidden
    said = ask(running, sent, whole=True).raw
    found = re.findall(rb"HTTP/1\.1 (\d+)", said)
    assert found[:1] in ([b"200"], [b"400"], [b"411"], [b"501"])
    assert b"200" not in found[1:]
    assert b"/hidden" not in said
    assert len(world.reached) <= before + 1


def test_what_arrives(running: Proxy) -> None:
    """The host is the judged one, whatever the Host header was; nothing reveals the proxy or its clients."""
    said = ask(
        running, get("web.example", "Proxy-Authorization: Basic x", "X-Forwarded-For: 10.1.1.1"), whole=True
    ).raw
    head, _, body = said.partition(b"\r\n\r\n")
    assert body.splitlines()[0] == b"GET /page HTTP/1.1"
    assert b"Host: web.example" in body.splitlines()
    for name in (b"via", b"forwarded", b"proxy-authorization", b"squid", b"sandwright", b"127.0.0.1"):
        assert name not in body.lower(), name
    for name in (b"via:", b"x-cache", b"server: squid"):
        assert name not in head.lower(), name
    other = get("web.example").replace(b"Host: web.example", b"Host: other.example")
    assert b"Host: web.example" in ask(running, other, whole=True).raw


def test_a_refusal_says_why(running: Proxy) -> None:
    said = ask(running, get("other.example"), whole=True)
    reason = b"refused: host: other.example, with this port, is not in network.allow of the policy"
    assert said.raw.endswith(b"\r\n\r\nsandwright: " + reason + b"\n")
    marked = ask(running, b"GET http://a<b>.example/ HTTP/1.1\r\nHost: x\r\n\r\n").raw
    assert b"a<b>" not in marked


def test_names_that_are_not_listed_are_never_looked_up(running: Proxy, world: World) -> None:
    world.names["secret-1.listed.wild.example"] = [WORLD]
    assert ask(running, connect("secret-1.evil.example:443")).reason == "host"
    assert ask(running, connect("secret-1.listed.wild.example:443")).verdict == ALLOWED
    assert "secret-1.listed.wild.example" in world.asked
    assert "secret-1.evil.example" not in world.asked


@pytest.mark.parametrize("order", [(OTHER, PRIVATE), (PRIVATE, OTHER)])
def test_one_private_address_among_others_is_enough(
    running: Proxy, world: World, order: tuple[str, str]
) -> None:
    name = f"mixed-{order[0].replace('.', '-')}.wild.example"
    world.names |= {name: list(order), f"plain-{name}": [OTHER, WORLD]}
    assert ask(running, connect(f"{name}:443")).verdict == (403, "address")
    assert ask(running, connect(f"plain-{name}:443")).verdict == ALLOWED


def test_a_name_that_moves_inside(running: Proxy, world: World) -> None:
    """The second answer, which leads inside, is not requested while the first holds, and is refused then."""
    before = len(world.reached)
    world.names["moves.example"] = [WORLD, "|", PRIVATE]
    found = {ask(running, connect("moves.example:443")).verdict for _ in range(50)}
    assert found == {ALLOWED}
    assert world.asked.count("moves.example") <= 2, "one for each family of addresses"
    assert PRIVATE not in world.reached[before:]


def _without_tunnels(running: Proxy) -> list[ProxyDecision]:
    """The decisions, without established tunnels: these are logged when they have ended."""
    return [each for each in running.decisions() if not (each.method == "CONNECT" and each.status == 200)]


def test_the_log_tells(running: Proxy) -> None:
    before = len(_without_tunnels(running))
    ask(running, get("web.example"))
    ask(running, get('web.example/"}\\{"'))
    ask(running, connect("other.example:8443"))
    ask(running, get("private.example"))
    ask(running, b'GET http://a"b\\c.example/ HTTP/1.1\r\nHost: x\r\n\r\n')
    until = time.monotonic() + 30
    while len(told := _without_tunnels(running)[before:]) < 5 and time.monotonic() < until:
        time.sleep(0.01)  # it logs its decision after the answer
    assert [(d.method, d.host, d.port, d.reason, d.status, d.address) for d in told] == [
        ("GET", "web.example", 80, "", 200, WORLD),
        ("GET", "", 0, "malformed", 400, ""),
        ("CONNECT", "other.example", 8443, "host", 403, ""),
        ("GET", "private.example", 80, "address", 403, ""),
        ("GET", "", 0, "malformed", 400, ""),
    ]
    assert told[0].allowed
    assert not told[2].allowed
    assert told[0].sent > 0
    assert told[0].time > 1_700_000_000


def test_its_word_is_told_to_no_server_of_names(running: Proxy, world: World) -> None:
    """squid looks up the name of the address that a connection claims as its source."""
    assert ask(running, connect("other.example")).verdict == (403, "host")
    word = ipaddress.ip_address(running.greeting.split()[2].decode())
    assert word.reverse_pointer not in world.asked


@pytest.mark.parametrize(("allowed", "kept"), [("1 second", False), ("1 day", True)])
def test_a_silent_tunnel(
    world: World, names: Path, monkeypatch: pytest.MonkeyPatch, allowed: str, *, kept: bool
) -> None:
    """A silent tunnel is cut after the configured time, which is a day; here it is a second."""
    del world
    rendered = "read_timeout 1 day"
    planned = plan.plan_proxy

    def shortened(*given: ResolvedPolicy, **options: Any) -> ProxyPlan:
        found = planned(*given, **options)
        assert rendered in found.configuration
        return replace(found, configuration=found.configuration.replace(rendered, f"read_timeout {allowed}"))

    monkeypatch.setattr(plan, "plan_proxy", shortened)
    with (
        plan.proxy(policy("web.example"), hosts_file=names) as running,
        socket.create_connection((running.host, running.port), timeout=6) as tunnel,
    ):
        tunnel.sendall(running.greeting + connect("web.example:80"))
        assert tunnel.recv(4096).startswith(b"HTTP/1.1 200")
        asked = b"GET /bytes/1 HTTP/1.1\r\nHost: web.example\r\n\r\n"  # whose server then waits for ever
        tunnel.sendall(asked)
        while not tunnel.recv(4096).endswith(b"\0"):
            pass
        time.sleep(4)
        with contextlib.suppress(OSError):
            tunnel.sendall(asked)
        assert (tunnel.recv(4096) != b"") == kept
