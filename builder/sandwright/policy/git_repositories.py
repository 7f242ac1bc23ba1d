"""Finds Git's directories: bare repositories, and those of work trees, submodules and linked work trees.

Hooks and configuration there name programs that Git runs. The files that lead to these directories, and those
that configuration names, are found, too. It reads names, the pointer files that Git follows,
configuration, and which entries of an index are other repositories.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

from sandwright.errors import UsageError
from sandwright.git import config
from sandwright.git.layout import GITFILE, REPOSITORY
from sandwright.inputs import LiveHost
from sandwright.policy import spelling
from sandwright.policy.git_protection import MOST
from sandwright.policy.paths import MAX_LINKS

_NAME = 255
"""Bytes of a name in a directory, at most (limits.h, NAME_MAX)."""

_FILES = ("config", "config.worktree")
_MARKS = frozenset({"HEAD", "config", "commondir"})
_NO_MODULES = frozenset({"annex", "hooks", "info", "lfs", "logs", "objects", "refs"})
"""The directories of a repository that hold no other one, unless a submodule has such a name."""

_MOST_NAMES, _DEEPEST = 10_000, 64
"""Limits on the names and the depth of directories in which Git keeps submodules."""

_MAX_CONFIGURATIONS = 100
"""Files of configuration of one repository, the included ones counted."""

GitFile = Literal["pointer", "include", "hooks", "program"]
"""The use of a file by Git: it leads to a repository; configuration includes it; hooks are in it; it is
run."""


class Repositories:
    """The directories and files that Git uses below some directories, as canonical paths.

    `directories` are Git's own; of more than `MOST` the first, and one more. `files` are files that lead to
    one, or would, and those that configuration names, whether they exist or not.
    """

    def __init__(self, roots: Iterable[str], bare: Iterable[str], home: str, inputs: LiveHost) -> None:
        """Look at `.git` in each of `roots`, and at those of `bare` that are repositories themselves.

        `home` is the value of `~` in configuration.
        """
        self._inputs = inputs
        self._home = home
        self._directories: dict[str, None] = {}
        self._files: dict[str, GitFile] = {}
        self._named: dict[str, list[tuple[str, Path, str]]] = {}
        for root in roots:
            self._add_work_tree(Path(root) / ".git")
        for directory in map(Path, bare):
            if _is_repository(directory, inputs):
                for each in _with_common_directory(directory, inputs):
                    self._add_with_inner(each)

    @property
    def directories(self) -> tuple[str, ...]:
        """The targets of `.git`, and the repositories inside them."""
        return tuple(path for path in self._directories if path == spelling.plain_spelling(path))

    @property
    def unnameable(self) -> tuple[str, ...]:
        """The existing directories and files that no rule can name, such as names that are not UTF-8."""
        existing = (path for path in self._files if self._inputs.kind(path) is not None)
        return tuple(
            each for each in (*self._directories, *existing) if each != spelling.plain_spelling(each)
        )

    @property
    def files(self) -> Mapping[str, GitFile]:
        """Files by path, with Git's use of each."""
        return {path: why for path, why in self._files.items() if path == spelling.plain_spelling(path)}

    def _add_work_tree(self, git: Path) -> None:
        """Add a work tree's `.git`, a directory or a file, and its repository."""
        for directory in _git_of(git, self._inputs):
            main = [directory.parent] if directory.name == ".git" else []
            self._add_with_inner(directory, git.parent, *main)

    def _add_with_inner(self, directory: Path, *trees: Path) -> None:
        """One of Git's directories, and those that it keeps inside."""
        self._add_git_directory(directory, *trees)
        for inner in _nested_git_directories(directory, self._inputs):
            if len(self._directories) <= MOST:
                self._add_git_directory(inner)
                pointer = first_line(inner / "gitdir", self._inputs)
                if pointer and inner.parent.name == "worktrees":
                    # Relative paths in the shared configuration mean each linked work tree's own files.
                    tree = os.path.normpath((inner / pointer).parent)
                    self._add_named_files(Path(tree), self._named_values(inner.parent.parent))

    def _add_git_directory(self, directory: Path, *trees: Path) -> None:
        """One of Git's directories, with work trees that led to it."""
        self._record_links(directory)
        real = self._inputs.real(str(directory))
        if real in self._directories:
            return
        self._directories[real] = None
        named = self._named_values(directory)
        found = [*trees, *(directory / value for key, _, value in named if key == "core.worktree")]
        pointer = first_line(directory / "gitdir", self._inputs)
        if pointer:
            self._record_file(directory / "gitdir", "pointer")  # or the next run would not find the work tree
            found.append((directory / pointer).parent)
        for tree in dict.fromkeys(os.path.normpath(each) for each in found):
            self._add_submodules(Path(tree), directory)
            self._add_named_files(Path(tree), named)
        if not found:
            self._add_named_files(directory, named)  # in a bare repository Git runs hooks there (githooks(5))

    def _add_submodules(self, tree: Path, directory: Path) -> None:
        """The `.git` of a work tree of a directory of Git's, and those of its submodules."""
        if not _is_directory(tree / ".git", self._inputs):
            self._record_file(tree / ".git", "pointer")
        for link in filter(_can_be, self._inputs.gitlinks(str(directory / "index"))):
            if len(self._directories) > MOST or len(self._files) > MOST:
                return
            inner = tree / link / ".git"
            if _is_directory(inner, self._inputs):
                self._add_work_tree(inner)
            else:
                self._record_file(inner, "pointer")

    def _add_named_files(self, tree: Path, named: list[tuple[str, Path, str]]) -> None:
        """The files that configuration names, paths below `tree` by their relative ones."""
        for key, file, value in named:
            if config.is_include(key):
                self._record_file(self._expanded(value, file.parent), "include")
            elif key == "core.hookspath":
                self._record_file(self._expanded(value, tree), "hooks")
            elif key == "core.attributesfile":
                self._record_file(self._expanded(value, tree), "program")
            else:
                for word in config.files(key, value):
                    path = self._expanded(word, tree)
                    if self._inputs.kind_behind(str(path)) == "file":
                        self._record_file(path, "program")

    def _named_values(self, directory: Path) -> list[tuple[str, Path, str]]:
        """Keys of a repository's configuration, with the file and the value."""
        real = self._inputs.real(str(directory))
        if real not in self._named:
            read: set[str] = set()
            self._named[real] = [
                each for name in _FILES for each in self._included_files(directory / name, read)
            ]
        return self._named[real]

    def _included_files(self, file: Path, read: set[str]) -> Iterator[tuple[str, Path, str]]:
        """Keys of a file of configuration and of those that it includes, with the file and the value."""
        real = os.path.realpath(file)
        if real in read:
            return
        read.add(real)
        if len(read) > _MAX_CONFIGURATIONS:
            raise UsageError(
                f"{file} is one of more than {_MAX_CONFIGURATIONS} files that Git's configuration "
                "includes, too many to protect one by one"
            )
        for key, value in config.settings(_configuration_text(file, self._inputs)):
            yield key, file, value
            if config.is_include(key):
                yield from self._included_files(self._expanded(value, file.parent), read)

    def _expanded(self, value: str, base: Path) -> Path:
        if value.startswith("~/"):
            return Path(self._home, value[2:])
        return base / value.replace("\0", "")

    def _record_links(self, path: Path) -> None:
        """Note the links on the way to a path: they lead Git there as the files do that name it."""
        pending = [part for part in reversed(path.parts) if part != "/"]
        current, links = Path("/"), 0
        while pending and links < MAX_LINKS:
            part = pending.pop()
            found = self._inputs.link(str(current / part))
            if part == "..":
                current = current.parent
            elif found is not None:
                links += 1
                self._files.setdefault(str(current / part), "pointer")
                target = Path(found)
                current = Path("/") if target.is_absolute() else current
                pending += [each for each in reversed(target.parts) if each != "/"]
            else:
                current /= part

    def _record_file(self, path: Path, why: GitFile) -> None:
        self._record_links(path.parent)
        parent = self._inputs.real(str(path.parent))
        self._files.setdefault(os.path.normpath(f"{parent}/{path.name}"), why)


