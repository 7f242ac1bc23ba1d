"""Protects the files by which Git finds repositories, configuration, hooks and programs.

And keeps a project's root from becoming a repository. Git takes a directory for a bare one that has a valid
`HEAD` and, in itself or where `commondir` leads, `objects` and `refs` (setup.c, is_git_directory). It looks
at the project itself as soon as `.git` is none, and a program inside can move `.git/HEAD` away. So names are
chosen that are not there and can't be made.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from sandwright.errors import UsageError
from sandwright.git.layout import REPOSITORY
from sandwright.policy.facts import HostFacts
from sandwright.policy.paths import below, canonical, is_inside, same_name
from sandwright.policy.provenance import Sourced
from sandwright.policy.rules import PathRule, PathRules, Protection

MOST = 200
"""Directories of Git's that are protected, and files that lead to them: each is a mount, or several."""

CONFIGURATION = (".git/config", ".git/config.worktree")
"""The protected names that `filesystem.git: [config]` opens."""


def git_protections(
    names: Sequence[Sourced[str]], facts: HostFacts, excepted: Collection[str]
) -> Iterator[Protection]:
    """The protections of Git directories, if `names` in them are protected.

    A file that configuration includes, and that is missing, is left to `check_git_protection`: nothing can
    lie in its place.
    """
    by_name: dict[str, list[str]] = {}
    for path, why in facts.git_files.items() if names else ():
        if why != "include" or facts.kind(path) is not None:
            parent, _, name = path.rpartition("/")
            by_name.setdefault(name, []).append(parent or "/")
    for name, parents in by_name.items():
        yield Protection((Sourced(name, names[0].source),), tuple(parents), frozenset(excepted))


def check_git_protection(facts: HostFacts, before: PathRules, tree: PathRules) -> None:
    """Raise UsageError for a repository that cannot be protected.

    `before` are the rules without protected names, `tree` all.
    """
    files = [path for path in facts.git_files if before.changes_host(path)]
    directories = [path for path in facts.git_directories if tree.changes_host(path)]
    if max(len(facts.git_directories) if directories else 0, len(files)) > MOST:
        example = (files if len(files) > MOST else directories)[-1]
        raise UsageError(
            f"there are more than {MOST} repositories in writable directories, too many to protect one by "
            f"one, such as {example}: remove them, name their directories under filesystem.readonly (with "
            "submodules $PROJECT/.git), or take a part of the project as the project"
        )
    project = canonical(facts.project, facts)
    for path, why in facts.git_files.items():
        if why == "hooks" and is_inside(project, path) and before.changes_host(path):
            raise UsageError(
                f"Git's core.hooksPath is {path}: every file there can be a hook; give hooks a separate "
                "directory"
            )
        if why == "include" and facts.kind(path) is None and tree.changes_host(path):
            raise UsageError(
                f"Git's configuration includes {path}, which doesn't exist and could be created inside: "
                "create it, or remove it from the configuration"
            )


def bare_protection(
    names: Sequence[Sourced[str]],
    project: str,
    facts: HostFacts,
    *,
    excepted: Collection[str],
    rules: Sequence[PathRule],
    compared: bool = False,
    placeholders: bool = True,
) -> Protection:
    """The names at a project's root that must not be created, so that it does not become a repository.

    `names` are those that a layer protects in directories of Git: without any, nothing more is protected.
    `project` is canonical, `excepted` are the paths of exceptions. `HEAD` is the last choice: while something
    of this name lies in a work tree, Git calls `HEAD` in a command ambiguous. Without `placeholders` nothing
    does, and `HEAD` is one of the names: of the others, Git takes a socket for a directory.

    Raise UsageError if all files of a repository exist and are writable. With `compared` (the policy is
    compared with another one), that is accepted, and `HEAD` stays as it is.
    """
    if not names or below(project, "HEAD") in excepted:
        return Protection((), (project,))
    chosen = _names_to_prevent(project, facts, excepted)
    if not placeholders and facts.kind(below(project, "HEAD")) is None:
        chosen = tuple(dict.fromkeys(("HEAD", *chosen)))
    if not chosen and compared:
        chosen = ("HEAD",)
    if not chosen and PathRules(rules, key=same_name(facts)).changes_host(below(project, "HEAD")):
        raise UsageError(
            f"the project {project} can be a bare repository: its content decides what Git runs there; "
            "choose a directory without HEAD, objects and refs, or accept it: "
            "filesystem.unprotect: [{path: $PROJECT/HEAD, reason: …}]"
        )
    return Protection(tuple(Sourced(name, names[0].source) for name in chosen), (project,))


def _names_to_prevent(project: str, facts: HostFacts, excepted: Collection[str]) -> tuple[str, ...]:
    """The names to keep from being made; none where all are there that would have to be."""
    free = {
        name
        for name in REPOSITORY
        if below(project, name) not in excepted and facts.kind(below(project, name)) is None
    }
    one = next((name for name in ("refs", "objects") if name in free), "")
    if "commondir" in free and one:
        return "commondir", one
    return ("HEAD",) if "HEAD" in free else ()
