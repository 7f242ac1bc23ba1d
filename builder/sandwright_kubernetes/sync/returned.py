"""The archive that came out of a Pod: hostile input, read with the code that reads images.

An archive is refused as a whole where our program would not have written it: other kinds than files,
directories and links, xattrs, a name twice, a name below a link. A path that the policy doesn't let programs
write is refused alone, and so is a link that leads out of the project. The rest is unpacked into an empty
directory.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field

from sandwright.errors import ArchiveRefused, HostError
from sandwright.rootfs.tar.archive_warnings import Notes
from sandwright.rootfs.tar.entry import EntryKind, EntryRefused, TarEntry, show
from sandwright.rootfs.tar.limits import ArchiveLimits
from sandwright.rootfs.tar.reader import Readable, TarReader
from sandwright.rootfs.unpacking.merge import OPAQUE, whiteout
from sandwright.rootfs.unpacking.place import TarExtractor
from sandwright.rootfs.unpacking.tree import RootfsTree
from sandwright.workspace.withheld import leads_out

MOST = 2 << 30
"""Bytes of an archive at most."""

LIMITS = ArchiveLimits(bytes=MOST, entries=500_000, depth=260, names=64 << 20)
_KINDS = (EntryKind.FILE, EntryKind.DIRECTORY, EntryKind.SYMLINK)


@dataclass
class ReturnedChanges:
    """A command's changes: `made` by path, in order, with the kind of each; `gone`, the removed paths.

    `refused` are paths that may not change, each with the reason.
    """

    made: dict[bytes, TarEntry] = field(default_factory=dict)
    gone: list[bytes] = field(default_factory=list)
    refused: list[tuple[bytes, str]] = field(default_factory=list)


def unpack_changes(
    stream: Readable, root: int, takes: Callable[[bytes], bool], *, limits: ArchiveLimits = LIMITS
) -> ReturnedChanges:
    """Unpack the acceptable changes below the open, empty directory `root`, which is ours alone.

    `takes` is true for a path that may be written. Raise ArchiveRefused and IntegrityError for an archive
    that is refused as a whole, HostError for a failure of this machine.
    """
    reader = TarReader(stream, limits=limits, name="the Pod's archive")
    reading = _Reading(reader, takes)
    tree = RootfsTree(root, limits=limits)
    extractor = TarExtractor(tree, owners="rootless", missing=Notes())
    try:
        for entry in reader:
            member = reading.take(entry)
            if member is not None:
                extractor.put(member, reader.chunks())
        tree.close()
    except EntryRefused as refusal:
        raise ArchiveRefused(f"the Pod's archive: {refusal}") from None
    except OSError as error:
        raise HostError(f"cannot unpack the Pod's archive: {error.strerror or error}") from error
    finally:
        tree.abandon()
    return reading.changes


class _Reading:
    """One archive, entry by entry."""

    def __init__(self, reader: TarReader, takes: Callable[[bytes], bool]) -> None:
        self.changes = ReturnedChanges()
        self._reader = reader
        self._takes = takes
        self._seen: dict[bytes, EntryKind | None] = {}

    def take(self, entry: TarEntry) -> TarEntry | None:
        """The entry as it is unpacked; None for one that is not."""
        self._check_member(entry)
        try:
            hidden = whiteout(entry.path)
        except EntryRefused as refusal:
            self._reader.refuse(entry.path, str(refusal))
        if hidden is not None:
            self._whiteout(entry, hidden)
            return None
        self._once(entry.path, entry.kind)
        if not self._takes(entry.path):
            self.changes.refused.append((entry.path, "the policy denies its change"))
            return None
        if entry.kind is EntryKind.SYMLINK and leads_out(entry.path, entry.link):
            self.changes.refused.append((entry.path, "it is a link that leads out of the project"))
            return None
        plain = dataclasses.replace(
            entry, mode=0o755 if entry.mode & 0o100 else 0o644, uid=0, gid=0, mtime_ns=max(entry.mtime_ns, 0)
        )
        self.changes.made[entry.path] = plain
        return plain

    def _check_member(self, entry: TarEntry) -> None:
        if not entry.path or entry.kind not in _KINDS:
            self._reader.refuse(entry.path, f"a {entry.kind.value} does not come back")
        if entry.xattrs:
            self._reader.refuse(entry.path, "it has extended attributes")

    def _whiteout(self, entry: TarEntry, hidden: bytes) -> None:
        if entry.path.rpartition(b"/")[2] == OPAQUE or entry.kind is not EntryKind.FILE or entry.size:
            self._reader.refuse(entry.path, "it is no plain whiteout")
        self._once(entry.path, None)
        if self._takes(hidden):
            self.changes.gone.append(hidden)
        else:
            self.changes.refused.append((hidden, "the policy denies its removal"))

    def _once(self, path: bytes, kind: EntryKind | None) -> None:
        """Refuse a second entry of one name, and one below another kind than a directory."""
        if path in self._seen:
            self._reader.refuse(path, "it comes twice")
        self._seen[path] = kind
        at = path.find(b"/")
        while at > 0:
            if self._seen.get(path[:at], EntryKind.DIRECTORY) is not EntryKind.DIRECTORY:
                self._reader.refuse(path, f"it lies below {show(path[:at])}, which is no directory")
            at = path.find(b"/", at + 1)
