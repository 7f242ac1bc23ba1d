"""The remotes that git may talk to: those that the workspace's repositories had before the sandbox started.

The secret goes to the address of a remote, so the sandbox must not choose it. The bridge reads the remotes
once, at its start, and only from repositories with a configuration that the policy protects from this and
earlier sandboxes. By default that is true for `.git/config` of the project. The configuration of a
submodule is protected only once the index names it, and an earlier sandbox can have written both. Addresses
in the policy's entries (`push https://github.com/acme/app.git *`) are allowed, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from sandwright import process
from sandwright.bridge.grammar import Refused
from sandwright.bridge.repository import bare_environment
from sandwright.bridge.workspace import OpenWorkspace

MAX_CONFIG = 1 << 20
"""Bytes of a repository's configuration."""

_URL = re.compile(r"https?://[A-Za-z0-9.-]+(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~+-]+)+/?")
_LOOPBACK = frozenset({"localhost", "127.0.0.1"})
_GITHUB = re.compile(r"(?:ssh://)?git@github\.com[:/]([A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+?)(?:\.git)?/?")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_KEY = re.compile(r"remote\.(.+)\.(url|pushurl)", re.DOTALL)


@dataclass(frozen=True)
class Remote:
    """A remote by its name, and the addresses that it is fetched from and pushed to."""

    name: str
    fetch: str
    push: str


Known = Mapping[tuple[str, ...], Mapping[str, Remote]]
"""By repository (the parts of its path below the workspace): its remotes by name."""


def address(url: str, *, loopback: bool = True) -> str | None:
    """The address to which a secret may be sent, or None.

    It must use https; http only to this machine, and only with `loopback` (a sandbox that shares the host's
    network could listen at such an address itself). It must not contain a user or password. GitHub's ssh
    addresses become https, because the token is used, and not a key of the host.
    """
    if github := _GITHUB.fullmatch(url):
        return f"https://github.com/{github[1]}.git"
    if not _URL.fullmatch(url) or "/../" in f"{url}/" or "/./" in f"{url}/":
        return None
    parts = urlsplit(url)
    return url if parts.scheme == "https" or (loopback and parts.hostname in _LOOPBACK) else None


def read_remotes(
    workspace: OpenWorkspace,
    repositories_parts: Iterable[tuple[str, ...]],
    scratch: Path,
    *,
    loopback: bool = True,
) -> Known:
    """The remotes of repositories (the parts of their paths below the workspace), as they are now.

    An unreadable one has none. `scratch` is an empty directory of the bridge's; `loopback` as for `address`.
    """
    found = {}
    for parts in repositories_parts:
        config = _read_config(workspace, parts)
        if config is not None:
            found[parts] = _remotes(config, scratch, loopback=loopback)
    return found


def addresses(words: Iterable[str], *, loopback: bool = True) -> frozenset[str]:
    """The addresses among words of the policy. `loopback` as for `address`."""
    return frozenset(word for word in words if "://" in word and address(word, loopback=loopback) == word)


def github_repository(remotes: Mapping[str, Remote]) -> str | None:
    """OWNER/NAME of the remote `origin`, if it is at GitHub."""
    origin = remotes.get("origin")
    found = re.fullmatch(r"https://github\.com/([^/]+/[^/]+?)(?:\.git)?/?", origin.push) if origin else None
    return found[1] if found else None


def repositories(root: Path, is_protected: Callable[[str], bool]) -> Iterator[tuple[str, ...]]:
    """The repositories at a directory and right below it that have a configuration which `is_protected`."""
    names = sorted(path.name for path in root.iterdir() if not path.name.startswith("."))
    for parts in ((), *((name,) for name in names[:1000])):
        config = root.joinpath(*parts, ".git", "config")
        if config.is_file() and is_protected(str(config)):
            yield parts


def _read_config(workspace: OpenWorkspace, parts: tuple[str, ...]) -> bytes | None:
    try:
        with workspace.file((*parts, ".git", "config")) as fd, open(fd, "rb", closefd=False) as file:
            text = file.read(MAX_CONFIG + 1)
    except (Refused, OSError):
        return None
    return text if len(text) <= MAX_CONFIG else None


def _remotes(config: bytes, scratch: Path, *, loopback: bool) -> Mapping[str, Remote]:
    """Let git read a copy of the file, without included files; reading one runs nothing."""
    copy = scratch / "config"
    copy.write_bytes(config)
    listed = process.run(
        "git", "config", "--file", copy, "--no-includes", "--null", "--list",
        timeout=10, check=False, cwd=scratch,
        env=bare_environment(),
    )  # fmt: skip
    urls: dict[str, dict[str, str]] = {}
    for entry in listed.stdout.decode(errors="replace").split("\0"):
        key, _, value = entry.partition("\n")
        match = _KEY.fullmatch(key)
        if match and _NAME.fullmatch(match[1]):
            urls.setdefault(match[1], {}).setdefault(match[2], value)
    found = {}
    for name, listed_urls in urls.items():
        fetch = address(listed_urls.get("url", ""), loopback=loopback)
        push = address(listed_urls.get("pushurl", listed_urls.get("url", "")), loopback=loopback)
        if fetch and push:
            found[name] = Remote(name, fetch, push)
    return found
