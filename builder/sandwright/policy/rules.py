"""Rules for paths: those that the policy lists, and those that always hold. The deciding rule for a path.

The most specific path wins; at the same path deny > readonly > write > read. Paths are canonical by then. Two
kinds of rules come in besides: a *protected* name below a writable path takes writing away where writing is
allowed, and the files that a program needs to *start* are readable if no other rule matches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from sandwright.policy.names import PATH_KINDS, PathKind
from sandwright.policy.paths import components
from sandwright.policy.provenance import PolicySource, Sourced
from sandwright.policy.tree import PathTree

MAX_ANSWERS = 100_000
"""Answers about paths that are kept before all are forgotten."""

Origin = Literal["listed", "protected", "policy", "engine", "cloud", "tmp", "home", "own", "startup", "git"]
"""The origin of a rule: a policy lists it; a protected name; the policy's own file; a container engine's
socket; the cloud tools' credentials; the temporary directory; the sandbox's home directory; the sandbox's own
file system instead of the host's (`/dev`); a file that a program needs to start; the repository of a linked
work tree."""

Action = Literal["read", "write"]


@dataclass(frozen=True)
class PathRule:
    """The access to a canonical path and everything below it.

    `written` is the policy's spelling, `why` the purpose of a built-in rule. `through` are the links on the
    way, each by its path: a program that can replace one of them moves the rule to another path. `private` is
    a path that only the sandbox has: the host's files there are neither visible nor changed.
    """

    path: str
    kind: PathKind
    origin: Origin
    source: PolicySource
    written: str = ""
    why: str = ""
    through: tuple[str, ...] = ()
    private: bool = False

    @property
    def readable(self) -> bool:
        """Whether the rule allows reading."""
        return self.kind != "deny"

    @property
    def writable(self) -> bool:
        """Whether the rule allows writing."""
        return self.kind == "write"

    @property
    def strength(self) -> tuple[int, bool, int]:
        """The precedence at the same path: the greater decides, so deny beats readonly, and readonly write.

        Among equals the sandbox's own does, as it hides the host's; else the later layer's.
        """
        return -PATH_KINDS.index(self.kind), self.private, self.source.rank

    def __str__(self) -> str:
        """`deny /home/u/.ssh`."""
        return f"{self.kind} {self.path}"


@dataclass(frozen=True)
class Protection:
    """Names that stay read-only below certain directories.

    `names` are relative paths. `roots` are the directories, canonical. `exceptions` are canonical paths at
    which the names may be written nevertheless.
    """

    names: tuple[Sourced[str], ...]
    roots: tuple[str, ...]
    exceptions: frozenset[str] = frozenset()


class PathRules:
    """All rules for paths, and the questions one can ask them."""

    def __init__(
        self,
        rules: Iterable[PathRule],
        *,
        protections: Iterable[Protection] = (),
        startup: Iterable[PathRule] = (),
        key: Callable[[str], str],
    ) -> None:
        """`key` gives equal text for names that are the same file."""
        self._key = key
        self._tree = _rule_tree(rules, key)
        self._startup = _rule_tree(startup, key)
        self._protections = [_Guard(protection, key) for protection in protections]
        self._answers: dict[str, tuple[PathRule, ...]] = {}

    def deciding(self, path: str) -> tuple[PathRule, ...]:
        """The rules for a canonical path: first the one that decides, then those that it overrides.

        The tuple is empty when no rule applies; the path is then neither readable nor writable. Where only a
        program's start-up needs the path, its start-up rules are given. Every method asks about the same
        paths, so answers are cached.
        """
        rules = self._answers.get(path)
        if rules is None:
            if len(self._answers) >= MAX_ANSWERS:
                self._answers.clear()
            rules = self._answers[path] = self._matching_rules(path)
        return rules

    def _matching_rules(self, path: str) -> tuple[PathRule, ...]:
        found = [
            (depth, rule) for depth, rules in self._tree.prefixes(path) for rule in _strongest_last(rules)
        ]
        found.reverse()
        rules = tuple(rule for _, rule in found)
        if not rules:
            return tuple(
                rule for _, rules in self._startup.prefixes(path) for rule in _strongest_last(rules)
            )[::-1]
        depth, strongest = found[0]
        if strongest.writable and not strongest.private:
            rules = (*self._protecting_rules(path, depth), *rules)
        return rules

    def allows(self, action: Action, path: str) -> bool:
        """Whether a canonical path may be read or written."""
        rules = self.deciding(path)
        return bool(rules) and (rules[0].readable if action == "read" else rules[0].writable)

    def changes_host(self, path: str) -> bool:
        """Whether a canonical path may be written, and is the host's: not one the sandbox has for itself."""
        rules = self.deciding(path)
        return bool(rules) and rules[0].writable and not rules[0].private

    def shows_host(self, path: str) -> bool:
        """Whether a canonical path may be read, and is the host's: a new file there is seen inside."""
        rules = self.deciding(path)
        return bool(rules) and rules[0].readable and not rules[0].private

    def decides_inside(self, path: str) -> bool:
        """Whether a rule is about a path below a directory; if not, it is read-only as a whole."""
        return self._tree.has_inside(path)

    def at(self, path: str) -> list[PathRule]:
        """The rules for exactly this path, protected names excepted."""
        return self._tree.at(path)

    def _protecting_rules(self, path: str, depth: int) -> tuple[PathRule, ...]:
        for guard in self._protections:
            rule = guard.rule(path, depth)
            if rule is not None:
                return (rule,)
        return ()


class _Guard:
    """A protection that answers in the time of a path's depth."""

    def __init__(self, protection: Protection, key: Callable[[str], str]) -> None:
        self._exceptions = {_fold_path(path, key) for path in protection.exceptions}
        self._key = key
        self._roots: PathTree[str] = PathTree(key)
        self._names: PathTree[Sourced[str]] = PathTree(key)
        for root in protection.roots:
            self._roots.add(root, root)
        for name in protection.names:
            self._names.add(f"/{name.value}", name)

    def rule(self, path: str, depth: int) -> PathRule | None:
        """The rule that protects a path which a rule at some depth makes writable."""
        parts = components(path)
        for at, _ in self._roots.along_names(parts):
            for below, names in self._names.along_names(parts[at:]):
                protected = "/" + "/".join(parts[: at + below])
                if below and at + below >= depth and _fold_path(protected, self._key) not in self._exceptions:
                    return PathRule(protected, "readonly", "protected", names[-1].source, names[-1].value)
        return None


def _rule_tree(rules: Iterable[PathRule], key: Callable[[str], str]) -> PathTree[PathRule]:
    tree: PathTree[PathRule] = PathTree(key)
    for rule in rules:
        tree.add(rule.path, rule)
    return tree


def _strongest_last(rules: list[PathRule]) -> list[PathRule]:
    return sorted(rules, key=lambda rule: rule.strength) if len(rules) > 1 else rules


def _fold_path(path: str, key: Callable[[str], str]) -> str:
    return "/".join(map(key, path.split("/")))
