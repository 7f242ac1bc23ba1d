"""Examines a project: names of files, and whether the Makefile has a target `test`. Follows no links.

Git lists the tracked files and the ignored directories. Files in ignored directories reveal no language, but
can be secrets.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from sandwright.errors import UsageError
from sandwright.git.tracked import ignored_directories, tracked
from sandwright.init import languages
from sandwright.init.languages import LANGUAGES, PASSED_OVER, PIPELINES, Installation, Language
from sandwright.inputs import LiveHost
from sandwright.policy.git_worktree import linked_worktree
from sandwright.policy.spelling import checked_path
from sandwright.user_dirs import holds_home

DEPTH = 3
"""Levels of directories that are examined."""

MOST = 20_000
"""Names after which the examination ends: of the project, and of the directories that Git ignores."""

Git = Literal["", "repository", "worktree", "elsewhere"]

_MOST_TEXT = 1 << 20
"""Bytes of a Makefile that are read."""

_TEST = re.compile(rb"^(?:[\w-]+ )*test(?: [\w-]+)*[ \t]*::?(?!=)", re.MULTILINE)


@dataclass(frozen=True)
class ProjectFacts:
    """Facts about a project, as the names of its files reveal them.

    `languages` are in the order of the table; `markers` are the paths that revealed them. `secrets` are
    sorted paths relative to the project: files that Git does not track; `shared` are tracked files and links;
    `strange` are paths of both kinds that no policy can name. `git` is `worktree` for a linked worktree whose
    repository leads back to it; `elsewhere` for a submodule, a directory inside a repository, and other
    linked worktrees. `pipelines` pairs each path with its CI system. `whole` is false if the project has
    more files than were examined. `try_out` are commands that test the project. `installations` are its
    package managers, and `tool_caches` the caches of other tools.
    """

    languages: tuple[Language, ...] = ()
    markers: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    strange: tuple[str, ...] = ()
    git: Git = ""
    containers: tuple[str, ...] = ()
    pipelines: tuple[tuple[str, str], ...] = ()
    whole: bool = True
    try_out: tuple[str, ...] = ()
    installations: tuple[Installation, ...] = ()
    tool_caches: tuple[str, ...] = ()


def examine_project(directory: Path) -> ProjectFacts:
    """Examine a project. Raise UsageError if it is not a directory, or contains the home directory."""
    if not directory.is_dir():
        raise UsageError(f"{directory} is not a directory")
    _refuse_too_much(directory)
    git = _git_kind(directory)
    ignored = ignored_directories(directory) if git else frozenset()
    names = list(_file_names(directory, ignored))
    ignored_files = list(islice(_in_ignored(directory, ignored), MOST))
    found = [(path, path.rpartition("/")[2]) for path in names]
    pairs = [(path, each) for path, name in found for each in languages.languages(name)]
    secrets = sorted(
        path for path in (*names, *ignored_files) if languages.is_secret(path.rpartition("/")[2])
    )
    language_names = {each.name for _, each in pairs}
    with_git = tracked(directory) if secrets else frozenset()
    shared = {path for path in secrets if path in with_git or (directory / path).is_symlink()}
    return ProjectFacts(
        languages=tuple(each for each in LANGUAGES if each.name in language_names),
        markers=tuple(sorted({path for path, _ in pairs})),
        secrets=tuple(path for path in secrets if can_be_named(path) and path not in shared),
        shared=tuple(path for path in secrets if can_be_named(path) and path in shared),
        strange=tuple(path for path in secrets if not can_be_named(path)),
        git=git,
        containers=tuple(sorted(path for path, name in found if languages.is_container_file(name))),
        pipelines=tuple(each for each in PIPELINES if _exists(directory / each[0])),
        whole=len(names) < MOST and len(ignored_files) < MOST,
        try_out=tuple(languages.try_out(frozenset(names), _has_test(directory))),
        installations=languages.installations(names),
        tool_caches=languages.tool_caches(names),
    )


def _has_test(directory: Path) -> bool:
    """Whether the project's Makefile has a target `test`."""
    for name in languages.MAKEFILES:
        try:
            descriptor = os.open(directory / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
                return bool(_TEST.search(file.read(_MOST_TEXT)))
        except OSError:
            continue
    return False


def can_be_named(path: str) -> bool:
    """Whether a policy can name a path of the project, as `$PROJECT/path`."""
    try:
        checked_path(project_path(path))
    except ValueError:
        return False
    return path.isprintable() and all(part not in (".", "..") for part in path.split("/"))


def project_path(path: str) -> str:
    """A path of the project as a policy writes it."""
    return "$PROJECT/" + path.replace("$", "$$")


def _refuse_too_much(directory: Path) -> None:
    if holds_home(str(directory)):
        raise UsageError(
            f"{directory} contains your home directory, which would become writable as part of the project: "
            "choose another directory"
        )


def _file_names(directory: Path, ignored: Collection[str], below: str = "") -> Iterator[str]:
    """Paths of files below a directory, relative to it, with the prefix `below`. Links are not followed.

    Directories in `ignored` are skipped.
    """
    seen = 0
    for folder, directories, files in os.walk(directory):
        inside = os.path.relpath(folder, directory)
        if "pyvenv.cfg" in files:  # a virtual environment of any name
            directories.clear()
            continue
        prefix = "" if inside == "." else f"{inside}/"
        bundles = [name for name in directories if name.endswith(".xcodeproj")]
        deep = prefix.count("/") >= DEPTH - 1
        left_out = {*PASSED_OVER, *bundles, *(name for name in directories if prefix + name in ignored)}
        directories[:] = [] if deep else sorted(set(directories) - left_out)
        for name in sorted([*files, *bundles]):
            if seen == MOST:
                return
            seen += 1
            yield below + prefix + name


def _in_ignored(directory: Path, ignored: Collection[str]) -> Iterator[str]:
    """Paths of files in directories that Git ignores, except for directories that tools fill."""
    for each in sorted(ignored):
        if each.count("/") < DEPTH - 1 and PASSED_OVER.isdisjoint(each.split("/")):
            yield from _file_names(directory / each, (), f"{each}/")


def _git_kind(directory: Path) -> Git:
    if (directory / ".git").is_dir():
        return "repository"
    real = os.path.realpath(directory)
    home = os.path.realpath(Path.home())
    if linked_worktree(real, home, os.geteuid(), LiveHost()).directory:
        return "worktree"
    above = Path(real).parents
    return "elsewhere" if any((each / ".git").exists() for each in (directory, *above)) else ""


def _exists(path: Path) -> bool:
    return os.path.lexists(path) and not path.is_symlink()
