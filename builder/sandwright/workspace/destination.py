"""Makes changes in a project, each path only if it still has the state from which the change began.

Each path is looked up from the open project, one name at a time, and no link is followed. A path with another
state is a conflict, and stays as it is. So is a path below a second name of a directory (`GIT~1` of `.git`,
under Windows): only the name that the parent lists counts.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from sandwright.rootfs.unpacking.removal import OPEN_DIRECTORY
from sandwright.workspace.below import (
    OpenFolders,
    PathState,
    closing,
    may_be_replaced,
    state_at,
    status_at,
    try_open,
)
from sandwright.workspace.exchange import Unsupported, rename_new
from sandwright.workspace.replacing import CHANGED, MADE, ChangeRules, Replacing, Slot, Source

PART = b".sandwright-part-"
"""The prefix of temporary names, before a file is renamed into its place."""


@dataclass
class Applied:
    """The number of paths changed in the project, and the paths left unchanged, each with the reason."""

    changed: int = 0
    conflicts: list[tuple[bytes, str]] = field(default_factory=list)


class Destination:
    """One open project, whose paths are changed."""

    def __init__(
        self,
        root: int,
        source: Source,
        rules: ChangeRules | None = None,
        *,
        named: Iterable[bytes] = (),
    ) -> None:
        """`named` are directories whose names were checked before."""
        self.applied = Applied()
        self.rules = ChangeRules() if rules is None else rules
        self._named = set(named)
        self._folders = _NamedFolders(root, self._named)
        self.replacing = Replacing(source, self.rules)

    def close(self) -> None:
        """Let go of the directory that was used last."""
        self._folders.close()

    def find(self, path: bytes) -> PathState | None:
        """The state of a path; None for nothing."""
        parent, name = self._folders.parent(path)
        return None if parent is None else state_at(parent, name)

    def slot(self, path: bytes, part: bytes) -> Slot | None:
        """A path's name in its open directory; None if there is no such directory.

        It is valid until another path is looked up.
        """
        parent, name = self._folders.parent(path)
        return None if parent is None else Slot(parent, name, path, part)

    def remove(self, path: bytes, before: PathState, part: bytes = b"") -> bool:
        """Remove a path if it is unchanged, a directory only if it is empty; tell whether it is gone now."""
        with self._resolved(path) as reasons:
            slot = self.slot(path, part or _random_part())
            if slot is None or (status := status_at(slot.parent, slot.name)) is None:
                pass
            elif stat.S_ISDIR(status.st_mode):
                reasons.append(self._remove_directory(slot) if before.kind == "directory" else CHANGED)
            elif not self.rules.is_same(state_at(slot.parent, slot.name), before):
                reasons.append("it was changed in the project, and removed there")
            else:
                reasons.append(self.replacing.remove(slot, before))
        return not any(reasons)

    def _remove_directory(self, slot: Slot) -> str:
        try:
            os.rmdir(slot.name, dir_fd=slot.parent)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            return "it was removed there, and something is in it in the project"
        self._named.discard(slot.path)
        return ""

    def put(self, path: bytes, before: PathState | None, after: PathState, part: bytes = b"") -> bool:
        """Give a path the state `after`, if it still has its old one; tell whether it has the new one now."""
        with self._resolved(path) as reasons:
            slot = self.slot(path, part or _random_part())
            if slot is None:
                reasons.append("its directory is not in the project, is a link, or has another name")
                return False
            found = state_at(slot.parent, slot.name)
            if after.kind == "directory" and (found is None or found.kind == "directory"):
                reasons.extend(self._put_directory(slot, found, before, after))
            elif not self.rules.is_same(found, after):
                reasons.append(self._put_file(slot, found, before, after))
        return not any(reasons)

    def _put_file(
        self, slot: Slot, found: PathState | None, before: PathState | None, after: PathState
    ) -> str:
        if not self.rules.is_same(found, before):
            return MADE if before is None else CHANGED if found else "it was removed in the project"
        if after.kind not in ("file", "symlink"):
            return f"it is a {after.kind}"
        if not after.digest:
            return "it was not read"
        if found is None:
            return self.replacing.create(slot, after)
        if found.kind == "directory":
            return "it is a directory in the project"
        if found.kind == after.kind == "file" and found.digest == after.digest:
            return self.replacing.set_mode(slot, found, after)
        return self.replacing.replace(slot, found, after)

    def _put_directory(
        self, slot: Slot, found: PathState | None, before: PathState | None, after: PathState
    ) -> Iterator[str]:
        """Make or change a directory.

        Yield the reason if that fails, an empty one if it was done, and none if nothing was to do.
        """
        if found is None:
            yield self._add_directory(slot, after) if before is None else "it was removed in the project"
        elif not self._folders.is_named(slot.parent, slot.name, slot.path):
            yield "it is a directory there, and something else in the project"
        elif before is not None and not self.rules.is_same(found, after):
            if self.rules.is_same(found, before):
                self._give_mode(slot.parent, slot.name, after)
                yield ""
            else:
                yield CHANGED

    def _add_directory(self, slot: Slot, after: PathState) -> str:
        """Make a directory, with its mode in one step where the file system can rename so."""
        try:
            os.mkdir(slot.part, 0o700, dir_fd=slot.parent)
            self._give_mode(slot.parent, slot.part, after, is_new=True)
            rename_new(slot.parent, slot.part, slot.name)
        except Unsupported:
            os.rmdir(slot.part, dir_fd=slot.parent)
            os.mkdir(slot.name, 0o700, dir_fd=slot.parent)
            self._give_mode(slot.parent, slot.name, after, is_new=True)
        except FileExistsError:
            os.rmdir(slot.part, dir_fd=slot.parent)
            return MADE
        self._named.add(slot.path)
        return ""

    def _give_mode(self, parent: int, name: bytes, after: PathState, *, is_new: bool = False) -> None:
        """The mode of a directory, and for root the owner. Its set-group-id bit is that of the project."""
        with closing(os.open(name, OPEN_DIRECTORY, dir_fd=parent)) as fd:
            status, above = os.fstat(fd), os.fstat(parent)
            if is_new and os.geteuid() == 0:
                os.fchown(fd, above.st_uid, above.st_gid)
            os.fchmod(fd, self.rules.mode_for(after, status) | status.st_mode & stat.S_ISGID)

    @contextlib.contextmanager
    def _resolved(self, path: bytes) -> Iterator[list[str]]:
        """Count a changed path, or collect the reason why it was not changed.

        Errors of the host, and paths that it changed meanwhile, are conflicts, too.
        """
        reasons: list[str] = []
        try:
            yield reasons
        except OSError as error:
            if not may_be_replaced(error):
                raise
            reasons.append(f"it cannot be changed in the project: {error.strerror}")
        self.applied.changed += reasons == [""]
        self.applied.conflicts += [(path, reason) for reason in reasons if reason]


class _NamedFolders(OpenFolders):
    """Opens directories by the name that their parent lists, and by no other."""

    def __init__(self, root: int, named: set[bytes]) -> None:
        super().__init__(root)
        self._named = named

    def open(self, folder: bytes) -> int | None:
        """Open a directory; None if it does not exist, is a link, or is listed by another name."""
        opened, path = os.dup(self._root), b""
        for name in filter(None, folder.split(b"/")):
            path = path + b"/" + name if path else name
            inner = try_open(opened, name, OPEN_DIRECTORY)
            named = inner >= 0 and self.is_named(opened, name, path)
            os.close(opened)
            if not named:
                if inner >= 0:
                    os.close(inner)
                return None
            opened = inner
        return opened

    def is_named(self, parent: int, name: bytes, path: bytes) -> bool:
        """Whether the parent lists the directory by this name, so that it is not a second name."""
        if path not in self._named:
            if os.fsdecode(name) not in os.listdir(parent):
                return False
            self._named.add(path)
        return True


def _random_part() -> bytes:
    return PART + secrets.token_hex(8).encode()
