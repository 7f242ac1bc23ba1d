"""Rules of `network.http`: which requests a sandbox may send to a host whose TLS ends in our proxy.

A request is compared as it was sent, so nothing may be spelled in two ways: a path with dot segments, empty
segments, `;`, a backslash, or an escape of a character that needs none is refused instead of normalised, as
servers normalise differently. The proxy's configuration (`render/haproxy.py`) is made of the same regular
expressions that `decide` uses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from sandwright.mcp import methods as mcp_methods
from sandwright.policy import mcp_rules
from sandwright.policy.hosts import HostPattern, host_pattern
from sandwright.policy.phrasing import quoted
from sandwright.policy.provenance import PolicySource

HttpReason = Literal[
    "host", "spelling", "override", "upgrade", "rule", "credential", "signature", "call", "tool"
]
"""The reason to refuse a request; `render.proxyfacts` has a sentence for each."""

PORT = 443
"""The port of a host without one."""

GIT_READ, GIT_WRITE = "git-upload-pack", "git-receive-pack"
"""The services of Git over HTTPS (gitprotocol-http(5)): fetching, pushing."""

# A regular expression by which something is refused repeats groups possessively (`*+`) or not at all: PCRE's
# compiled code has 32 KiB of stack, and finds nothing without any left. Such a group captures nothing, since
# Python's `re` fails then.

CHARACTERS = r"[A-Za-z0-9._~!$&\x27()*+,=:@/-]"
"""A character of a path that is compared as it stands (RFC 3986, 3.3, without `;`)."""

ESCAPES = (
    r"%(?:2[012346789ABCabc]|3[ACDEFacdef]|40|5[BDEbde]|60|7[BCDbcd]"
    r"|[89ABab][0-9A-Fa-f]|[Cc][2-9A-Fa-f]|[Dd][0-9A-Fa-f]"
    r"|[Ee]0(?=%[ABab])|[Ee][1-9A-Fa-f]|[Ff]0(?=%[9ABab])|[Ff][1-4])"
)
"""An escape in a path: of a character that can't stand there by itself, or of UTF-8 without overlong forms.

So not of control characters, `%`, `.`, `/`, `;`, `\\`, letters, digits, `-`, `_` and `~`."""

SLASH = "%2[Ff]"
"""An escaped slash, which only hosts take whose rules have one: npm writes scoped names so."""

_ANY_PART = "([^/%]|%[^2]|%2[^Ff])*"
"""The part that `*` stands for: no slash, escaped or not."""

SEGMENTS = rf"(/|{SLASH})((/|{SLASH})|\.\.?(/|{SLASH}|$))"
"""Empty segments and dot segments, also beside an escaped slash."""

ECHOES = ("TRACE",)
"""Methods that no rule allows: the answer is the request, with its secrets."""

OVERRIDES = (
    *("x-http-method-override", "x-http-method", "x-method-override"),
    *("x-original-url", "x-rewrite-url", "x-forwarded-host", "x-forwarded-prefix", "forwarded"),
)
"""Headers by which frameworks take a request for one with another method, path or host."""

_METHOD = re.compile(r"[A-Z][A-Z-]{1,31}")
_PATTERN = re.compile(rf"/({CHARACTERS}|{ESCAPES}|{SLASH})*")
_REPOSITORY = re.compile(r"[A-Za-z0-9_*][A-Za-z0-9._*-]*(/[A-Za-z0-9_*][A-Za-z0-9._*-]*)*")


QUERY = r"^[\x21\x22\x24-\x7e]*$"
"""The characters of a query, and of a path before it."""


def path_regex(*, slashes: bool) -> str:
    """The pattern that a path must match as a whole to be compared; nor may it contain `SEGMENTS`."""
    return f"^/(?:{CHARACTERS}|{ESCAPES}{f'|{SLASH}' if slashes else ''})*+$"


def header_regex(names: Sequence[str]) -> str:
    """A pattern for comma-separated lists with one of `names`, or with a name that servers take for it.

    Interfaces like CGI take every character but letters and digits for the same one.
    """
    found = "|".join(re.sub("[^a-z0-9]", "[^A-Za-z0-9,]", each) for each in names)
    return f"(^|,)({found})(,|$)"


def lookalike_regex(name: str) -> str:
    """As `header_regex`, for names that are read like this one only."""
    return header_regex([name]).replace("(^|,)", f"(^|,)(?!{name}(,|$))")


def _overriding_query() -> str:
    def escaped(word: str) -> str:
        return "".join(f"({each}|%{_codes(each)})" for each in word)

    other = r"(?:[^=&;a-z0-9%]|%(?:[0-2][0-9a-f]|3[a-f]|[46]0|[57][b-f]|[89a-f][0-9a-f]))"
    words = f"{escaped('x')}?{other}++({escaped('http')}{other}?)?{escaped('method')}"
    return f"(^|[?&;]|%26|%3b){words}([^a-z0-9]|$)"


def _codes(letter: str) -> str:
    """The last digits of the escapes of a letter, small and capital."""
    return f"[{ord(letter.upper()) >> 4:x}{ord(letter) >> 4:x}]{ord(letter) & 15:x}"


OVERRIDING_QUERY = _overriding_query()
"""A query with a parameter by which frameworks take a request for one with another method.

