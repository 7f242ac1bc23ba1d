"""Applies a command's changes in a Pod to the project, where the project did not change meanwhile.

Each path is looked up from the open project, one name at a time, and no link is followed. A file is replaced
by rename, a new one appears by link(2), which replaces nothing. What differs from what travelled stays as it
is here, and is a conflict. So is what lies below a second name of a directory (`GIT~1` of `.git`, under
Windows): a directory counts by the name that its parent lists.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sandwright.errors import HostError
from sandwright.rootfs.tar.entry import EntryKind
from sandwright.rootfs.unpacking.place import umask
from sandwright_kubernetes.sync.returned import ReturnedChanges
from sandwright_kubernetes.sync.rules import ProjectRules
from sandwright_kubernetes.sync.snapshot import Recorded, open_below

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 1 << 20
_PART = ".sandwright-part-"


@dataclass
class Applied:
    """How many paths were changed here, and those that were not, each with the reason."""

    changed: int = 0
    conflicts: list[tuple[bytes, str]] = field(default_factory=list)


def apply_changes(
    project: int, unpacked: int, changes: ReturnedChanges, sent: Mapping[bytes, Recorded], rules: ProjectRules
) -> Applied:
    """Apply the files unpacked below one open directory to another one. `sent` are the uploaded files.

    Raise HostError for what this machine can't do, such as a full disk; what was applied until then stays.
    """
    applying = _Applying(project, unpacked, sent, rules)
    try:
        applying.remove(changes.gone)
        for path, entry in sorted(changes.made.items()):
            applying.put(path, entry.kind, executable=bool(entry.mode & 0o100))
    except OSError as error:
        raise HostError(f"what the command wrote can't be put into the project: {error.strerror}") from error
    return applying.applied


class _Applying:
    """One project, and what comes into it."""

    def __init__(
        self, project: int, unpacked: int, sent: Mapping[bytes, Recorded], rules: ProjectRules
    ) -> None:
        self.applied = Applied()
        self._project = project
        self._unpacked = unpacked
        self._sent = dict(sent)
        self._rules = rules
        self._named = {path for path, record in sent.items() if record.kind is EntryKind.DIRECTORY}

    def remove(self, gone: list[bytes]) -> None:
        """Remove what the command removed: files that are as they were sent, and empty directories."""
        roots = set(gone)
        below = [path for path in self._sent if path in roots or _has_parent_in(path, roots)]
        for path in sorted(below, reverse=True):
            record = self._sent[path]
            with self._open_parent(path) as (parent, name):
                if parent is None or not _exists_at(parent, name):
                    pass  # it was removed here, too
                elif not self._rules.takes(path):
                    self._conflict(path, "the policy denies its removal")
                    continue
                elif record.kind is EntryKind.DIRECTORY:
                    self._remove_directory(parent, name, path)
                elif self._matches_record(parent, name, record):
                    os.unlink(name, dir_fd=parent)
                    self.applied.changed += 1
                else:
                    self._conflict(path, "it was changed here, and removed there")
            self._sent.pop(path, None)

    def _remove_directory(self, parent: int, name: bytes, path: bytes) -> None:
        try:
            os.rmdir(name, dir_fd=parent)
            self.applied.changed += 1
        except FileNotFoundError:
            pass
        except OSError:
            self._conflict(path, "it was removed there, and something is in it here")

    def put(self, path: bytes, kind: EntryKind, *, executable: bool) -> None:
        """Make or replace one path."""
        with self._open_parent(path) as (parent, name):
            if parent is None:
                self._conflict(path, "its directory is not there, is a link, or has another name")
            elif kind is EntryKind.DIRECTORY:
                self._put_directory(parent, name, path)
            elif self._is_done(path, parent, name, kind, executable=executable):
                pass
            elif self._is_unchanged(path, parent, name):
                self._put_other(path, parent, name, kind, executable=executable)

    def _put_directory(self, parent: int, name: bytes, path: bytes) -> None:
        try:
            os.mkdir(name, 0o777, dir_fd=parent)
            _give_ownership(parent, name)
            self._named.add(path)
            self.applied.changed += 1
        except FileExistsError:
            found = self._open_named(parent, name, path)
            if found is None:
                self._conflict(path, "it is a directory there, and something else here")
            else:
                os.close(found)

    def _is_done(self, path: bytes, parent: int, name: bytes, kind: EntryKind, *, executable: bool) -> bool:
        """Whether the same is here already."""
        with self._open_unpacked(path) as (source, other):
            record = _record_at(source, other, kind, executable=executable)
        return record is not None and self._matches_record(parent, name, record)

    def _is_unchanged(self, path: bytes, parent: int, name: bytes) -> bool:
        """Whether the local file is the uploaded one; otherwise it is a conflict."""
        record = self._sent.get(path)
        if record is None:
            if _exists_at(parent, name):
                self._conflict(path, "it was made here, too")
                return False
            return True
        if record.kind is EntryKind.DIRECTORY or not _exists_at(parent, name):
            self._conflict(path, "it was changed there, and is not there here any more")
            return False
        if not self._matches_record(parent, name, record):
            self._conflict(path, "it was changed here, too")
            return False
        return True

    def _put_other(self, path: bytes, parent: int, name: bytes, kind: EntryKind, *, executable: bool) -> None:
        part = f"{_PART}{secrets.token_hex(8)}".encode()
        try:
            with self._open_unpacked(path) as (source, other):
                if kind is EntryKind.SYMLINK:
                    os.symlink(os.readlink(other, dir_fd=source), part, dir_fd=parent)
                else:
                    _copy_file(
                        source, other, parent, part, mode=self._mode_for(parent, name, executable=executable)
                    )
            _give_ownership(parent, part, like=name)
            if path in self._sent:
                if not self._is_unchanged(path, parent, name):  # once more, as late as can be
                    return
                os.rename(part, name, src_dir_fd=parent, dst_dir_fd=parent)
            else:
                os.link(part, name, src_dir_fd=parent, dst_dir_fd=parent, follow_symlinks=False)
            self.applied.changed += 1
        except FileExistsError:
            self._conflict(path, "it was made here, too")
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(part, dir_fd=parent)

    @staticmethod
    def _mode_for(parent: int, name: bytes, *, executable: bool) -> int:
        """Of a new file as this process makes it; of one that is there as it is. Never setuid or setgid."""
        try:
            before = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode & 0o777
        except FileNotFoundError:
            before = 0o666 & ~_umask()
        return before | (before & 0o444) >> 2 if executable else before & ~0o111

    def _matches_record(self, parent: int, name: bytes, record: Recorded) -> bool:
        """Whether a name is what was recorded."""
        return _record_at(parent, name, record.kind) == record

    @contextlib.contextmanager
    def _open_parent(self, path: bytes) -> Iterator[tuple[int | None, bytes]]:
        """The open directory of a path in the project, None where there is none; and the name in it."""
        folder, _, name = path.rpartition(b"/")
        found = self._open_folder(folder)
        try:
            yield found, name
        finally:
            if found is not None:
                os.close(found)

    def _open_folder(self, folder: bytes) -> int | None:
        held, path = os.dup(self._project), b""
        for name in filter(None, folder.split(b"/")):
            path = path + b"/" + name if path else name
            inner = self._open_named(held, name, path)
            os.close(held)
            if inner is None:
                return None
            held = inner
        return held

    def _open_named(self, parent: int, name: bytes, path: bytes) -> int | None:
        """A directory, if that is its name; None where nothing is, a link, or what has another name."""
        found = open_below(parent, name)
        if found is not None and path not in self._named:
            if os.fsdecode(name) not in os.listdir(parent):
                os.close(found)
                return None
            self._named.add(path)
        return found

    @contextlib.contextmanager
    def _open_unpacked(self, path: bytes) -> Iterator[tuple[int, bytes]]:
        folder, _, name = path.rpartition(b"/")
        found = open_below(self._unpacked, folder)
        if found is None:
            raise HostError("what was unpacked is gone")
        try:
            yield found, name
        finally:
            os.close(found)

    def _conflict(self, path: bytes, reason: str) -> None:
        self.applied.conflicts.append((path, reason))


def _record_at(
    parent: int, name: bytes, kind: EntryKind, *, executable: bool | None = None
) -> Recorded | None:
    """The recorded form of the file with a name; None for another kind, or if it can't be read."""
    try:
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if kind is EntryKind.SYMLINK and stat.S_ISLNK(status.st_mode):
            return Recorded(kind, os.readlink(name, dir_fd=parent))
        if kind is not EntryKind.FILE or not stat.S_ISREG(status.st_mode):
            return None
        fd = os.open(name, _READ, dir_fd=parent)
    except OSError:
        return None
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        digest = hashlib.file_digest(file, "sha256").digest()
    return Recorded(kind, digest, bool(status.st_mode & 0o100) if executable is None else executable)


def _copy_file(source: int, name: bytes, parent: int, part: bytes, *, mode: int) -> None:
    fd = os.open(name, _READ, dir_fd=source)
    with (
        os.fdopen(fd, "rb") as content,
        os.fdopen(os.open(part, _NEW, 0o600, dir_fd=parent), "wb") as sink,
    ):
        while piece := content.read(_CHUNK):
            sink.write(piece)
        sink.flush()
        os.fchmod(sink.fileno(), mode)


def _give_ownership(parent: int, name: bytes, like: bytes = b"") -> None:
    """Where root runs this: what it makes belongs to whom the file belonged, or the directory."""
    if os.geteuid() != 0:
        return
    try:
        owner = os.stat(like or b".", dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        owner = os.fstat(parent)
    os.chown(name, owner.st_uid, owner.st_gid, dir_fd=parent, follow_symlinks=False)


def _exists_at(parent: int, name: bytes) -> bool:
    try:
        os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _has_parent_in(path: bytes, roots: set[bytes]) -> bool:
    at = path.find(b"/")
    while at > 0:
        if path[:at] in roots:
            return True
        at = path.find(b"/", at + 1)
    return False


def _umask() -> int:
    return umask()
