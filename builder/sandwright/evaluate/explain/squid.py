"""Asks the proxy's configuration: squid's access lists, as far as ours use them.

An `acl` line adds a value to a list, and any value of a list is enough; `any-of` and `all-of` join lists; an
`http_access` line holds when each of its lists does (`!`: does not), and the first that holds decides
(squid.conf.documented, 5.7). What a name's addresses are nobody knows here: they are taken to be public.
"""

from __future__ import annotations

import functools
import ipaddress
import re
from dataclasses import dataclass

from sandwright.errors import DocumentError, Problem
from sandwright.evaluate.explain.verdict import ArtifactPosition, Asked, MethodVerdict
from sandwright.policy.hosts import HostPattern
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.proxy import ProxyPlace, squid_configuration
from sandwright.render.rendered import Rendered

FILE = "squid.conf"
CLIENT = "127.0.0.1"
PLACE = ProxyPlace(log="/run/proxy/access.log", cache_log="/run/proxy/cache.log", errors="/run/proxy/errors")
"""Where a proxy could run: what is let through does not depend on it."""


@dataclass(frozen=True)
class _Rule:
    """An `http_access` line."""

    allows: bool
    lists: tuple[str, ...]
    line: int
    text: str


class Squid:
    """A configuration, and what it answers to CONNECT."""

    def __init__(self, text: str, *, file: str = FILE) -> None:
        """Raise DocumentError for a kind of list that isn't known here."""
        self._file = file
        self._lists: dict[str, list[tuple[str, str]]] = {"all": [("all", "")], "manager": []}
        self._rules: list[_Rule] = []
        for number, line in enumerate(text.splitlines(), start=1):
            words = line.split()
            if words[:1] == ["acl"]:
                self._add(words, number)
            elif words[:1] == ["include"]:  # the launcher writes there which network the sandbox is in
                self._lists["sw_clients"] = [("src", f"all {number}")]
            elif words[:1] == ["http_access"]:
                self._rules.append(_Rule(words[1] == "allow", tuple(words[2:]), number, line.strip()))

    def verdict(self, host: str, port: int) -> MethodVerdict:
        """Whether a host can be reached through the proxy, and by which line."""
        for rule in self._rules:
            if all(self._holds(name, host, port) for name in rule.lists):
                listing = self._listing(host, port) if rule.allows else None
                place = listing or ArtifactPosition(self._file, rule.text, rule.line, 1)
                return MethodVerdict(rule.allows, self._because(rule, host, port), place)
        return MethodVerdict(
            allowed=False, because="no rule of the proxy holds", place=ArtifactPosition(self._file, "")
        )

    def _because(self, rule: _Rule, host: str, port: int) -> str:
        if not rule.allows:
            return "the proxy refuses"
        if self._holds("sw_private", host, port):
            return "through the proxy, at a private address too, but none of this machine"
        return "through the proxy, if its addresses are public"

    def _add(self, words: list[str], number: int) -> None:
        name, kind, *values = words[1:]
        if kind not in _KINDS:
            raise DocumentError(self._file, [Problem(number, 1, "", f"lists of kind {kind} are not known")])
        into = self._lists.setdefault(name, [])
        into.extend((kind, f"{value} {number}") for value in values if value != "-n")

    def _holds(self, name: str, host: str, port: int) -> bool:
        items = self._lists.get(name.lstrip("!"), [])
        found = [self._matches(item, host, port) for item in items]
        joined = all if items and items[0][0] == "all-of" else any
        return joined(found) is not name.startswith("!")

    def _matches(self, item: tuple[str, str], host: str, port: int) -> bool:
        kind, value = item[0], item[1].partition(" ")[0]
        match kind:
            case "any-of" | "all-of":
                return self._holds(value, host, port)
            case "dstdomain":
                return value == host
            case "dstdom_regex":
                return re.search(value, f"[{host}]" if ":" in host else host) is not None
            case "dst":
                return value == "all" or _inside(host, value)
            case "src":
                return value == "all" or _inside(CLIENT, value)
            case "port":
                return int(value) == port
            case "method" | "proto":
                return value == "CONNECT"  # the protocol of CONNECT is none of squid's
            case _:
                return kind in ("all", "annotate_transaction")

    def _listing(self, host: str, port: int) -> ArtifactPosition | None:
        """The line that lists a host, which says more than the rule that lets all listed ones by."""
        for name, items in self._lists.items():
            for kind, value in items:
                text, _, number = value.partition(" ")
                plain = kind == "dstdomain" or (kind == "dst" and name.startswith("sw_address"))
                regex = kind == "dstdom_regex" and name.startswith("sw_below")
                if (plain or regex) and self._matches((kind, value), host, port):
                    return ArtifactPosition(self._file, f"{name} {kind} {text}", int(number), 1)
        return None


_KINDS = frozenset((
    "src", "method", "proto", "dstdomain", "dstdom_regex", "dst", "port", "any-of", "all-of",
    "annotate_transaction",
))  # fmt: skip


def _inside(host: str, network: str) -> bool:
    """Whether an address is in a network; a name is in none."""
    try:
        address, net = ipaddress.ip_address(host), ipaddress.ip_network(network)
    except ValueError:
        return False
    return address.version == net.version and address in net


def through_proxy(rendered: Rendered, policy: ResolvedPolicy, asked: Asked) -> MethodVerdict:
    """What the proxy answers: that of the method's own artifacts, or the one that a session starts."""
    own = next((each for each in rendered.artifacts if each.name.endswith(FILE)), None)
    if own is not None:
        return _squid(own.content.decode(), own.name).verdict(asked.host, asked.port)
    return _session(policy.network.allow).verdict(asked.host, asked.port)


@functools.lru_cache(maxsize=16)
def _squid(text: str, file: str) -> Squid:
    return Squid(text, file=file)


@functools.lru_cache(maxsize=16)
def _session(allow: tuple[HostPattern, ...]) -> Squid:
    return Squid(squid_configuration(allow, PLACE))