`_method`, `_HttpMethod`, the names of headers, and the equivalent spellings in PHP. Letters may be escaped;
compare without case.
"""


@dataclass(frozen=True)
class HttpRule:
    """Requests that are allowed: with one of `methods`, a path that a pattern matches, and exactly `query`.

    None stands for all. A WebSocket needs a rule without methods, because the data after its first request is
    not inspected. `source` is the place of the rule in the policy. `tools` are those of an MCP server; such
    requests are decided by their messages, too.
    """

    methods: frozenset[str] | None
    paths: tuple[str, ...] | None
    source: PolicySource
    query: str | None = None
    tools: tuple[str, ...] | None = None

    def allows(self, method: str, path: str, query: str) -> bool:
        """Whether a request is one of these. `query` is without its `?`."""
        return (
            (method not in ECHOES if self.methods is None else method in self.methods)
            and (self.query is None or query == self.query)
            and self.has_path(path)
        )

    def has_path(self, path: str) -> bool:
        """Whether a pattern matches a path."""
        return self.paths is None or any(re.search(pattern_regex(each), path) for each in self.paths)

    def includes(self, other: HttpRule) -> bool:
        """Whether everything that another rule allows is allowed by this one; patterns are not compared."""
        return (
            (self.methods is None or (other.methods is not None and other.methods <= self.methods))
            and (self.query is None or self.query == other.query)
            and (self.paths is None or (other.paths is not None and set(other.paths) <= set(self.paths)))
            and (
                self.tools is None
                or (other.tools is not None and mcp_rules.includes_tools(self.tools, other.tools))
            )
        )

    def __str__(self) -> str:
        """As shown in reports: `GET /repos/**`, `tools search, fetch at /mcp`."""
        if self.tools is not None:
            names = f"tools {', '.join(self.tools)}" if self.tools else "no tool"
            return f"{names} at {' '.join(self.paths or ()) or 'no path'}"
        methods = "any method" if self.methods is None else " ".join(sorted(self.methods)) or "no method"
        paths = "any path" if self.paths is None else " ".join(self.paths) or "no path"
        return f"{methods} {paths}{f'?{self.query}' if self.query else ''}"


@dataclass(frozen=True)
class HttpHost:
    """A host whose TLS ends in our proxy, and the rules for it."""

    host: str
    port: int
    private: bool
    rules: tuple[HttpRule, ...]

    @property
    def pattern(self) -> HostPattern:
        """The host and port as `network.allow` would list it."""
        return HostPattern(self.host, frozenset({self.port}), private=self.private)

    def uncovered(self, limit: HttpHost) -> tuple[HttpRule, ...]:
        """The rules that allow more than another's rules for the same host.

        Where that one has rules about tools, a path of these is theirs alone.
        """
        held = limit.tool_paths
        past = bool(held - self.tool_paths)
        return tuple(
            each
            for each in self.rules
            if (past and each.tools is None)
            or not any(
                rule.includes(each)
                for rule in limit.rules
                if not held or (rule.tools is None) == (each.tools is None)
            )
        )

    @property
    def tool_paths(self) -> frozenset[str]:
        """The patterns of paths of rules about tools; no other rule is for these, and paths below them."""
        return frozenset(path for rule in self.rules if rule.tools is not None for path in rule.paths or ())

    @property
    def name(self) -> str:
        """As a policy writes it."""
        return self.host if self.port == PORT else f"{self.host}:{self.port}"

    @property
    def slashes(self) -> bool:
        """Whether a rule has an escaped slash."""
        return any(re.search(SLASH, path) for rule in self.rules for path in rule.paths or ())

    @property
    def has_git(self) -> bool:
        """Whether a rule is about Git."""
        return any(rule.query is not None for rule in self.rules)

    @property
    def authorities(self) -> tuple[str, ...]:
        """The allowed values of the header `Host`."""
        with_port = f"{self.host}:{self.port}"
        return (self.host, with_port) if self.port == PORT else (with_port,)

    def decide(self, method: str, target: str, call: str = "") -> HttpRule | HttpReason:
        """The rule that allows a request, or why it is refused. `target` is the path with its query.

        `call` identifies its message: the method of MCP, and for `tools/call` the tool behind a space.
        """
        path, _, query = target.partition("?")
        if not re.search(path_regex(slashes=self.slashes), path) or re.search(SEGMENTS, path):
            return "spelling"
        if not re.search(QUERY, query):
            return "spelling"
        if re.search(OVERRIDING_QUERY, query, re.IGNORECASE):
            return "override"
        about_tools = any(re.search(tools_regex(each), path, re.IGNORECASE) for each in self.tool_paths)
        rules = [each for each in self.rules if (each.tools is not None) is about_tools]
        found = [each for each in rules if each.allows(method, path, query)]
        if not found:
            return "rule"
        if not about_tools or not call:
            return found[0]
        return _decide_call(found, call)


def _decide_call(rules: Sequence[HttpRule], call: str) -> HttpRule | HttpReason:
    """The rule that allows a message of a client of MCP."""
    method, _, tool = call.partition(" ")
    if method != mcp_methods.CALL:
        return rules[0] if method in mcp_methods.REQUESTS | mcp_methods.NOTIFICATIONS else "call"
    return next((each for each in rules if mcp_rules.lists_tool(each.tools or (), tool)), "tool")


def pattern_regex(pattern: str) -> str:
    """The regular expression of a path's pattern: `*` is part of a segment, `**` any number of segments.

    An escaped slash ends the match of `*`, too.
    """
    whole = "".join(_pattern_parts(pattern))
    return f"^{whole}$"


def tools_regex(pattern: str) -> str:
    """The regular expression of paths that only a rule about tools covers: its own and all below, caseless.

    Many servers take `/mcp/` and `/MCP` for `/mcp`, and `%2F` for a slash. No group is repeated: where PCRE
    runs out of stack, nothing matches, and other rules would decide. `*` therefore includes `%2F`.
    """
    slash = f"(/|{SLASH})"
    *above, last = re.sub(SLASH, "/", pattern).removesuffix("/").split("/")[1:] or [""]
    parts = [
        f"({slash}.+)?" if each == "**" else slash + "".join(_segment_parts(each, "[^/]*")) for each in above
    ]
    end = f"{slash}.*" if last == "**" else slash + "".join(_segment_parts(last, "[^/]*")) if last else ""
    return f"^{''.join(parts)}{end}({slash}.*)?$"


def _pattern_parts(pattern: str) -> Iterator[str]:
    segments = pattern.split("/")[1:]
    for number, segment in enumerate(segments):
        if segment != "**":
            yield "/" + "".join(_segment_parts(segment))
        elif number == len(segments) - 1:
            yield "/.*"
        else:
            yield "(/[^/]+)*"


def _segment_parts(segment: str, any_part: str = _ANY_PART) -> Iterator[str]:
    for part in re.findall(r"%..|.", segment):
        if part == "*":
            yield any_part
        elif part.startswith("%"):
            yield f"%[{part[1].upper()}{part[1].lower()}][{part[2].upper()}{part[2].lower()}]"
        else:
            yield part if part.isalnum() else "\\x27" if part == "'" else f"\\{part}"


def http_host(text: str) -> tuple[str, int]:
    """The host and port that a rule names. Raise ValueError for a pattern of several, or an address."""
    pattern = host_pattern(text)
    if "*" in pattern.host:
        raise ValueError(f"{quoted(text)}: name each host; its certificate is made for this one")
    if ":" in pattern.host or pattern.host[-1].isdigit():
        raise ValueError(f"{quoted(text)} is an address; HTTP rules need a name")
    if pattern.ports is None:
        raise ValueError(f"{quoted(text)}: name one port")
    return pattern.host, PORT if len(pattern.ports) > 1 else min(pattern.ports)


def http_method(text: str) -> str:
    """A method of a request. Raise ValueError for anything else."""
    if not _METHOD.fullmatch(text) or text == "CONNECT":
        raise ValueError(f"{quoted(text)} is no method like GET or POST, in capitals")
    if text in ECHOES:
        raise ValueError(f"{text} is never allowed: its answer is the request, with its secrets")
    return text


def http_path(text: str) -> str:
    """The pattern of a path. Raise ValueError with the fault."""
    if not text.startswith("/"):
        raise ValueError(f"{quoted(text)} must begin with /")
    if "?" in text or "#" in text:
        raise ValueError(f"{quoted(text)}: rules compare the path only; leave out the query")
    if not _PATTERN.fullmatch(text):
        raise ValueError(f"{quoted(text)} holds a character that is not compared; write it escaped, like %20")
    if re.search(SEGMENTS, text):
        raise ValueError(f"{quoted(text)} has an empty segment, or one of dots, which no request may have")
    if any("**" in each and each != "**" for each in text.split("/")):
        raise ValueError(f"{quoted(text)}: ** must be a whole segment, like /repos/**")
    return text


def git_repository(text: str) -> str:
    """The pattern of a repository, like `acme/*`. Raise ValueError for anything else."""
    if not _REPOSITORY.fullmatch(text) or text.endswith(".git"):
        raise ValueError(f"{quoted(text)} is no repository like acme/tool or acme/*, without .git")
    return text


def git_rules(access: str, repositories: Sequence[str], source: PolicySource) -> Iterator[HttpRule]:
    """The rules of `git: read` or `write`: the requests of fetching, and of pushing (gitprotocol-http(5))."""
    roots = [f"/{each}{end}" for each in repositories for end in ("", ".git")]
    for service in (GIT_READ, GIT_WRITE)[: 2 if access == "write" else 1]:
        references = tuple(f"{root}/info/refs" for root in roots)
        yield HttpRule(frozenset({"GET"}), references, source, f"service={service}")
        yield HttpRule(frozenset({"POST"}), tuple(f"{root}/{service}" for root in roots), source, "")
