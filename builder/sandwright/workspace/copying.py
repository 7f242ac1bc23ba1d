"""Copies a project into a workspace, and later the changes of the project since.

The copy has the modes (without set-id bits), times and owners of the project's files, and links as they are.
A path that was changed in the copy stays as it is there: the next apply finds the conflict.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field

from sandwright.errors import HostError
from sandwright.rootfs.unpacking.removal import OPEN_DIRECTORY, remove
from sandwright.workspace import gitindex
from sandwright.workspace.base import Base, Entry, read_base, write_base
from sandwright.workspace.below import (
    OPEN_FILE,
    UNKNOWN,
    OpenFolders,
    closing,
    copied_mode,
    has_parent_in,
    stamp_of,
    state_at,
    status_at,
    try_open,
)
from sandwright.workspace.changes import Change, NewEntry, compare, look_at
from sandwright.workspace.filecopy import copy_file, copy_link, set_attributes
from sandwright.workspace.scan import Hidden, scan_project
from sandwright.workspace.store import Workspace, make, open_tree


@dataclass
class Refreshed:
    """The result of a refresh: how many paths it copied and removed in the copy, and how many bytes.

    `conflicts` are paths that were changed on both sides; they stay as they are. `left_out` are paths of the
    project that are not in the copy, each with the reason; hidden paths are not among them. `linked`
    files have further names elsewhere, by which they may be changed.
    """

    copied: int = 0
    removed: int = 0
    size: int = 0
    conflicts: list[bytes] = field(default_factory=list)
    left_out: list[tuple[bytes, str]] = field(default_factory=list)
    linked: int = 0


def refresh(workspace: Workspace, hidden: Hidden) -> Refreshed:
    """Copy the project into the workspace, or its changes since the last copy.

    `hidden` is true for an absolute path that the policy denies: such a path is not copied, and is removed
    from the copy. The caller holds the lock. Raise HostError for a file that changes again and again while it
    is read, for operations that fail, and if the project is not the directory that was copied.
    """
    make(workspace)
    try:
        with (
            _opened(workspace) as (project, tree, parts),
            contextlib.closing(_Copying(workspace, hidden, project, tree, parts)) as copying,
        ):
            copying.remove_hidden()
            copying.remove_gone()
            copying.copy_differing()
            copying.finish()
            gitindex.remember(workspace, project)
    except OSError as error:
        raise HostError(f"cannot copy {workspace.project}: {error.strerror or error}") from error
    return copying.refreshed


@contextlib.contextmanager
def _opened(workspace: Workspace) -> Iterator[tuple[int, int, int]]:
    """The open directories of project, tree and parts. A tree without a base is a copy that was killed."""
    with closing(os.open(workspace.directory, OPEN_DIRECTORY)) as home:
        begun = status_at(home, "base") is not None
        for name in ("parts",) if begun else ("parts", "tree"):
            with contextlib.suppress(FileNotFoundError):
                remove(name, home)
            os.mkdir(name, 0o700, dir_fd=home)
        with (
            closing(os.open(workspace.project, OPEN_DIRECTORY)) as project,
            closing(open_tree(workspace)) as tree,
            closing(os.open("parts", OPEN_DIRECTORY, dir_fd=home)) as parts,
        ):
            yield project, tree, parts


class _Copying:
    """One project, as it is now, and its copy."""

    def __init__(self, workspace: Workspace, hidden: Hidden, project: int, tree: int, parts: int) -> None:
        self.refreshed = Refreshed()
        self._workspace, self._hidden = workspace, hidden
        self._project, self._tree, self._parts = OpenFolders(project), OpenFolders(tree), parts
        scanned = scan_project(project, workspace.project, hidden)
        self.refreshed.left_out, self._found = scanned.left_out, scanned.found
        self.refreshed.linked = scanned.linked
        status = os.fstat(project)
        identity = status.st_dev, status.st_ino
        self._base = Base(identity)
        self._is_first, self._is_dirty = True, True
        self._changed: dict[bytes, Change] = {}
        with contextlib.suppress(FileNotFoundError):
            self._resume(read_base(workspace), identity)
        self._barred = {path for path, each in self._changed.items() if not _holds_directory(each)}
        self._touched: set[bytes] = set()
        self._modes: dict[bytes, int] = {}
        if self._is_first:
            set_attributes(tree, status, mode=copied_mode(status.st_mode, "directory") | stat.S_IRWXU)

    def _resume(self, base: Base, identity: tuple[int, int]) -> None:
        if base.root != identity:
            raise HostError(
                f"{self._workspace.project} is another directory than the one that the workspace "
                f"{self._workspace.name} has: discard the workspace"
            )
        self._base, self._is_first, self._is_dirty = base, False, False
        self._changed = {each.path: each for each in compare(self._workspace, base, reads_new=False)}

    def _target(self, path: bytes) -> tuple[int | None, bytes]:
        """The directory of a path in the copy, made writable until `finish` gives it its mode again."""
        parent, name = self._tree.parent(path)
        if parent is not None and (mode := stat.S_IMODE(os.fstat(parent).st_mode)) & 0o300 != 0o300:
            self._modes.setdefault(path.rpartition(b"/")[0], mode)
            os.fchmod(parent, mode | stat.S_IRWXU)
        return parent, name

    def _is_hidden(self, path: bytes) -> bool:
        return self._hidden(f"{self._workspace.project.rstrip('/')}/{os.fsdecode(path)}")

    def remove_hidden(self) -> None:
        """Remove paths that the policy denies now, even if they were changed in the copy."""
        absent = [path for path in self._base if path not in self._found]
        for path in dict.fromkeys([*absent, *self._changed]):
            if self._is_hidden(path):
                parent, name = self._target(path)
                if parent is not None and status_at(parent, name) is not None:
                    remove(name, parent)
                    self._tree.close()
                    self._count_removed(path)
                self._forget(path)

    def remove_gone(self) -> None:
        """Remove paths that the project no longer has, if they were not changed in the copy."""
        out = {path for path, _ in self.refreshed.left_out}
        gone = [path for path in self._base if path not in self._found and path not in out]
        for path in sorted(gone, reverse=True):
            change = self._changed.get(path)
            if change is not None and change.new is not None:
                self.refreshed.conflicts.append(path)
            elif not has_parent_in(path, out) and self._is_removed(path):
                self._forget(path)

    def _is_removed(self, path: bytes) -> bool:
        """Remove an unchanged path of the copy; whether it is gone now. A directory stays if it has files."""
        parent, name = self._target(path)
        if parent is None or status_at(parent, name) is None:
            return True
        try:
            if self._base[path].kind == "directory":
                os.rmdir(name, dir_fd=parent)
                self._tree.close()
            else:
                os.unlink(name, dir_fd=parent)
        except OSError:
            self.refreshed.conflicts.append(path)
            return False
        self._count_removed(path)
        return True

    def _count_removed(self, path: bytes) -> None:
        self.refreshed.removed += 1
        self._touched.add(path.rpartition(b"/")[0])

    def _forget(self, path: bytes) -> None:
        self._base.discard(path)
        self._is_dirty = True

    def copy_differing(self) -> None:
        """Copy the files that the project has changed since the last copy."""
        for path, status in self._found.items():
            if self._base.is_copied(path, stamp_of(status)):
                continue
            entry = self._base.get(path)
            is_directory = stat.S_ISDIR(status.st_mode)
            mode = copied_mode(status.st_mode, "directory")
            if entry is not None and is_directory and (entry.kind, entry.mode) == ("directory", mode):
                continue
            change = self._changed.get(path)
            made_by_both = change is not None and entry is None and _holds_directory(change)
            if is_directory and not has_parent_in(path, self._barred) and (change is None or made_by_both):
                self._take_directory(path, entry, status)
            elif change is not None or has_parent_in(path, self._barred):
                self._compare_sides(path, entry, status)
            else:
                self._put(path, entry, status)

    def _compare_sides(self, path: bytes, entry: Entry | None, status: os.stat_result) -> None:
        """Handle a path that was changed in the copy: it is left alone, unless both sides are equal."""
        parent, name = self._project.parent(path)
        state = None if parent is None else state_at(parent, name)
        if state is None:
            return
        state = state._replace(mode=copied_mode(state.mode, state.kind))
        change = self._changed.get(path)
        new = self._with_digest(change)
        size = status.st_size
        if entry is not None and state == entry.state:
            self._set_entry(path, entry._replace(host=stamp_of(status)))
        elif new is not None and state == new.state and state.kind in ("file", "directory", "symlink"):
            self._set_entry(path, Entry(state.kind, state.mode, size, state.digest, copy=new.stamp))
        elif not has_parent_in(path, set(self.refreshed.conflicts)):
            self.refreshed.conflicts.append(path)

    def _with_digest(self, change: Change | None) -> NewEntry | None:
        """The new state of a change; the comparison did not read the new files."""
        if change is None or change.new is None or change.new.digest:
            return None if change is None else change.new
        parent, name = self._tree.parent(change.path)
        status = None if parent is None else status_at(parent, name)
        return None if parent is None or status is None else look_at(parent, name, status)

    def _take_directory(self, path: bytes, entry: Entry | None, status: os.stat_result) -> None:
        """Make a directory in the copy, or give it the mode that it has in the project now."""
        if entry is not None and entry.kind != "directory" and not self._is_removed(path):
            return
        parent, name = self._target(path)
        if parent is None:
            return
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=parent)
        if (made := try_open(parent, name, OPEN_DIRECTORY)) < 0:
            return
        with closing(made):
            mode = copied_mode(status.st_mode, "directory")
            set_attributes(made, status, mode=mode | stat.S_IRWXU)
            if mode & stat.S_IRWXU != stat.S_IRWXU:
                self._modes[path] = mode
        self._copied(path, Entry("directory", mode, 0, ""))

    def _put(self, path: bytes, entry: Entry | None, status: os.stat_result) -> None:
        """Copy a file or link beside the tree, and rename it into its place there."""
        source, name = self._project.parent(path)
        is_applied = entry is not None and entry.host == UNKNOWN and source is not None
        if entry is not None and source is not None and is_applied and state_at(source, name) == entry.state:
            self._set_entry(path, entry._replace(host=stamp_of(status)))
            return
        if entry is not None and entry.kind == "directory" and not self._is_removed(path):
            return
        target, _ = self._target(path)
        if source is None or target is None:
            return
        place_fd, part = (target, name) if self._is_first else (self._parts, b"part")
        made = self._copy_one((source, name), (place_fd, part), path, status)
        if made is None:
            return
        if not self._is_first:
            os.rename(part, name, src_dir_fd=place_fd, dst_dir_fd=target)
            made = made._replace(copy=stamp_of(os.stat(name, dir_fd=target, follow_symlinks=False)))
        self._copied(path, made)

    def _copy_one(
        self, old: tuple[int, bytes], new: tuple[int, bytes], path: bytes, status: os.stat_result
    ) -> Entry | None:
        """Copy a file or link; give None if it is gone, or can't be read."""
        source, name = old
        try:
            if stat.S_ISLNK(status.st_mode):
                return copy_link(source, name, *new, status)
            fd = os.open(name, OPEN_FILE, dir_fd=source)
        except FileNotFoundError:
            return None
        except PermissionError:
            self.refreshed.left_out.append((path, "it cannot be read"))
            return None
        with closing(fd):
            return copy_file(fd, *new, path)

    def _copied(self, path: bytes, entry: Entry) -> None:
        self.refreshed.copied += 1
        self.refreshed.size += entry.size
        self._touched.add(path.rpartition(b"/")[0])
        self._set_entry(path, entry)

    def _set_entry(self, path: bytes, entry: Entry) -> None:
        self._base[path] = entry
        self._is_dirty = True

    def finish(self) -> None:
        """Restore times and modes of directories that were changed, and write the base."""
        for path in sorted(self._touched | self._modes.keys(), reverse=True):
            if (folder := self._tree.folder(path)) is None:
                continue
            if (status := self._found.get(path)) is not None:
                os.utime(folder, ns=(status.st_atime_ns, status.st_mtime_ns))
            if path in self._modes:
                os.fchmod(folder, self._modes[path])
        if self._is_dirty:
            write_base(self._workspace, self._base)

    def close(self) -> None:
        """Let go of the directories that were used last."""
        self._project.close()
        self._tree.close()


def _holds_directory(change: Change) -> bool:
    return change.new is not None and change.new.kind == "directory"
