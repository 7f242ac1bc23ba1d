"""A project as it is now, for a Pod: the visible part of it goes into layers, and is recorded.

The project is walked by open descriptors, one name at a time, and no link is followed. Denied paths are
read before and after: a file that was at a denied path either time is not sent under another name.
Files of one directory are in one layer, out of `LAYERS`, so that the next run sends only the layers in which
something has changed.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from sandwright.errors import HostError
from sandwright.rootfs.tar.entry import WHITEOUT, EntryKind, TarEntry, normalise, show
from sandwright.rootfs.unpacking.removal import OPEN_DIRECTORY
from sandwright.workspace.below import DEEPEST, OPEN_FILE, closing, open_below, try_open
from sandwright_kubernetes.sync.rules import ProjectRules

LAYERS = 16
"""Layers of a project at most. A root file system has a bounded number of them (128, overlayfs)."""

MOST_BYTES = 4 << 30
"""Bytes of uploaded files: the limit of the volume."""

MOST_FILES = 500_000
OWNER = 65532
ROOT = b"project"
"""The project's path in the image."""

_CHUNK = 1 << 18

Identity = tuple[int, int]
Put = Callable[[int, TarEntry, Iterator[bytes]], None]
"""Takes an entry for a layer, with its content."""


@dataclass(frozen=True)
class Recorded:
    """An uploaded path: its kind, a file's SHA-256 or a link's text, and whether it is executable."""

    kind: EntryKind
    content: bytes = b""
    executable: bool = False


@dataclass
class Snapshot:
    """The uploaded files by path, and the paths that were left out, with the reason."""

    found: dict[bytes, Recorded] = field(default_factory=dict)
    left_out: list[tuple[bytes, str]] = field(default_factory=list)
    bytes: int = 0


def take_snapshot(rules: ProjectRules, put: Put) -> Snapshot:
    """Walk the project, and hand everything that is shown to `put`.

    Raise HostError for a project that is too large, that changes while it is read, or in which a denied file
    has a name that is shown, too.
    """
    try:
        root = os.open(rules.project, OPEN_DIRECTORY)
    except OSError as error:
        raise HostError(f"{rules.project}: {error.strerror}") from error
    try:
        walk = _Walk(rules, put, hidden=denied_files(root, rules))
        walk.enter(root, b"", 0)
        walk.placeholder()
        for identity in denied_files(root, rules) & walk.identities.keys():
            raise _denied(walk.identities[identity])
    finally:
        os.close(root)
    return walk.snapshot


def denied_files(root: int, rules: ProjectRules) -> set[Identity]:
    """The files and directories at paths that the policy denies, by device and number."""
    found: set[Identity] = set()
    for path in rules.denied:
        parent, _, name = path.rpartition(b"/")
        above = open_below(root, parent)
        if above is None:
            continue
        try:
            _gather(above, name, path, rules, found)
        finally:
            os.close(above)
    return found


def _gather(above: int, name: bytes, path: bytes, rules: ProjectRules, found: set[Identity]) -> None:
    """The entry `name` in an open directory, and all below it, without paths that are allowed again."""
    try:
        status = os.stat(name, dir_fd=above, follow_symlinks=False)
    except FileNotFoundError:
        return
    if not rules.allows_reading(path):
        found.add((status.st_dev, status.st_ino))
    if not stat.S_ISDIR(status.st_mode) or path.count(b"/") > DEEPEST:
        return
    try:
        inner = os.open(name, OPEN_DIRECTORY, dir_fd=above)
    except OSError:  # we can't read it, or it has become something else
        return
    try:
        for each in os.listdir(inner):  # noqa: PTH208 - by descriptor
            _gather(inner, os.fsencode(each), path + b"/" + os.fsencode(each), rules, found)
    finally:
        os.close(inner)


def layer_of(folder: bytes) -> int:
    """The number of the layer with a directory's files."""
    return hashlib.sha256(folder).digest()[0] % LAYERS


