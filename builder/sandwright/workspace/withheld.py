"""Decides which changes of a workspace `apply` holds back, with the reason for each.

A *refused* change is never applied: the policy denies it, or it is no plain file. A *held* one is applied
only with `--held` and its path: programs on the host would run it, or it could lead them elsewhere.
`policy.autorun` has the names that tools run by themselves; the tables here have the additional names of a
review.
"""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from sandwright.folding import folded_name
from sandwright.policy.autorun import NAMES
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.rules import PathRule, PathRules
from sandwright.workspace.changes import Change, NewEntry
from sandwright.workspace.links import MOST, FurtherPaths


@dataclass(frozen=True)
class Withheld:
    """A change that is not applied. `refused`: not even if it is named with `--held`."""

    change: Change
    reason: str
    refused: bool = False


GIT_WORK = frozenset(
    (
        *("objects", "refs", "logs", "index", "HEAD", "ORIG_HEAD", "FETCH_HEAD", "MERGE_HEAD", "MERGE_MSG"),
        *("MERGE_MODE", "AUTO_MERGE", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD", "SQUASH_MSG"),
        *("COMMIT_EDITMSG", "packed-refs", "description", "shallow"),
    )
)
"""The files that Git itself writes in the project's `.git` during work: data, without names of programs."""

REVIEWED: Mapping[str, str] = {
    ".gitattributes": "Git: it can name filters and merge drivers",
    ".gitmodules": "Git: addresses of repositories, for `git submodule update`",
    ".venv": "Python: the interpreter that editors and shells start",
    "venv": "Python: the interpreter that editors and shells start",
    "pyvenv.cfg": "Python: where its interpreter is",
    "sitecustomize.py": "Python: code at each start",
    "usercustomize.py": "Python: code at each start",
    "node_modules/.bin": "npx and editors: programs by their bare names",
    ".github/actions": "GitHub Actions: steps of jobs with the repository's secrets",
    ".github/dependabot.yml": "GitHub: which updates are merged",
    "Jenkinsfile": "Jenkins: jobs with the repository's secrets",
    ".circleci": "CircleCI: jobs with the repository's secrets",
    ".travis.yml": "Travis CI: jobs with the repository's secrets",
    "azure-pipelines.yml": "Azure Pipelines: jobs with the repository's secrets",
}
"""Names that a run in the project itself may change, but that a person wants to review."""

NEW: Mapping[str, str] = {
    "conftest.py": "pytest: code that runs at collection, also in an editor",
    "package.json": "npm: scripts of installations",
    "setup.py": "pip: code that runs at installation",
    "build.rs": "cargo: a program that rust-analyzer runs, too",
    "Makefile": "make: recipes",
    "GNUmakefile": "make: recipes, in place of those of a Makefile",
    "tasks.py": "invoke: tasks",
}
"""Names that are held if the project did not have the file before."""

_CONTINUED = ("rebase-apply", "rebase-merge", "sequencer")
"""The state that `git rebase --continue` and the like continue from: lines of commands, and a merge strategy,
for which Git starts `git-merge-STRATEGY`, also from the project."""

_OF_REPOSITORY = frozenset(("commondir", "config", "config.worktree", "hooks", "info", "objects", "refs"))
"""The names that Git reads in a directory with a `HEAD`, which it then takes for a repository."""

_NO_LINKS: Mapping[bytes, bytes | None] = {}
_DECISIONS = ("protect", "existing", "report")
_ROWS = [(each.path, f"{each.tool}: {each.runs}") for each in NAMES if each.decision in _DECISIONS]
_ENDINGS = {each.path[1:]: f"{each.tool}: {each.runs}" for each in NAMES if each.path.startswith("*")} | {
    ".pth": "Python: lines of code at each start"
}


def names_of_tools() -> list[str]:
    """The names of the table that are held, also below any directory. `*x` are endings."""
    return [path for path, _ in _ROWS]


def sort_changes(
    changes: Iterable[Change],
    paths: Iterable[bytes],
    policy: ResolvedPolicy,
    links: Mapping[bytes, bytes | None] = _NO_LINKS,
) -> tuple[list[Change], list[Withheld]]:
    """Divide changes into those that may be applied, and those that are held back or refused.

    `paths` are the copied ones: a name that differs only by case from another one is held. `links` are those
    of the project, with their targets: a path that is held below a link is held at its target, too.
    """
    found = [*changes]
    all_paths = {*paths, *(each.path for each in found)}
    judge = _Judge(
        policy, _differing_by_case(found, all_paths), _head_directories(all_paths), links if found else {}
    )
    free: list[Change] = []
    held: list[Withheld] = []
    for change in found:
        why = judge.held(change)
        if why is None:
            free.append(change)
        else:
            held.append(why)
    return free, held


class _Judge:
    def __init__(
        self,
        policy: ResolvedPolicy,
        twins: Mapping[bytes, bytes],
        heads: AbstractSet[str],
        links: Mapping[bytes, bytes | None],
    ) -> None:
        self._project = policy.canonical(policy.facts.project)
        files = policy.filesystem
        folding = PathRules(files.rules, protections=files.protections, key=folded_name)
        self._trees = (files.tree, folding)
        self._differing_by_case = twins
        self._heads = heads
        names = (name.value for each in files.protections for name in each.names)
        self._further = FurtherPaths(
            links, _LinkNames((*names, *REVIEWED, *(end for end, _ in _ROWS))).matters
        )

    def held(self, change: Change) -> Withheld | None:
        """The reason why a change is not applied; None for one that may be."""
        refused = self._refusal_reason(change)
        if refused:
            return Withheld(change, refused, refused=True)
        reason = next(filter(None, self._hold_reasons(change)), "")
        return Withheld(change, reason) if reason else None

    def _refusal_reason(self, change: Change) -> str:
        if change.new is not None and change.new.kind not in ("file", "directory", "symlink"):
            return f"it is a {change.new.kind}"
        if change.new is not None and change.new.problem:
            return change.new.problem
        for rule in self._forbidding_rules(change.path):
            if rule is None or rule.origin != "protected" or rule.source.layer == "floor":
                return f"the policy denies its change ({rule or 'nothing grants it'})"
        return ""

    def _forbidding_rules(self, path: bytes) -> Iterator[PathRule | None]:
        """The rules that protect a path of the host, also if only case differs; None if no rule grants it."""
        for tree in self._trees:
            rules = tree.deciding(f"{self._project}/{os.fsdecode(path)}")
            if not rules or not rules[0].writable or rules[0].private:
                yield rules[0] if rules else None

    def _hold_reasons(self, change: Change) -> Iterator[str]:
        new = change.new
        text = os.fsdecode(change.path)
        if not text.isprintable():
            yield "its name has control characters, or is not UTF-8"
        if new is not None and new.mode & (stat.S_ISUID | stat.S_ISGID) and new.kind == "file":
            yield "a set-user-id or set-group-id file: whoever runs it gets its owner's rights"
        if new is not None and new.kind == "directory" and new.mode & 0o500 != 0o500:
            yield "its mode keeps its owner out, so nothing in it could be applied or undone"
        if new is not None and new.kind == "symlink" and leads_out(change.path, new.link or b""):
            yield "a link that leads out of the project"
        if change.path in self._differing_by_case:
            yield f"without case its name is that of {os.fsdecode(self._differing_by_case[change.path])}"
        yield from self._name_reasons(change.path, new, is_new=change.old is None)
        further = self._further.of(change.path)
        if len(further) > MOST:
            yield "more links lead to it than are followed"
        for path in further:
            for reason in filter(None, self._name_reasons(path, new, is_new=change.old is None)):
                yield f"it is {os.fsdecode(path)}, too, by a link: {reason}"

    def _name_reasons(self, path: bytes, new: NewEntry | None, *, is_new: bool) -> Iterator[str]:
        """The reasons to hold a path by its name alone."""
        text = os.fsdecode(path)
        yield _git_reason(text, new)
        yield _tool_reason(text, new=is_new)
        yield "" if new is None else self._bare_reason(text)
        for rule in self._forbidding_rules(path):
            yield f"the policy protects it ({rule})"

    def _bare_reason(self, path: str) -> str:
        """The reason why a path may make its directory a bare repository, whose configuration Git obeys."""
        above = ""
        for name in map(folded_name, path.split("/")):
            if name == "head" or (name in _OF_REPOSITORY and above in self._heads):
                return "Git: it may make its directory a repository, whose configuration names programs"
            above = f"{above}/{name}"
            if above == "/.git":
                break
        return ""


def _head_directories(paths: Iterable[bytes]) -> set[str]:
    """The directories that have a `HEAD`, each with a leading slash, folded; empty for the project itself."""
    found = (f"/{_folded_path(path)}" for path in paths if path[-4:].lower() == b"head")
    return {path.removesuffix("/head") for path in found if path.endswith("/head")}


def _git_reason(path: str, new: NewEntry | None) -> str:
    """The reason to hold a path in a Git directory: only the project's own gets objects and refs."""
    parts = path.split("/")
    places = [index for index, part in enumerate(parts) if folded_name(part) == ".git"]
    if not places:
        return ""
    if places != [0] or parts[0] != ".git" or len(parts) == 1:
        return "a repository in the project: Git runs what its configuration says"
    if parts[1] in _CONTINUED and new is None:
        return ""
    inner = "/".join(parts[1:])
    steers = new is not None and new.kind == "symlink"
    steers = steers or inner == "objects/info/alternates" or parts[-1].endswith(".sample")
    if parts[1] in GIT_WORK and not steers:
        return ""
    return "Git: what is there decides which programs it runs, or where it reads"


def _tool_reason(path: str, *, new: bool) -> str:
    """The tool that uses a path, or a directory that it is in."""
    above = ""
    for name in map(folded_name, path.split("/")):
        above = f"{above}/{name}"
        for end, why in _BY_LAST.get(name, ()):
            if above.endswith(end):
                return why
        ending = next((each for each in _ENDINGS if name.endswith(each)), "")
        if ending:
            return _ENDINGS[ending]
    return _NEW.get(above.rpartition("/")[2], "") if new else ""


def _by_last_part() -> Mapping[str, list[tuple[str, str]]]:
    """The ends of paths with the reason, by their last part; all names folded."""
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for path, why in (*REVIEWED.items(), *_ROWS):
        folded = "/".join(map(folded_name, path.split("/")))
        found[folded.rpartition("/")[2]].append((f"/{folded}", why))
    return found


def _folded_path(path: bytes) -> str:
    return _folded_text(os.fsdecode(path))


def _folded_text(path: str) -> str:
    return "/".join(map(folded_name, path.split("/")))


class _LinkNames:
    """Tells quickly which links may be part of a name that is held; few are."""

    def __init__(self, names: Iterable[str]) -> None:
        parts = [_folded_text(name).split("/") for name in names]
        self._last = {each[-1] for each in parts} | {*_NEW, *_OF_REPOSITORY, ".git", "head"}
        self._above = {name for each in parts for name in each[:-1]}

    def matters(self, path: bytes) -> bool:
        """Whether a link is such a name, is in one, or is a directory of one."""
        names = [folded_name(each) for each in os.fsdecode(path).split("/")]
        is_held = not self._last.isdisjoint(names) or any(each.endswith(tuple(_ENDINGS)) for each in names)
        return is_held or names[-1] in self._above


_BY_LAST = _by_last_part()
_NEW = {folded_name(name): why for name, why in NEW.items()}


def leads_out(path: bytes, link: bytes) -> bool:
    """Whether a link may lead out of the directory that `path` is relative to.

    `..` is accepted only at its beginning, where the directories are real: after a name, which may be another
    link, the target of `..` is unknown.
    """
    if link.startswith(b"/"):
        return True
    depth, named = path.count(b"/"), False
    for name in link.split(b"/"):
        if name == b"..":
            depth -= 1
            if named or depth < 0:
                return True
        elif name not in (b"", b"."):
            named = True
    return False


def _differing_by_case(changes: Iterable[Change], paths: Iterable[bytes]) -> Mapping[bytes, bytes]:
    """For each change whose name differs from another path's only by case: that other path."""
    folded: dict[str, list[bytes]] = defaultdict(list)
    for each in changes:
        if each.old is None:
            folded[_folded_path(each.path)].append(each.path)
    found: dict[bytes, bytes] = {}
    for path in paths if folded else ():
        for other in folded.get(_folded_path(path), ()):
            if other != path:
                found[other] = path
    return found
