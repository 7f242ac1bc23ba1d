"""Whiteouts and opaque directories: the paths that a layer removes from the layers below it.

A whiteout applies to lower layers only, in any order of the members (image-spec layer.md). So a layer is
applied in two steps: first its whiteouts, then its entries. The first step needs all whiteouts before any
entry is extracted, so `collect` reads the layer once more. A layer without the four bytes `.wh.` is only
decompressed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field

from sandwright.rootfs.tar.archive_warnings import Notes
from sandwright.rootfs.tar.entry import WHITEOUT, EntryKind, EntryRefused
from sandwright.rootfs.tar.limits import NAMED, ArchiveLimits
from sandwright.rootfs.tar.reader import CHUNK, Readable, TarReader
from sandwright.rootfs.unpacking.tree import RootfsTree

OPAQUE = b".wh..wh..opq"
NOTHING_THERE = "whiteout of something that is not there"


@dataclass
class Whiteouts:
    """The whiteouts of a layer. All paths are as the layer writes them.

    `gone` are removed paths; `emptied` are opaque directories. `directories` are members of the layer itself:
    a lower layer's link of that name is not followed, because the directory replaces it.
    """

    gone: set[bytes] = field(default_factory=set)
    emptied: set[bytes] = field(default_factory=set)
    directories: set[bytes] = field(default_factory=set)


def whiteout(path: bytes) -> bytes | None:
    """The path that a whiteout removes, or its own path when it is opaque; None for other members.

    Raise EntryRefused for a whiteout of nothing, of `.` or of `..`, and for the metadata of AUFS: early
    images kept hard links there, and no tool writes it today.
    """
    folder, slash, name = path.rpartition(b"/")
    if not name.startswith(WHITEOUT):
        return None
    hidden = name[len(WHITEOUT) :]
    if name == OPAQUE:
        return path
    if hidden in (b"", b".", b".."):
        raise EntryRefused("it is a whiteout of nothing that a directory can hold")
    if hidden.startswith(WHITEOUT):
        raise EntryRefused("it is metadata of AUFS")
    return folder + slash + hidden


def mentions_whiteouts(stream: Readable) -> bool:
    """Whether an archive contains the bytes `.wh.`. It is read to its end if not."""
    tail = b""
    while piece := stream.read(CHUNK):
        if WHITEOUT in piece or WHITEOUT in tail + piece[: len(WHITEOUT)]:
            return True
        tail = (tail + piece)[-len(WHITEOUT) :] if len(piece) < len(WHITEOUT) else piece[-len(WHITEOUT) :]
    return False


def collect(reader: TarReader, limits: ArchiveLimits) -> Whiteouts:
    """Collect the whiteouts of an archive. Raise the errors of `TarReader`."""
    removals, held = Whiteouts(), 0
    for entry in reader:
        try:
            hidden = whiteout(entry.path)
        except EntryRefused as refusal:
            reader.refuse(entry.path, str(refusal))
        if hidden is None and entry.kind is not EntryKind.DIRECTORY:
            continue
        held += len(entry.path) + NAMED
        if held > limits.names:
            reader.refuse(entry.path, f"names that take {limits.names} bytes were to be remembered before it")
        if hidden is None:
            removals.directories.add(entry.path)
        elif hidden == entry.path:
            removals.emptied.add(hidden.rpartition(b"/")[0])
        else:
            removals.gone.add(hidden)
    return removals


def apply_whiteouts(removals: Whiteouts, tree: RootfsTree, notes: Notes) -> None:
    """Apply a layer's whiteouts to the tree of the lower layers, upper directories first.

    So `.wh.lib` comes before `lib/.wh.x`, which then finds nothing, even where `lib` was a link. Whiteouts
    without a target go to `notes`.
    """
    steps = [(path.count(b"/"), path, _remove_path) for path in removals.gone]
    steps += [(path.count(b"/"), path, _empty_directory) for path in removals.emptied]
    for _, path, step in sorted(steps, key=lambda item: item[:2]):
        if not step(path, removals, tree):
            notes.add(NOTHING_THERE, path)


def _remove_path(path: bytes, removals: Whiteouts, tree: RootfsTree) -> bool:
    folder, _, name = path.rpartition(b"/")
    parent = None if _behind_replaced(folder, removals, tree) else tree.existing(folder)
    if parent is None:
        return False
    try:
        tree.clear(parent, name)
    except FileNotFoundError:
        return False
    return True


def _empty_directory(path: bytes, removals: Whiteouts, tree: RootfsTree) -> bool:
    directory = None if _behind_replaced(path, removals, tree) else tree.existing(path)
    if directory is None:
        return False
    for name in tree.names(directory):
        tree.clear(directory, name)
    return True


def _behind_replaced(path: bytes, removals: Whiteouts, tree: RootfsTree) -> bool:
    """Whether `path` goes through a link of a lower layer that this layer replaces with a directory."""
    for prefix in _prefixes(path):
        if prefix in removals.directories:
            folder, _, name = prefix.rpartition(b"/")
            parent = tree.existing(folder)
            if parent is None:
                return False
            try:
                mode = os.stat(name, dir_fd=parent.fd, follow_symlinks=False).st_mode
            except FileNotFoundError:
                return False
            if stat.S_ISLNK(mode):
                return True
    return False


def _prefixes(path: bytes) -> Iterator[bytes]:
    """`a`, `a/b`, `a/b/c` of `a/b/c`; none for the root."""
    at = path.find(b"/")
    while at > 0:
        yield path[:at]
        at = path.find(b"/", at + 1)
    if path:
        yield path
