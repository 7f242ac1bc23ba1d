"""Decides which files the bridge may access in the workspace: only those that the sandbox may access.

A program on the host could read all files of its owner. So a path that a call names is first checked against
the policy, like an access of the sandbox: denied files are not read, and read-only files are not written.
Names are compared with and without regard to case; the stricter result counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from sandwright.folding import folded_name
from sandwright.policy.paths import is_inside
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.rules import PathRule

Parts = tuple[str, ...]


class AccessRule(NamedTuple):
    """A path below the workspace that has a separate rule. `path` is relative, empty for the workspace."""

    path: str
    read: bool
    write: bool


class WorkspaceAccess:
    """Answers for paths below the workspace. The nearest entry above a path decides."""

    def __init__(self, entries: Iterable[AccessRule]) -> None:
        """Of several entries for a path, the last one counts."""
        exact = {tuple(each.path.split("/")) if each.path else (): each for each in entries}
        folded: dict[Parts, AccessRule] = {}
        for parts, each in exact.items():
            other = folded.get(_fold_parts(parts), each)
            both = AccessRule(each.path, read=each.read and other.read, write=each.write and other.write)
            folded[_fold_parts(parts)] = both
        self._trees: tuple[Mapping[Parts, AccessRule], ...] = (exact, folded)

    def reads(self, parts: Parts) -> bool:
        """Whether the sandbox may read a path."""
        return all(each.read for each in self._deciding(parts))

    def writes(self, parts: Parts) -> bool:
        """Whether the sandbox may write a path, and the path is one of the host."""
        return all(each.write for each in self._deciding(parts))

    def reads_all(self, parts: Parts) -> bool:
        """Whether it may read a path and everything below."""
        key, (_, folded) = _fold_parts(parts), self._trees
        return self.reads(parts) and all(each.read for at, each in folded.items() if at[: len(key)] == key)

    def _deciding(self, parts: Parts) -> Iterator[AccessRule]:
        for tree, key in zip(self._trees, (parts, _fold_parts(parts)), strict=True):
            nearest = (tree[key[:end]] for end in range(len(key), -1, -1) if key[:end] in tree)
            yield next(nearest, AccessRule("", read=False, write=False))


def _fold_parts(parts: Parts) -> Parts:
    return tuple(map(folded_name, parts))


ALL = WorkspaceAccess([AccessRule("", read=True, write=True)])
"""The access for the bridge's own work."""


def entries(policy: ResolvedPolicy, project: str) -> Iterator[AccessRule]:
    """The entries for a policy's project, in an order that `WorkspaceAccess` takes."""
    tree = policy.filesystem.tree
    deciding = tree.deciding(project)
    yield _access_rule("", deciding[0]) if deciding else AccessRule("", read=False, write=False)
    for rule in policy.filesystem.rules:  # sorted: of those at one path the strongest is the last
        if rule.path != project and is_inside(rule.path, project):
            yield _access_rule(rule.path.removeprefix(project).strip("/"), rule)


def _access_rule(path: str, rule: PathRule) -> AccessRule:
    """Private directories of the sandbox are not the host's, so they are neither read nor written here."""
    return AccessRule(path, read=rule.readable and not rule.private, write=rule.writable and not rule.private)
