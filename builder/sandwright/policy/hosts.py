"""Names of hosts in one spelling, and the patterns (with `*.`) that a policy allows.

The policy, its floor and the proxy read hosts through this one module, so that no spelling means two things:
letters in lower case, one trailing dot dropped, international names as A-labels (IDNA 2008, RFC 5891),
addresses as `ipaddress` writes them. Spellings that some programs take for an address (`127.1`, `0x7f.1`,
`2130706433`, zone ids) are refused, as their meaning depends on who reads them.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from sandwright.policy.phrasing import quoted

WEB_PORTS = frozenset({80, 443})
"""The ports of a pattern without a port."""

_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_NUMERIC = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PORT = re.compile(r"[0-9]{1,5}")

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True)
class HostPattern:
    """Hosts and ports that may be reached.

    `host` is canonical: a name, an address, `*.name` for everything below a name (at any depth, the name
    itself not), or `*` for all. `port` is None for any, and `WEB_PORTS` where none was written. `private`: a
    name may lead to an address that no public host has.
    """

    host: str
    ports: frozenset[int] | None
    private: bool = False

    def matches(self, host: str, port: int) -> bool:
        """Whether this covers a canonical host (see `canonical_host`) and a port."""
        return (self.ports is None or port in self.ports) and self.covers_host(host)

    def covers(self, other: HostPattern) -> bool:
        """Whether everything that `other` matches is matched by this one."""
        ports = self.ports is None or (other.ports is not None and other.ports <= self.ports)
        return ports and self.covers_host(other.host) and (self.private or not other.private)

    def covers_host(self, host: str) -> bool:
        """Whether this covers a canonical host, or the one of another pattern, at some port."""
        if self.host in ("*", host):
            return True
        if host == "*" or not self.host.startswith("*.") or _looks_like_address(host):
            return False
        return host.removeprefix("*").endswith(self.host[1:]) and host != self.host[2:]

    def __str__(self) -> str:
        """As a policy writes it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        if self.ports is None:
            return f"{host}:*"
        return host if self.ports == WEB_PORTS else f"{host}:{min(self.ports)}"


class HostIndex:
    """Patterns of a list, found in the time of a host's labels instead of the list's length."""

    def __init__(self, patterns: Iterable[HostPattern]) -> None:
        """The patterns in the order of the list."""
        self.patterns = tuple(patterns)
        self._by_host: dict[str, list[tuple[int, HostPattern]]] = {}
        for position, pattern in enumerate(self.patterns):
            self._by_host.setdefault(pattern.host, []).append((position, pattern))

    def about(self, host: str) -> list[tuple[int, HostPattern]]:
        """The patterns that match a canonical host on some port, with their positions, in the list's order.

        `host` may be a pattern's own: then those that match all that it matches.
        """
        keys = [host, "*"]
        if not _looks_like_address(host) and host != "*":
            labels = host.split(".")
            keys += [f"*.{'.'.join(labels[start:])}" for start in range(1, len(labels))]
        return sorted(
            (each for key in dict.fromkeys(keys) for each in self._by_host.get(key, ())),
            key=lambda each: each[0],
        )

    def first(self, host: str, port: int) -> tuple[int, HostPattern] | None:
        """The first pattern that matches a canonical host and a port, with its position."""
        return next((each for each in self.about(host) if each[1].matches(host, port)), None)

    def covers(self, pattern: HostPattern) -> bool:
        """Whether one pattern covers all that another matches."""
        return any(each.covers(pattern) for _, each in self.about(pattern.host))


@dataclass(frozen=True)
class ListedHost:
    """An item of `network.allow` that is a mapping: `host` as written, and whether `private` holds."""

    host: str
    private: bool

    def __str__(self) -> str:
        """For messages."""
        return f"{self.host}, private" if self.private else self.host


def listed_pattern(item: str | ListedHost) -> HostPattern:
    """The pattern of an item of `network.allow`. Raise ValueError like `host_pattern`."""
    if isinstance(item, str):
        return host_pattern(item)
    pattern = host_pattern(item.host)
    if pattern.host == "*" and item.private:
        raise ValueError("* with private would open the whole network that this machine is in; name hosts")
    return replace(pattern, private=item.private)


def host_pattern(text: str) -> HostPattern:
    """The pattern that a policy writes: `github.com`, `*.example.org:8443`, `[2001:db8::1]:443`.

    Raise ValueError with the fault.
    """
    host, port = _split_port(text)
    ports = WEB_PORTS if port is None else None if port == "*" else frozenset({_parse_port(port, text)})
    if host == "*":
        return HostPattern(host, ports)
    if host.startswith("*."):
        return HostPattern(f"*.{_wildcard_base(host[2:], text)}", ports)
    if "*" in host:
        raise ValueError(f"{quoted(text)}: * stands only for the whole first part: *.example.org")
    canonical = canonical_host(host)
    _refuse_local(canonical)
    return HostPattern(canonical, ports)


def endpoint(text: str) -> tuple[str, int]:
    """The canonical host and the port of `host:port` in a question. The port is required."""
    host, port = _split_port(text)
    if port is None:
        raise ValueError(f"{quoted(text)} has no port; write host:port")
    return canonical_host(host), _parse_port(port, text)


