"""Puts the members of an archive into a tree: content, owner, mode, xattrs, times, hard links.

Everything is done to open descriptors, or to one name in an open directory without following it; so a hard
link to a symbolic link changes nothing outside (CVE-2021-32760). An existing file is removed first,
never written into: it may have other names.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal, assert_never

from sandwright.rootfs.tar.archive_warnings import Notes
from sandwright.rootfs.tar.entry import EntryKind, EntryRefused, TarEntry, show
from sandwright.rootfs.tar.reader import HOLE
from sandwright.rootfs.unpacking.tree import OpenDirectory, RootfsTree
from sandwright.streams import write_all

Owners = Literal["root", "rootless"]

OWNER = "user.rootlesscontainers"
"""The xattr in which rootless tools record a file's owner: umoci, PRoot and runROOTLESS read it."""

_UNCHANGED = (1 << 32) - 1
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_SPECIAL = 0o7000
_TYPES = {EntryKind.CHARACTER: stat.S_IFCHR, EntryKind.BLOCK: stat.S_IFBLK, EntryKind.FIFO: stat.S_IFIFO}
_NOT_HERE = frozenset(
    {errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.EINVAL, errno.ENOSPC, errno.E2BIG, errno.ERANGE}
)


class TarExtractor:
    """Puts entries into a tree, one after another, as the layers of an image have them.

    `owners` is the treatment of uid and gid. As "root", they are set on disk. As "rootless", all files belong
    to the caller, who represents the image's root as in a user namespace; other owners of files and
    directories are kept in the xattr `OWNER`, and devices become empty files without permissions. `missing`
    collects the parts of the image that the tree does not have.
    """

    def __init__(self, tree: RootfsTree, *, owners: Owners, missing: Notes) -> None:
        self._tree = tree
        self._root = owners == "root"
        self._missing = missing
        self._uid, self._gid = (os.geteuid(), os.getegid()) if self._root else (0, 0)
        self._chmod = _SPECIAL | umask()
        self._nosuid = bool(os.fstatvfs(tree.root.fd).f_flag & os.ST_NOSUID)

    def put(self, entry: TarEntry, content: Iterable[bytes]) -> None:
        """Put one member in its place. Raise EntryRefused when it can't be there, or OSError."""
        parent_path, _, name = entry.path.rpartition(b"/")
        parent = self._tree.directory(parent_path)
        match entry.kind:
            case EntryKind.FILE:
                self._extract_file(parent, name, entry, content)
            case EntryKind.DIRECTORY:
                self._extract_directory(parent, name, entry)
            case EntryKind.SYMLINK:
                self._symlink(parent, name, entry)
            case EntryKind.HARDLINK:
                self._hardlink(parent_path, name, entry)
            case EntryKind.CHARACTER | EntryKind.BLOCK | EntryKind.FIFO:
                self._node(parent, name, entry)
            case _:
                assert_never(entry.kind)
        if entry.mode & 0o6000 and self._nosuid and entry.kind is EntryKind.FILE:
            self._missing.add(
                "setuid or setgid bit without effect: the file system is mounted nosuid", entry.path
            )

    def _extract_file(
        self, parent: OpenDirectory, name: bytes, entry: TarEntry, content: Iterable[bytes]
    ) -> None:
        mode = entry.mode
        closed = not (self._root or mode & 0o200) and (entry.uid or entry.gid or entry.xattrs)
        first = mode & 0o777 | (0o200 if closed else 0)  # a user other than root needs it for xattrs
        try:
            fd = os.open(name, _CREATE, first, dir_fd=parent.fd)
        except FileExistsError:
            self._tree.clear(parent, name)
            fd = os.open(name, _CREATE, first, dir_fd=parent.fd)
        try:
            hole = False
            for chunk in content:
                if chunk is HOLE:
                    hole = bool(os.lseek(fd, len(chunk), os.SEEK_CUR))
                    continue
                written = os.write(fd, chunk)
                if written != len(chunk):
                    write_all(fd, chunk[written:])
            if hole:
                os.ftruncate(fd, entry.size)
            if entry.uid != self._uid or entry.gid != self._gid or parent.inherits:
                self._set_owner(fd, entry)
            if entry.xattrs:
                self._set_xattrs(fd, entry)
            if mode & self._chmod or closed:
                os.fchmod(fd, mode)
            os.utime(fd, ns=(entry.mtime_ns, entry.mtime_ns))
        finally:
            os.close(fd)

    def _extract_directory(self, parent: OpenDirectory, name: bytes, entry: TarEntry) -> None:
        """A new directory, or new owner, mode, xattrs and time for the one that is there.

        A link to a directory is no directory and is replaced, as containerd, Docker and umoci do it (umoci
        unless run with --keep-dirlink).
        """
        merged = False
        if not entry.path:
            made, merged = self._tree.root, True
        else:
            try:
                made = self._tree.make(parent, name)
            except FileExistsError:
                made, merged = self._meet(parent, name)
        if merged or entry.uid != self._uid or entry.gid != self._gid or parent.inherits:
            self._set_owner(made.fd, entry)
        made.set_mode(entry.mode)
        if merged:
            _drop_xattrs(made.fd, entry.xattrs)
        if entry.xattrs:
            self._set_xattrs(made.fd, entry)
        made.mtime_ns = entry.mtime_ns

    def _meet(self, parent: OpenDirectory, name: bytes) -> tuple[OpenDirectory, bool]:
        """The directory that is there, and true; or a new one in the place of any other file."""
        try:
            return self._tree.enter(parent, name), True
        except NotADirectoryError:
            self._tree.clear(parent, name)
            return self._tree.make(parent, name), False

    def _symlink(self, parent: OpenDirectory, name: bytes, entry: TarEntry) -> None:
        try:
            os.symlink(entry.link, name, dir_fd=parent.fd)
        except FileExistsError:
            self._tree.clear(parent, name)
            os.symlink(entry.link, name, dir_fd=parent.fd)
        self._finish_unopened(parent, name, entry)

    def _hardlink(self, parent_path: bytes, name: bytes, entry: TarEntry) -> None:
        """A further name for the merged tree's file at `entry.link`, whose owner and mode stay.

        A second descriptor holds the target's directory while that of the name is looked up.
        """
        folder, _, target = entry.link.rpartition(b"/")
        found = self._tree.existing(folder)
        if found is None:
            raise EntryRefused(f"it is a hard link to {show(entry.link)}, which is not there")
        held = os.dup(found.fd)
        try:
            status = _status(target, held)
            if status is None or stat.S_ISDIR(status.st_mode):
                what = "which is not there" if status is None else "a directory"
                raise EntryRefused(f"it is a hard link to {show(entry.link)}, {what}")
            parent = self._tree.directory(parent_path)
            there = _status(name, parent.fd)
            if there is not None:
                if os.path.samestat(there, status):
                    return
                self._tree.clear(parent, name)
            os.link(target, name, src_dir_fd=held, dst_dir_fd=parent.fd, follow_symlinks=False)
        except FileNotFoundError:
            raise EntryRefused(
                f"it is a hard link to {show(entry.link)}, and takes the place of a directory of that path"
            ) from None
        finally:
            os.close(held)

    def _node(self, parent: OpenDirectory, name: bytes, entry: TarEntry) -> None:
        """A device or a fifo. Where devices may not be made, an empty file without permissions instead."""
        if _status(name, parent.fd) is not None:
            self._tree.clear(parent, name)
        try:
            self._mknod(parent, name, entry)
        except PermissionError:
            major, minor = entry.device
            self._missing.add(
                f"{entry.kind.value} ({major}, {minor}) not made: an empty file stands for it", entry.path
            )
            os.close(os.open(name, _CREATE, 0, dir_fd=parent.fd))
            return
        self._finish_unopened(parent, name, entry)

    def _mknod(self, parent: OpenDirectory, name: bytes, entry: TarEntry) -> None:
        if not self._root and entry.kind is not EntryKind.FIFO:
            raise PermissionError
        device = os.makedev(*entry.device)
        os.mknod(name, _TYPES[entry.kind] | (entry.mode & 0o777), device, dir_fd=parent.fd)

    def _finish_unopened(self, parent: OpenDirectory, name: bytes, entry: TarEntry) -> None:
        """Owner, mode, xattrs and time of something that must not be opened."""
        if self._root:
            if entry.uid != self._uid or entry.gid != self._gid or parent.inherits:
                with _explaining_owner(entry):
                    os.chown(name, entry.uid, entry.gid, dir_fd=parent.fd, follow_symlinks=False)
        elif entry.uid or entry.gid:
            self._note_owner(entry)
        chmod = entry.kind is not EntryKind.SYMLINK and entry.mode & self._chmod
        if chmod or entry.xattrs:
            fd = os.open(name, _LOOK, dir_fd=parent.fd)
            itself = Path(f"/proc/self/fd/{fd}")  # what chmod and setxattr take for an O_PATH descriptor
            try:
                if chmod:
                    itself.chmod(entry.mode)
                self._set_xattrs(itself, entry)
            finally:
                os.close(fd)
        os.utime(name, ns=(entry.mtime_ns, entry.mtime_ns), dir_fd=parent.fd, follow_symlinks=False)

    def _set_owner(self, fd: int, entry: TarEntry) -> None:
        if self._root:
            with _explaining_owner(entry):
                os.fchown(fd, entry.uid, entry.gid)
            return
        os.fchown(fd, -1, os.getegid())
        try:
            if entry.uid or entry.gid:
                os.setxattr(fd, OWNER, owner_record(entry.uid, entry.gid))
                self._missing.add(f"owner kept in the xattr {OWNER} alone", entry.path)
            else:  # it may have one from a lower layer
                os.removexattr(fd, OWNER)
        except OSError as error:
            if error.errno not in _NOT_HERE | {errno.ENODATA}:
                raise
            if entry.uid or entry.gid:
                self._note_owner(entry)

    def _note_owner(self, entry: TarEntry) -> None:
        self._missing.add("owner not reproduced: it belongs to the user who unpacked it", entry.path)

    def _set_xattrs(self, target: int | Path, entry: TarEntry) -> None:
        for key, value in sorted(entry.xattrs.items()):
            if not _is_allowed_xattr(key):
                self._missing.add(f"xattr {show(key)} masked", entry.path)
                continue
            try:
                os.setxattr(target, key, value)
            except OSError as error:
                if error.errno not in _NOT_HERE:
                    raise
                self._missing.add(f"xattr {show(key)} not set: {error.strerror}", entry.path)


