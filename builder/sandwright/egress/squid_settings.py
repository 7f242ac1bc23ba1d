"""Finds the squid of this machine, and the facts that its configuration needs."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import pwd
import re
import socket
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sandwright import process
from sandwright.egress.proxy_plan import SquidAccount
from sandwright.errors import HostError, ToolMissing
from sandwright.host import collect_host
from sandwright.launcher.restrict import Restriction, connect_ports, script_interpreter
from sandwright.render.proxyfacts import DIRECTORY, LISTEN
from sandwright.setup.requirements import how_to_get

OLDEST = 5
"""The first version of squid for which the configuration is written."""

_DATA = re.compile(r"--(datadir|sysconfdir|prefix)=(/[^'\s]+)")
_SETTINGS = ("mime.conf", "errorpage.css")
"""The directory that squid reads besides its given configuration; it may contain passwords, too."""

_LOCAL = re.compile(r"^ +\|-- ([0-9.]+)\n +/32 host LOCAL$", re.MULTILINE)
_INTERFACE = re.compile(r"^\s+inet6? ([0-9a-f.:]+)", re.MULTILINE)


@dataclass(frozen=True)
class InstalledSquid:
    """A squid that is installed: its program, whether it has a pinger, the account made for it, its data."""

    program: str
    icmp: bool
    account: str
    data: tuple[str, ...]


def find_squid() -> InstalledSquid:
    """The squid that is installed. Raise ToolMissing without one, HostError for one that is too old."""
    program = process.find("squid")
    if program is None:
        get = how_to_get("squid", collect_host().package_manager)
        raise ToolMissing(
            "squid", "it is the proxy of `network.mode: proxy`" + f"; get it with: {get}" * bool(get)
        )
    version_text = process.run(program, "-v", timeout=10).text
    version = re.search(r"Version (\d+)", version_text)
    if version is None or int(version[1]) < OLDEST:
        found = version_text.splitlines()[0] if version_text else "a squid that names no version"
        raise HostError(f"{program}: {found}; squid {OLDEST} or newer is needed")
    account = re.search(r"--with-default-user=([a-z_][a-z0-9_-]*)", version_text)
    return InstalledSquid(
        program,
        "--enable-icmp" in version_text,
        account[1] if account else "nobody",
        tuple(_squid_data(version_text)),
    )


def _squid_data(version_text: str) -> Iterator[str]:
    """The directories that a squid was built with and reads from: the last of each counts."""
    built = {"prefix": "/usr/local/squid", **dict(_DATA.findall(version_text))}
    data = built.get("datadir", f"{built['prefix']}/share")
    yield data if data.strip("/").count("/") else f"{data}/squid"
    settings = built.get("sysconfdir", f"{built['prefix']}/etc")
    yield from (f"{settings}/{name}" for name in _SETTINGS)


def squid_account(squid: InstalledSquid) -> SquidAccount | None:
    """The account for squid where the caller is root, else None. Raise HostError when there is none."""
    if os.geteuid() != 0:
        return None
    for name in (squid.account, "nobody"):
        with contextlib.suppress(KeyError):
            found = pwd.getpwnam(name)
            return SquidAccount(found.pw_uid, found.pw_gid)
    raise HostError(f"there is no account {squid.account}, and squid does not run as root")


def squid_restriction(
    squid: InstalledSquid, account: SquidAccount | None, ports: Iterable[int] | None
) -> Restriction:
    """The restriction of squid.

    It can read its configuration, write its log, and connect to `ports` (None: all).

    It listens on the port that each start brings.
    """
    return Restriction(
        read=(*squid.data, DIRECTORY),
        write=(f"{DIRECTORY}/squid", "/dev/shm"),  # noqa: S108 - squid maps memory there, nameless later
        execute=(squid.program, *script_interpreter(Path(squid.program))),
        bind=(LISTEN, "0"),  # any free port: it binds one on ::1 to see whether there is IPv6
        connect=None if ports is None else connect_ports(ports),
        account=None if account is None else (account.uid, account.gid),
        die_with_parent=True,
    )


def own_addresses() -> tuple[str, ...]:
    """The addresses of this machine that others can reach: a sandbox must not come back through them."""
    found = {str(address) for address in _addresses() if not (address.is_loopback or address.is_link_local)}
    return tuple(sorted(found))


def _addresses() -> Iterator[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            yield from map(ipaddress.IPv4Address, _LOCAL.findall(Path("/proc/net/fib_trie").read_text()))
        with contextlib.suppress(OSError):
            for line in Path("/proc/net/if_inet6").read_text().splitlines():
                yield ipaddress.IPv6Address(int(line.split()[0], 16))
        return
    for text in _INTERFACE.findall(process.run("ifconfig", "-a", timeout=10).text):
        yield ipaddress.ip_address(text)


def free_port(host: str) -> int:
    """A free TCP port."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as any_:
        any_.bind((host, 0))
        port: int = any_.getsockname()[1]
        return port
