"""Renders the proxy's configuration: squid's, from `network.allow`, and the pages that say why it refused.

squid resolves each name, and refuses private addresses, this machine's and metadata services' (SSRF), also
when the answers for a name change (DNS rebinding). Names that are `private` may lead to private addresses.

squid has no quoting that holds everywhere, so no value is quoted: each is a word of a few characters that
mean nothing to squid, or it is refused. Facts about squid are from its documentation
(squid.conf.documented, 5.7 and 6) and were tried with 5.7.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sandwright.errors import RenderError
from sandwright.policy.hosts import HostPattern
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.artifact import Artifact
from sandwright.render.proxyfacts import PORT, REASONS, WORD, nat64
from sandwright.render.quoting import Quoted
from sandwright.render.templates import add_filter, render_template

PRIVATE = (
    # IPv4: private (RFC 1918), shared by carriers (RFC 6598), benchmarks (RFC 2544), documentation (RFC 5737)
    "10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "198.18.0.0/15",
    "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24",
    # IPv6: documentation (RFC 3849, RFC 9637), unique local (RFC 4193)
    "2001:db8::/32", "3fff::/20", "fc00::/7",
)  # fmt: skip
"""Private addresses, which no public host has: names that a policy lists as `private` may lead to them."""

INSIDE = (
    *PRIVATE,
    # IPv4: the special-purpose registry (RFC 6890 and iana-ipv4-special-registry), and multicast
    "0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "192.0.0.0/24", "192.88.99.0/24", "224.0.0.0/4",
    "240.0.0.0/4",
    # Azure's services for its machines (WireServer), at an address that looks public
    "168.63.129.16/32",
    # IPv6: unspecified, loopback, IPv4-compatible, IPv4-translated (RFC 2765), NAT64 of local use (RFC 8215),
    # discard, Teredo and the rest of the protocol assignments, 6to4, segment routing, link-local, site-local,
    # multicast
    "::/96", "::ffff:0:0:0/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2002::/16", "5f00::/16",
    "fe80::/10", "fec0::/10", "ff00::/8",
)  # fmt: skip
"""The addresses that no other name may lead to (SSRF). They contain the metadata services of clouds:
169.254.169.254, fd00:ec2::254, 100.100.100.200, 168.63.129.16. IPv4-mapped IPv6 is IPv4 to squid.
`64:ff9b::/96` (NAT64, RFC 6052) is refused where it embeds one of these: on networks with DNS64, public hosts
have such addresses."""

NEVER = (
    "0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "100.100.100.200/32", "168.63.129.16/32",
    "224.0.0.0/4", "240.0.0.0/4", "::/127", "fe80::/10", "ff00::/8",
    # Services of clouds for their machines: EC2 (metadata, EKS Pod Identity, names), Google, Oracle, Scaleway
    "fd00:ec2::/32", "fd20:ce::254/128", "fd00:c1::a9fe:a9fe/128", "fd00:42::42/128",
)  # fmt: skip
"""Addresses that are refused although a policy lists them: this machine, its link, multicast, metadata."""

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_NAME = re.compile(r"[a-z0-9][a-z0-9-]*(\.[a-z0-9][a-z0-9-]*)*")


@dataclass(frozen=True)
class ProxyPlace:
    """The surroundings of one proxy: the inputs of its configuration besides the policy.

    `listen` is an address (an IPv6 one in brackets), `clients` are the networks that it answers. `log` and
    `cache_log` are files that it writes, `errors` is the directory of the pages: absolute paths of letters,
    digits and `._+-`. `word` is a secret address, which the relay gives as the source of connections (PROXY
    protocol), `opener` that of the proxy that reads requests, without which hosts of `network.http` are not
    reached; without `word`, `clients` are answered directly, or those in `clients_file` (`acl sw_clients src
    …`) except `acl sw_gateway src …`. `own_addresses` are the addresses of the machine itself, None where
    each start brings them. `hosts_file` and `nameservers` are squid's usual ones when absent and empty.
    `icmp`: this squid was built with its pinger, to be kept off.
    """

    log: str
    cache_log: str
    errors: str
    listen: str = "127.0.0.1"
    port: int = PORT
    clients: tuple[str, ...] = ("127.0.0.1/32", "::1/128")
    own_addresses: tuple[str, ...] | None = ()
    hosts_file: str | None = None
    nameservers: tuple[str, ...] = ()
    icmp: bool = True
    word: str | None = None
    opener: str | None = None
    clients_file: str | None = None


@dataclass(frozen=True)
class _Group:
    """The hosts that are listed with the same ports, by how squid compares them."""

    index: int
    ports: tuple[int, ...] | None
    private: bool
    names: tuple[str, ...]
    below: tuple[str, ...]
    addresses: tuple[str, ...]
    all: bool

    @property
    def kinds(self) -> list[str]:
        """The lists of squid that make up the group; `all` is squid's own."""
        lists = {"host": self.names, "below": self.below, "address": self.addresses}
        return [*(f"sw_{kind}_{self.index}" for kind, hosts in lists.items() if hosts), *["all"][: self.all]]


def quote_squid(word: object) -> Quoted:
    """A word of squid's configuration. Raise RenderError for an ambiguous one."""
    if not isinstance(word, str) or not WORD.fullmatch(word):
        raise RenderError(f"{word!r} cannot be a word of squid's configuration")
    return Quoted(word)


