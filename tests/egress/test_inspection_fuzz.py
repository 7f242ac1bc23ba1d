"""Random rules and requests, for which haproxy must decide as the policy says; and random first bytes.

Each test starts from a random seed, which the message of a failure contains.

Tests of evaluate/explain/haproxy.py.
"""

from __future__ import annotations

import contextlib
import random
import re
import socket
from collections.abc import Iterator
from typing import BinaryIO

import pytest

from sandwright.egress.opening import MAX_HEAD, Undecided, accepted_head, starts_with, tunnel_head
from sandwright.evaluate.explain.haproxy import Haproxy, HttpRequest
from sandwright.policy.http_rules import HttpHost, HttpRule, http_path
from sandwright.render.proxyfacts import REFUSALS
from support.inspecting import HOSTS, PORT, Inspected, inspected
from support.netlab import World
from support.thorough import THOROUGH

SEED = 38
CASES = 20_000 if THOROUGH else 2500
"""Requests, in all."""

WORDS = (
    "a",
    "b",
    "acme",
    "x.git",
    "~u",
    "-",
    "v1",
    "A",
    "(c)",
    "@s",
    "d=e",
    "f+g",
    "h'i",
    "$j",
    "k!",
    "l:m",
    "%20",
    "%C3%A9",
    "%e2%82%ac",
    "%5Bn%5D",
    "%3D",
    "%40",
)
MISSPELT = (
    "..",
    ".",
    "%2e",
    "%2E%2e",
    "%2f",
    "a%2Fb",
    ";",
    "%3b",
    "%25",
    "%61",
    "%00",
    "%c0%af",
    "%7f",
    "%zz",
    "%",
    "",
    "\\",
    "..;",
    "%ed%a0%80",
    "%f4%90%80%80",
    "[",
    "^",
    "%2",
    "...",
    ".a",
    "a.",
)
QUERIES = (
    "",
    "",
    "",
    "?",
    "?a=b",
    "?service=git-upload-pack",
    "?service=git-receive-pack",
    "?_method=PUT",
    "?x=_method",
    "?%5fMETHOD",
    "?method=a",
    "?a&x-http-method=1",
    "?//../",
    "?%zz",
    "?a?b",
    "?;[method]=",
)
METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND", "M-SEARCH")


def random_pattern(draw: random.Random) -> str:
    """A pattern as a policy may have it."""
    while True:
        segments = [
            draw.choice(("*", "**", "*.git", "a*", "*-*", "@s%2f*", *WORDS, *WORDS))
            for _ in range(draw.randint(1, 4))
        ]
        with contextlib.suppress(ValueError):
            return http_path("/" + "/".join(segments) + draw.choice(("", "", "/")))


def random_rules(draw: random.Random) -> str:
    """The rules of a host as a policy has them, in YAML's flow style."""
    if draw.random() < 0.2:
        access, repository = draw.choice(("read", "write")), draw.choice(("a/*", "acme/b", "*", "v1/*/x"))
        return f'git: {access}, repos: ["{repository}"]'
    parts = []
    if draw.random() < 0.7:
        parts.append(f"methods: {draw.sample(METHODS[:6] + METHODS[7:], draw.randint(0, 3))}")
    if draw.random() < 0.8:
        paths = ", ".join(f'"{random_pattern(draw)}"' for _ in range(draw.randint(0, 3)))
        parts.append(f"paths: [{paths}]")
    return ", ".join(parts)


def random_policy(draw: random.Random) -> str:
    rules = "".join(
        f"    - {{host: '{host}:{PORT}'{', ' if each else ''}{each}}}\n"
        for host in HOSTS
        for each in (random_rules(draw) for _ in range(draw.randint(1, 4)))
    )
    return f"schema: 1\nmethod: bwrap\nnetwork:\n  mode: proxy\n  http:\n{rules}"


def random_target(draw: random.Random, host: HttpHost) -> str:
    """A path and query, often close to one that a rule permits."""
    patterns = [path for rule in host.rules for path in rule.paths or ()]
    if patterns and draw.random() < 0.7:
        segments = draw.choice(patterns).split("/")[1:]
        segments = [
            part
            for each in segments
            for part in ([draw.choice(WORDS) for _ in range(draw.randint(0, 3))] if each == "**" else [each])
        ]
        segments = [each.replace("*", draw.choice((*WORDS, "", "a.b"))) for each in segments]
    else:
        segments = [draw.choice(WORDS) for _ in range(draw.randint(0, 4))]
    for _ in range(draw.choice((0, 0, 0, 1, 1, 2))):
        at = draw.randrange(len(segments) + 1)
        segments[at : at + draw.randint(0, 1)] = [draw.choice((*MISSPELT, *WORDS))]
    return "/" + "/".join(segments) + draw.choice(QUERIES)


def random_method(draw: random.Random, host: HttpHost) -> str:
    listed = [each for rule in host.rules for each in sorted(rule.methods or ())]
    return draw.choice((*listed, *METHODS))


@pytest.fixture(scope="module", params=range(8 if THOROUGH else 2))
def fuzzed(request: pytest.FixtureRequest, world: World) -> Iterator[tuple[int, Inspected, str]]:
    seed = SEED + request.param
    text = random_policy(random.Random(seed))
    with inspected(world, text, secrets=False) as found:
        yield seed, found, text


