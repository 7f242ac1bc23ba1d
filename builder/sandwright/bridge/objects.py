"""Copies a repository's objects from the workspace into files of the bridge, or reads a few of them.

For a push they are copied as they are: git checks each one when it reads it. The index of a pack is not
copied, but made here, by the program that receives packs from the network. Only files named like objects are
copied; links and alternates are not followed. The few objects that a commit or tag names are read in place.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from sandwright import process
from sandwright.bridge.grammar import Refused, quote_words
from sandwright.bridge.repository import RepositoryLocation, bare_environment, names_in
from sandwright.bridge.restricted import RestrictedGit
from sandwright.bridge.workspace import OpenWorkspace, open_file
from sandwright.errors import CommandFailed

MAX_OBJECTS = 16 << 30
"""The most bytes of objects that a bridge copies, for all repositories. Each file counts as at least one
block."""

MAX_READ = 16 << 20
"""The most bytes of all objects that a commit or tag names, which are read into memory."""

READ_SECONDS = 30.0
"""Seconds for reading them."""

_FANOUT = re.compile(r"[0-9a-f]{2}")
_LOOSE = re.compile(r"[0-9a-f]{38}|[0-9a-f]{62}")
_PACK = re.compile(r"pack-(?:[0-9a-f]{40}|[0-9a-f]{64})\.pack")


def copy_objects(
    workspace: OpenWorkspace,
    location: RepositoryLocation,
    store: Path,
    budget: Budget,
    *,
    deadline: float,
    restricted: RestrictedGit,
) -> None:
    """Copy a repository's missing objects into our bare repository, `store`.

    `restricted` starts git. Raise Refused when it is too much, takes until after `deadline` (monotonic), or a
    pack is not one.
    """
    with workspace.directory((*location.common, "objects")) as objects:
        for name in names_in(objects):
            if _FANOUT.fullmatch(name):
                _copy_all(objects, name, names=_LOOSE, target=store / "objects" / name, budget=budget)
        incoming = store / "incoming"
        packs = {path.name for path in (store / "objects" / "pack").glob("*.pack")}
        _copy_all(objects, "pack", names=_PACK, target=incoming, budget=budget, packs=packs)
    for pack in sorted(incoming.glob("*.pack")):
        _index_pack(pack, store, restricted, timeout=max(0.1, deadline - time.monotonic()))


class Budget:
    """The bytes that all calls together may still copy."""

    def __init__(self, amount: int = MAX_OBJECTS) -> None:
        """`amount` is in bytes."""
        self._left = amount
        self._lock = threading.Lock()

    def take(self, amount: int) -> None:
        """Take bytes for a file, before it is copied. Raise Refused if too few are left."""
        amount = max(amount, 4096)
        with self._lock:
            if amount > self._left:
                raise Refused(f"the repositories have more than {MAX_OBJECTS >> 30} GiB of objects")
            self._left -= amount


def read_objects(
    workspace: OpenWorkspace,
    location: RepositoryLocation,
    names: Sequence[str],
    scratch: Path,
    restricted: RestrictedGit,
) -> Mapping[str, tuple[str, bytes]]:
    """Objects of a repository by name: type and content. Those that are not there are left out.

    They are read in place, because a copy of a large repository takes minutes. So the input of git is
    untrusted, and so is its output: the caller compares content and name. `names` have one length, `scratch`
    is a directory of ours. Raise Refused for more than MAX_READ bytes, and where git fails or takes longer
    than READ_SECONDS.
    """
    repository, listed, answer = scratch / "objects", scratch / "names", scratch / "answer"
    _make_empty(repository, sha256=len(names[0]) == 64)
    listed.write_text("".join(f"{name}\n" for name in dict.fromkeys(names)), encoding="ascii")
    parts = (*location.common, "objects")
    with workspace.directory(parts) as fd, listed.open("rb") as stdin, answer.open("w+b") as stdout:
        linux = sys.platform == "linux"
        objects = f"/proc/self/fd/{fd}" if linux else str(workspace.root.joinpath(*parts))
        words = (*restricted.local(repository, read=(objects,)), f"--git-dir={repository}")
        try:
            process.run(
                *words, "cat-file", "--batch",
                stdin=stdin, stdout=stdout, cwd=repository, timeout=READ_SECONDS,
                env={**bare_environment(), "GIT_OBJECT_DIRECTORY": objects}, pass_fds=(fd,) if linux else (),
                stop=lambda: os.fstat(stdout.fileno()).st_size > MAX_READ,
            )  # fmt: skip
        except CommandFailed as error:
            why = quote_words([error.stderr.strip() or "git was ended"])
            raise Refused(f"cannot read an object of this repository: {why}") from error
        stdout.seek(0)
        output = stdout.read(MAX_READ + 1)
    if len(output) > MAX_READ:
        raise Refused(f"the objects that are named have more than {MAX_READ >> 20} MiB")
    return _split_batch(output)


def _make_empty(repository: Path, *, sha256: bool) -> None:
    """A bare repository without refs. Its objects are named by SHA-1, or by SHA-256."""
    (repository / "objects").mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "HEAD").write_text("ref: refs/heads/main\n", encoding="ascii")
    version = "1\n[extensions]\n\tobjectFormat = sha256" if sha256 else "0"
    (repository / "config").write_text(f"[core]\n\trepositoryformatversion = {version}\n", encoding="ascii")


def _split_batch(output: bytes) -> dict[str, tuple[str, bytes]]:
    """Parse output of `git cat-file --batch`: a line with name, type and size; content; a newline."""
    found: dict[str, tuple[str, bytes]] = {}
    at = 0
    while (end := output.find(b"\n", at)) >= 0:
        words = output[at:end].decode("ascii", "replace").split()
        at = end + 1
        if len(words) == 3 and words[2].isdecimal():
            size = int(words[2])
            found[words[0]] = (words[1], output[at : at + size])
            at += size + 1
    return found


def _copy_all(
    above: int,
    name: str,
    *,
    names: re.Pattern[str],
    target: Path,
    budget: Budget,
    packs: set[str] | None = None,
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
        there = packs if packs is not None else {path.name for path in target.iterdir()}
        for each in names_in(fd):
            if names.fullmatch(each) and each not in there:
                with _regular(fd, each) as source:
                    if source is not None:
                        _copy_object(source, target / each, budget)
    finally:
        os.close(fd)


@contextlib.contextmanager
def _regular(directory: int, name: str) -> Iterator[int | None]:
    """Open a regular file for reading; give None for any other file."""
    with contextlib.ExitStack() as stack:
        fd = None
        with contextlib.suppress(Refused):
            fd = stack.enter_context(open_file(directory, name))
        yield fd


def _copy_object(source: int, target: Path, budget: Budget) -> None:
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


def _index_pack(pack: Path, store: Path, restricted: RestrictedGit, *, timeout: float) -> None:
    hashed = "sha256" if len(pack.stem) == len("pack-") + 64 else "sha1"
    try:
        process.run(
            *restricted.local(store), f"--git-dir={store}", "index-pack", f"--object-format={hashed}", pack,
            timeout=timeout, cwd=store, env=bare_environment(),
        )  # fmt: skip
    except CommandFailed as error:
        if error.status is None:
            raise Refused(f"to read {pack.name} takes longer than a call may") from error
        raise Refused(
            f"{pack.name} is no pack that git takes: {quote_words([error.stderr.strip()])}"
        ) from error
    finally:
        for path in (pack, pack.with_suffix(".rev")):
            if not pack.with_suffix(".idx").exists():
                path.unlink(missing_ok=True)
    packs = store / "objects" / "pack"
    for path in (pack, pack.with_suffix(".idx")):  # the pack first: an index without its pack is a fault
        shutil.move(path, packs / path.name)
    pack.with_suffix(".rev").unlink(missing_ok=True)
