"""Network addresses: as filters name them, and as a process uses them."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from sandwright.evaluate.sbpl.errors import SbplFault


@dataclass(frozen=True, slots=True)
class AddressPattern:
    """An address pattern such as `(remote tcp4 "localhost:80")`. `port` None stands for every port.

    `protocol` is ip, tcp or udp; `family` 4, 6 or None for both; without `host` only the protocol counts.
    """

    protocol: str
    family: int | None
    host: str | None
    port: int | None

    def matches(self, endpoint: Endpoint | None, transport: str) -> bool:
        """Whether an endpoint of a connection over `transport` is meant. None: not chosen yet."""
        if self.protocol not in ("ip", transport):
            return False
        if endpoint is None:
            return self.family is None and self.host in (None, "*") and self.port is None
        if self.family is not None and endpoint.family not in (None, self.family):
            return False
        if self.host == "localhost" and not endpoint.loopback:
            return False
        return self.port is None or self.port == endpoint.port

    def __str__(self) -> str:
        name = f"{self.protocol}{self.family or ''}"
        if self.host is None:
            return name
        return f'{name} "{self.host}:{"*" if self.port is None else self.port}"'


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One end of a connection. `family` None and `port` None: not known."""

    family: int | None
    loopback: bool
    port: int | None


_PROTOCOL = re.compile(r"(ip|tcp|udp)([46]?)")


def address_pattern(protocol: str, address: str | None) -> AddressPattern:
    """The pattern of a protocol name and an optional `HOST:PORT`. Raise Fault as macOS refuses it."""
    found = _PROTOCOL.fullmatch(protocol)
    if found is None:
        raise SbplFault(f"{protocol} is no network protocol")
    family = int(found.group(2)) if found.group(2) else None
    if address is None:
        return AddressPattern(found.group(1), family, None, None)
    host, colon, port = address.rpartition(":")
    if not colon or host not in ("*", "localhost"):
        raise SbplFault("host must be * or localhost in network address")
    if port == "*":
        return AddressPattern(found.group(1), family, host, None)
    if not re.fullmatch("[0-9]{1,5}", port) or int(port) > 65535:
        raise SbplFault("port must be * or a number from 0 to 65535 in network address")
    return AddressPattern(found.group(1), family, host, int(port))


_ENDPOINT = re.compile(r"(?:\[(?P<six>[^]]*)\]|(?P<host>[^:]*))(?::(?P<port>[0-9]{1,5}|\*))?")


def endpoint(text: str) -> Endpoint:
    """An endpoint written `ADDRESS`, `ADDRESS:PORT` or `[ADDRESS]:PORT`. Raise ValueError when it is none.

    A name other than `localhost` stands for some address that is not this machine's.
    """
    found = _ENDPOINT.fullmatch(text)
    host, port = (
        (found.group("six") or found.group("host") or "", found.group("port")) if found else (text, None)
    )
    number = None if port in (None, "*") else int(port)
    if number is not None and number > 65535:
        raise ValueError(f"port {number} is none")
    if host in ("", "*"):
        return Endpoint(None, False, number)
    if host.lower() == "localhost":
        return Endpoint(None, True, number)
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        if found is None or found.group("six") or not re.fullmatch(r"[A-Za-z0-9._-]+", host):
            raise ValueError(f"{text!r} is no network address") from None
        return Endpoint(None, False, number)
    mapped = getattr(address, "ipv4_mapped", None)
    return Endpoint(address.version, (mapped or address).is_loopback, number)
