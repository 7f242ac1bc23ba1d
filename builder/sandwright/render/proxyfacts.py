"""The constants of every proxy, apart from its rendering: a session's start imports only this."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from types import MappingProxyType

HOST = "127.0.0.1"
"""The address of the proxy in a sandbox with a separate localhost."""

PORT = 3128
"""The proxy's port, on the localhost of a sandbox that has its own: squid's usual port."""

REASONS: Mapping[str, int] = MappingProxyType({
    "client": 403,
    "method": 403,
    "spelling": 403,
    "host": 403,
    "http": 403,
    "address": 403,
    "unresolved": 503,
})  # fmt: skip
"""The reasons to refuse a request, with the status of the answer.

`client`: not one of the proxy's. `method`: neither CONNECT nor plain HTTP, or TRACE, PURGE, or the proxy's
own pages. `http`: a host of `network.http`, past the proxy that reads its requests. `spelling`: a host that
can't be compared. `host`: not listed, or not with this port. `address`: not public, or this machine's.
`unresolved`: the name has no address.
"""

REFUSALS: Mapping[str, str] = MappingProxyType({
    "host": "the certificate's name, the header Host and this connection's host are not the same",
    "spelling": "the path or a header is spelled in a way that servers read differently",
    "override": "a header or query asks the server for another method, path or host",
    "upgrade": "only rules without methods allow WebSockets, and no other upgrade is allowed",
    "rule": "no rule of network.http allows this method and path",
    "credential": "the secret's header holds another value than the placeholder of the sandbox",
    "signature": "no header has an AWS4-HMAC-SHA256 signature of the whole request by the placeholder",
    "secret": "the host's secret for this header could not be read",
})  # fmt: skip
"""The reasons to refuse a request, in the order of the checks, `secret` with 503 and all others with 403."""

TOOL_REFUSALS: Mapping[str, str] = MappingProxyType({
    "message": "it is no message of MCP with one reading",
    "call": "rules about tools (mcp) allow no other method of MCP",
    "tool": "no rule about tools (mcp) lists this tool",
})  # fmt: skip
"""The reasons of the MCP filter to refuse a request; the keys are `mcp.messages.RefusalReason`."""

FILTER_CONNECTIONS = 128
"""The number of requests that the MCP filter has at a time; the others wait in haproxy."""

WORD = re.compile(r"[A-Za-z0-9/\[:][A-Za-z0-9._:/\[\]+-]*")
"""A word of squid's configuration, that can mean nothing more."""

DIRECTORY, LISTEN, RELAY, OPENER = "/SW-DIRECTORY", "SW-LISTEN", "SW-RELAY", "SW-OPENER"
OWN, UPSTREAM = "# SW-OWN", "# SW-UPSTREAM"
"""The markers in a rendered configuration for the values of each start: its directory, its listening address,
the word of its relay, that of the proxy that reads requests, and lines for the machine's own addresses and
for the host's own proxy."""

SECCOMP = "seccomp.bpf"
"""The file of squid's own filter of system calls, in the directory of its start."""


def nat64(network: ipaddress.IPv4Network) -> ipaddress.IPv6Network:
    """The addresses under which a network with NAT64 reaches an IPv4 network (RFC 6052, 2.1)."""
    prefix = ipaddress.IPv6Address("64:ff9b::")
    return ipaddress.IPv6Network((int(prefix) + int(network.network_address), 96 + network.prefixlen))
