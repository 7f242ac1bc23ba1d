"""Renders the configuration of the proxy that reads requests: haproxy's, from `network.http`.

Each host of `network.http` has a socket of its own, to which the relay leads the tunnels that the sandbox
asks for; the way out is the relay again. haproxy has no name to look up and no address to choose. Its own
parser refuses most ambiguous requests (conflicting lengths and hosts); the rules compare the remaining ones.
Secrets are in none of its files: they come through its control socket.

Facts about haproxy are from its configuration manual (2.6), and were tried with 2.6.12.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sandwright.errors import RenderError
from sandwright.mcp.rules import FilteredHost, ToolRule
from sandwright.policy.http_credentials import secret_key
from sandwright.policy.http_rules import (
    ECHOES,
    OVERRIDES,
    OVERRIDING_QUERY,
    QUERY,
    SEGMENTS,
    HttpHost,
    HttpRule,
    header_regex,
    lookalike_regex,
    path_regex,
    pattern_regex,
    tools_regex,
)
from sandwright.policy.mcp_rules import tool_regex
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.proxyfacts import DIRECTORY, FILTER_CONNECTIONS, REFUSALS
from sandwright.render.quoting import Quoted
from sandwright.render.templates import add_filter, render_template

SIGNED_BODY = 512 << 10
"""Bytes of haproxy's buffers if it signs requests: a body without a digest in the headers must fit in one."""

_BUFFER = 32 << 10
"""Bytes of haproxy's buffers otherwise. A request's headers must fit in one, but for 8 KiB."""

_WORD = re.compile(r"[A-Za-z0-9._/:@+-]+")


@dataclass(frozen=True)
class _Secret:
    """A credential of a host; haproxy's maps have its value and its placeholder by the key."""

    key: str
    header: str
    signs: bool

    @property
    def lookalikes(self) -> str:
        """Names of headers that some servers take for this one."""
        return lookalike_regex(self.header)


@dataclass(frozen=True)
class _Rule:
    """A rule of a host: the lines that define its conditions, and the conditions."""

    number: int
    lines: tuple[Quoted, ...]
    condition: Quoted


@dataclass(frozen=True)
class _Host:
    """A host as the template needs it. `places` is where the policy has its rules.

    `inner` is the number of the socket to which the message filter sends allowed requests; 0 without one.
    """

    index: int
    host: HttpHost
    rules: tuple[_Rule, ...]
    secrets: tuple[_Secret, ...]
    places: str
    inner: int

    @property
    def tool_paths(self) -> tuple[str, ...]:
        """Regular expressions of the paths that lead through the filter of messages."""
        return tuple(map(tools_regex, sorted(self.host.tool_paths)))


def quote_haproxy(word: object) -> Quoted:
    """A word of haproxy's configuration. Raise RenderError for an ambiguous one."""
    if not isinstance(word, str) or not _WORD.fullmatch(word):
        raise RenderError(f"{word!r} cannot be a word of haproxy's configuration")
    return Quoted(word)


def quote_pattern(pattern: object) -> Quoted:
    """A regular expression in single quotes, in which nothing else has a meaning."""
    if not isinstance(pattern, str) or not pattern.isascii() or not pattern.isprintable() or "'" in pattern:
        raise RenderError(f"{pattern!r} cannot be a regular expression of haproxy's")
    return Quoted(f"'{pattern}'")


def quote_sentence(text: object) -> Quoted:
    """Text for a log format in single quotes, where `%` begins a variable and a quote would end it."""
    return Quoted("".join(each if each.isalnum() or each in " .,:;/_-()" else "?" for each in str(text)))


def quote_query(text: object) -> Quoted:
    """A query of one parameter. Raise RenderError for another."""
    name, _, value = str(text).partition("=")
    return Quoted(f"{quote_haproxy(name)}={quote_haproxy(value)}")


add_filter("haproxy", quote_haproxy)
add_filter("pattern", quote_pattern)
add_filter("sentence", quote_sentence)


