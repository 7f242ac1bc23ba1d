"""Restrictions hold at each path at which a mount shows the same: bind mounts, mounts of one file system."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import replace

from sandwright.errors import UsageError
from sandwright.inputs import LiveHost
from sandwright.mount_aliases import split_aliases
from sandwright.policy import spelling
from sandwright.policy.facts import HostFacts
from sandwright.policy.paths import follow, is_inside
from sandwright.policy.rules import PathRule, PathRules


def with_mount_aliases(facts: HostFacts, restricted: Iterable[str], inputs: LiveHost) -> HostFacts:
    """The facts with the other paths of restricted files, and those of repositories."""
    if facts.os != "linux":
        return facts
    paths = sorted({path for each in restricted for path in _nameable(each, facts)} - {"/"})
    aliases: dict[str, tuple[str, ...]] = {}
    for path, answer in zip(paths, inputs.ask("aliases", *paths), strict=True):
        others = (each for each in split_aliases(answer) if _is_nameable(each) or inputs.kind(each))
        outside = tuple(dict.fromkeys(each for each in others if not is_inside(each, path)))
        if outside:
            aliases[path] = outside
    facts = replace(facts, mount_aliases=aliases)
    return replace(
        facts,
        autorun=facts.with_aliases(facts.autorun),
        git_directories=facts.with_aliases(facts.git_directories),
        git_files={each: why for path, why in facts.git_files.items() for each in facts.with_aliases([path])},
    )


def _nameable(path: str, facts: HostFacts) -> Iterator[str]:
    """The canonical path, if there is one that a rule can name."""
    with contextlib.suppress(ValueError):
        found = follow(path, facts)[0]
        if _is_nameable(found):
            yield found


def _is_nameable(path: str) -> bool:
    return path == spelling.plain_spelling(path)


def alias_rules(
    rules: Iterable[PathRule], before: PathRules, listed: Iterable[PathRule], facts: HostFacts
) -> Iterator[PathRule]:
    """The restrictions of rules at other paths of the same files (by mounts), if `before` allows those.

    A grant of exactly that path decides, as below a denied directory.
    """
    granted = {rule.path for rule in listed if rule.kind in ("read", "write")}
    for rule in rules:
        if rule.kind not in ("deny", "readonly") or rule.private:
            continue
        opens = before.shows_host if rule.kind == "deny" else before.changes_host
        for path in facts.mount_aliases.get(rule.path, ()):
            if path not in granted and opens(path):
                yield replace(rule, path=path, why=f"a mount shows {rule.path} there", through=())


def refuse_unnameable(rules: Iterable[PathRule]) -> None:
    """Raise UsageError for a restriction of a path that no rule can name, such as a mount point's."""
    for rule in rules:
        if rule.kind in ("deny", "readonly") and not _is_nameable(rule.path):
            raise UsageError(
                f"cannot close {rule.path} ({rule.why or rule.written}): its path is not UTF-8, or too long. "
                f"Rename it, or list a directory above it under filesystem.{rule.kind}"
            )
