"""Asks the proxy's configuration: squid's access lists, as far as ours use them.

An `acl` line adds a value to a list, and any value of a list is enough; `any-of` and `all-of` join lists; an
`http_access` line holds when each of its lists does (`!`: does not), and the first that holds decides
(squid.conf.documented, 5.7). A name's addresses are unknown here: they are assumed to be public, but where a
question names one. A line that is not known here is refused, as it may decide something.
"""

from __future__ import annotations

import functools
import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass

from sandwright.errors import DocumentError, Problem
from sandwright.evaluate.explain.haproxy import FILE as HAPROXY
from sandwright.evaluate.explain.haproxy import Haproxy, HttpRequest
from sandwright.evaluate.explain.isolation import refuse_unknown
from sandwright.evaluate.explain.reading import ReadBack
from sandwright.evaluate.explain.squid_lines import BELOW, is_known_line, is_known_value
from sandwright.evaluate.explain.verdict import ArtifactPosition, Asked, MethodVerdict
from sandwright.policy.hosts import HostIndex
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.haproxy import filter_rules, haproxy_configuration
from sandwright.render.proxy import ProxyPlace, squid_configuration

FILE = "squid.conf"
CLIENT = "127.0.0.1"
GATEWAY, STRANGER = "192.0.2.1", "192.0.2.2"
"""The host's address in the sandbox's network, and that of another machine: no clients."""

PLACE = ProxyPlace(log="/run/proxy/access.log", cache_log="/run/proxy/cache.log", errors="/run/proxy/errors")
"""A possible place of a proxy: the allowed requests do not depend on it."""
_OF_HOSTS = frozenset(("dstdomain", "dstdom_regex"))
_JOINED = frozenset(("any-of", "all-of"))

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True)
class _Entry:
    """A value of a list. `line` is that of the `acl`."""

    name: str
    kind: str
    value: str
    line: int


@dataclass(frozen=True)
class _Rule:
    """An `http_access` line."""

    allows: bool
    lists: tuple[str, ...]
    line: int
    text: str


@dataclass(frozen=True)
class ProxyRequest:
    """A request. `address` is the known address of the host's name, if any; `scheme` that of its URL.

    The scheme of CONNECT is none of squid's.
    """

    host: str
    port: int
    address: str = ""
    method: str = "CONNECT"
    scheme: str = ""
    client: str = ""
    """Absent: the sandbox."""


class _Matched:
    """A request. `entries` are the values of the lists of hosts that match its host, `lists` those lists."""

    def __init__(self, request: ProxyRequest, entries: list[_Entry]) -> None:
        self.request = request
        self.entries = entries
        self.lists = frozenset(each.name for each in entries)
        self.address = _address_or_none(request.address or request.host)


class _HostLists:
    """The lists that compare names of hosts, found by a host's labels: a policy may list thousands."""

    def __init__(self) -> None:
        self._exact: dict[str, list[_Entry]] = {}
        self._below: dict[str, list[_Entry]] = {}
        self._regexes: list[_Entry] = []

    def add(self, name: str, kind: str, value: str, line: int) -> None:
        """Add a value of a list of kind `dstdomain` or `dstdom_regex`."""
        entry = _Entry(name, kind, value, line)
        below = BELOW.fullmatch(value) if kind == "dstdom_regex" else None
        if kind == "dstdomain":
            self._exact.setdefault(value, []).append(entry)
        elif below:
            self._below.setdefault(below[1].replace("\\.", "."), []).append(entry)
        else:
            self._regexes.append(entry)

    def examples(self) -> Iterator[str]:
        """A host for each name, and for all names below one."""
        yield from self._exact
        yield from (f"x.{base}" for base in self._below)

    def matching(self, host: str) -> list[_Entry]:
        """The values that match a host, those of no two lists in any order."""
        compared = f"[{host}]" if ":" in host else host
        found = [*self._exact.get(host, ())]
        found += [each for each in self._regexes if re.search(each.value, compared)]
        end = host.find(".", 1)  # `^.+\.base$`: something stands before the dot
        while end >= 0 and ":" not in host:
            found += self._below.get(host[end + 1 :], ())
            end = host.find(".", end + 1)
        return found