def haproxy_configuration(policy: ResolvedPolicy, authorities: str) -> str:
    """The configuration for haproxy. `authorities` is the file of certificates that hosts are believed by.

    Paths begin with `proxyfacts.DIRECTORY`, which stands for the directory that each start brings. Raise
    RenderError for a value that the configuration can't hold.
    """
    return render_template(
        "oci",
        "proxy/haproxy.cfg.j2",
        directory=DIRECTORY,
        authorities=authorities,
        hosts=list(_haproxy_hosts(policy)),
        masks=bool(policy.credentials.http),
        signs=signs_requests(policy),
        buffer=SIGNED_BODY if signs_requests(policy) else _BUFFER,
        segments=SEGMENTS,
        overrides=header_regex(OVERRIDES),
        query=QUERY,
        overriding_query=OVERRIDING_QUERY,
        echoes=ECHOES,
        refusals=REFUSALS,
        connections=FILTER_CONNECTIONS,
        spelling={each: path_regex(slashes=each) for each in (False, True)},
    )


def signs_requests(policy: ResolvedPolicy) -> bool:
    """Whether the proxy signs requests to a host."""
    return any(each.signs for each in policy.credentials.http)


def lua_programs(policy: ResolvedPolicy) -> dict[str, str]:
    """The programs in Lua by file: one masks secrets in answers, one signs requests."""
    programs = {"mask.lua": bool(policy.credentials.http), "sigv4.lua": signs_requests(policy)}
    return {name: render_template("oci", f"proxy/{name}") for name, needed in programs.items() if needed}


def filter_rules(policy: ResolvedPolicy) -> tuple[FilteredHost, ...]:
    """The rules of the filter of MCP messages (`egress.mcp_filter`)."""
    return tuple(
        FilteredHost(
            index,
            host.name,
            tuple(
                ToolRule(tuple(map(pattern_regex, rule.paths or ())), tuple(map(tool_regex, rule.tools)))
                for rule in host.rules
                if rule.tools is not None
            ),
        )
        for index, host in enumerate(policy.network.http)
        if host.tool_paths
    )


def _haproxy_hosts(policy: ResolvedPolicy) -> Iterator[_Host]:
    inner = len(policy.network.http)
    for index, host in enumerate(policy.network.http, start=1):
        secrets = tuple(
            _Secret(secret_key(each), each.header, each.signs)
            for each in policy.credentials.http
            if (each.host, each.port) == (host.host, host.port)
        )
        places = ", ".join(dict.fromkeys(str(rule.source) for rule in host.rules))
        rules = tuple(
            _haproxy_rule(number, rule, beside_tools=bool(host.tool_paths) and rule.tools is None)
            for number, rule in enumerate(host.rules, start=1)
        )
        inner += bool(host.tool_paths)
        through = inner if host.tool_paths else 0
        yield _Host(index, host, tuple(each for each in rules if each), secrets, places, through)


def _haproxy_rule(number: int, rule: HttpRule, *, beside_tools: bool) -> _Rule | None:
    """The lines of a rule; None for one that allows nothing. `beside_tools`: other rules are about tools."""
    if not (rule.methods is None or rule.methods) or not (rule.paths is None or rule.paths):
        return None
    lines, conditions = [], ["!tools"] if beside_tools else []
    if rule.methods is not None:
        methods = " ".join(map(quote_haproxy, sorted(rule.methods)))
        lines.append(f"acl methods_{number} method -m str {methods}")
        conditions.append(f"methods_{number} !upgrade")
    if rule.paths is not None:
        lines += [
            f"acl paths_{number} path -m reg {quote_pattern(pattern_regex(each))}" for each in rule.paths
        ]
        conditions.append(f"paths_{number}")
    if rule.query is not None:
        query = f"-m str {quote_query(rule.query)}" if rule.query else "-m len gt 0"
        lines.append(f"acl query_{number} query {query}")
        conditions.append(f"query_{number}" if rule.query else f"!query_{number}")
    return _Rule(number, tuple(map(Quoted, lines)), Quoted(" ".join(conditions) or "TRUE"))
