"""Asks the inspecting proxy's configuration: haproxy's rules for requests, as far as ours use them.

Rules are taken in their order, as haproxy does (configuration manual 2.6, 4.2 and 7.1): a condition holds
when each of its words does, a word when any of its `acl` lines matches. A request is as a library writes it:
the name of the handshake and `Host` are the host's, and no header matters. Lines of a frontend or backend
that are not known here are refused, as they may decide something.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sandwright.errors import DocumentError, Problem
from sandwright.evaluate.explain.verdict import ArtifactPosition, MethodVerdict

FILE = "haproxy.cfg"

_ACL = re.compile(r"acl ([a-z_0-9]+) (\S+) (.+)")
_SET = re.compile(r"http-request set-var\(txn\.(reason|rule)\) str\(([a-z0-9]+)\) (if|unless) (.+)")
_RETURN = re.compile(r"http-request return status (?:403|503) .* if \{ var\(txn\.reason\) -m str ([a-z]+) \}")
_SERVER = re.compile(
    r"server host 127\.0\.0\.1:\$\{SW_OUT\} send-proxy ssl sni str\((\S+)\) verifyhost (\S+) ca-file \S+ "
    r"alpn h2,http/1\.1"
)
_FILTER = "server filter 127.0.0.1:${SW_FILTER} send-proxy maxconn "
_USE = re.compile(r"use_backend (\S+) if tools")
_HOST = re.compile(r"http-request set-var\(txn\.host\) str\((\S+):([0-9]+)\)")
_HELD = re.compile(r"(!?)\{ var\(txn\.([a-z_0-9]+)\) -m found \}")
_HARMLESS = (
    "bind ", "error-log-format ", "http-request set-var(txn.method) method",
    "http-request set-var(txn.path) path",
    "http-request set-var(txn.masked) int(0)",
    "http-request set-var(txn.placeholder_", "http-request set-var(txn.secret_",
    "http-request return status 403 ", "http-request wait-for-body ",
    "http-request set-header ", "http-request del-header ",
    "http-request lua.verify_signature ", "http-request lua.sign ",
    "http-request set-uri %[pathq]", "http-response ", "http-error ", "filter ", "default_backend ",
    "compression ", "no log", "http-reuse never", "http-request deny deny_status 503 unless ",
)  # fmt: skip
"""Lines that let no request through: they name sockets and variables, or change allowed requests."""

_USUAL: Mapping[str, bool] = {
    "req.hdr_cnt(host)": True, "req.hdr(host)": True, "req.hdrs": True, "ssl_fc_sni": True,
}  # fmt: skip
"""The conditions with a known value for a request that a library writes; those about its other headers are
false."""


class HttpRequest(NamedTuple):
    """A request to a host. `target` is the path with its query."""

    host: str
    port: int
    method: str
    target: str


@dataclass(frozen=True)
class _Line:
    number: int
    text: str


@dataclass
class _Frontend:
    """The lines about one host."""

    name: str
    port: int = 0
    lists: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    rules: list[tuple[str, str, bool, str, _Line]] = field(default_factory=list)
    refuses: set[str] = field(default_factory=set)
    filter: str = ""


class Haproxy:
    """A configuration, and its answers to requests."""

    def __init__(self, text: str) -> None:
        """Raise DocumentError for a line of a frontend or backend that isn't known here."""
        self._hosts: dict[tuple[str, int], _Frontend] = {}
        self.servers: dict[str, tuple[str, str]] = {}
        """By backend, the name that haproxy sends and the one that it checks the certificate by."""
        self._filters: set[str] = set()
        section, current = "", _Frontend("")
        for number, line in enumerate(text.splitlines(), start=1):
            words = line.strip()
            if line[:1].isalpha():
                section, current = line, _Frontend("")
            elif words and not words.startswith("#") and section.startswith(("frontend ", "backend ")):
                self._parse_haproxy_line(_Line(number, words), section.split()[1], current)

    def _parse_haproxy_line(self, line: _Line, section: str, current: _Frontend) -> None:
        if found := _HOST.fullmatch(line.text):
            current.name, current.port = found[1], int(found[2])
            self._hosts[current.name, current.port] = current
        elif found := _ACL.fullmatch(line.text):
            current.lists.setdefault(found[1], []).append((found[2], found[3]))
        elif found := _SET.fullmatch(line.text):
            current.rules.append((found[1], found[2], found[3] == "if", found[4], line))
        elif found := _RETURN.fullmatch(line.text):
            current.refuses.add(found[1])
        elif found := _SERVER.fullmatch(line.text):
            self.servers[section] = (found[1], found[2])
        elif found := _USE.fullmatch(line.text):
            current.filter = found[1]
        elif line.text.startswith(_FILTER):
            self._filters.add(section)
        elif not line.text.startswith(_HARMLESS):
            raise DocumentError(FILE, [Problem(line.number, 1, "", f"{line.text!r} is not known")])

    def hosts(self) -> Iterator[tuple[str, int]]:
        """The hosts that it reads requests to."""
        yield from self._hosts

    def is_filtered(self, request: HttpRequest) -> bool:
        """Whether a request leads through the filter of MCP messages, should it pass."""
        frontend = self._hosts.get((request.host, request.port))
        if frontend is None or frontend.filter not in self._filters:
            return False
        return self._word_holds(frontend, "tools", request)

    def answer(self, request: HttpRequest) -> MethodVerdict:
        """The verdict on a request, with the line that decides."""
        frontend = self._hosts.get((request.host, request.port))
        if frontend is None:
            because = "the inspecting proxy has no such host"
            return MethodVerdict(allowed=False, because=because, position=ArtifactPosition(FILE, ""))
        held: dict[str, _Line] = {}
        reason = ""
        for name, value, positive, condition, line in frontend.rules:
            if self._condition_holds(frontend, condition, held, request) is positive:
                held[name] = line
                reason = value if name == "reason" else reason
        refused = reason in frontend.refuses
        line = held["reason" if refused else "rule"] if refused or "rule" in held else _Line(0, "")
        position = ArtifactPosition(FILE, line.text, line.number, 1 if line.number else 0)
        because = (
            f"the inspecting proxy refuses: {reason}" if refused else "by a rule of the inspecting proxy"
        )
        return MethodVerdict(not refused, because, position)

    def _condition_holds(
        self, frontend: _Frontend, condition: str, held: Mapping[str, _Line], request: HttpRequest
    ) -> bool:
        for negated, name in _HELD.findall(condition):
            there = name in held or name.startswith(("secret_", "verified"))  # a session gives it
            if there is bool(negated):
                return False
        words = _HELD.sub("", condition).split()
        return all(self._word_holds(frontend, word, request) for word in words)

    def _word_holds(self, frontend: _Frontend, word: str, request: HttpRequest) -> bool:
        name = word.lstrip("!")
        holds = name == "TRUE" or any(_acl_matches(*each, request) for each in frontend.lists.get(name, ()))
        return holds is not word.startswith("!")


def _acl_matches(fetch: str, rest: str, request: HttpRequest) -> bool:
    path, _, query = request.target.partition("?")
    compared = {"path": path, "query": query, "pathq": request.target}.get(fetch)
    if compared is not None and rest.startswith("-m reg "):
        pattern = rest.removeprefix("-m reg ")
        flags = re.IGNORECASE if pattern.startswith("-i ") else 0
        return re.search(pattern.removeprefix("-i ").strip("'"), compared, flags) is not None
    if fetch == "method":
        return request.method in rest.removeprefix("-m str ").split()
    if fetch == "query":
        return query != "" if rest == "-m len gt 0" else query == rest.removeprefix("-m str ")
    return _USUAL.get(fetch, False)
