"""Looks at a project: names of files, and which targets a Makefile has. It follows no link.

Git says which of the names it tracks, and which directories it ignores: what lies in those tells nothing of
the project, but may be a secret.
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
from sandwright.init.languages import LANGUAGES, PASSED_OVER, PIPELINES, Language
from sandwright.inputs import LiveHost
from sandwright.policy.git_worktree import linked_worktree
from sandwright.policy.spelling import checked_path
from sandwright.user_dirs import holds_home

DEPTH = 3
"""How many directories deep a project is looked at."""

MOST = 20_000
"""Names after which the look ends: at the project, and at what Git ignores of it."""

Git = Literal["", "repository", "worktree", "elsewhere"]

_MOST_TEXT = 1 << 20
"""Bytes of a Makefile that are looked at."""

_TEST = re.compile(rb"^(?:[\w-]+ )*test(?: [\w-]+)*[ \t]*::?(?!=)", re.MULTILINE)


@dataclass(frozen=True)
class ProjectFacts:
    """What a project is like, by the names in it.

    `languages` in the order of the table; `markers` are the file names that revealed them. `secrets` are
    paths relative to the project, sorted: files that Git doesn't track; `shared` are those that it does, and
    links, `strange` those of both that no policy can name. `git` is `worktree` for a linked work tree whose
    repository says the same, `elsewhere` for a submodule, a directory inside a repository, and other linked
    work trees. `pipelines` pairs each path with its CI system. `whole` is false when the project is larger
    than what was looked at. `try_out` are commands that test it.
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


def examine_project(directory: Path) -> ProjectFacts:
    """Look at a project. Raise UsageError if it is not a directory, or can't be sandboxed."""
    if not directory.is_dir():
        raise UsageError(f"{directory} is no directory")
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
    )


def _has_test(directory: Path) -> bool:
    """Whether a Makefile of the project says how to make `test`."""
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
    """A project that is a home or a whole system would be writable as a whole."""
    if holds_home(str(directory)):
        raise UsageError(
            f"{directory} holds your whole home directory, and a project can be written as a whole: "
            "choose another directory"
        )


def _file_names(directory: Path, ignored: Collection[str], below: str = "") -> Iterator[str]:
    """Paths of files below a directory, relative to it; links are names like others, and not followed.

    `ignored` are directories that are left out. `below` is what stands before each path.
    """
    seen = 0
    for folder, directories, files in os.walk(directory):
        inside = os.path.relpath(folder, directory)
        if "pyvenv.cfg" in files:  # a virtual environment, whatever it is called
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
    """Paths of files in directories that Git ignores, but for those that tools fill."""
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
