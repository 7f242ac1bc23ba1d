"""Tries the host's own proxy, for `sandwright doctor`."""

from __future__ import annotations

import base64
import re
import socket
from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from sandwright.egress.upstream import UpstreamProxy, host_proxies
from sandwright.errors import HostError

_PATIENCE = 5.0
"""Seconds that a proxy may take to connect, and to answer."""

_TARGET = "doctor.sandwright.invalid:443"
"""The requested tunnel. No host has this name (RFC 6761), so only the proxy itself is reached."""

_STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})")


def try_upstream(environment: Mapping[str, str]) -> Iterator[str]:
    """A sentence for each proxy that an environment names: whether it answers, or why it cannot be used."""
    try:
        upstream = host_proxies(environment)
    except HostError as error:
        yield f"{error}; until then network.mode: proxy does not start"
        return
    for each in dict.fromkeys(filter(None, (upstream.tunnels, upstream.requests))):
        yield f"{each.variable} names the proxy {each.address}, {_upstream_finding(each)}"
    for item in upstream.unknown:
        yield f"NO_PROXY: {item!r} is no host, address or network, and has no effect on network.mode: proxy"


def _upstream_finding(proxy: UpstreamProxy) -> str:
    try:
        status = _connect_status(proxy)
    except OSError as error:
        why = error.strerror or str(error)
        return f"which cannot be reached ({why}): network.mode: proxy reaches nothing but hosts in NO_PROXY"
    match status:
        case 0:
            return "which does not speak HTTP: network.mode: proxy reaches nothing but hosts in NO_PROXY"
        case 407 if proxy.login:
            return "which refuses the login in the variable (407)"
        case 407:
            return "which asks for a login (407): write it as http://USER:PASSWORD@HOST:PORT"
        case _:
            return "through which network.mode: proxy connects: it answers"


def _connect_status(proxy: UpstreamProxy) -> int:
    """The status of its answer to CONNECT; 0 for no answer of HTTP."""
    login = base64.b64encode(unquote(proxy.login).encode()).decode()
    header = f"Proxy-Authorization: Basic {login}\r\n" if proxy.login else ""
    request = f"CONNECT {_TARGET} HTTP/1.1\r\nHost: {_TARGET}\r\n{header}\r\n"
    with socket.create_connection((proxy.host, proxy.port), timeout=_PATIENCE) as connection:
        connection.sendall(request.encode())
        status = _STATUS.match(connection.recv(4096))
    return int(status[1]) if status else 0
