"""Reads the location and the refs of a repository of the workspace.

On the host, git runs in a repository that the bridge has made, never in the sandbox's. Its only content from
the sandbox are objects and the names of refs: no configuration (and with it no filter, driver, alias,
`core.*`, `url.*.insteadOf`, `include`, `credential.*`, `remote.*.uploadpack`), no hooks, no attributes, no
alternates, no promisor, no index and no work tree. The copy can't change while git reads it.

`sandwright.bridge.objects` copies the objects.
"""

from __future__ import annotations

import itertools
import os
import posixpath
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sandwright.bridge.arg_types import is_ref
from sandwright.bridge.directory import SESSION_MARK
from sandwright.bridge.grammar import Refused, quote_words
from sandwright.bridge.workspace import OpenWorkspace, open_file
from sandwright.git.layout import GITFILE

MAX_REFS = 200_000
MAX_LIST = 32 << 20
"""Bytes of packed-refs and of `shallow`."""

MAX_LINE = 4096
"""Bytes of a file that holds one line: HEAD, `commondir`, a ref."""

MAX_NAMES = 500_000
"""Files in one directory, and in all below `refs`."""

MAX_ALLOCATION = 1 << 30
"""The most bytes that git allocates at once. It streams blobs above core.bigFileThreshold (half of this);
only an object that was made to exhaust the memory needs more."""

_PACKED = re.compile(rb"^([0-9a-f]{40}(?:[0-9a-f]{24})?) (refs/[!-~]+)$", re.MULTILINE)
_SHALLOW = re.compile(rb"(?:(?:[0-9a-f]{40}|[0-9a-f]{64})\n)*+")
_HEX = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True)
class RepositoryLocation:
    """The location of a repository, as parts below the workspace.

    `root` is the directory with `.git`; `git` is the directory for this work tree (HEAD, FETCH_HEAD),
    `common` the one that all its work trees share. They differ in linked work trees only.
    """

    root: tuple[str, ...]
    git: tuple[str, ...]
    common: tuple[str, ...]

    @property
    def main(self) -> tuple[str, ...]:
        """The directory whose `.git` all work trees share."""
        return self.common[:-1] if self.common[-1:] == (".git",) else self.common


@dataclass(frozen=True)
class Refs:
    """A repository's refs: HEAD as it is written, and commits by name."""

    head: str
    names: Mapping[str, str]
    shallow: tuple[str, ...]

    @property
    def sha256(self) -> bool:
        """Whether its objects are named by SHA-256."""
        return any(len(name) == 64 for name in self.names.values())


def find_repository(workspace: OpenWorkspace, parts: tuple[str, ...]) -> RepositoryLocation:
    """The repository of a directory. Raise Refused when there is none in the workspace."""
    for end in range(len(parts), -1, -1):
        root = parts[:end]
        with workspace.directory(root) as fd:
            try:
                mode = os.stat(".git", dir_fd=fd, follow_symlinks=False).st_mode
            except FileNotFoundError:
                continue
            git = (*root, ".git")
            if not stat.S_ISDIR(mode):
                git = _linked(workspace, root, _small(fd, ".git"), prefix=GITFILE)
        with workspace.directory(git) as fd:
            common = _small(fd, "commondir", missing="")
        location = RepositoryLocation(root, git, _linked(workspace, git, common) if common else git)
        for each in (location.git, location.common):
            if not workspace.access.reads_all(each):
                raise Refused(
                    f"the policy keeps the sandbox from {quote_words(['/'.join(each)])} or a part of it"
                )
        return location
    raise Refused("there is no git repository here")


def read_refs(workspace: OpenWorkspace, location: RepositoryLocation) -> Refs:
    """The refs of a repository. Raise Refused if git would not have written them."""
    with workspace.directory(location.git) as fd:
        head = _small(fd, "HEAD").strip()
    names: dict[str, str] = {}
    with workspace.directory(location.common) as fd:
        if "reftable" in names_in(fd):
            raise Refused("the bridge does not read refs in reftable format")
        for value, name in _packed_refs(_read_limited(fd, "packed-refs", missing=b"", most=MAX_LIST)):
            _add_ref(names, name, value)
        listed = _read_limited(fd, "shallow", missing=b"", most=MAX_LIST)
        for name, value in _loose_refs(fd, "refs", depth=0, counter=itertools.count(1)):
            _add_ref(names, name, value)
    if not (_HEX.fullmatch(head) or (head.startswith("ref: refs/") and is_ref(head[5:]))):
        raise Refused("HEAD says nothing that git would have written")
    if not _SHALLOW.fullmatch(listed):
        raise Refused("`shallow` says nothing that git would have written")
    return Refs(head, names, tuple(listed.decode().split()))


