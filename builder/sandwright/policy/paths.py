"""Canonical paths: every link resolved, as far as the facts know the host.

Existing components are followed; missing ones keep their names below the deepest existing ancestor. `..` in a
link goes where the kernel goes: up from the link's resolved place, not from its spelling.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

from sandwright.nested import reversed_components
from sandwright.policy.facts import FIRMLINKS, Followed, HostFacts

MAX_LINKS = 40
"""Links that the kernel follows in one path (MAXSYMLINKS; macOS follows 32)."""

_DATA = "/System/Volumes/Data"
_ROOT: Followed = ("/", ())


def canonical(path: str, facts: HostFacts) -> str:
    """The canonical form of an absolute path. Raise ValueError when its links form a loop."""
    return follow(path, facts)[0]


def follow(path: str, facts: HostFacts) -> Followed:
    """The canonical form of a path, and each link on the way. Raise ValueError when they form a loop.

    A directory is followed once for all paths in it.
    """
    followed = facts.followed
    if path not in followed:
        for each in (path.rpartition("/")[0], path):
            above, pending = each, list[str]()
            while above and above not in followed:
                above, _, name = above.rpartition("/")
                pending.append(name)
            followed[each] = _follow_rest(pending, followed.get(above, _ROOT), path, facts)
    return followed[path]


def _follow_rest(pending: list[str], start: Followed, path: str, facts: HostFacts) -> Followed:
    """Follow the rest of `path`, its last name first, from where its beginning led."""
    current, links = "" if start[0] == "/" else start[0], [*start[1]]
    text_at, darwin = facts.link, facts.os == "darwin"
    while pending:
        part = pending.pop()
        if part in ("", "."):
            continue
        if part == "..":
            current = current.rpartition("/")[0]
            continue
        candidate = f"{current}/{part}"
        if darwin:
            candidate = without_data_volume(candidate)
        target = text_at(candidate)
        if target is None:
            current = candidate
            continue
        links.append((candidate, target))
        if len(links) > MAX_LINKS:
            raise ValueError(f"{path} leads through more than {MAX_LINKS} links")
        pending += reversed_components(target)
        current = "" if target.startswith("/") else current
    return current or "/", tuple(links)


def canonical_with_links(path: str, facts: HostFacts) -> tuple[str, tuple[str, ...]]:
    """The canonical form of a path, and where the links on the way are.

    Where they form a loop: the path as it is, and the first link on the way.
    """
    try:
        found, links = follow(path, facts)
    except ValueError:
        spelled = (*reversed(ancestors(path)), path)
        return path, tuple(each for each in spelled if facts.link(each) is not None)[:1]
    return found, tuple(where for where, _ in links)


def without_data_volume(path: str) -> str:
    """A path of macOS by its name at the root, where the data volume gives it a second one."""
    if path.startswith(f"{_DATA}/"):
        short = path[len(_DATA) :]
        if any(is_inside(short, firmlink) for firmlink in FIRMLINKS):
            return short
    return path


def is_inside(path: str, directory: str) -> bool:
    """Whether a canonical path is a directory or something in it."""
    return path == directory or path.startswith(directory if directory == "/" else f"{directory}/")


def ancestors(path: str) -> tuple[str, ...]:
    """The directories above a canonical path, the nearest first, `/` last."""
    if path == "/":
        return ()
    found = []
    end = path.rfind("/")
    while end > 0:
        found.append(path[:end])
        end = path.rfind("/", 0, end)
    return (*found, "/")


def parent(path: str) -> str:
    """The directory that a canonical path is in; of `/` itself."""
    return path.rpartition("/")[0] or "/"


def below(directory: str, name: str) -> str:
    """The path of a relative name in a canonical directory."""
    return f"/{name}" if directory == "/" else f"{directory}/{name}"


def components(path: str) -> list[str]:
    """The names that make up a canonical path; none for `/`."""
    return path[1:].split("/") if path != "/" else []


def depth(path: str) -> int:
    """The number of names in a canonical path."""
    return 0 if path == "/" else path.count("/")


def same_name(facts: HostFacts) -> Callable[[str], str]:
    """A function that gives equal text for names that the host's file system takes for the same.

    APFS ignores Unicode's normal form always, and case unless the volume was made otherwise.
    """
    if facts.os == "linux":
        return _itself
    return _normalised if facts.case_sensitive else _caseless


def _itself(name: str) -> str:
    return name


def _normalised(name: str) -> str:
    return name if name.isascii() else unicodedata.normalize("NFD", name)


def _caseless(name: str) -> str:
    if name.isascii():
        return name.lower()
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", name).casefold())
