"""Requests that a proxy among the artifacts lets through although the policy denies them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from sandwright.errors import ArtifactsTooWide
from sandwright.evaluate.boundary import boundary_calls, boundary_hosts, boundary_requests
from sandwright.evaluate.explain.haproxy import Haproxy, HttpRequest
from sandwright.evaluate.explain.squid import CACHE_OBJECT, GATEWAY, STRANGER, ProxyRequest, Squid
from sandwright.evaluate.explain.verdict import ArtifactPosition, MethodVerdict
from sandwright.evaluate.isolation import Exposure
from sandwright.mcp.rules import FilteredHost
from sandwright.policy.explain import Explanation, explain
from sandwright.policy.hosts import HostPattern
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.proxy import INSIDE, NEVER, PRIVATE
from sandwright.render.proxyfacts import OPENER

_EACH_NAME = ("169.254.169.254", "10.0.0.1")
"""Addresses that are tried for every name."""

_MOST = 5
"""Cases that an error lists."""

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def check_proxy(policy: ResolvedPolicy, configuration: str, *, client: str) -> None:
    """Raise ArtifactsTooWide where the proxy of a session would let more through than the policy.

    `client` stands in the configuration for the sandbox. Raise DocumentError for a line that is not known.
    """
    squid = Squid(configuration, client=client)
    found = [
        _proxy_exposure(f"connect {host}:{port}", f"{answer.ground.text} ({answer.ground.source})", verdict)
        for host, port, answer, verdict in unlisted_hosts(policy, squid)
    ]
    found += proxy_exposures(policy, squid)
    found += opened_exposures(policy, squid, configuration)
    if found:
        raise ArtifactsTooWide(
            "the proxy would allow more than the policy, so it is not used:", *_case_lines(found)
        )


def check_inspection(
    policy: ResolvedPolicy, configuration: str, filtered: Sequence[FilteredHost] = ()
) -> None:
    """Raise ArtifactsTooWide where the inspecting proxy would let more requests through than the policy.

    `filtered` are the rules of its filter of MCP messages. Raise DocumentError for a line that is not known.
    """
    haproxy = Haproxy(configuration)
    found = [
        _proxy_exposure(f"request {method} {host.name}{target}", str(host.decide(method, target)), verdict)
        for host in policy.network.http
        for method, target in boundary_requests(host)
        if (verdict := haproxy.answer(HttpRequest(host.host, host.port, method, target))).allowed
        and isinstance(host.decide(method, target), str)
    ]
    found += _tool_exposures(policy, haproxy, filtered)
    unlisted = set(haproxy.hosts()) - {(each.host, each.port) for each in policy.network.http}
    for name, port in sorted(unlisted):
        verdict = MethodVerdict(True, "the inspecting proxy has this host")
        found.append(_proxy_exposure(f"request {name}:{port}", "no host of network.http", verdict))
    names = [each.host for each in policy.network.http]
    if list(haproxy.servers.values()) != [(name, name) for name in names]:
        verdict = MethodVerdict(True, "a server is checked by another name, or not at all")
        found.append(_proxy_exposure("request to another host", "the certificate of each host", verdict))
    if found:
        raise ArtifactsTooWide(
            "the inspecting proxy would allow more than the policy, so it is not used:", *_case_lines(found)
        )


def _tool_exposures(
    policy: ResolvedPolicy, haproxy: Haproxy, filtered: Sequence[FilteredHost]
) -> Iterator[Exposure]:
    """Requests to MCP servers past the filter of messages, and tools that it lets through unlisted."""
    by_index = {each.index: each for each in filtered}
    for index, host in enumerate(policy.network.http):
        for method, target, call in boundary_calls(host):
            denied = host.decide(method, target, call)
            subject = f"request {method} {host.name}{target} {call}"
            if not haproxy.is_filtered(HttpRequest(host.host, host.port, method, target)):
                verdict = MethodVerdict(True, "it does not lead through the filter of messages")
                yield _proxy_exposure(subject, "its rules about tools", verdict)
            elif isinstance(denied, str) and index in by_index and by_index[index].passes(target, call):
                verdict = MethodVerdict(True, "the filter of messages lists this tool")
                yield _proxy_exposure(subject, denied, verdict)


def opened_exposures(policy: ResolvedPolicy, squid: Squid, configuration: str) -> Iterator[Exposure]:
    """Hosts of `network.http` that the sandbox reaches by itself, and others that their proxy reaches."""
    opened = {(each.host, each.port) for each in policy.network.http}
    for host, port in opened:
        for each in (port, 80, port + 1):
            verdict = squid.verdict(host, each)
            if verdict.allowed:
                yield _proxy_exposure(f"connect {host}:{each}", "network.http: its proxy alone may", verdict)
    if OPENER not in configuration:
        return
    for host, port in dict.fromkeys(chain(boundary_hosts(policy), squid.hosts(), [("any.example", 443)])):
        verdict = squid.answer(ProxyRequest(host, port, client=OPENER))
        if verdict.allowed and (host, port) not in opened:
            yield _proxy_exposure(f"connect {host}:{port} for the inspecting proxy", "network.http", verdict)


def _case_lines(found: list[Exposure]) -> Iterator[str]:
    yield from (f"  {each}" for each in found[:_MOST])
    if len(found) > _MOST:
        yield f"  and {len(found) - _MOST} more"


def unlisted_hosts(
    policy: ResolvedPolicy, squid: Squid
) -> Iterator[tuple[str, int, Explanation, MethodVerdict]]:
    """Hosts that it lets through and the policy doesn't list: their neighbours, and those that it names."""
    for host, port in dict.fromkeys(chain(boundary_hosts(policy), squid.hosts())):
        verdict = squid.verdict(host, port)
        if verdict.allowed:
            answer = explain(policy, "connect", f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
            if not answer.allowed:
                yield host, port, answer, verdict


def proxy_exposures(policy: ResolvedPolicy, squid: Squid) -> Iterator[Exposure]:
    """Addresses that a listed name must not lead to, and requests that are no client's or not for a host."""
    names = [each for each in policy.network.allow if _network_or_none(each.host) is None]
    addresses = {private: _refused_addresses(policy, private=private) for private in (False, True)}
    for pattern in names[:1]:
        yield from _other_requests(_request_for(pattern), squid)
    for pattern in names:
        # There are many names: all addresses are tried for the first name of a kind only.
        for address in addresses[pattern.private]:
            verdict = squid.answer(replace(_request_for(pattern), address=address))
            if verdict.allowed:
                yield _proxy_exposure(
                    f"connect {pattern} at {address}", "what no listed name may lead to", verdict
                )
        addresses[pattern.private] = [each for each in addresses[pattern.private] if each in _EACH_NAME]


def _request_for(pattern: HostPattern) -> ProxyRequest:
    """One for a host that a pattern lists."""
    host = "any.example" if pattern.host == "*" else pattern.host.replace("*.", "x.", 1)
    return ProxyRequest(host, min(pattern.ports or {443}))


def _other_requests(usual: ProxyRequest, squid: Squid) -> Iterator[Exposure]:
    others = [
        ("TRACE", replace(usual, method="TRACE", scheme="HTTP")),
        ("FTP", replace(usual, method="GET", scheme="FTP")),
        ("the proxy's own pages", replace(usual, method="GET", scheme=CACHE_OBJECT)),
    ]
    if not squid.serves_all():
        others += [(f"requests of {each}", replace(usual, client=each)) for each in (GATEWAY, STRANGER)]
    for name, request in others:
        verdict = squid.answer(request)
        if verdict.allowed:
            yield _proxy_exposure(name, "the proxy, which serves the sandbox's http and CONNECT", verdict)


def _refused_addresses(policy: ResolvedPolicy, *, private: bool) -> list[str]:
    """The machine's, its link's, those of clouds' metadata and, where a name is not `private`, private ones.

    Of each network the first and the last. Addresses that the policy lists may be reached.
    """
    never, may_be = (_valid_networks(each) for each in (NEVER, PRIVATE if private else ()))
    listed = _valid_networks(each.host for each in policy.network.allow)
    ends = (address for each in _valid_networks((*NEVER, *INSIDE)) for address in (each[0], each[-1]))
    found = map(ipaddress.ip_address, dict.fromkeys((*_EACH_NAME, *map(str, ends))))
    return [
        str(each)
        for each in found
        if not _is_in_any(each, listed) and (_is_in_any(each, never) or not _is_in_any(each, may_be))
    ]


def _valid_networks(texts: Iterable[str]) -> list[_Network]:
    """The texts that are networks or addresses."""
    return [each for each in map(_network_or_none, texts) if each is not None]


def _network_or_none(text: str) -> _Network | None:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        return None


def _is_in_any(address: ipaddress.IPv4Address | ipaddress.IPv6Address, networks: Iterable[_Network]) -> bool:
    return any(address in each for each in networks)


def _proxy_exposure(subject: str, denied_by: str, verdict: MethodVerdict) -> Exposure:
    return Exposure(subject, denied_by, verdict.position or ArtifactPosition("", verdict.because))
