"""Checks a project that is a linked work tree of Git's (git-worktree(1)), and lists the paths of its commits.

The project's `.git` file may come from an untrusted source. So it is used only if the repository that it
names refers back to the project, in files that belong to the user: `git worktree add` writes both sides, and
an attacker who can write only one of them can name only repositories of their own.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from sandwright.git.layout import GITFILE
from sandwright.inputs import LiveHost
from sandwright.policy.facts import HostFacts
from sandwright.policy.git_repositories import first_line
from sandwright.policy.paths import ancestors, canonical, is_inside
from sandwright.policy.provenance import Faults, Sourced
from sandwright.policy.rules import PathRule

_CLOSED = ("worktrees", "modules")
"""Directories of the repository that are other work trees' and submodules'."""


@dataclass(frozen=True)
class LinkedWorktree:
    """A work tree's own directory, and the repository's, canonical; `fault` is why they are not trusted.

    Both are empty where the project is no linked work tree at all.
    """

    directory: str = ""
    common: str = ""
    fault: str = ""


def linked_worktree(project: str, home: str, uid: int, inputs: LiveHost) -> LinkedWorktree:
    """The directories of a linked work tree, if a project's `.git` is a file.

    `project` and `home` are canonical.
    """
    git = f"{project}/.git"
    if inputs.kind(git) != "file":
        return LinkedWorktree()
    line = first_line(Path(git), inputs)
    named = line.removeprefix(GITFILE)
    directory = _real_path(os.path.join(project, named), inputs) if named != line else ""  # noqa: PTH118 - as Git does
    common = os.path.dirname(os.path.dirname(directory))  # noqa: PTH120 - a name
    fault = next(_worktree_faults(git, directory, common, uid, inputs), "") or _place_fault(
        common, project, home
    )
    fault = fault or _index_fault(common, project, inputs)
    return LinkedWorktree(fault=fault) if fault else LinkedWorktree(directory, common)


def _worktree_faults(git: str, directory: str, common: str, uid: int, inputs: LiveHost) -> Iterator[str]:
    """The reasons why a directory is not the one that a repository keeps for a work tree."""
    if not directory or os.path.dirname(directory) != f"{common}/worktrees":  # noqa: PTH120 - a name
        yield f"{git} does not lead to the directory of a linked work tree"
        return
    if _real_path(f"{directory}/{first_line(Path(directory, 'commondir'), inputs) or '?'}", inputs) != common:
        yield f"{directory}/commondir doesn't lead to {common}"
    back = first_line(Path(directory, "gitdir"), inputs)
    if not back or _git_file_of(directory, back, inputs) != git:
        yield f"{directory}/gitdir doesn't lead back to {git} (`git worktree repair` in the repository)"
    for path in (common, *(f"{common}/{name}" for name in ("objects", "refs", "worktrees"))):
        if inputs.kind(path) != "directory":
            yield f"{path} is no directory"
    for path in (common, f"{common}/worktrees", directory, f"{directory}/gitdir", f"{directory}/commondir"):
        status = inputs.status(path)
        if not status.mode or status.owner != uid or status.mode & stat.S_IWOTH:
            yield f"{path} doesn't belong to you, or is world-writable"


def _place_fault(common: str, project: str, home: str) -> str:
    """The reason why a directory can't be a repository that is written as a whole."""
    if common in (home, *ancestors(home), *ancestors(project)):
        return f"{common} holds more than a repository"
    return ""


def _index_fault(common: str, project: str, inputs: LiveHost) -> str:
    """The reason to distrust the main work tree's index, which a run in a linked one can write.

    Git itself makes no entry with `..`, but follows one: `git status` there runs the programs that the
    repository at its end configures.
    """
    tree, _, name = common.rpartition("/")
    for link in inputs.gitlinks(f"{common}/index") if name == ".git" else ():
        path = os.path.normpath(f"{tree}/{link}")
        if not is_inside(path, tree) or (is_inside(path, project) and path != project):
            return (
                f"the index of {tree} has the entry {link!r}, which leads to {path}: `git status` there "
                "runs what is configured there; inspect it, then: "
                f"git -C {quote(tree)} rm --cached {quote(link)}, or create the index again: "
                f"rm {quote(common)}/index && git -C {quote(tree)} reset"
            )
    return ""


def _real_path(path: str, inputs: LiveHost) -> str:
    return inputs.real(path) if "\0" not in path else ""


def _git_file_of(directory: str, back: str, inputs: LiveHost) -> str:
    """The `.git` to which a work tree's directory leads back, in its real directory."""
    parent, _, name = os.path.join(directory, back).rpartition("/")  # noqa: PTH118 - as Git does
    return f"{_real_path(parent, inputs)}/{name}"


def rules(facts: HostFacts, granted: Sequence[Sourced[str]], faults: Faults) -> Iterator[PathRule]:
    """The rules that `filesystem.git: [worktree]` adds; `granted` are the items of the field.

    The repository has to be writable as a whole, since Git makes its locks beside the files that they lock
    (`packed-refs.lock`, for each ref that is deleted). Other work trees' directories stay closed, and so do
    submodules; configuration, hooks and links to other places are protected names.
    """
    item = next((each for each in granted if each.value == "worktree"), None)
    if item is None:
        return
    if facts.git_worktree_fault:
        faults.add(item.source, f"cannot be granted: {facts.git_worktree_fault}")
    if not facts.git_worktree:
        return
    directory, common = (canonical(path, facts) for path in facts.git_worktree)
    why = "the repository of this linked work tree"
    yield PathRule(common, "write", "git", item.source, common, why)
    for name in _CLOSED:
        if facts.kind(f"{common}/{name}") is not None:
            yield PathRule(f"{common}/{name}", "readonly", "git", item.source, f"{common}/{name}", why)
    yield PathRule(directory, "write", "git", item.source, directory, "this linked work tree's directory")