class _Walk:
    """A walk through a project."""

    def __init__(self, rules: ProjectRules, put: Put, *, hidden: set[Identity]) -> None:
        self.snapshot = Snapshot()
        self.identities: dict[Identity, bytes] = {}
        self._rules = rules
        self._put = put
        self._hidden = hidden

    def enter(self, directory: int, path: bytes, depth: int) -> None:
        """All of an open directory."""
        if depth > DEEPEST:
            raise HostError(f"{show(path)}: the project is deeper than {DEEPEST} directories")
        self._see(os.fstat(directory), path)
        if path:
            self._add_record(
                path, path, Recorded(EntryKind.DIRECTORY), TarEntry(path, EntryKind.DIRECTORY, 0o755)
            )
        for name in sorted(map(os.fsencode, os.listdir(directory))):
            inner = path + b"/" + name if path else name
            self._visit(directory, name, inner, depth)

    def _visit(self, directory: int, name: bytes, path: bytes, depth: int) -> None:
        """A name in an open directory, or the visible paths below it."""
        if self._rules.shows(path):
            self._add_name(directory, name, path, depth)
        elif self._rules.leads_to_shown(path):
            below = try_open(directory, name, OPEN_DIRECTORY)
            if below >= 0:
                with closing(below):
                    self._lead(below, path, depth + 1)

    def _lead(self, directory: int, path: bytes, depth: int) -> None:
        """Only the visible paths below a hidden directory."""
        for name in sorted(map(os.fsencode, os.listdir(directory))):
            inner = path + b"/" + name
            self._visit(directory, name, inner, depth)

    def placeholder(self) -> None:
        """Add each path on which the Pod mounts something else, empty, whether it exists here or not."""
        for path, mount in self._rules.covered():
            kind = EntryKind.FILE if mount.file else EntryKind.DIRECTORY
            empty = hashlib.sha256().digest() if mount.file else b""
            mode = 0o644 if mount.file else 0o755
            self._add_record(path, path, Recorded(kind, empty), TarEntry(path, kind, mode))

    def _add_name(self, directory: int, name: bytes, path: bytes, depth: int) -> None:
        if name.startswith(WHITEOUT):
            self._leave(path, "in a layer its name means that another file is gone")
            return
        try:
            normalise(path)
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except ValueError as error:
            raise HostError(f"{show(path)}: {error}") from error
        except FileNotFoundError:
            return
        if stat.S_ISDIR(status.st_mode):
            if (below := try_open(directory, name, OPEN_DIRECTORY)) < 0:
                self._leave(path, "it cannot be read")
                return
            with closing(below):
                self.enter(below, path, depth + 1)
        elif stat.S_ISLNK(status.st_mode):
            self._add_link(directory, name, path, status)
        elif stat.S_ISREG(status.st_mode):
            self._add_file(directory, name, path)
        else:
            self._leave(path, "it is neither a file, a directory nor a link")

    def _add_link(self, directory: int, name: bytes, path: bytes, status: os.stat_result) -> None:
        self._see(status, path)
        text = os.readlink(name, dir_fd=directory)
        entry = TarEntry(path, EntryKind.SYMLINK, 0o777, mtime_ns=status.st_mtime_ns, link=text)
        self._add_record(path, path.rpartition(b"/")[0], Recorded(EntryKind.SYMLINK, text), entry)

    def _add_file(self, directory: int, name: bytes, path: bytes) -> None:
        if (fd := try_open(directory, name, OPEN_FILE)) < 0:
            self._leave(path, "it cannot be read")
            return
        with closing(fd):
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise HostError(f"{show(path)} was replaced while the project was read")
            self._see(status, path)
            self.snapshot.bytes += status.st_size
            if self.snapshot.bytes > MOST_BYTES:
                raise HostError(f"the project has more than {MOST_BYTES >> 30} GiB of files to send")
            executable = bool(status.st_mode & 0o100)
            digest = hashlib.sha256()
            entry = TarEntry(
                path,
                EntryKind.FILE,
                0o755 if executable else 0o644,
                size=status.st_size,
                mtime_ns=status.st_mtime_ns,
            )
            content = _read_content(fd, status.st_size, path, digest.update)
            self._add_record(path, path.rpartition(b"/")[0], Recorded(EntryKind.FILE), entry, content)
            self.snapshot.found[path] = Recorded(EntryKind.FILE, digest.digest(), executable)

    def _see(self, status: os.stat_result, path: bytes) -> None:
        """Refuse a file that has, or had, a name that is denied."""
        identity = status.st_dev, status.st_ino
        if identity in self._hidden:
            raise _denied(path)
        self.identities[identity] = path

    def _add_record(
        self,
        path: bytes,
        folder: bytes,
        record: Recorded,
        entry: TarEntry,
        content: Iterator[bytes] | None = None,
    ) -> None:
        if len(self.snapshot.found) >= MOST_FILES:
            raise HostError(f"the project has more than {MOST_FILES} files to send")
        self.snapshot.found[path] = record
        entry.path = ROOT + b"/" + path
        entry.uid = entry.gid = OWNER
        self._put(layer_of(folder), entry, iter(()) if content is None else content)

    def _leave(self, path: bytes, reason: str) -> None:
        self.snapshot.left_out.append((path, reason))


def _read_content(fd: int, size: int, path: bytes, hashed: Callable[[bytes], object]) -> Iterator[bytes]:
    """As many bytes of a file as it had."""
    remaining = size
    while remaining:
        piece = os.read(fd, min(_CHUNK, remaining))
        if not piece:
            raise HostError(f"{show(path)} became shorter while the project was read")
        hashed(piece)
        remaining -= len(piece)
        yield piece


def _denied(path: bytes) -> HostError:
    return HostError(f"{show(path)} is the same file as one that the policy denies: nothing was sent")
