"""The part of a proxy's setup that all starts under a policy share; the render cache keeps it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sandwright.mcp.rules import FilteredHost

AUTHORITIES = "authorities.pem"
"""The CA certificates that the inspecting proxy trusts, and those that the sandbox trusts."""

OUT = "SW-OUT"
"""The placeholder in an argv for the port at which the relay accepts connections of the inspecting proxy."""


FILTER = "SW-FILTER"
"""The placeholder in an argv for the port of the filter of MCP messages."""


@dataclass(frozen=True)
class SquidAccount:
    """The account that squid runs as, if it is not the caller's."""

    uid: int
    gid: int


@dataclass(frozen=True)
class InspectionPlan:
    """An inspecting proxy (haproxy) that can be started; no secret is in it.

    `programs` are its programs in Lua by file.

    `hosts` are those of `network.http`, in the order of its sockets. `authorities` are the certificates that
    it believes hosts by. `command` are the words that start it restricted, `filters` its filters of
    system calls in hexadecimal, by file. `has_secrets`: a session has to give it some. `filtered` are the
    hosts with rules about MCP tools, `filter_command` the words that start the message filter.
    """

    configuration: str
    programs: dict[str, str]
    hosts: tuple[tuple[str, int], ...]
    authorities: str = field(repr=False)
    command: tuple[str, ...]
    filters: Mapping[str, str] = field(repr=False)
    has_secrets: bool
    filtered: tuple[FilteredHost, ...] = ()
    filter_command: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProxyPlan:
    """A proxy that can be started, and that the render cache keeps.

    `configuration` is squid's, with the placeholders of `sandwright.render.proxyfacts`; `pages` are its
    answers, by name. `command` are the words that start squid restricted (`launcher.restrict`), with
    placeholders of `sandwright.render.proxyfacts`; `account` is its account, `seccomp` its filter in
    hexadecimal. `inspection` is the proxy that reads requests, None without `network.http`.
    """

    configuration: str
    pages: Mapping[str, str]
    command: tuple[str, ...]
    account: SquidAccount | None
    hosts_file: str | None = None
    seccomp: str = ""
    inspection: InspectionPlan | None = None
