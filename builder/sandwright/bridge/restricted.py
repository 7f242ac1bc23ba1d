"""Restricts git on the host by Landlock and seccomp while it parses data of the sandbox and a server."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from sandwright import process
from sandwright.launcher.restrict import CERTIFICATES, Restriction, connect_ports
from sandwright.render.restricted import restricting_launcher

_PROGRAMS = ("/usr", "/bin", "/sbin", "/home/linuxbrew/.linuxbrew")
"""Git starts other programs, and a shell for the credential helper."""

_BY_SCHEME = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}
_FILES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
_PROXIES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")


@dataclass(frozen=True)
class RestrictedGit:
    """The start of git: `by` are the launcher and the file of the filter, None without Landlock."""

    by: tuple[str, str] | None

    def local(self, *write: Path, read: tuple[str, ...] = ()) -> tuple[str, ...]:
        """The argv of a git that can read and write in these directories, and has no network."""
        git = process.which("git")
        written = tuple(map(str, write))
        return self._argv(git, Restriction(read=read, execute=_readable_programs(git), write=written))

    def remote(
        self, git: str, *write: Path, urls: Iterable[str], environment: Mapping[str, str]
    ) -> tuple[str, ...]:
        """The argv of a git that can connect to these addresses, through the proxies of its environment."""
        proxies = (environment[name] for name in _PROXIES if environment.get(name))
        ports = [_port(url) for url in (*urls, *proxies)]
        allowed_ports = [port for port in ports if port is not None]
        restriction = Restriction(
            read=(*CERTIFICATES, *(environment[name] for name in _FILES if environment.get(name))),
            execute=_readable_programs(git),
            write=tuple(map(str, write)),
            connect=connect_ports(allowed_ports) if len(allowed_ports) == len(ports) else None,
        )
        return self._argv(git, restriction)

    def _argv(self, git: str, restriction: Restriction) -> tuple[str, ...]:
        return (git,) if self.by is None else (*restriction.argv(*self.by), git)


def write_restriction(directory: Path) -> tuple[str, str] | None:
    """Write the filter's file, and give the launcher and this file; None without Landlock (macOS)."""
    if sys.platform != "linux":
        return None
    launcher, seccomp = restricting_launcher(platform.machine())
    path = directory / "seccomp.bpf"
    path.write_bytes(seccomp)
    return launcher, str(path)


def _readable_programs(git: str) -> tuple[str, ...]:
    """The system's directories, and those of this git's installation; never a whole home that contains it."""
    prefix = Path(os.path.realpath(git)).parents[1]
    return (*_PROGRAMS, git, *(str(prefix / name) for name in ("bin", "lib", "libexec", "share/git-core")))


def _port(url: str) -> int | None:
    """The port of an address; None if it is unknown."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        default = 1080 if "://" not in url else _BY_SCHEME.get(parts.scheme)  # curl's for proxies
        return parts.port or default
    except ValueError:
        return None
