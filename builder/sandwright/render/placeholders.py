"""What must lie in a project while a sandbox runs, or somebody inside could make it: covers of a mount plan.

A mount needs something to lie on, so a restricted name that doesn't exist can be covered only where somebody
makes it and removes it again. An empty directory does that best: Git sees none, and no program takes one for
its configuration. In Git's own directories they are files that say the same as none.

Only the project has covers, and directories of Git. In other directories nobody makes any: whoever else works
there would not know of them. In the home directory shells would read them; that is never a project.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from sandwright.policy.facts import HostFacts
from sandwright.policy.paths import ancestors, below, canonical_with_links, is_inside
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.rules import PathRule
from sandwright.policy.uses import file_in_the_way


@dataclass(frozen=True)
class Placeholder:
    """Something that doesn't exist on the host, and must while the sandbox runs.

    Whoever starts the sandbox makes it (a file with `content`, or an empty directory), puts something empty
    and read-only over it inside, and removes it afterwards if it is still just that. `rule` is what it keeps:
    of `rule.path`, the first name on the way that doesn't exist is at `path`. `closes` is the directory of
    Git that has to be read-only as a whole where nobody makes covers, empty for a cover elsewhere.
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
"""What Git reads if it is there, with what means the same as its absence (gitrepository-layout(5)):
`commondir` names the directory that it is in. Measured with Git 2.39: commits work."""


def placeholders(policy: ResolvedPolicy, writable: Callable[[str], bool]) -> tuple[Placeholder, ...]:
    """The covers that a policy needs where `writable` directories are those of the host, by path."""
    found: dict[str, Placeholder] = {}
    for placeholder in (*_git_placeholders(policy), *_project_placeholders(policy)):
        parent = placeholder.path.rpartition("/")[0]
        if policy.facts.kind(parent) == "directory" and writable(parent):
            found.setdefault(placeholder.path, placeholder)
    inner = {path for path in found if not found.keys().isdisjoint(ancestors(path))}
    return tuple(found[path] for path in sorted(found.keys() - inner))


def ignored_directories(placeholders: Iterable[Placeholder]) -> tuple[str, ...]:
    """The directories, outside of Git's, in which a `.gitignore` lies inside, so that Git passes over them.

    Else `git clean -d` and `git stash -u` try to remove them (tried with Git 2.39).
    """
    return tuple(each.path for each in placeholders if each.entry == "directory" and not each.closes)


def git_directories(policy: ResolvedPolicy) -> Iterable[str]:
    """The directories of Git inside what may be written, each once."""
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

    No placeholder can be made below one. Somebody inside who may replace it by a directory can make the name.
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
