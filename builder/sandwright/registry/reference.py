"""The names of images in registries: `host[:port]/repository[:tag][@digest]`. Pure.

Grammar: distribution-spec 1.1, "Pulling manifests", for repositories and tags; the reference grammar of the
distribution project for the host, its default (Docker Hub, `library/`), and the limit of 255 characters.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass, replace

from sandwright.errors import ArchiveRefused, UsageError
from sandwright.rootfs.descriptor import check_digest

HUB = "docker.io"
DEFAULT_TAG = "latest"
LONGEST_NAME = 255

_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_PART}(?:/{_PART})*", re.ASCII)
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}", re.ASCII)
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_HOST = re.compile(
    rf"(?P<name>{_LABEL}(?:\.{_LABEL})*|\[[0-9a-fA-F:.]+\])(?::(?P<port>[0-9]{{1,5}}))?", re.ASCII
)
_HUB_NAMES = {"docker.io", "index.docker.io", "registry-1.docker.io"}


@dataclass(frozen=True)
class Reference:
    """An image, or a repository, in a registry. `host` has its port, where one was given.

    At least one of `tag` and `digest` is set. With both, the digest decides and the tag is for readers.
    """

    host: str
    repository: str
    tag: str | None = None
    digest: str | None = None

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.name}{tag}{f'@{self.digest}' if self.digest else ''}"

    @property
    def name(self) -> str:
        """`host/repository`."""
        return f"{self.host}/{self.repository}"

    @property
    def what(self) -> str:
        """The name in requests: the digest if there is one, else the tag."""
        return self.digest or self.tag or DEFAULT_TAG

    def at(self, digest: str) -> Reference:
        """The same, pinned to a digest."""
        return replace(self, digest=digest)


def parse_reference(text: str, *, tag: str | None = DEFAULT_TAG) -> Reference:
    """Parse a reference as users write it.

    Without a host it is Docker Hub's, where a name of one part is below `library/`. Without tag and digest it
    gets the tag `tag`. Raise UsageError for an invalid reference.
    """
    rest, at, digest = text.partition("@")
    try:
        pinned = check_digest(digest, f"'{_shorten(text)}'") if at else None
    except ArchiveRefused as error:
        raise UsageError(str(error)) from None
    host, repository = _split(rest)
    repository, colon, text_digest = repository.partition(":")
    _check_host(host, text)
    check_repository(repository, text)
    if host.lower() in _HUB_NAMES:
        host = HUB
        repository = repository if "/" in repository else f"library/{repository}"
    if colon:
        check_tag(text_digest, text)
    if len(host) + 1 + len(repository) > LONGEST_NAME:
        raise UsageError(f"'{_shorten(text)}': the name is longer than {LONGEST_NAME} characters")
    return Reference(host.lower(), repository, text_digest if colon else None if pinned else tag, pinned)


def check_repository(repository: str, text: str = "") -> str:
    """Return a valid name of a repository; raise UsageError, quoting `text`, for any other."""
    if not _REPOSITORY.fullmatch(repository):
        hint = "; repositories are written in lower case" if repository != repository.lower() else ""
        raise UsageError(
            f"'{_shorten(text or repository)}': {_shorten(repository)!r} cannot name a repository{hint}"
        )
    return repository


def check_tag(tag: str, text: str = "") -> str:
    """Return a valid tag; raise UsageError, quoting `text`, for any other."""
    if not _TAG.fullmatch(tag):
        raise UsageError(f"'{_shorten(text or tag)}': {_shorten(tag)!r} cannot be a tag")
    return tag


def split_host(host: str) -> tuple[str, int | None]:
    """The name or address of `host[:port]`, without brackets, and the port."""
    match = _HOST.fullmatch(host)
    if match is None:
        raise UsageError(f"{_shorten(host)!r} cannot be the host of a registry")
    port = int(match["port"]) if match["port"] else None
    return match["name"].strip("[]").lower(), port


def is_loopback(name: str) -> bool:
    """Whether a host's name or address is a loopback one, without resolving it."""
    name = name.strip("[]").lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):  # RFC 6761, 6.3
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        try:  # resolvers also read these as addresses: 127.1, 2130706433, 0x7f.1 (inet_aton(3))
            address = ipaddress.ip_address(socket.inet_aton(name))
        except (OSError, ValueError):
            return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    found = mapped or address
    return found.is_loopback or found.is_unspecified  # a connection to 0.0.0.0 or :: reaches this machine


def _split(text: str) -> tuple[str, str]:
    """Split off the host: the first part, if it can only be a host."""
    first, slash, rest = text.partition("/")
    if slash and (first == "localhost" or any(mark in first for mark in ".:[")):
        return first, rest
    return HUB, text


def _check_host(host: str, text: str) -> None:
    match = _HOST.fullmatch(host)
    if match is None:
        raise UsageError(f"'{_shorten(text)}': {_shorten(host)!r} cannot be the host of a registry")
    if match["port"] and not 0 < int(match["port"]) < 65536:
        raise UsageError(f"'{_shorten(text)}': {match['port']} is not a port")
    if match["name"].startswith("["):
        try:
            ipaddress.IPv6Address(match["name"].strip("[]"))
        except ValueError:
            raise UsageError(f"'{_shorten(text)}': {match['name']} is not an IPv6 address") from None


def _shorten(text: str) -> str:
    printable = "".join(char if char.isprintable() else "\ufffd" for char in text)
    return printable if len(printable) <= 120 else f"{printable[:100]}…"