def _configuration_text(file: Path, inputs: LiveHost) -> str:
    """The text of a file of configuration; empty where there is none.

    Raise UsageError for a file that Git may read and this program cannot, because its settings are unknown.
    """
    raw = inputs.content(str(file))
    if raw is None and inputs.kind_behind(str(file)) == "file":
        raise UsageError(f"cannot read Git's configuration {file}: it is larger than 1 MiB, or closed")
    return (raw or b"").decode(errors="surrogateescape")


def _can_be(path: str) -> bool:
    """Whether there can be such a path in a work tree: an index may hold anything."""
    parts = path.split("/")
    return not {"", ".", "..", ".git"} & {*parts} and max(len(os.fsencode(part)) for part in parts) <= _NAME


def _git_of(git: Path, inputs: LiveHost) -> list[Path]:
    """The directories to which a `.git` leads.

    If it is a file (gitrepository-layout(5)), it contains the path of the directory.
    """
    if _is_directory(git, inputs):
        directory = git
    else:
        target = first_line(git, inputs).removeprefix(GITFILE)
        directory = git.parent / target if target else git
    return _with_common_directory(directory, inputs) if _is_directory(directory, inputs) else []


def _with_common_directory(directory: Path, inputs: LiveHost) -> list[Path]:
    """One of Git's directories, and that of its hooks and configuration, which `commondir` names."""
    common = first_line(directory / "commondir", inputs)
    there = bool(common) and _is_directory(directory / common, inputs)
    return [directory, *([directory / common] if there else [])]


