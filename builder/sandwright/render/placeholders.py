"""Placeholders: files and directories that exist in a project only while a sandbox runs.

A mount needs an existing mount point. For a restricted name that does not exist, the launcher creates one and
removes it afterwards. An empty directory is best: Git ignores it, and no program reads it as configuration.
In Git directories, placeholders are files with the same meaning as a missing file.

Placeholders are created only in the project and in Git directories: in other directories they would surprise
other programs, and shells would read them in the home directory, which is never a project.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from sandwright.errors import RenderError
from sandwright.git.layout import REPOSITORY
from sandwright.landlock import BACKSTOP
from sandwright.policy.facts import HostFacts
from sandwright.policy.names import SECCOMP_PROFILES
from sandwright.policy.paths import ancestors, below, canonical_with_links, is_inside
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.rules import PathRule
from sandwright.policy.uses import file_in_the_way


@dataclass(frozen=True)
class Placeholder:
    """A file or directory that must exist on the host while the sandbox runs, and does not exist before.

    The launcher creates it (a file with `content`, or an empty directory), covers it inside with an empty
    read-only mount, and removes it afterwards if it is unchanged. It enforces `rule`: `path` is the first
    component of `rule.path` that does not exist. `closes` is the Git directory that must be read-only as a
    whole under methods without placeholders; empty outside of Git directories.
    """

    path: str
    entry: Literal["file", "directory"]
    content: bytes
    rule: PathRule
    closes: str = ""


FILES: Mapping[str, bytes] = {
    ".git/commondir": b".\n",
    ".git/config": b"",
    ".git/config.worktree": b"",
    ".git/info/attributes": b"",
    ".git/objects/info/alternates": b"",
}
"""Files that Git reads, each with the content that means the same as a missing file
(gitrepository-layout(5)): `commondir` names its own directory. Measured with Git 2.39: commits work."""


def placeholders(policy: ResolvedPolicy, writable: Callable[[str], bool]) -> tuple[Placeholder, ...]:
    """The placeholders of a policy, by path. `writable` tells whether a host directory is writable inside."""
    found: dict[str, Placeholder] = {}
    for placeholder in (*_git_placeholders(policy), *_project_placeholders(policy)):
        parent = placeholder.path.rpartition("/")[0]
        if policy.facts.kind(parent) == "directory" and writable(parent):
            found.setdefault(placeholder.path, placeholder)
    inner = {path for path in found if not found.keys().isdisjoint(ancestors(path))}
    return tuple(found[path] for path in sorted(found.keys() - inner))


def uncreatable(
    policy: ResolvedPolicy, found: Iterable[Placeholder], *, supervised: bool
) -> tuple[Placeholder, ...]:
    """The placeholders that `filesystem.placeholders: false` replaces: the sandbox cannot create the names.

    Landlock refuses to create anything in their directories, and the supervisor of bubblewrap's launcher
    creates other names there (`launcher/source/creation.c`). Names that the policy itself denies keep their
    placeholders, so that the host can't create them either, and those in Git directories, which Git reads.
    So do the names of a repository where `HEAD` is there: Git takes a socket, which can be created, for
    `objects` or `refs`. Raise RenderError where that is not possible.
    """
    protected = [each for each in found if each.rule.origin == "protected" and not each.closes]
    head = below(policy.canonical(policy.facts.project), "HEAD")
    if policy.facts.kind(head) is not None:
        protected = [each for each in protected if each.path.rpartition("/")[2] not in REPOSITORY]
    if policy.filesystem.placeholders or not protected:
        return ()
    if not supervised:
        raise RenderError("filesystem.placeholders: false needs the method bwrap")
    if policy.facts.landlock < BACKSTOP:
        raise RenderError(
            "filesystem.placeholders: false needs Landlock (Linux 5.19), which is not available here"
        )
    if policy.process.seccomp not in SECCOMP_PROFILES:
        raise RenderError("filesystem.placeholders: false needs a shipped profile in process.seccomp")
    for rule in policy.filesystem.rules:
        inside = [each.path for each in protected if is_inside(each.path, rule.path)]
        if rule.private and rule.writable and inside:
            # A Landlock rule for a private directory would also apply to the mounts below it.
            raise RenderError(
                f"filesystem.placeholders: false: {inside[0]} is below {rule.path}, which is private inside; "
                "move the project, or make that directory shared"
            )
    return tuple(protected)


def ignored_directories(placeholders: Iterable[Placeholder]) -> tuple[str, ...]:
    """The placeholder directories, except those in Git directories, that contain a `.gitignore` inside.

    Without it `git clean -d` and `git stash -u` try to remove them (tried with Git 2.39).
    """
    return tuple(each.path for each in placeholders if each.entry == "directory" and not each.closes)


def git_directories(policy: ResolvedPolicy) -> Iterable[str]:
    """The Git directories below writable paths, without duplicates."""
    facts = policy.facts
    roots = (root for each in policy.filesystem.protections for root in each.roots)
    found = (below(root, ".git") for root in roots)
    return dict.fromkeys(
        [
            *(path for path in found if facts.kind(path) == "directory"),
            *facts.git_directories,
        ]
    )


def _git_placeholders(policy: ResolvedPolicy) -> Iterator[Placeholder]:
    names = dict.fromkeys(
        name.value
        for each in policy.filesystem.protections
        for name in each.names
        if name.value.startswith(".git/")
    )
    for directory in git_directories(policy):
        for name in names:
            path = f"{directory}/{name.removeprefix('.git/')}"
            rule = _protecting_rule(policy, path)
            if rule is not None:
                yield _placeholder_for(policy.facts, path, rule, FILES.get(name), directory)


def _project_placeholders(policy: ResolvedPolicy) -> Iterator[Placeholder]:
    """The names that are protected in the project, but for those in Git's directories; then restricted paths.

    Among these are names to which a dangling link leads from elsewhere: `~/.zshrc -> project/zshrc`.
    """
    files, facts = policy.filesystem, policy.facts
    project = policy.canonical(facts.project)
    roots = dict.fromkeys(root for each in files.protections for root in each.roots)
    for root in roots:
        # A name of a directory above can lie in the project, as ~/.config/fish/config.fish does in ~/.config.
        for placeholder in _of_root(policy, root):
            if is_inside(placeholder.path, project):
                yield placeholder
    for path in facts.git_files:
        rule = _protecting_rule(policy, path)
        if rule is not None and is_inside(path, project):
            yield _placeholder_for(facts, path, rule, None)
    for rule in files.rules:
        restricted = rule.kind in ("deny", "readonly") and not rule.private
        if restricted and is_inside(rule.path, project) and facts.kind(rule.path) is None:
            yield _placeholder_for(facts, rule.path, rule, None)


def _of_root(policy: ResolvedPolicy, root: str) -> Iterator[Placeholder]:
    facts = policy.facts
    names = dict.fromkeys(
        name.value for each in policy.filesystem.protections if root in each.roots for name in each.names
    )
    git = below(root, ".git")
    for name in names:
        path = canonical_with_links(below(root, name), facts)[0]
        rule = _protecting_rule(policy, path)
        if rule is not None and not (is_inside(path, git) and facts.kind(git) == "directory"):
            yield _placeholder_for(facts, path, rule, None)


def files_in_the_way(policy: ResolvedPolicy) -> dict[str, PathRule]:
    """The files, FIFOs and sockets where a restricted name needs a directory, each with the name's rule.

    No placeholder can be made below one. A program inside that may replace it by a directory can create the
    name.
    """
    files = policy.filesystem
    restricted = (each for each in files.rules if each.kind in ("deny", "readonly") and not each.private)
    found: dict[str, PathRule] = {}
    for rule in (*restricted, *_protected_below(policy)):
        above = "" if policy.facts.kind(rule.path) else file_in_the_way(rule.path, policy)
        if above and files.tree.changes_host(above):
            found.setdefault(above, rule)
    return found


def _protected_below(policy: ResolvedPolicy) -> Iterator[PathRule]:
    """The rules of protected names of several parts, one for each directory that they are in."""
    for protection in policy.filesystem.protections:
        names = {name.value.rpartition("/")[0]: name.value for name in protection.names if "/" in name.value}
        for root in protection.roots:
            for name in names.values():
                path = canonical_with_links(below(root, name), policy.facts)[0]
                rule = policy.filesystem.tree.deciding(path)[:1]
                if rule and rule[0].origin == "protected":
                    yield rule[0]


def _protecting_rule(policy: ResolvedPolicy, path: str) -> PathRule | None:
    """The rule that protects a path where nothing is; None where something is, and where none does."""
    if policy.facts.kind(path) is not None:
        return None
    rule = policy.filesystem.tree.deciding(path)[:1]
    return rule[0] if rule and rule[0].origin == "protected" else None


def _placeholder_for(
    facts: HostFacts, path: str, rule: PathRule, content: bytes | None, closes: str = ""
) -> Placeholder:
    first = first_missing(facts, path)
    if first != path or content is None:
        return Placeholder(first, "directory", b"", rule, closes)
    return Placeholder(path, "file", content, rule, closes)


def first_missing(facts: HostFacts, path: str) -> str:
    """The first name on the way to a path that doesn't exist: the path itself where its directory does."""
    return [each for each in (path, *ancestors(path)) if facts.kind(each) is None][-1]
