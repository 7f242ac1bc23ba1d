"""Resolves `network.http` and `credentials.http`: the rules by host, and the secrets for them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from sandwright.policy import mcp_rules, values
from sandwright.policy.hosts import listed_pattern
from sandwright.policy.http_credentials import (
    SIGNATURE,
    SIGNATURE_VARIABLES,
    HttpCredential,
    default_lifetime,
)
from sandwright.policy.http_rules import HttpHost, HttpRule, git_rules, http_host
from sandwright.policy.layers import MergedSettings
from sandwright.policy.model import HttpCredentialSection, HttpRuleSection, McpSection
from sandwright.policy.provenance import Faults, Sourced


def resolve_http(settings: MergedSettings, faults: Faults) -> tuple[HttpHost, ...]:
    """The hosts of `network.http` in the order of their first rules.

    Such a host is no tunnel, even if another file lists it in `network.allow`. One file must not list both.
    """
    found: dict[tuple[str, int], list[Sourced[HttpRuleSection]]] = {}
    for item in settings.items("network.http"):
        found.setdefault(http_host(item.value.host), []).append(item)
    for item in settings.items("network.allow"):
        pattern = listed_pattern(item.value)
        for (host, _), rules in found.items():
            if pattern.host == host and any(each.source.file == item.source.file for each in rules):
                message = f"{item.value} would be a tunnel, and network.http has rules for it; list it in one"
                faults.add(item.source, message)
    for items in found.values():
        _check_beside_tools(items, faults)
    return tuple(
        HttpHost(
            host,
            port,
            private=any(item.value.private for item in items),
            rules=tuple(rule for item in items for rule in _http_rules(item, faults)),
        )
        for (host, port), items in found.items()
    )


def _http_rules(item: Sourced[HttpRuleSection], faults: Faults) -> Iterator[HttpRule]:
    """The rules of an item; one with a fault allows nothing."""
    section = item.value
    nothing = HttpRule(frozenset(), (), item.source)
    if section.mcp is not None:
        yield _mcp_rule(item, section.mcp, faults)
        return
    others = [name for name in ("methods", "paths") if getattr(section, name) is not None]
    if section.git is not None:
        if others:
            faults.add(item.source, f"git and {' and '.join(others)} exclude each other; write two rules")
            yield nothing
        elif section.repos is None:
            faults.add(item.source, "git needs repos: the repositories, like acme/*")
            yield nothing
        else:
            yield from git_rules(section.git, section.repos, item.source)
        return
    if section.repos is not None:
        faults.add(item.source, "repos needs git: read or write")
    methods = None if section.methods is None else frozenset(section.methods)
    yield HttpRule(methods, section.paths, item.source)


def _mcp_rule(item: Sourced[HttpRuleSection], mcp: McpSection, faults: Faults) -> HttpRule:
    others = [name for name in ("methods", "git", "repos") if getattr(item.value, name) is not None]
    if others:
        faults.add(item.source, f"mcp and {' and '.join(others)} exclude each other; write two rules")
        return HttpRule(frozenset(), (), item.source)
    paths = mcp_rules.PATHS if item.value.paths is None else item.value.paths
    return HttpRule(mcp_rules.METHODS, paths, item.source, "", mcp.tools)


def _check_beside_tools(items: list[Sourced[HttpRuleSection]], faults: Faults) -> None:
    """A rule for the whole host of an MCP server would lead to its tools by another path."""
    if any(item.value.mcp is not None for item in items):
        for item in items:
            if item.value.mcp is None and item.value.git is None and item.value.paths is None:
                faults.add(
                    item.source, f"{item.value.host} has a rule about tools (mcp): name paths here, too"
                )


def resolve_credentials(
    settings: MergedSettings, hosts: tuple[HttpHost, ...], faults: Faults
) -> tuple[HttpCredential, ...]:
    """The secrets of `credentials.http` for hosts with rules, each for a header of its own.

    A secret is unused if a higher layer has removed its host from `network.http`.
    """
    found: list[HttpCredential] = []
    opened = {(each.host, each.port): each for each in hosts}
    ruled = settings.given["network.http"].rank if "network.http" in settings.given else 0
    for item in settings.items("credentials.http"):
        one = _resolve_credential(item)
        if (one.host, one.port) not in opened:
            if item.source.rank >= ruled:
                faults.add(item.source, f"{item.value.host} needs rules in network.http first")
            continue
        if any((one.host, one.port, one.header) == (each.host, each.port, each.header) for each in found):
            faults.add(item.source, f"another entry gives {item.value.host} the header {one.header}")
        for fault in _credential_faults(one, opened[one.host, one.port], found):
            faults.add(item.source, fault)
        found.append(one)
    return tuple(found)


def _credential_faults(
    one: HttpCredential, host: HttpHost, others: Sequence[HttpCredential]
) -> Iterator[str]:
    for each in others:
        shared = set(one.variables) & set(each.variables)
        if shared and (one.origin, one.signs) != (each.origin, each.signs):
            yield f"{', '.join(sorted(shared))} would have placeholders of two secrets"
    if one.kind == "cmd":
        try:
            shlex.split(one.reference)
        except ValueError as fault:
            yield f"cmd: {fault}"
    if one.signs:
        yield from _signature_faults(one, host)


def _signature_faults(one: HttpCredential, host: HttpHost) -> Iterator[str]:
    if one.header != "authorization":
        yield f"{SIGNATURE} needs header: authorization"
    if one.variable not in ("", one.reference):
        yield f"{SIGNATURE} has its placeholders in {', '.join(SIGNATURE_VARIABLES)}; leave out variable"
    if one.kind == "env" and one.reference != SIGNATURE_VARIABLES[1]:
        yield f"{SIGNATURE} needs from: env:{SIGNATURE_VARIABLES[1]}, which reads the ID, too, or cmd:WORDS"
    if host.tool_paths:
        yield f"{SIGNATURE} is not possible for a host with rules about tools (mcp)"


def _resolve_credential(item: Sourced[HttpCredentialSection]) -> HttpCredential:
    section = item.value
    host, port = http_host(section.host)
    kind, _, reference = section.from_.partition(":")
    return HttpCredential(
        host,
        port,
        section.header,
        section.scheme or "",
        kind,
        reference,
        variable=section.variable or (reference if kind == "env" else ""),
        lifetime=values.duration(section.lifetime) if section.lifetime else default_lifetime(kind),
        source=item.source,
    )


def http_secret_names(settings: MergedSettings) -> frozenset[str]:
    """The variables of the host that hold, or lead to, secrets of `credentials.http`; never passed."""
    found: set[str] = set()
    for item in settings.items("credentials.http"):
        kind, _, name = item.value.from_.partition(":")
        if kind == "env":
            found |= {name, f"{name}_FILE", f"{name}_COMMAND"}
        if item.value.scheme == SIGNATURE:
            found |= set(SIGNATURE_VARIABLES)
        if item.value.variable:
            found.add(item.value.variable)
    return frozenset(found)
