"""The symbolic links of a project, and the further paths by which they lead to files.

If `.venv` is a link to `env`, a change below `env` is also one below `.venv`, and programs that run one run
the other. Links of the project are followed as the kernel follows them now; links that were changed in the
copy, as they would lead there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping

from sandwright.workspace.base import Base
from sandwright.workspace.below import parents
from sandwright.workspace.changes import Change
from sandwright.workspace.store import Workspace

_ROUNDS = 4
"""The most links on the way to a path, one after another: as many as the longest name in the tables has
parts."""

MOST = 1000
"""The most further paths of one path that are examined."""


class ProjectLinks(Mapping[bytes, bytes | None]):
    """The targets of links, by their paths; both relative to the project, whose path is empty.

    None means outside.
    """

    def __init__(self, workspace: Workspace, base: Base, changes: Iterable[Change]) -> None:
        """`changes` are those of the workspace."""
        self._project, self._tree = map(os.fsencode, (workspace.project, workspace.tree))
        self._changed = {each.path for each in changes if each.new is not None and each.new.kind == "symlink"}
        self._links = [*dict.fromkeys([*base.links(), *self._changed])]

    def __getitem__(self, path: bytes) -> bytes | None:
        root = self._tree if path in self._changed else self._project
        real = os.path.realpath(b"%s/%s" % (root, path))
        roots = (self._tree, self._project)
        above = next((each for each in roots if real == each or real.startswith(each + b"/")), None)
        return None if above is None else real[len(above) + 1 :]

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._links)

    def __len__(self) -> int:
        return len(self._links)


class FurtherPaths:
    """Finds the paths that lead to a file through relevant links."""

    def __init__(self, links: Mapping[bytes, bytes | None], matters: Callable[[bytes], bool]) -> None:
        """`matters` tells whether a path at or below a link may be held back."""
        self._by_target: dict[bytes, list[bytes]] = {}
        pending = [*links]
        for _ in range(_ROUNDS):
            found = {link for link in pending if matters(link) or any(map(matters, self.of(link)))}
            for link in filter(found.__contains__, pending):
                if (target := links[link]) is not None and target != link:
                    self._by_target.setdefault(target, []).append(link)
            pending = [link for link in pending if link not in found] if found else []

    def of(self, path: bytes) -> list[bytes]:
        """The further paths of a path; `MOST` + 1 of them if there are more."""
        seen = {path: 0}
        pending = [path] if self._by_target else []
        for end in pending:
            for each in self._one_link_away(end) if seen[end] < _ROUNDS else ():
                if len(seen) <= MOST + 1 and each not in seen:
                    seen[each] = seen[end] + 1
                    pending.append(each)
        return [*seen][1 : MOST + 2]

    def _one_link_away(self, path: bytes) -> Iterator[bytes]:
        for target in (b"", *parents(path), path):
            rest = path[len(target) :] if target else b"/" + path
            for link in self._by_target.get(target, ()):
                yield link + rest