class Squid:
    """A configuration, and its answers to CONNECT."""

    def __init__(self, text: str, *, file: str = FILE, client: str = CLIENT) -> None:
        """`client` is the sandbox's address, or its placeholder.

        Raise DocumentError for a line, or a kind of list, that isn't known here.
        """
        self._file, self._client = file, client
        self._lists = {name: [_Entry(name, name, "", 0)] for name in ("all", "manager")}
        self._hosts = _HostLists()
        self._rules: list[_Rule] = []
        for number, line in enumerate(text.splitlines(), start=1):
            self._read_directive(line.split(), number, line.strip())
        self._members = {name: self._members_of(items) for name, items in self._lists.items()}

    def _read_directive(self, words: list[str], number: int, line: str) -> None:
        match words[:1]:
            case ["acl"]:
                self._add_acl(words, number)
            case ["include"]:  # the launcher writes there which network the sandbox is in
                clients = [_Entry("sw_clients", "src", each, number) for each in (CLIENT, GATEWAY)]
                self._lists["sw_clients"] = clients
                self._lists["sw_gateway"] = [_Entry("sw_gateway", "src", GATEWAY, number)]
            case ["http_access"]:
                self._rules.append(_Rule(words[1] == "allow", tuple(words[2:]), number, line))
            case [_] if not is_known_line(line):
                raise refuse_unknown(ArtifactPosition(self._file, line, number, 1))

    def hosts(self) -> Iterator[tuple[str, int]]:
        """Hosts that the lists name, an example for each value, with each port that is in a list."""
        values = [each for items in self._lists.values() for each in items]
        ports = dict.fromkeys(int(each.value) for each in values if each.kind == "port")
        networks = (_parse_network(each.value) for each in values if each.kind == "dst")
        addresses = (str(each.network_address) for each in networks if each is not None)
        for host in (*self._hosts.examples(), *dict.fromkeys(addresses)):
            yield from ((host, port) for port in ports or (443,))

    def serves_all(self) -> bool:
        """Whether any machine is a client."""
        return any(each.value == "0.0.0.0/0" for each in self._lists.get("sw_clients", ()))

    def verdict(self, host: str, port: int) -> MethodVerdict:
        """Whether a host can be reached through the proxy, and by which line."""
        return self.answer(ProxyRequest(host, port))

    def answer(self, query: ProxyRequest) -> MethodVerdict:
        """The verdict on a request, with the line that decides."""
        request = _Matched(query, self._hosts.matching(query.host))
        for rule in self._rules:
            if all(self._acl_holds(name, request) for name in rule.lists):
                listing = self._listing_line(request) if rule.allows else None
                position = listing or ArtifactPosition(self._file, rule.text, rule.line, 1)
                return MethodVerdict(rule.allows, self._because(rule, request), position)
        return MethodVerdict(
            allowed=False, because="no rule of the proxy holds", position=ArtifactPosition(self._file, "")
        )

    def _because(self, rule: _Rule, request: _Matched) -> str:
        if not rule.allows:
            return "the proxy refuses"
        if self._acl_holds("sw_private", request):
            return "through the proxy, at a private address too, but none of this machine"
        return "through the proxy, if its addresses are public"

    def _add_acl(self, words: list[str], number: int) -> None:
        name, kind, *values = words[1:]
        if kind not in _KINDS:
            raise DocumentError(self._file, [Problem(number, 1, "", f"lists of kind {kind} are not known")])
        for value in (value for value in values if value != "-n"):
            if not is_known_value(kind, value):
                raise refuse_unknown(ArtifactPosition(self._file, " ".join(words), number, 1))
            self._lists.setdefault(name, []).append(_Entry(name, kind, value, number))
            if kind in _OF_HOSTS:
                self._hosts.add(name, kind, value, number)

    def _required_lists(self, name: str) -> frozenset[str] | None:
        """The lists of hosts of which one must hold for a list to hold; None where it can hold without."""
        items = self._lists.get(name, [])
        kinds = {each.kind for each in items}
        if kinds and kinds <= _OF_HOSTS:
            return frozenset((name,))
        below = [self._required_lists(each.value) for each in items if each.kind in _JOINED]
        required = [each for each in below if each is not None]
        if kinds == {"all-of"} and required:
            return min(required, key=len)
        return frozenset().union(*required) if kinds == {"any-of"} and len(required) == len(below) else None

    def _members_of(self, items: list[_Entry]) -> dict[str, list[_Entry]]:
        """The members of an any-of list by the list of hosts that each needs, `""` for none."""
        found: dict[str, list[_Entry]] = {}
        for each in items if items and items[0].kind == "any-of" else ():
            needed = self._required_lists(each.value)
            for name in ("",) if needed is None else needed:
                found.setdefault(name, []).append(each)
        return found

    def _acl_holds(self, name: str, request: _Matched) -> bool:
        bare = name.lstrip("!")
        items = self._lists.get(bare, [])
        kind = items[0].kind if items else ""
        if kind in _OF_HOSTS:
            held = bare in request.lists
        elif kind == "any-of":
            members = self._members[bare]
            found = (each for key in ("", *request.lists) for each in members.get(key, ()))
            held = any(self._entry_matches(each, request) for each in found)
        else:
            joined = all if kind == "all-of" else any
            held = joined(self._entry_matches(each, request) for each in items)
        return held is not name.startswith("!")

    def _entry_matches(self, item: _Entry, request: _Matched) -> bool:
        match item.kind:
            case "any-of" | "all-of":
                return self._acl_holds(item.value, request)
            case "dst":
                return item.value == "all" or _is_in_network(request.address, item.value)
            case "src":
                client = request.request.client or self._client
                return item.value in ("all", client) or _is_in_network(_address_or_none(client), item.value)
            case "port":
                return int(item.value) == request.request.port
            case "method":
                return item.value == request.request.method
            case "proto":
                return item.value == request.request.scheme
            case "manager":
                return request.request.scheme == CACHE_OBJECT
            case _:
                return item.kind in ("all", "annotate_transaction")

    def _listing_line(self, request: _Matched) -> ArtifactPosition | None:
        """The line that lists a host, which says more than the rule that lets all listed ones by."""
        found = [
            each for each in request.entries if each.kind == "dstdomain" or each.name.startswith("sw_below")
        ]
        if request.address is not None:
            addresses = (items for name, items in self._lists.items() if name.startswith("sw_address"))
            found += [each for items in addresses for each in items if self._entry_matches(each, request)]
        first = min(found, key=lambda each: each.line, default=None)
        if first is None:
            return None
        return ArtifactPosition(self._file, f"{first.name} {first.kind} {first.value}", first.line, 1)