def default_owners() -> Owners:
    """The caller's mode: "root" for root, unless its user namespace has no other users."""
    if os.geteuid() != 0:
        return "rootless"
    with contextlib.suppress(FileNotFoundError):
        mapped = Path("/proc/self/uid_map").read_text(encoding="ascii").split()
        return "root" if sum(map(int, mapped[2::3])) > 1 else "rootless"
    return "root"


def umask() -> int:
    """The mode mask of this process, read without changing it briefly, as the system call would."""
    with contextlib.suppress(FileNotFoundError):
        for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    return 0o777  # before Linux 4.7, or without /proc: every mode is set by hand


@contextlib.contextmanager
def _explaining_owner(entry: TarEntry) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        what = f"cannot change its owner to {entry.uid}:{entry.gid} here ({error.strerror})"
        raise OSError(error.errno, f"{what}; unpacking rootless gives nothing") from error


def owner_record(uid: int, gid: int) -> bytes:
    """The content of `OWNER`: the protobuf message `Resource` of rootlesscontainers/proto.

    Its fields are 1, the uid, and 2, the gid, as varints; root is written as umoci writes it, as no change.
    """
    fields = ((1, uid or _UNCHANGED), (2, gid or _UNCHANGED))
    return b"".join(_varint(number << 3) + _varint(value) for number, value in fields)


def _varint(value: int) -> bytes:
    low, high = value & 0x7F, value >> 7
    return bytes((low | 0x80,)) + _varint(high) if high else bytes((low,))


def _is_allowed_xattr(key: bytes) -> bool:
    """Whether an image may set it. Labels and ACLs are the host's; overlayfs and others obey theirs."""
    return key == b"security.capability" or (
        key.startswith(b"user.") and not key.startswith(b"user.overlay.") and key != OWNER.encode()
    )


def _drop_xattrs(fd: int, keep: Mapping[bytes, bytes]) -> None:
    for name in os.listxattr(fd):
        key = os.fsencode(name)
        if _is_allowed_xattr(key) and key not in keep:
            os.removexattr(fd, key)


def _status(name: bytes, parent: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None
