"""Restricts programs of the host that parse a sandbox's data: squid, git (`launch-init --restrict`).

Landlock and a seccomp filter need no namespace and no rights, so this starts even where no sandbox does. If
the kernel's Landlock is older or off, it restricts less; the filter always applies.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

PORTS = 4
"""The version that restricts TCP ports."""

_LOADER = (
    *("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1", "/lib/ld-musl-x86_64.so.1"),
    *("/lib/ld-musl-aarch64.so.1", "/nix/store", "/gnu/store"),
)
"""The files that the kernel executes with a dynamic program."""

_LIBRARIES = tuple(
    f"{root}/{name}" for root in ("", "/usr", "/usr/local") for name in ("lib", "lib32", "lib64")
)

_BASICS = (
    *("/etc/ld.so.cache", "/etc/ld.so.preload", "/etc/nsswitch.conf", "/etc/passwd", "/etc/group"),
    *("/etc/host.conf", "/etc/gai.conf", "/etc/resolv.conf", "/etc/services", "/etc/protocols"),
    *("/etc/localtime", "/usr/share", "/usr/local/share", "/dev/null", "/dev/random", "/dev/urandom"),
)

CERTIFICATES = (
    *("/etc/ssl/certs", "/etc/ssl/cert.pem", "/etc/ssl/openssl.cnf", "/etc/pki/tls/certs"),
    *("/etc/pki/tls/cert.pem", "/etc/pki/tls/openssl.cnf", "/etc/pki/ca-trust/extracted"),
    *("/etc/ca-certificates/extracted", "/etc/crypto-policies", "/var/lib/ca-certificates"),
)
"""The files that TLS libraries read on the distributions; no private key is among them."""


@dataclass(frozen=True)
class Restriction:
    """The access of a program beyond reading libraries: paths, each with everything below, and TCP ports.

    Ports that are None aren't restricted. `account` (uid and gid) is for root.
    """

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    execute: tuple[str, ...] = ()
    bind: tuple[str, ...] | None = ()
    connect: tuple[str, ...] | None = ()
    account: tuple[int, int] | None = None
    die_with_parent: bool = False

    def argv(self, launcher: str, *filters: str) -> tuple[str, ...]:
        """The words before the program's. `filters` are files of BPF; the strictest answer counts."""
        rules = {
            "execute": (*_LOADER, *self.execute),
            "read": (*_LIBRARIES, *_BASICS, *self.read),
            "write": ("/dev/null", *self.write),
            "bind": _ports(self.bind),
            "connect": _ports(self.connect),
            "account": () if self.account is None else (":".join(map(str, self.account)),),
            "filter": filters,
        }
        words = (f"{name}={value}" for name, values in rules.items() for value in dict.fromkeys(values))
        return (launcher, "--restrict", *words, *["die-with-parent"][: self.die_with_parent], "--")


def _ports(ports: tuple[str, ...] | None) -> tuple[str, ...]:
    return () if ports is None else ports or ("none",)


def script_interpreter(program: Path) -> tuple[str, ...]:
    """The file that a script names as its interpreter; none for a program that is no script."""
    with contextlib.suppress(OSError), program.open("rb") as file:
        line = file.readline(256)
        if line.startswith(b"#!"):
            return tuple(os.fsdecode(word) for word in line[2:].split()[:1] if word.startswith(b"/"))
    return ()


def connect_ports(ports: Iterable[int]) -> tuple[str, ...]:
    """Ports for `Restriction.connect`; DNS queries use TCP, too, for long answers."""
    return tuple(map(str, sorted({53, *ports})))
