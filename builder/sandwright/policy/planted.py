"""Keeps anybody inside from completing a Git repository at a project's root, where the host's Git uses it.

Git takes a directory for a bare repository that has a valid `HEAD` and, in itself or where `commondir` leads,
`objects` and `refs` (setup.c, is_git_directory). It looks at the project itself as soon as `.git` is none,
and somebody inside can move `.git/HEAD` away. So names are chosen that are not there and can't be made.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sandwright.errors import UsageError
from sandwright.policy.facts import HostFacts
from sandwright.policy.paths import below, same_name
from sandwright.policy.rules import PathRule, PathRules, Protection
from sandwright.policy.source import Sourced

NAMES = ("HEAD", "commondir", "objects", "refs")
"""What makes a directory a repository."""


def protection(
    names: Sequence[Sourced[str]],
    project: str,
    facts: HostFacts,
    *,
    excepted: Collection[str],
    rules: Sequence[PathRule],
) -> Protection:
    """The names at a project's root that can't be made, so that nothing there becomes a repository.

    `names` are those that a layer protects in directories of Git: without any, nothing more is protected.
    `project` is canonical, `lifted` are the paths of exceptions. `HEAD` is the last choice: while something
    of this name lies in a work tree, Git calls `HEAD` in a command ambiguous.

    Raise UsageError where all that makes a repository is there, and can be written.
    """
    if not names or below(project, "HEAD") in excepted:
        return Protection((), (project,))
    chosen = _chosen(project, facts, excepted)
    if not chosen and PathRules(rules, key=same_name(facts)).changes_host(below(project, "HEAD")):
        raise UsageError(
            f"the project {project} can be a bare repository: whoever writes it decides what Git runs there; "
            "choose a directory without HEAD, objects and refs, or accept it: "
            "filesystem.unprotect: [{path: $PROJECT/HEAD, reason: …}]"
        )
    return Protection(tuple(Sourced(name, names[0].source) for name in chosen), (project,))


def _chosen(project: str, facts: HostFacts, excepted: Collection[str]) -> tuple[str, ...]:
    """The names to keep from being made; none where all are there that would have to be."""
    free = {
        name
        for name in NAMES
        if below(project, name) not in excepted and facts.kind(below(project, name)) is None
    }
    one = next((name for name in ("refs", "objects") if name in free), "")
    if "commondir" in free and one:
        return "commondir", one
    return ("HEAD",) if "HEAD" in free else ()
