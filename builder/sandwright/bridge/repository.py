"""Takes a repository out of the workspace: its refs and objects as files of the bridge's own.

git runs on the host in a repository that the bridge has made, never in the sandbox's. So there is nothing in
it that the sandbox wrote but objects and the names of refs: no configuration (and with it no filter, driver,
alias, `core.*`, `url.*.insteadOf`, `include`, `credential.*`, `remote.*.uploadpack`), no hooks, no
attributes, no alternates, no promisor, no index and no work tree. What is copied can't change any more when
git reads it.

Objects are copied as they are: git checks each as it reads it. Of a pack the index is made here, by the
program that takes packs from the network, and not taken over. Names are those of objects; links are not
followed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sandwright import process
from sandwright.bridge.grammar import Refused, shown
from sandwright.bridge.kinds import is_ref
from sandwright.bridge.workspace import Workspace, open_file
from sandwright.errors import CommandFailed

MAX_REFS = 200_000
MAX_SMALL = 64 << 20
"""Bytes of packed-refs; of HEAD, `commondir` and the like far less are read."""

MAX_OBJECTS = 16 << 30
"""Bytes that are copied of one repository's objects, all together."""

INDEX_TIMEOUT = 600.0

_HEX = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_FANOUT = re.compile(r"[0-9a-f]{2}")
_LOOSE = re.compile(r"[0-9a-f]{38}|[0-9a-f]{62}")
_PACK = re.compile(r"pack-(?:[0-9a-f]{40}|[0-9a-f]{64})\.pack")


@dataclass(frozen=True)
class Place:
    """Where a repository lies, as parts below the workspace.

    `root` is the directory that holds `.git`; `git` what belongs to this work tree (HEAD, FETCH_HEAD),
    `common` what all its work trees share. They differ in linked work trees only.
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
    """What a repository's refs say: HEAD as it is written, and commits by name."""

    head: str
    names: Mapping[str, str]
    shallow: tuple[str, ...]

    @property
    def sha256(self) -> bool:
        """Whether its objects are named by SHA-256."""
        return any(len(name) == 64 for name in self.names.values())


def find_repository(workspace: Workspace, parts: tuple[str, ...]) -> Place:
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
                git = _linked(workspace, root, _small(fd, ".git"), prefix="gitdir: ")
        with workspace.directory(git) as fd:
            common = _small(fd, "commondir", missing="")
        return Place(root, git, _linked(workspace, git, common) if common else git)
    raise Refused("there is no git repository here")


def read_refs(workspace: Workspace, place: Place) -> Refs:
    """The refs of a repository. Raise Refused when they are none that git would have written."""
    with workspace.directory(place.git) as fd:
        head = _small(fd, "HEAD").strip()
    names: dict[str, str] = {}
    with workspace.directory(place.common) as fd:
        if "reftable" in _names(fd):
            raise Refused("the bridge does not read refs in reftable format")
        for line in _small(fd, "packed-refs", missing="").splitlines():
            if not line.startswith(("#", "^")):
                value, _, name = line.partition(" ")
                _add(names, name, value)
        shallow = tuple(_small(fd, "shallow", missing="").split())
        for name, value in _loose_refs(fd, "refs", depth=0):
            _add(names, name, value)
    if not (_HEX.fullmatch(head) or (head.startswith("ref: refs/") and is_ref(head[5:]))):
        raise Refused("HEAD says nothing that git would have written")
    if any(not _HEX.fullmatch(each) for each in shallow):
        raise Refused("`shallow` says nothing that git would have written")
    return Refs(head, names, shallow)


def copy_objects(workspace: Workspace, place: Place, store: Path) -> None:
    """Bring what is not there yet of a repository's objects into a bare one of ours, `store`.

    Raise Refused when it is too much, or a pack is not one.
    """
    with workspace.directory((*place.common, "objects")) as objects:
        budget = _Budget(MAX_OBJECTS)
        for name in _names(objects):
            if _FANOUT.fullmatch(name):
                _copy_all(objects, name, names=_LOOSE, target=store / "objects" / name, budget=budget)
        incoming = store / "incoming"
        known = {path.name for path in (store / "objects" / "pack").glob("*.pack")}
        _copy_all(objects, "pack", names=_PACK, target=incoming, budget=budget, known=known)
    for pack in sorted(incoming.glob("*.pack")):
        _index(pack, store)


