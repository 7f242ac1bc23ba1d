"""Makes the grants that `learn` proposes: few, each one thing, and none that opens a secret.

None goes beyond the grants of the current policy.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sandwright.learn.needs import Bounds
from sandwright.learn.tables import HOMES, MOST_GRANTS, NEVER_WHOLE, ROOTS, SIBLINGS
from sandwright.policy.names import CACHE_DIRECTORIES
from sandwright.policy.paths import ancestors, is_inside


@dataclass(frozen=True)
class PathGrant:
    """A path that is granted, canonical. `why` describes it in our words; `count` is the number of uses."""

    path: str
    why: str
    count: int


def read_grants(
    reads: Mapping[str, set[str]], bounds: Bounds, covered: Callable[[str], bool]
) -> list[PathGrant]:
    """Grants for the paths that were read and are not yet `covered`."""
    home = bounds.current.facts.home
    project = bounds.current.facts.project
    never = {_at_home(each, home) for each in NEVER_WHOLE} | {*ancestors(project), *ancestors(home)}
    found: dict[str, tuple[str, int]] = {}

    def whole(directory: str) -> bool:
        many = directory in never or os.path.dirname(directory) == HOMES
        return not many and bounds.readable(directory) and not bounds.opens_secret(directory)

    for path, kinds in sorted(reads.items()):
        if covered(path):
            continue
        granted, why = _thing(path, home, whole)
        if granted == path and os.path.isdir(path) and not os.path.islink(path) and not whole(path):
            continue  # a directory of many things, that was listed: it stays as empty as it is
        previous = found.get(granted, (why or ", ".join(sorted(kinds)), 0))
        found[granted] = ("the project" if granted == project else previous[0], previous[1] + 1)
    collapsed = _collapsed(found, whole)
    return [PathGrant(path, why, count) for path, (why, count) in sorted(collapsed.items())][:MOST_GRANTS]


def link_grants(
    links: Mapping[str, set[str]], granted: Sequence[PathGrant], covered: Callable[[str], bool]
) -> Iterator[PathGrant]:
    """Grants that show the links on the way to granted paths, and nothing more.

    A policy's path counts by its target, so the name of a link to a directory opens all of the directory.
    A link to a directory that is not granted as a whole is shown by a granted name through it.
    """
    places = {each.path for each in granted}

    def is_visible(path: str) -> bool:
        return covered(path) or any(each in places for each in (path, *ancestors(path)))

    for link, reached in sorted(links.items()):
        if is_visible(link):
            continue
        target = os.path.realpath(link)
        below = [each for each in sorted(reached) if is_inside(each, target) and is_visible(each)]
        names = (link + each[len(target.rstrip("/")) :] for each in below)
        name = link if is_visible(target) else next(names, None)
        if name is not None:
            yield PathGrant(name, "by a link", 1)


def write_grants(writes: Mapping[str, set[str]], bounds: Bounds) -> list[PathGrant]:
    """Grants for the changed paths.

    For changes in the project, the whole project is granted, because similar work changes other files of it.
    Its protected names stay protected.
    """
    found: dict[str, int] = defaultdict(int)
    roots = sorted(
        (rule.path for rule in bounds.current.filesystem.rules if rule.kind == "write" and not rule.private),
        key=len,
    )
    for path in writes:
        root = next((each for each in roots if path == each or path.startswith(f"{each.rstrip('/')}/")), "")
        if root:
            found[root] += 1
    return [PathGrant(path, "something in it was changed", count) for path, count in sorted(found.items())]


def _thing(path: str, home: str, whole: Callable[[str], bool]) -> tuple[str, str]:
    """The unit that a path belongs to by the tables, and its kind; else the path itself."""
    for cache_path, tool in CACHE_DIRECTORIES.items():
        cache = _at_home(cache_path, home)
        if (path == cache or path.startswith(f"{cache}/")) and whole(cache):
            return cache, f"a cache of {tool}"
    for above in (path, *ancestors(path)):
        root = next((each.what for each in ROOTS if _has(above, each.names)), "")
        if root and whole(above):
            return above, root
    return path, ""


def _has(directory: str, names: tuple[str, ...]) -> bool:
    return all(any(os.path.lexists(f"{directory}/{one}") for one in each.split("|")) for each in names)


def _collapsed(
    found: Mapping[str, tuple[str, int]], whole: Callable[[str], bool]
) -> dict[str, tuple[str, int]]:
    """With directories in place of many that lie in one, until nothing changes; and none below another."""
    now = dict(found)
    while True:
        children: dict[str, list[str]] = defaultdict(list)
        for path in now:
            children[os.path.dirname(path)].append(path)
        many = [
            each for each, names_below in children.items() if len(names_below) >= SIBLINGS and whole(each)
        ]
        if not many:
            return {
                path: each for path, each in now.items() if not any(above in now for above in ancestors(path))
            }
        for directory in many:
            count = sum(
                now.pop(path)[1] for path in list(now) if path.startswith(f"{directory.rstrip('/')}/")
            )
            now[directory] = (f"{len(children[directory])} parts of it were used", count)


def _at_home(path: str, home: str) -> str:
    return home + path[1:] if path.startswith("~") else path