def _is_repository(directory: Path, inputs: LiveHost) -> bool:
    """Whether Git takes a directory for a repository (setup.c, is_git_directory), or would again.

    A program inside can move `HEAD` and `refs` of a protected repository away, and back in its next run.
    """
    kinds = {name: inputs.kind_behind(str(directory / name)) for name in (*REPOSITORY, "config")}
    if kinds["commondir"] == "file":
        return True
    if kinds["objects"] != "directory":
        return False
    if kinds["config"] == "file" or None not in (kinds["HEAD"], kinds["refs"]):
        return True
    return any(_is_directory(directory / "objects" / name, inputs) for name in ("info", "pack"))


def _is_directory(path: Path, inputs: LiveHost) -> bool:
    return inputs.kind_behind(str(path)) == "directory"


def _nested_git_directories(directory: Path, inputs: LiveHost) -> list[Path]:
    """The directories of submodules and linked work trees that Git keeps in one of its directories.

    A program inside can make names there, and move some away. So incomplete repositories are examined as
    well, and a directory counts if it has a file of Git that cannot be moved: `config` is protected. Raise
    UsageError if there are too many entries.
    """
    found: list[Path] = []
    waiting = [(f"{directory}/{name}", 0) for name in ("worktrees", "modules")]
    listed_names = 0
    while waiting and len(found) <= MOST:
        parent, depth = waiting.pop()
        inputs.real(parent)
        listed = inputs.ask("listing", parent)
        inner = [name.removesuffix("/") for name in listed if name.endswith("/")]
        names = {name.removesuffix("/") for name in listed}
        listed_names += len(names)
        if listed_names > _MOST_NAMES or depth > _DEEPEST:
            raise UsageError(
                f"{directory}/modules has too many directories, or too deep ones, to be protected one by "
                "one: remove the directories that no submodule of yours needs"
            )
        if _MARKS & names - {*inner}:
            found.append(Path(parent))
            configs = (f"{parent}/{name}/config" for name in _NO_MODULES)
            submodules = {path.split("/")[-2] for path in configs if inputs.kind_behind(path) is not None}
            inner = [name for name in inner if name in submodules or name not in _NO_MODULES]
        waiting += [(f"{parent}/{name}", depth + 1) for name in inner]
    return found


def first_line(path: Path, inputs: LiveHost) -> str:
    """The only line of one of Git's pointer files; empty for anything else."""
    raw = (inputs.content(str(path)) or b"").rstrip(b"\r\n")  # as Git does (setup.c, read_gitfile_gently)
    return os.fsdecode(raw) if b"\n" not in raw else ""