def names_in(directory: int) -> list[str]:
    """The entries of a directory. Raise Refused if there are too many."""
    with os.scandir(directory) as entries:
        names = [entry.name for entry in itertools.islice(entries, MAX_NAMES + 1)]
    if len(names) > MAX_NAMES:
        raise Refused("the repository has too many files in a directory")
    return names


def bare_environment() -> dict[str, str]:
    """The environment of git for the bridge's own work.

    Its only configuration is the repository's, which is ours.
    """
    mark = {SESSION_MARK: os.environ[SESSION_MARK]} if SESSION_MARK in os.environ else {}
    return {
        **mark,
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_ALLOC_LIMIT": str(MAX_ALLOCATION),
        "LC_ALL": "C.UTF-8",
    }


def _loose_refs(fd: int, path: str, *, depth: int, counter: Iterator[int]) -> Iterator[tuple[str, str]]:
    """The refs that have a file of their own, below a directory of refs. Links are none.

    `counter` counts the files. Raise Refused if there are too many.
    """
    if depth > 12:
        return
    name = path.rpartition("/")[2]
    try:
        directory = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
    except OSError:
        return
    try:
        listed = []
        with os.scandir(directory) as entries:
            for entry in entries:
                listed.append((entry.name, entry.is_dir(follow_symlinks=False)))
                if next(counter) > MAX_NAMES:
                    raise Refused("the repository has too many files below refs")
        for each, is_directory in listed:
            if is_directory:
                yield from _loose_refs(directory, f"{path}/{each}", depth=depth + 1, counter=counter)
            elif is_ref(f"{path}/{each}"):
                yield f"{path}/{each}", _small(directory, each, missing="").strip()
    finally:
        os.close(directory)


def _add_ref(names: dict[str, str], name: str, value: str) -> None:
    """Keep a ref that names a commit directly; skip symbolic refs (refs/remotes/origin/HEAD)."""
    if name.startswith("refs/") and is_ref(name) and _HEX.fullmatch(value):
        names[name] = value
    if len(names) > MAX_REFS:
        raise Refused("the repository has too many refs")


def _linked(
    workspace: OpenWorkspace, base: tuple[str, ...], text: str, *, prefix: str = ""
) -> tuple[str, ...]:
    """The target of one of git's files (`gitdir: …`, or `commondir`), if it is in the workspace."""
    if not text.startswith(prefix):
        raise Refused("`.git` is no repository")
    joined = posixpath.join(str(workspace.root), *base, text.removeprefix(prefix).strip())
    return workspace.relative(posixpath.normpath(joined))


def _packed_refs(packed: bytes) -> Iterator[tuple[str, str]]:
    """Commits and names of a packed-refs file; lines of another kind cost next to nothing."""
    for found in _PACKED.finditer(packed):
        yield found[1].decode(), found[2].decode()


def _small(directory: int, name: str, *, missing: str | None = None) -> str:
    """The text of one of git's files that has one line."""
    default = None if missing is None else missing.encode()
    return _read_limited(directory, name, missing=default, most=MAX_LINE).decode(errors="replace")


def _read_limited(directory: int, name: str, *, missing: bytes | None, most: int) -> bytes:
    """Read one of git's files. Raise Refused if it is not a regular file, or larger than `most` bytes."""
    try:
        with open_file(directory, name) as fd, open(fd, "rb", closefd=False) as file:
            text = file.read(min(os.fstat(fd).st_size, most) + 1)
    except Refused as error:
        if missing is not None and isinstance(error.__cause__, FileNotFoundError):
            return missing
        raise
    if len(text) > most:
        raise Refused(f"{quote_words([name])} is too long")
    return text