def quote_name(name: object) -> Quoted:
    """A name of a host that matches itself only: one with a dot in front would also match names below it."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise RenderError(f"{name!r} is no name of a host")
    return Quoted(name)


def quote_below(base: object) -> Quoted:
    """The regular expression of all names below one; the name itself does not match."""
    return Quoted(rf"^.+\.{quote_name(base).replace('.', chr(92) + '.')}$")


def quote_page(reason: object) -> Quoted:
    """The end of the name of a reason's page."""
    return Quoted(quote_squid(reason).upper())


add_filter("squid", quote_squid)
add_filter("name", quote_name)
add_filter("below", quote_below)
add_filter("page", quote_page)


def squid_configuration(
    allow: Sequence[HostPattern], settings: ProxyPlace, opened: Sequence[HostPattern] = ()
) -> str:
    """The configuration for squid: the patterns, and nothing else, are let through.

    `opened` are the hosts of `network.http`, each with its port, which `settings.opener` alone reaches.

    Raise RenderError for a value that squid's configuration can't hold.
    """
    groups = list(_group_patterns(allow))
    return render_template(
        "oci",
        "proxy/squid.conf.j2",
        groups=groups,
        opened=list(_group_patterns(opened, start=len(groups) + 1)),
        never=[
            str(each)
            for each in _refused_ranges(allow, (*_set_apart(), *NEVER), settings.own_addresses or ())
        ],
        inside=[str(each) for each in _refused_ranges(allow, PRIVATE)],
        own=settings.own_addresses is None,
        private=any(each.private for each in (*allow, *opened)),
        reasons=REASONS,
        **{name: getattr(settings, name) for name in _PLACED},
    )


_PLACED = (
    "listen", "port", "clients", "word", "opener", "clients_file", "log",
    "cache_log", "errors", "hosts_file", "nameservers", "icmp",
)  # fmt: skip


def render_proxy(policy: ResolvedPolicy, settings: ProxyPlace) -> tuple[Artifact, ...]:
    """`squid.conf`, and `errors/ERR_SANDWRIGHT_…` for each of `REASONS`."""
    opened = [each.pattern for each in policy.network.http] if settings.opener else []
    text = squid_configuration(policy.network.allow, settings, opened)
    return Artifact(
        "squid.conf", text.encode(), "the proxy's configuration: what of network.allow means"
    ), *pages()


def pages() -> Iterator[Artifact]:
    """The proxy's responses to refused requests, a page for each of `REASONS`."""
    for reason in REASONS:
        name = f"ERR_SANDWRIGHT_{reason.upper()}"
        text = render_template("oci", f"proxy/errors/{name}")
        yield Artifact(f"errors/{name}", text.encode(), f"what the proxy answers to `{reason}`")


def refused_networks(allow: Sequence[HostPattern], own_addresses: Iterable[str] = ()) -> list[_Network]:
    """The networks that no listed name may lead to, merged: `INSIDE`, `own_addresses`, and NAT64's forms.

    An address of `INSIDE` that the policy lists itself is taken out, so that it can be reached; never one of
    `NEVER`, and none of the machine's own.
    """
    return _refused_ranges(allow, (*INSIDE, *NEVER), own_addresses)


def _set_apart() -> list[str]:
    """The networks of `INSIDE` that no name may lead to, even one listed as private."""
    return [each for each in INSIDE if each not in PRIVATE]


def _refused_ranges(
    allow: Sequence[HostPattern], networks: Iterable[str], own_addresses: Iterable[str] = ()
) -> list[_Network]:
    """Some of `INSIDE` and `NEVER` without listed addresses, and `own_addresses`, merged, with NAT64's."""
    listed = [ipaddress.ip_network(pattern.host) for pattern in allow if _is_address(pattern.host)]
    parts = (part for each in networks for part in _unlisted_ranges(ipaddress.ip_network(each), listed))
    all_ = [*parts, *map(ipaddress.ip_network, own_addresses)]
    four = list(
        ipaddress.collapse_addresses(each for each in all_ if isinstance(each, ipaddress.IPv4Network))
    )
    six = [each for each in all_ if isinstance(each, ipaddress.IPv6Network)]
    return [*four, *ipaddress.collapse_addresses([*six, *map(nat64, four)])]


def _unlisted_ranges(network: _Network, listed: Iterable[_Network]) -> list[_Network]:
    return [network] if str(network) in NEVER else _subtract_listed(network, listed)


def _subtract_listed(network: _Network, listed: Iterable[_Network]) -> list[_Network]:
    """A network without some addresses."""
    remaining = [network]
    for address in listed:
        remaining = [part for each in remaining for part in _excluding(each, address)]
    return remaining


def _excluding(network: _Network, address: _Network) -> Iterable[_Network]:
    match network, address:
        case (ipaddress.IPv4Network(), ipaddress.IPv4Network()) if address.subnet_of(network):
            return network.address_exclude(address)
        case (ipaddress.IPv6Network(), ipaddress.IPv6Network()) if address.subnet_of(network):
            return network.address_exclude(address)
        case _:
            return (network,)


def _group_patterns(allow: Iterable[HostPattern], *, start: int = 1) -> Iterator[_Group]:
    """The patterns by their ports and whether they are private, in the order of their first."""
    found: dict[tuple[frozenset[int] | None, bool], list[str]] = {}
    for pattern in allow:
        found.setdefault((pattern.ports, pattern.private), []).append(pattern.host)
    for index, ((ports, private), hosts) in enumerate(found.items(), start=start):
        some = sorted(set(hosts) - {"*"})
        yield _Group(
            index,
            None if ports is None else tuple(sorted(ports)),
            private,
            tuple(host for host in some if not host.startswith("*.") and not _is_address(host)),
            tuple(host.removeprefix("*.") for host in some if host.startswith("*.")),
            tuple(filter(_is_address, some)),
            "*" in hosts,
        )


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
