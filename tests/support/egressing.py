"""Sends requests to a proxy as its clients do, and reads the answers."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from sandwright.api import Policy
from sandwright.egress import Proxy
from sandwright.policy.facts import HostFacts
from sandwright.policy.resolved import ResolvedPolicy


def policy(*allow: str, private: Sequence[str] = ()) -> ResolvedPolicy:
    """A policy that permits hosts, some of them at private addresses, on an invented host."""
    items = [repr(each) for each in allow] + [f"{{host: {each!r}, private: true}}" for each in private]
    listed = "".join(f"\n    - {each}" for each in items) or " []"
    text = f"schema: 1\nmethod: bwrap\nnetwork:\n  mode: proxy\n  allow:{listed}\n"
    return Policy.from_text(text).resolve(HostFacts(os="linux", home="/home/ada", project="/home/ada/p"))


ALLOWED = (200, "")


@dataclass(frozen=True)
class Answer:
    """The first answer, and all received bytes."""

    status: int
    reason: str
    raw: bytes

    @property
    def verdict(self) -> tuple[int, str]:
        """Status and reason."""
        return self.status, self.reason


def ask(proxy: Proxy, raw: bytes, *, whole: bool = False) -> Answer:
    """Send bytes, and read the answer: its head, or until the proxy closes."""
    with socket.create_connection((proxy.host, proxy.port), timeout=20) as connection:
        connection.sendall(proxy.greeting + raw)
        said = b""
        while (whole or b"\r\n\r\n" not in said) and (block := connection.recv(65536)):
            said += block
    status = re.match(rb"HTTP/1\.[01] (\d+)", said)
    reason = re.search(rb"X-Squid-Error: (?:\d+:)?ERR_([A-Z_]+)", said)
    return Answer(
        int(status[1]) if status else 0,
        reason[1].decode().removeprefix("SANDWRIGHT_").lower() if reason else "",
        said,
    )


def get(host: str, *headers: str, method: str = "GET", scheme: str = "http") -> bytes:
    """A request for a page, through the proxy."""
    lines = [f"{method} {scheme}://{host}/page HTTP/1.1", "Host: web.example", *headers, "Connection: close"]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def connect(host: str) -> bytes:
    """A request for a tunnel."""
    return f"CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode("latin-1")