def _names(directory: int) -> list[str]:
    with os.scandir(directory) as entries:
        return [entry.name for entry in entries]


class _Budget:
    def __init__(self, amount: int) -> None:
        self._left = amount

    def take(self, amount: int) -> None:
        self._left -= amount
        if self._left < 0:
            raise Refused(f"the repository has more than {MAX_OBJECTS >> 30} GiB of objects")


def _copy_all(
    above: int,
    name: str,
    *,
    names: re.Pattern[str],
    target: Path,
    budget: _Budget,
    known: set[str] | None = None,
) -> None:
    """Copy the regular files with such names out of a directory, but those known."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return
        raise
    try:
        target.mkdir(exist_ok=True)
        there = known if known is not None else {path.name for path in target.iterdir()}
        for each in _names(fd):
            if names.fullmatch(each) and each not in there:
                with contextlib.suppress(Refused), open_file(fd, each) as source:
                    _copy(source, target / each, budget)
    finally:
        os.close(fd)


def _copy(source: int, target: Path, budget: _Budget) -> None:
    size = os.fstat(source).st_size
    budget.take(size)
    part = target.with_name(f"{target.name}.part")
    with part.open("wb") as file:
        copied = 0
        while copied < size and (
            sent := os.sendfile(file.fileno(), source, copied, min(size - copied, 1 << 28))
        ):
            copied += sent
    part.replace(target)


def _index(pack: Path, store: Path) -> None:
    try:
        process.run(
            "git", f"--git-dir={store}", "index-pack", pack,
            timeout=INDEX_TIMEOUT, cwd=store, env=bare_environment(),
        )  # fmt: skip
    except CommandFailed as error:
        raise Refused(f"{pack.name} is no pack that git takes: {shown([error.stderr.strip()])}") from error
    finally:
        for path in (pack, pack.with_suffix(".rev")):
            if not pack.with_suffix(".idx").exists():
                path.unlink(missing_ok=True)
    packs = store / "objects" / "pack"
    for path in (pack, pack.with_suffix(".idx")):  # the pack first: an index without its pack is a fault
        shutil.move(path, packs / path.name)
    pack.with_suffix(".rev").unlink(missing_ok=True)


def bare_environment() -> dict[str, str]:
    """What git needs for work that is all our own: no configuration but the repository's, which is ours."""
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ATTR_NOSYSTEM": "1",
        "LC_ALL": "C.UTF-8",
    }


def _loose_refs(fd: int, path: str, *, depth: int) -> Iterator[tuple[str, str]]:
    """The refs that have a file of their own, below a directory of refs. Links are none."""
    if depth > 12:
        return
    name = path.rpartition("/")[2]
    try:
        directory = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
    except OSError:
        return
    try:
        with os.scandir(directory) as entries:
            listed = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        for each, is_directory in listed:
            if is_directory:
                yield from _loose_refs(directory, f"{path}/{each}", depth=depth + 1)
            elif is_ref(f"{path}/{each}"):
                yield f"{path}/{each}", _small(directory, each, missing="").strip()
    finally:
        os.close(directory)


def _add(names: dict[str, str], name: str, value: str) -> None:
    """Keep a ref that has a commit's name as its value; symbolic ones (refs/remotes/origin/HEAD) are left."""
    if name.startswith("refs/") and is_ref(name) and _HEX.fullmatch(value):
        names[name] = value
    if len(names) > MAX_REFS:
        raise Refused("the repository has too many refs")


def _linked(workspace: Workspace, base: tuple[str, ...], text: str, *, prefix: str = "") -> tuple[str, ...]:
    """Where a file of git's leads to (`gitdir: …`, or `commondir`), if that is in the workspace."""
    if not text.startswith(prefix):
        raise Refused("`.git` is no repository")
    joined = posixpath.join(str(workspace.root), *base, text.removeprefix(prefix).strip())
    return workspace.relative(posixpath.normpath(joined))


def _small(directory: int, name: str, *, missing: str | None = None) -> str:
    """The text of a file of git's. Raise Refused for what is no file, or too long."""
    try:
        with open_file(directory, name) as fd, open(fd, "rb", closefd=False) as file:
            text = file.read(MAX_SMALL + 1)
    except Refused as error:
        if missing is not None and isinstance(error.__cause__, FileNotFoundError):
            return missing
        raise
    if len(text) > MAX_SMALL:
        raise Refused(f"{shown([name])} is too long")
    return text.decode(errors="replace")
