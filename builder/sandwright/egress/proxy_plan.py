"""What a policy's proxies have in common: what need not be found out again at each start."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sandwright.mcp.rules import FilteredHost

AUTHORITIES = "authorities.pem"
"""The certificates of authorities that the inspecting proxy believes, and those that the sandbox does."""

OUT = "SW-OUT"
"""What stands in words for the port at which the relay takes connections of the inspecting proxy."""


FILTER = "SW-FILTER"
"""What stands in words for the port of the filter of MCP messages."""


@dataclass(frozen=True)
class SquidAccount:
    """Whom squid runs as, when it is another than the caller."""

    uid: int
    gid: int


@dataclass(frozen=True)
class InspectionPlan:
    """An inspecting proxy (haproxy) that can be started; no secret is in it.

    `mask` is the program of its filter, empty without secrets.

    `hosts` are those of `network.http`, in the order of its sockets. `authorities` are the certificates that
    it believes hosts by. `command` are the words that start it restricted, `filters` its filters of
    system calls in hexadecimal, by file. `has_secrets`: a session has to give it some. `filtered` are the
    hosts with rules about MCP tools, `filter_command` the words that start the message filter.
    """

    configuration: str
    mask: str
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

    `configuration` is squid's, with what `sandwright.render.proxyfacts` names in it; `pages` are what it
    answers, by name. `command` are the words that start squid restricted (`launcher.restrict`), with what
    `sandwright.render.proxyfacts` names in them; `account` who it is then, `seccomp` its filter in
    hexadecimal. `inspection` is the proxy that reads requests, None without `network.http`.
    """

    configuration: str
    pages: Mapping[str, str]
    command: tuple[str, ...]
    account: SquidAccount | None
    hosts_file: str | None = None
    seccomp: str = ""
    inspection: InspectionPlan | None = None
