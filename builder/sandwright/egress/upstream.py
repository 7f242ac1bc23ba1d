"""The proxy through which this machine reaches the network: the one in HTTPS_PROXY, HTTP_PROXY and NO_PROXY.

In some companies, such a proxy is the only way out. Programs of the host find it in these variables (curl(1),
section ENVIRONMENT); the session's squid takes them from the environment of `sandwright run`. The meaning of
squid's directives is from squid.conf.documented 5.7, `cache_peer`, `always_direct`, `never_direct`.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, quote, unquote, urlsplit

from sandwright.errors import HostError

_TUNNELS = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
_REQUESTS = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")
_DIRECT = ("no_proxy", "NO_PROXY")
"""The variables in the order in which curl reads them; the first that is not empty counts."""

_PORT = 80
"""The default port of a proxy URL, as in Go and Python."""

_NAME = re.compile(r"[a-z0-9]([a-z0-9_-]*[a-z0-9])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9])?)*")

NONE = "acl sw_upstream all-of !all"
"""The configuration without a proxy of the host: squid makes all connections itself."""


@dataclass(frozen=True)
class UpstreamProxy:
    """A proxy of the host. `variable` names it, `login` is `user:password` in URL encoding or empty."""

    variable: str
    host: str
    port: int
    login: str = field(repr=False)

    @property
    def address(self) -> str:
        """`host:port`."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def peer(self, name: str, requests: str) -> Iterator[str]:
        """The lines of squid by which it is a parent for the requests that a list selects."""
        options = ["no-query", "no-digest", "no-netdb-exchange", "default", "connect-fail-limit=1000000"]
        if self.login:
            options.append(f"login={self.login}")
        yield f"cache_peer {self.host} parent {self.port} 0 name={name} {' '.join(options)}"
        yield f"cache_peer_access {name} allow {requests}"
        yield f"cache_peer_access {name} deny all"


@dataclass(frozen=True)
class HostProxies:
    """The host's proxies for tunnels and for plain requests, and the hosts that bypass them.

    `direct` has a tuple of host, or network, and port (None: all) for each item of NO_PROXY, `unknown` those
    items that are neither.
    """

    tunnels: UpstreamProxy | None = None
    requests: UpstreamProxy | None = None
    direct: tuple[tuple[str, int | None], ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports that squid has to reach for them."""
        return tuple(sorted({each.port for each in (self.tunnels, self.requests) if each}))

    def configuration(self) -> str:
        """The lines of squid: the list `sw_upstream` of requests that go to a proxy, and the proxies."""
        peers = {"sw_connect": self.tunnels, "!sw_connect": self.requests}
        if not any(peers.values()):
            return NONE
        lines = ["acl sw_direct all-of !all"] if not self.direct else list(self._direct_lines())
        for index, (requests, peer) in enumerate(peers.items()):
            if peer is not None:
                lines += [
                    f"acl sw_upstream_{index} all-of {requests} !sw_direct",
                    f"acl sw_upstream any-of sw_upstream_{index}",
                    *peer.peer(f"sw_parent_{index}", f"sw_upstream_{index}"),
                ]
        return "\n".join([*lines, "always_direct deny sw_upstream", "never_direct allow sw_upstream"])

    def _direct_lines(self) -> Iterator[str]:
        """A list for each item: squid refuses one that has a domain and a name below it."""
        for index, (host, port) in enumerate(self.direct):
            kind = "dst" if _names_network(host) else "dstdomain"
            yield f"acl sw_direct_{index}_host {kind} -n {host if kind == 'dst' else f'.{host}'}"
            ports = "" if port is None else f" sw_direct_{index}_port"
            if port is not None:
                yield f"acl sw_direct_{index}_port port {port}"
            yield f"acl sw_direct_{index} all-of sw_direct_{index}_host{ports}"
            yield f"acl sw_direct any-of sw_direct_{index}"


def host_proxies(environment: Mapping[str, str]) -> HostProxies:
    """The proxies that an environment names. Raise HostError for a value that can't be used."""
    direct = [each.strip().lower() for each in _first_set(environment, _DIRECT)[1].split(",")]
    if "*" in direct:
        return HostProxies()
    tunnels, requests = (_parsed_proxy(*_first_set(environment, names)) for names in (_TUNNELS, _REQUESTS))
    if tunnels is None and requests is None:
        return HostProxies()
    found = {each: _direct_host(each) for each in direct if each}
    unknown = tuple(each for each, host in found.items() if host is None)
    return HostProxies(tunnels, requests, tuple(filter(None, found.values())), unknown)


def _first_set(environment: Mapping[str, str], names: tuple[str, ...]) -> tuple[str, str]:
    found = ((name, environment.get(name, "").strip()) for name in names)
    return next((each for each in found if each[1]), ("", ""))


def _parsed_proxy(variable: str, value: str) -> UpstreamProxy | None:
    if not value:
        return None
    url = _proxy_url(variable, value if "://" in value else f"http://{value}")
    if url.scheme != "http":
        raise HostError(
            f"{variable}: cannot use a proxy of kind {url.scheme}://, only http://; "
            "to connect without it, start this with NO_PROXY='*'"
        )
    host = url.hostname or ""
    if not _NAME.fullmatch(host) and (not _names_network(host) or "/" in host):
        raise HostError(f"{variable} names no host of a proxy, like http://proxy.example:3128")
    return UpstreamProxy(variable, host, url.port or _PORT, _proxy_login(url))


def _proxy_url(variable: str, text: str) -> SplitResult:
    try:
        url = urlsplit(text)
        _ = url.port  # reading it checks it
        _ = text.encode()  # bytes that are not UTF-8 can't
    except ValueError:
        raise HostError(f"{variable} is no URL of a proxy, like http://proxy.example:3128") from None
    return url


def _proxy_login(url: SplitResult) -> str:
    """User and password, with each byte encoded that squid's configuration could take for something else."""
    if url.username is None:
        return ""
    return ":".join(_url_encoded(each) for each in (url.username, url.password or ""))


def _url_encoded(text: str) -> str:
    word = quote(unquote(text), safe="")
    return word.replace("~", "%7E")


def _direct_host(item: str) -> tuple[str, int | None] | None:
    """An item of NO_PROXY: a name with all below it, an address or a network, each perhaps with a port."""
    if _names_network(item):
        return item, None
    host, colon, port = item.rpartition(":") if re.search(r":[0-9]{1,5}$", item) else (item, "", "")
    host = host.strip("[]").removeprefix("*").removeprefix(".").rstrip(".")
    if not (_names_network(host) or _NAME.fullmatch(host)):
        return None
    return host, int(port) if colon else None


def _names_network(text: str) -> bool:
    """Whether it is an address or a network; not one with a zone (`%eth0`), which may hold line breaks."""
    if "%" in text:
        return False
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return True
