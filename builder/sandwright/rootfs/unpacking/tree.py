"""The root file system that is being made, as open directories.

The one place where names of an archive meet the file system. Every step is a name of one component, taken
in a directory that is already open, with O_NOFOLLOW: there is no joined path that a link could turn
elsewhere. Symbolic links on the way are followed by hand, as after a chroot: `/` is the root, and `..`
stops there.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque

from sandwright.rootfs.tar.entry import WHITEOUT, EntryRefused, show
from sandwright.rootfs.tar.limits import DEFAULT, ArchiveLimits
from sandwright.rootfs.unpacking.removal import open_directory, remove_tree
from sandwright.rootfs.unpacking.steps import LONGEST, StepBudget

_MOST_LINKS = 40  # MAXSYMLINKS of Linux
_OPEN = 192  # directories held open; a process may have 1,024 files by default
_ON_THE_WAY = 16  # of them held from one walk; a deep one leaves the ends of others open
_ALIASES = 4096
_IMPLIED_MODE = 0o755
_OWNER = 0o700


class OpenDirectory:
    """An open directory of the tree.

    `mode` and `mtime_ns` are its final values. They are set on disk when it is closed: until then its owner
    must be able to write in it, and every new name in it changes its time. `inherits` is true where new files
    get the directory's group, and new directories its setgid bit.
    """

    def __init__(self, path: bytes, fd: int, status: os.stat_result) -> None:
        """`path` is where it really is in the tree; `fd` is taken over."""
        self.path = path
        self.fd = fd
        self.mode = stat.S_IMODE(status.st_mode)
        self.mtime_ns = status.st_mtime_ns
        self.inherits = bool(self.mode & stat.S_ISGID)
        self._on_disk = self.mode
        if self.mode & _OWNER != _OWNER:
            self._chmod(self.mode | _OWNER)

    def set_mode(self, mode: int) -> None:
        """Give it `mode`. Until it is closed the owner keeps all rights; the root admits no other user."""
        self.mode = mode
        self._chmod(mode | _OWNER if self.path else _OWNER)
        self.inherits = bool(mode & stat.S_ISGID)

    def close(self) -> None:
        """Write its mode and times to disk, and close it."""
        try:
            self._chmod(self.mode)
            os.utime(self.fd, ns=(self.mtime_ns, self.mtime_ns))
        finally:
            os.close(self.fd)

    def _chmod(self, mode: int) -> None:
        if mode != self._on_disk:
            os.fchmod(self.fd, mode)
            self._on_disk = mode


class RootfsTree:
    """The directories below one root, found by path, a bounded number of them open.

    Paths are those of entries: relative, normalised, and as written, so that a component may be a symbolic
    link. No other process may change anything below the root. `close` finishes all directories; `abandon`
    only lets go of them.
    """

    def __init__(self, root: int, *, limits: ArchiveLimits = DEFAULT) -> None:
        """`root` is an open, empty directory, of which a duplicate is kept."""
        self.root = OpenDirectory(b"", os.dup(root), os.fstat(root))
        self.root.set_mode(_IMPLIED_MODE)
        self.root.mtime_ns = 0
        self._limits = limits
        self._open: dict[bytes, OpenDirectory] = {b"": self.root}
        self._aliases: dict[bytes, bytes] = {}  # a path through links: the path where it leads
        self._steps = StepBudget()

    def directory(self, path: bytes) -> OpenDirectory:
        """The directory that `path` leads to; made, with mode 0755 and owned by us, where it is missing.

        Valid until the next call. Raise EntryRefused when something else is in the way, links loop, or the
        step budget is spent.
        """
        self._steps.allow()
        found = self._open_directory_or_none(path)
        if found is None:
            found = self._walk_to(path, make=True)
            assert found is not None
        return found

    def existing(self, path: bytes) -> OpenDirectory | None:
        """The directory that `path` leads to, or None when it leads to nothing or to something else."""
        self._steps.allow()
        return self._open_directory_or_none(path) or self._walk_to(path, make=False)

    def make(self, parent: OpenDirectory, name: bytes) -> OpenDirectory:
        """A new directory, mode 0700 for now. Raise FileExistsError when something is there."""
        os.mkdir(name, _OWNER, dir_fd=parent.fd)
        return self._hold(parent, name)

    def enter(self, parent: OpenDirectory, name: bytes) -> OpenDirectory:
        """The directory called `name`. Raise OSError as open(2) does; a link is not followed."""
        return self._open.get(_join(parent, name)) or self._hold(parent, name)

    def names(self, directory: OpenDirectory) -> list[bytes]:
        """The entries of a directory."""
        return [os.fsencode(name) for name in os.listdir(directory.fd)]  # noqa: PTH208 - not by path

    def clear(self, parent: OpenDirectory, name: bytes) -> None:
        """Remove the entry `name`, with everything below it. Raise FileNotFoundError for nothing."""
        mode = os.stat(name, dir_fd=parent.fd, follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            self._close_below(_join(parent, name))
            remove_tree(name, parent.fd)
            return
        if stat.S_ISLNK(mode):
            self._aliases.clear()
        os.unlink(name, dir_fd=parent.fd)

    def _close_below(self, path: bytes) -> None:
        """Let go of the directories at and below `path`, which are about to go, and of where links led."""
        below = path + b"/"
        for key in [key for key in self._open if key == path or key.startswith(below)]:
            os.close(self._open.pop(key).fd)
        self._aliases.clear()

    def close(self) -> None:
        """Give every directory that is still open its mode and its time, the root last."""
        for key in reversed(list(self._open)):
            self._open.pop(key).close()

    def abandon(self) -> None:
        """Close all directories, whether they are finished or not."""
        while self._open:
            os.close(self._open.popitem()[1].fd)

    def _open_directory_or_none(self, path: bytes) -> OpenDirectory | None:
        """The directory of that path if it is open, which is then the last that is evicted."""
        found = self._open.get(path)
        if found is not None and path:
            del self._open[path]
            self._open[path] = found
        return found

    def _walk_to(self, path: bytes, *, make: bool) -> OpenDirectory | None:
        current, ahead = self._nearest_open(path)
        links = steps = 0
        entered: deque[bytes] = deque()
        while ahead:
            steps += 1
            self._steps.spend(path)
            if links > _MOST_LINKS or steps > LONGEST:
                if not make:
                    return None
                raise EntryRefused(f"its folder {show(path)} leads through too many symbolic links")
            name = ahead.pop()
            if name in (b"", b"."):
                continue
            step = (
                self._above(current) if name == b".." else self._open_or_read_link(current, name, make=make)
            )
            if step is None:
                return None
            if isinstance(step, OpenDirectory):
                current = step
                self._pass(current, entered)
                continue
            links += 1
            ahead.extend(reversed(step.split(b"/")))
            if step.startswith(b"/"):
                current = self.root
        if current.path != path:
            if len(self._aliases) >= _ALIASES:
                self._aliases.clear()
            self._aliases[path] = current.path
        return current

    def _pass(self, current: OpenDirectory, entered: deque[bytes]) -> None:
        """Close the directories that a walk has left behind, except the last ones that it went through."""
        entered.append(current.path)
        if len(entered) <= _ON_THE_WAY:
            return
        behind = entered.popleft()
        if behind and behind != current.path and behind in self._open:
            self._open.pop(behind).close()

    def _nearest_open(self, path: bytes) -> tuple[OpenDirectory, list[bytes]]:
        """The open directory nearest to `path`, and the components from there on, the next one last."""
        ahead: list[bytes] = []
        head = path
        while head not in self._open:
            if head in self._aliases:
                real = self._aliases[head]
                if real in self._open:
                    return self._open[real], ahead
            head, _, name = head.rpartition(b"/")
            ahead.append(name)
        return self._open[head], ahead

    def _above(self, current: OpenDirectory) -> OpenDirectory:
        """The parent of a directory; the root's is the root. No other process moves directories here."""
        if current is self.root:
            return current
        parent = current.path.rpartition(b"/")[0]
        return self._open.get(parent) or self._open_at(parent, current, b"..")

    def _open_or_read_link(
        self, current: OpenDirectory, name: bytes, *, make: bool
    ) -> OpenDirectory | bytes | None:
        """The directory called `name`, or a link's target, or None where none is and none is to be made."""
        try:
            return self.enter(current, name)
        except FileNotFoundError:
            return self._make_implied(current, name) if make else None
        except NotADirectoryError:
            target = _read_link(current, name)
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            target = None
        if target is not None or not make:
            return target
        raise EntryRefused(f"it lies below {show(_join(current, name))}, which is not a directory")

    def _make_implied(self, parent: OpenDirectory, name: bytes) -> OpenDirectory:
        """A directory that no entry speaks of: as other tools make it, but with the same time everywhere.

        It may be called as a whiteout is, as containerd and umoci have it; not as AUFS calls its metadata.
        """
        if name.startswith(WHITEOUT + WHITEOUT):
            raise EntryRefused(f"it lies below {show(_join(parent, name))}, which is metadata of AUFS")
        made = self.make(parent, name)
        if parent.inherits:
            os.fchown(made.fd, os.geteuid(), os.getegid())
        made.set_mode(_IMPLIED_MODE)
        made.mtime_ns = 0
        return made

    def _hold(self, parent: OpenDirectory, name: bytes) -> OpenDirectory:
        if parent.path.count(b"/") + 1 >= self._limits.depth:
            raise EntryRefused(f"links lead it deeper than {self._limits.depth} directories")
        return self._open_at(_join(parent, name), parent, name)

    def _open_at(self, path: bytes, start: OpenDirectory, name: bytes) -> OpenDirectory:
        fd, status = open_directory(name, start.fd)
        if len(self._open) >= _OPEN:
            self._evict(start)
        self._open[path] = directory = OpenDirectory(path, fd, status)
        return directory

    def _evict(self, keep: OpenDirectory) -> None:
        """Finish the least recently used half of the open directories."""
        for key in list(self._open)[: _OPEN // 2]:
            if self._open[key] not in (self.root, keep):
                self._open.pop(key).close()


def _read_link(parent: OpenDirectory, name: bytes) -> bytes | None:
    try:
        return os.readlink(name, dir_fd=parent.fd)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return None


def _join(parent: OpenDirectory, name: bytes) -> bytes:
    return parent.path + b"/" + name if parent.path else name