@pytest.mark.needs("squid", "haproxy", "openssl", "ip", "setpriv")
def test_the_proxy_decides_as_the_policy(fuzzed: tuple[int, Inspected, str]) -> None:
    seed, opened, text = fuzzed
    draw = random.Random(seed)
    explained = Haproxy((opened.folder / "haproxy.cfg").read_text())
    decided: dict[str, int] = {}
    for host in opened.policy.network.http:
        with opened.tunnel(host.host) as connection, connection.makefile("rb") as file:
            for _ in range(CASES // len(HOSTS) // 2):
                method, target = random_method(draw, host), random_target(draw, host)
                said = ask(connection, file, method, target, host.host)
                rule = host.decide(method, target)
                expected = "allowed" if isinstance(rule, HttpRule) else rule
                assert said == expected, (seed, method, target, str(rule), text)
                verdict = explained.answer(HttpRequest(host.host, host.port, method, target))
                assert verdict.allowed is (said == "allowed"), (seed, method, target, verdict, text)
                decided[expected] = decided.get(expected, 0) + 1
    assert min(decided[each] for each in ("allowed", "spelling", "rule", "override")) > CASES // 100, decided


def ask(connection: socket.socket, file: BinaryIO, method: str, target: str, host: str) -> str:
    """The reason to refuse a request, or `allowed`."""
    length = "Content-Length: 0\r\n"
    sent = f"{method} {target} HTTP/1.1\r\nHost: {host}:{PORT}\r\n{length}\r\n"
    connection.sendall(sent.encode("latin-1"))
    status = int(file.readline().split()[1])
    size = 0
    while (line := file.readline()) not in (b"\r\n", b""):
        if line.lower().startswith(b"content-length:"):
            size = int(line[15:])
    body = file.read(size).decode("latin-1")
    if status == 200:
        return "allowed"
    plain = body.replace("?", "'")
    return next(
        (reason for reason, why in REFUSALS.items() if why in plain or why in body), f"{status} {body}"
    )


# --- The first bytes of connections -------------------------------------------------------------------------

PIECES = (
    b"CONNECT ",
    b"connect ",
    b"GET ",
    b"api.example",
    b"API.example.",
    b"\0",
    b"\r\n",
    b"\n",
    b"\r",
    b" ",
    b":",
    b"443",
    b"0443",
    b"99999",
    b" HTTP/1.1",
    b" HTTP/1.0",
    b"HTTP/1.1 200 OK",
    b"\r\n\r\n",
    b"\t",
    b"@x",
    b"/",
    b"Host: x\r\n",
    b"X: " + b"y" * 3000,
    b"\xff",
    b"200",
    b"[::1]",
    b"\n\n",
    b"\x16\x03\x01",
)


def random_bytes(draw: random.Random) -> bytes:
    """A request for a tunnel or squid's answer with a few changes, or pieces of one."""
    data = draw.choice((
        b"CONNECT api.example:443 HTTP/1.1\r\nHost: x\r\n\r\n\x16\x03",
        b"HTTP/1.1 200 Connection established\r\n\r\nmore",
        b"".join(draw.choice(PIECES) for _ in range(draw.randint(0, 8))),
    ))  # fmt: skip
    for _ in range(draw.choice((0, 0, 1, 2))):
        at = draw.randrange(len(data) + 1)
        data = data[:at] + draw.choice(PIECES) + data[at + draw.randint(0, 3) :]
    return data[:MAX_HEAD]


TUNNEL = re.compile(rb"CONNECT ([^ :\0-\x20@/\[\]]+):(\d{1,5}) HTTP/1\.[01]\r\n(.*?\r\n)??\r\n", re.DOTALL)


def prefixes(draw: random.Random, data: bytes) -> list[bytes]:
    """The parts of some bytes that may have arrived at a time, the whole last."""
    return [data[:at] for at in sorted({*draw.choices(range(len(data) + 1), k=5), len(data)})]


def test_no_first_bytes_lead_elsewhere() -> None:
    """The decision on a part also holds for the whole, and squid would read a tunnel, too."""
    draw = random.Random(SEED)
    tunnels = 0
    for _ in range(20 * CASES):
        data = random_bytes(draw)
        answers = []
        for part in prefixes(draw, data):
            with contextlib.suppress(Undecided):
                answers.append(tunnel_head(part))
        assert len(set(answers)) <= 1, data
        found = TUNNEL.match(data)
        if answers and answers[0]:
            assert found is not None, data
            name = found[1].decode().lower().removesuffix(".")
            assert answers[0] == (name.encode(), int(found[2]), found.end()), data
            tunnels += 1
    assert tunnels > CASES


def test_no_answer_but_200_opens_a_tunnel() -> None:
    draw = random.Random(SEED)
    opened = 0
    for _ in range(20 * CASES):
        data = random_bytes(draw)
        answers = []
        for part in prefixes(draw, data):
            with contextlib.suppress(Undecided):
                answers.append(accepted_head(part))
        assert len(set(answers)) <= 1, data
        if answers and answers[0] is not None:
            assert re.match(rb"HTTP/1\.[01] 200[ \r]", data), data
            assert data[: answers[0]].endswith(b"\r\n\r\n")
            assert data.index(b"\r\n\r\n") + 4 == answers[0]
            opened += 1
    assert opened > CASES


def test_a_secret_is_compared_as_a_whole() -> None:
    draw = random.Random(SEED)
    secret = b"PROXY TCP6 fd01::1 ::1 1 2\r\n"
    for _ in range(CASES):
        data = secret[: draw.randint(0, len(secret))] + random_bytes(draw)
        if len(data) < len(secret):
            with pytest.raises(Undecided):
                starts_with(data, secret)
        else:
            assert starts_with(data, secret) == (data[: len(secret)] == secret)
