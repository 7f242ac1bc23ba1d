"""The scope of `session.scan`: the paths that a sandbox can write, and the names that count there."""

import os
import stat
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sandwright import digests, user_dirs
from sandwright.folding import folded_name

PLACEHOLDER = stat.S_IFDIR | 0o1555
"""The mode of the empty directory that a launcher creates as a placeholder for a missing path."""

GIT_PARTS = frozenset(("head", "commondir", "config", "config.worktree", "hooks", "info", "objects", "refs"))
"""Entries of a Git directory that make it one, that name programs, or that lead to files that do."""


@dataclass(frozen=True, kw_only=True)
class ProtectedName:
    """A name that programs of the host use, and the tool that does, empty for any. It may begin with `*`."""

    name: str
    tool: str = ""


@dataclass(frozen=True, kw_only=True)
class ScanScope:
    """The scope of a scan; empty without a sandbox.

    `roots` are the writable paths, the project first, `closed` those below them that are not writable, `git`
    the directories of Git in which names of programs are protected, `absent` protected names outside the
    project that are not there (`absent_guard`). `set_id`: the sandbox can make set-id files. `persistent`
    are the directories of `$STATE` and `$CACHE`: no program of the host reads them, so only set-id files
    count there.
    """

    roots: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    names: tuple[ProtectedName, ...] = ()
    git: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    set_id: bool = False
    persistent: tuple[str, ...] = ()

    @property
    def scanned_roots(self) -> tuple[str, ...]:
        """The roots that a scan walks: persistent ones only if they can contain set-id files."""
        return tuple(each for each in self.roots if self.set_id or not self.is_persistent(each))

    def is_persistent(self, path: str) -> bool:
        """Whether a path is in a directory of `$STATE` or `$CACHE`."""
        return any(f"{path}/".startswith(f"{each}/") for each in self.persistent)

    def has_name(self, name: str) -> bool:
        """Whether a name is protected, as it is spelled."""
        return any(each.name == name for each in self.names)


class ScanRules:
    """The scope, arranged for a question for each file."""

    def __init__(self, scope: ScanScope) -> None:
        self.scope = scope
        self.roots = dict.fromkeys(scope.scanned_roots)
        self.closed = frozenset(scope.closed)
        self.git = frozenset(scope.git)
        self.repositories = set(scope.git)

    @cached_property
    def _names_by_last(self) -> dict[str, list[tuple[str, str]]]:
        """By the last part, folded: the ends of paths, with their tools."""
        found: dict[str, list[tuple[str, str]]] = {}
        for each in self.scope.names:
            plain = _folded(each.name)
            if not plain.startswith("*"):
                found.setdefault(plain.rpartition("/")[2], []).append((f"/{plain}", each.tool))
        return found

    @cached_property
    def _endings(self) -> dict[str, str]:
        folded = {_folded(each.name): each.tool for each in self.scope.names}
        return {name[1:]: tool for name, tool in folded.items() if name.startswith("*")}

    @cached_property
    def _ends(self) -> tuple[str, ...]:
        return tuple(self._endings)

    def tool(self, name: str, path: str) -> str | None:
        """The tool that uses a path, empty for any; None for none. `name` is its folded name."""
        if name in self._names_by_last:
            folded = _folded(path)
            return next((tool for end, tool in self._names_by_last[name] if folded.endswith(end)), None)
        if self._ends and name.endswith(self._ends):
            return next(tool for end, tool in self._endings.items() if name.endswith(end))
        return None

    def repository_of(self, path: str) -> str:
        """The Git directory that contains a path: one of `repositories` or a `.git`; empty for none."""
        above = path.rpartition("/")[0]
        while above and above not in self.repositories and not above.endswith("/.git"):
            above = above.rpartition("/")[0]
        return above

    def has(self, name: str) -> bool:
        """Whether a file of a folded name is always examined."""
        return name in self._names_by_last or name in GIT_PARTS or name == ".git" or name.endswith(self._ends)


def _folded(path: str) -> str:
    """A path with folded names, as on file systems that ignore case: the path may be on one."""
    return "/".join(map(folded_name, path.split("/")))


def known_file(policy: str) -> str:
    """The file that keeps the findings of a scan for the next, by the file of the policy."""
    return str(Path(user_dirs.cache(), "repositories", f"{digests.sha256(os.fsencode(policy))}.json"))


def printable(text: str) -> str:
    """Text for a terminal: other than printable characters are escaped."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