def canonical_host(text: str) -> str:
    """The one spelling of a host, a name or an address without brackets. Raise ValueError for others."""
    if "%" in text and ":" in text:
        raise ValueError(f"{quoted(text)}: a zone ID is valid only on one machine")
    if ":" in text:
        return str(_unmapped(_ip(text)))
    name = _to_a_labels(text.removesuffix(".").lower())
    labels = name.split(".")
    if _NUMERIC.fullmatch(labels[-1]):
        return str(_ip(name))
    if len(name) > 253:
        raise ValueError(f"{quoted(text)} is longer than a host's name can be (253)")
    for label in labels:
        if not _LABEL.fullmatch(label):
            raise ValueError(f"{quoted(text)} is no host: {_label_fault(label)}")
    return name


def _split_port(text: str) -> tuple[str, str | None]:
    """Host and port as written; the host of a bracketed address without its brackets."""
    _refuse_urls(text)
    if text.startswith("["):
        inside, closed, rest = text[1:].partition("]")
        if not closed or ":" not in inside or (rest and not rest.startswith(":")):
            raise ValueError(f"{quoted(text)}: an IPv6 address with a port is written [address]:port")
        return inside, rest[1:] if rest else None
    if text.count(":") > 1:
        return text, None
    host, colon, port = text.partition(":")
    return host, port if colon else None


def _refuse_urls(text: str) -> None:
    if not text:
        raise ValueError("is empty")
    if any(character <= " " or character == "\x7f" for character in text):
        raise ValueError(f"{quoted(text)} holds a blank or a control character")
    found = re.match(r"[A-Za-z][A-Za-z0-9+.-]*://(?:[^/@]*@)?([^/?#]*)", text)
    if found:
        raise ValueError(f"{quoted(text)} is a URL; name the host: {found[1] or 'host'}")
    if "/" in text:
        address = re.fullmatch(r"[0-9a-fA-F.:]+/[0-9]+", text)
        kind = "a network; name its hosts" if address else "more than a host; leave out the part after /"
        raise ValueError(f"{quoted(text)} is {kind}")
    if "@" in text:
        raise ValueError(f"{quoted(text)} holds a user; name only the host")


def _parse_port(text: str, whole: str) -> int:
    if not _PORT.fullmatch(text) or not 1 <= int(text) <= 65535 or text.startswith("0"):
        raise ValueError(f"{quoted(whole)}: the port must be 1 to 65535, or * for any")
    return int(text)


def _wildcard_base(name: str, whole: str) -> str:
    base = canonical_host(name) if name and "*" not in name else ""
    if not base or _looks_like_address(base):
        raise ValueError(f"{quoted(whole)}: * stands only for the whole first part: *.example.org")
    if "." not in base:
        raise ValueError(f"{quoted(whole)} would cover a whole top-level domain; name hosts in it")
    return base


def _to_a_labels(name: str) -> str:
    """International labels as A-labels; those that claim to be A-labels are checked."""
    if name.isascii() and "xn--" not in name:
        return name
    import idna  # noqa: PLC0415 - 20 ms, and few policies need it

    try:
        return idna.encode(name, uts46=True).decode()
    except idna.IDNAError as error:
        raise ValueError(f"{quoted(name)} is no host: {error}") from None


def _ip(text: str) -> _Address:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        raise ValueError(
            f"{quoted(text)} is no address; write it in full, like 192.0.2.7 or [2001:db8::7]"
        ) from None


def _unmapped(address: _Address) -> _Address:
    """The IPv4 address that an IPv4-mapped one (RFC 4291, 2.5.5.2) means to every socket."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _refuse_local(host: str) -> None:
    """Refuse a host that leads back to this machine, or to a cloud's metadata service (169.254.169.254)."""
    if host == "localhost" or host.endswith(".localhost"):
        raise ValueError("localhost is no host of the network; list its ports in network.localhost")
    if not _looks_like_address(host):
        return
    for address in _embedded_addresses(ipaddress.ip_address(host)):
        if address.is_loopback:
            raise ValueError(f"{host} is this machine; list its ports in network.localhost")
        if address.is_link_local or address.is_unspecified or address.is_multicast:
            raise ValueError(f"{host} is link-local, unspecified or multicast, which is never let through")


def _embedded_addresses(address: _Address) -> tuple[_Address, ...]:
    """The address, and the IPv4 address that a transition scheme embeds: 6to4, Teredo, NAT64 (RFC 6052)."""
    if isinstance(address, ipaddress.IPv4Address):
        return (address,)
    embedded = [address.sixtofour, *(address.teredo or ())]
    if address in ipaddress.IPv6Network("64:ff9b::/96"):
        embedded.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return (address, *(each for each in embedded if each is not None))


def _looks_like_address(host: str) -> bool:
    return ":" in host or host.rpartition(".")[2].isdigit()


def _label_fault(label: str) -> str:
    if not label:
        return "it has an empty part"
    if len(label) > 63:
        return "a part is longer than 63 characters"
    return f"{label!r} holds other than letters, digits and inner hyphens"
