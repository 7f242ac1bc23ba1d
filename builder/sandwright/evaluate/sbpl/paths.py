"""Resolves a path as the kernel does, from a table of links, without the file system.

Filters see the resolved path. Each symbolic link that is walked through needs `file-read-metadata` on itself
(measured on macOS 14.4.1 by Protonk/sandbox-boostrap), so the links are reported too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from sandwright.errors import UsageError
from sandwright.evaluate.sbpl.source import octets, readable
from sandwright.nested import reversed_components

STANDARD_LINKS = {
    "/tmp": "/private/tmp",  # noqa: S108 - a fact about macOS, nothing is written there
    "/var": "/private/var",
    "/etc": "/private/etc",
    "/home": "/System/Volumes/Data/home",
}
"""Symbolic links that every macOS has."""

DATA_VOLUME = "/System/Volumes/Data"

FIRMLINKS = (
    "/AppleInternal",
    "/Applications",
    "/Library",
    "/System/Library/Assets",
    "/System/Library/AssetsV2",
    "/System/Library/Caches",
    "/System/Library/CoreServices/CoreTypes.bundle/Contents/Library",
    "/System/Library/PreinstalledAssets",
    "/System/Library/PreinstalledAssetsV2",
    "/System/Library/Speech",
    "/Users",
    "/Volumes",
    "/cores",
    "/opt",
    "/private",
    "/usr/libexec/cups",
    "/usr/local",
    "/usr/share/snmp",
)
"""The paths of the data volume that also appear at the short path (macOS: /usr/share/firmlinks)."""

_FOLDED = {DATA_VOLUME + short: short for short in FIRMLINKS}
_MAX_LINKS = 32
_DOTS = re.compile(r"/\.\.?(?:/|\Z)")


class Resolved(NamedTuple):
    """The file that a path leads to. `links` are the symbolic links on the way, in order."""

    path: str
    links: tuple[str, ...] = ()


class Links:
    """The symbolic links of a machine: those of every macOS and those given. All paths are octets."""

    def __init__(self, symlinks: Mapping[str, str] | None = None) -> None:
        """`symlinks` maps links to targets. Raise UsageError for a link whose path is not absolute."""
        self._targets = dict(STANDARD_LINKS)
        self._heads = {_first_component(link) for link in (*STANDARD_LINKS, DATA_VOLUME)}
        targets = {octets(link): octets(target) for link, target in (symlinks or {}).items()}
        for link, target in targets.items():
            if not link.startswith("/") or link.strip("/") == "" or not target:
                raise UsageError(f"a symbolic link needs an absolute path and a target: {readable(link)!r}")
        for link in sorted(targets, key=len):
            parent, _, name = link.rstrip("/").rpartition("/")
            path_of_link = self.resolve(parent + "/", follow=True).path
            path_of_link = f"{path_of_link.rstrip('/')}/{name}"
            self._targets[path_of_link] = targets[link]
            self._heads.add(_first_component(path_of_link))

    def resolve(self, path: str, *, follow: bool) -> Resolved:
        """Resolve an absolute path; with `follow` off, a link as its last component stays.

        A part below `/System/Volumes/Data` that has a firmlink is spelled the short way. Raise UsageError
        when links lead in circles.
        """
        if self.is_plain(path):
            return Resolved(path)
        pending = reversed_components(path)
        follow = follow or path.endswith(("/", "/.", "/.."))
        resolved = ""
        walked: list[str] = []
        while pending:
            part = pending.pop()
            if part == "..":
                resolved = resolved.rpartition("/")[0]
                continue
            reached = f"{resolved}/{part}"
            reached = _FOLDED.get(reached, reached)
            target = self._targets.get(reached) if pending or follow else None
            if target is None:
                resolved = reached
                continue
            walked.append(reached)
            if len(walked) > _MAX_LINKS:
                raise UsageError(f"{readable(path)}: too many symbolic links, or a circle of them")
            pending.extend(reversed_components(target))
            resolved = "" if target.startswith("/") else resolved
        return Resolved(resolved or "/", tuple(walked))

    def target(self, path: str) -> str | None:
        """The target of a link, None when the path is none."""
        return self._targets.get(path)

    def is_plain(self, path: str) -> bool:
        """Whether an absolute path surely leads just where it says, and to no link."""
        if "//" in path or path[-1] == "/" or ("/." in path and _DOTS.search(path)):
            return False
        return _first_component(path) not in self._heads


def _first_component(path: str) -> str:
    """The first part of an absolute path."""
    end = path.find("/", 1)
    return path[1:end] if end > 0 else path[1:]
