"""Keeps the files by which Git finds repositories, configuration, hooks and programs as they are."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from sandwright.errors import UsageError
from sandwright.policy.facts import HostFacts
from sandwright.policy.paths import canonical, is_inside
from sandwright.policy.rules import PathRules, Protection
from sandwright.policy.source import Sourced

MOST = 200
"""Directories of Git's that are protected, and files that lead to them: each is a mount, or several."""

CONFIGURATION = (".git/config", ".git/config.worktree")
"""The protected names that `filesystem.git: [config]` opens."""


def protections(
    names: Sequence[Sourced[str]], facts: HostFacts, excepted: Collection[str]
) -> Iterator[Protection]:
    """What keeps them, where `names` of Git's directories are protected.

    A file that configuration includes, and that is missing, is left to `check`: nothing can lie in its place.
    """
    by_name: dict[str, list[str]] = {}
    for path, why in facts.git_files.items() if names else ():
        if why != "include" or facts.kind(path) is not None:
            parent, _, name = path.rpartition("/")
            by_name.setdefault(name, []).append(parent or "/")
    for name, parents in by_name.items():
        yield Protection((Sourced(name, names[0].source),), tuple(parents), frozenset(excepted))


def check(facts: HostFacts, before: PathRules, tree: PathRules) -> None:
    """Raise UsageError for what can't be kept. `before` are the rules without protected names, `tree` all."""
    files = [path for path in facts.git_files if before.changes_host(path)]
    directories = [path for path in facts.git_directories if tree.changes_host(path)]
    if max(len(facts.git_directories) if directories else 0, len(files)) > MOST:
        raise UsageError(
            f"there are more than {MOST} repositories in what may be written, too many to protect one by "
            "one: name their directories under filesystem.readonly (with submodules $PROJECT/.git), or take "
            "a part of the project as the project"
        )
    project = canonical(facts.project, facts)
    for path, why in facts.git_files.items():
        if why == "hooks" and is_inside(project, path) and before.changes_host(path):
            raise UsageError(
                f"Git's core.hooksPath is {path}: every file there can be a hook; give hooks a directory of "
                "their own"
            )
        if why == "include" and facts.kind(path) is None and tree.changes_host(path):
            raise UsageError(
                f"Git's configuration includes {path}, which doesn't exist and could be made inside: make "
                "it, or take it out of the configuration"
            )