CACHE_OBJECT = "CACHE_OBJECT"
"""The scheme of squid's pages about itself."""

_KINDS = frozenset((
    "src", "method", "proto", "dstdomain", "dstdom_regex", "dst", "port", "any-of", "all-of",
    "annotate_transaction",
))  # fmt: skip


def _is_in_network(address: _Address | None, network: str) -> bool:
    """Whether an address is in a network; a name, which has none here, is in none."""
    if address is None:
        return False
    net = _parse_network(network)
    return net is not None and address.version == net.version and address in net


def _address_or_none(text: str) -> _Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


@functools.lru_cache(maxsize=4096)
def _parse_network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        return None


def through_proxy(sandbox: ReadBack, policy: ResolvedPolicy, question: Asked) -> MethodVerdict:
    """The verdict of the proxy in the method's own artifacts, or of the one that a session starts."""
    if policy.network.opened(question.host, question.port):
        return inspected(policy, question)
    position = sandbox.through_proxy(question.host, question.port)
    return (
        _session_squid(policy.network.hosts).verdict(question.host, question.port)
        if position is None
        else position
    )


def inspected(policy: ResolvedPolicy, question: Asked) -> MethodVerdict:
    """The verdict of a session's inspecting proxy on a request, or on whether it has the host at all."""
    proxy = Haproxy(haproxy_configuration(policy, "/authorities.pem"))
    if question.kind == "request":
        request = HttpRequest(question.host, question.port, question.name, question.target)
        verdict = proxy.answer(request)
        filtered = verdict.allowed and question.call and proxy.is_filtered(request)
        return _filtered_verdict(policy, question, verdict) if filtered else verdict
    there = (question.host, question.port) in proxy.hosts()
    return MethodVerdict(there, "through the inspecting proxy, by its rules", ArtifactPosition(HAPROXY, ""))


def _filtered_verdict(policy: ResolvedPolicy, question: Asked, verdict: MethodVerdict) -> MethodVerdict:
    """The verdict of the filter of MCP messages on a request that the proxy lets through."""
    opened = policy.network.opened(question.host, question.port)
    for host in filter_rules(policy):
        if opened and host.name == opened.name and host.passes(question.target, question.call):
            return verdict
    because = "the filter of messages lists no such tool or method"
    return MethodVerdict(allowed=False, because=because, position=ArtifactPosition("mcp.json", ""))


@functools.lru_cache(maxsize=16)
def parse_squid(text: str, file: str) -> Squid:
    """A configuration that an artifact holds."""
    return Squid(text, file=file)


@functools.lru_cache(maxsize=16)
def _session_squid(hosts: HostIndex) -> Squid:
    return Squid(squid_configuration(hosts.patterns, PLACE))
