"""The symbolic links of a project, and the further paths by which they lead to files.

If `.venv` is a link to `env`, a change below `env` is also one below `.venv`, and programs that run one run
the other. Links of the project are followed as the kernel follows them now; links that were changed in the
copy, as they would lead there.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping

from sandwright.workspace.base import Base
from sandwright.workspace.below import OpenFolders, parents
from sandwright.workspace.changes import Change
from sandwright.workspace.store import Workspace

_ROUNDS = 4
"""The most links on the way to a path, one after another: as many as the longest name in the tables has
parts."""

MOST = 1000
"""The most further paths of one path that are examined."""

_MOST_FOLLOWED = 40
"""The links that the kernel follows in one path (path_resolution(7))."""

_MOST_PARTS = 4096
"""The names of a path that are still to be looked up: the kernel takes no longer paths."""


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


class RunningLinks(ProjectLinks):
    """The same while a run works in the copy: there, links are followed step by step, and only inside it."""

    def __init__(self, workspace: Workspace, base: Base, changes: Iterable[Change], tree: int) -> None:
        """`tree` is the open copy."""
        super().__init__(workspace, base, changes)
        self._root = tree

    def __getitem__(self, path: bytes) -> bytes | None:
        return self._target_in_copy(path) if path in self._changed else super().__getitem__(path)

    def _target_in_copy(self, path: bytes) -> bytes | None:
        """The target of a link in the copy, None for one outside, and for one behind too many links."""
        done: list[bytes] = []
        pending, followed = path.split(b"/")[::-1], 0
        with contextlib.closing(OpenFolders(self._root)) as folders:
            while pending:
                name = pending.pop()
                if name == b".." and not done:
                    return None
                if name == b"..":
                    done.pop()
                if name in (b"", b".", b".."):
                    continue
                text = _text_below(folders, b"/".join([*done, name]))
                if text is None:
                    done.append(name)
                    continue
                followed += 1
                if text.startswith(b"/"):
                    done = []
                    if not (text + b"/").startswith(self._project + b"/"):
                        return None
                    text = text[len(self._project) :]
                if followed > _MOST_FOLLOWED or len(pending) > _MOST_PARTS:
                    return None
                pending += text.split(b"/")[::-1]
        return b"/".join(done)


def _text_below(folders: OpenFolders, path: bytes) -> bytes | None:
    """The text of a link below the open copy; None for anything else."""
    parent, name = folders.parent(path)
    if parent is None:
        return None
    try:
        return os.readlink(name, dir_fd=parent)
    except OSError:
        return None


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
