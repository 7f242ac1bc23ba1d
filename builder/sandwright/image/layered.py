"""Merges layers into a file tree in memory, by names alone: nothing is unpacked.

Rules and limits are those of `rootfs/unpacking`: the cost of a hostile layer must not exceed its length.
Whiteouts apply to lower layers only, in any order of the members (image-spec 1.1, layer.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from sandwright.errors import ArchiveRefused
from sandwright.image.tree import MOST_LINKS, FileNode, FileTree
from sandwright.rootfs.tar.entry import WHITEOUT, EntryKind, EntryRefused, TarEntry, show
from sandwright.rootfs.tar.limits import DEFAULT, NAMED, ArchiveLimits
from sandwright.rootfs.tar.memory_budget import MemoryBudget
from sandwright.rootfs.tar.reader import TarReader
from sandwright.rootfs.unpacking.merge import whiteout
from sandwright.rootfs.unpacking.steps import LONGEST, StepBudget

_IMPLIED_MODE = 0o755

T = TypeVar("T")


@dataclass
class LayerEntries(Generic[T]):
    """The content of one layer: paths that it removes, directories that it empties, and its entries in order.

    Each entry comes with the result of its reader (`read_layer`).
    """

    removed: list[bytes] = field(default_factory=list)
    emptied: list[bytes] = field(default_factory=list)
    entries: list[tuple[TarEntry, T]] = field(default_factory=list)

    def hide(self, path: bytes, hidden: bytes) -> None:
        """Add the whiteout at `path`, which removes `hidden`; an opaque one gives its own path for it."""
        if hidden == path:
            self.emptied.append(hidden.rpartition(b"/")[0])
        else:
            self.removed.append(hidden)


def read_layer(reader: TarReader, read: Callable[[TarEntry], T], held: MemoryBudget) -> LayerEntries[T]:
    """Read a layer to its end. `read` is called for each entry that is no whiteout, while it is current.

    `held` counts the memory for the layers of an image.
    """
    found = LayerEntries[T]()
    for entry in reader:
        try:
            held.add(entry)
            hidden = whiteout(entry.path)
            if hidden is None:
                found.entries.append((entry, read(entry)))
        except EntryRefused as refusal:
            reader.refuse(entry.path, str(refusal))
        if hidden is not None:
            found.hide(entry.path, hidden)
    return found


class LayeredTree:
    """A tree on which layers are put. Every node's parents are directories of it.

    `owner` owns the directories that have no member. ArchiveRefused names
    the member; the caller adds the layer.
    """

    def __init__(self, owner: str, *, limits: ArchiveLimits = DEFAULT) -> None:
        self.tree = FileTree()
        self._owner = owner
        self._limits = limits
        self._steps = StepBudget()
        self._implied = 0  # bytes that the names of implied directories take
        self._led: dict[bytes, bytes] = {}  # a folder's path through links: where it leads

    def apply_whiteouts(self, removed: Iterable[bytes], emptied: Iterable[bytes]) -> None:
        """Remove the paths `removed`, and everything in the directories `emptied`."""
        for path in sorted(removed):
            target = self.find(path)
            if target is not None:
                self._discard(target)
        for path in sorted(emptied):
            within = self.find(path + b"/.") if path else b"."
            real = None if within is None else within.rpartition(b"/")[0]
            for name in self.tree.names(real) if real is not None else ():
                self._discard(real + b"/" + name if real else name)

    def put(self, path: bytes, node: FileNode) -> bytes:
        """Put a member in its place, which is given back. Raise ArchiveRefused when it can't be there."""
        parent, _, name = path.rpartition(b"/")
        try:
            real = self._resolve_directory(parent, make=True, mtime_ns=node.mtime_ns)
            assert real is not None
            target = real + b"/" + name if real else name
            if node.kind is EntryKind.DIRECTORY and target.count(b"/") >= self._limits.depth:
                raise EntryRefused(f"links lead it deeper than {self._limits.depth} directories")
        except EntryRefused as refusal:
            raise ArchiveRefused(f"{show(path)}: {refusal}") from None
        before = self.tree.get(target)
        if before is not None and not before.kind is node.kind is EntryKind.DIRECTORY:
            self._discard(target)
        self.tree.add(target, node)
        return target

    def find(self, path: bytes) -> bytes | None:
        """Resolve a path's links except in its last name; None where a link leads nowhere."""
        parent, _, name = path.rpartition(b"/")
        try:
            real = self._resolve_directory(parent, make=False)
        except EntryRefused as refusal:
            raise ArchiveRefused(f"{show(path)}: {refusal}") from None
        return None if real is None else real + b"/" + name if real else name

    def _resolve_directory(self, path: bytes, *, make: bool, mtime_ns: int = 0) -> bytes | None:
        self._steps.allow()
        if not path or self._has_directory(path):
            return path
        led = self._led.get(path)
        if led is not None:
            return led
        real = self._walk_path(path, make=make, mtime_ns=mtime_ns)
        if real is not None and real != path:
            self._led[path] = real
        return real

    def _walk_path(self, path: bytes, *, make: bool, mtime_ns: int) -> bytes | None:
        at, ahead = self._nearest_directory(path)
        links = steps = 0
        while ahead:
            steps += 1
            self._steps.spend(path)
            if links > MOST_LINKS or steps > LONGEST:
                if not make:
                    return None
                raise EntryRefused(f"its folder {show(path)} leads through too many symbolic links")
            name = ahead.pop()
            if name in (b"", b"."):
                continue
            if name == b"..":
                at = at.rpartition(b"/")[0]
                continue
            here = at + b"/" + name if at else name
            node = self.tree.get(here)
            if node is None and make:
                self._imply(here, mtime_ns)
            if node is None and not make:
                return None
            if node is None or node.kind is EntryKind.DIRECTORY:
                at = here
            elif node.kind is EntryKind.SYMLINK:
                links += 1
                ahead.extend(reversed(node.link.split(b"/")))
                at = b"" if node.link.startswith(b"/") else at
            elif make:
                raise EntryRefused(f"it lies below {show(here)}, which is not a directory")
            else:
                return None
        return at

    def _nearest_directory(self, path: bytes) -> tuple[bytes, list[bytes]]:
        """The nearest directory above `path`, and the names from there on, the next one last."""
        ahead: list[bytes] = []
        while path and not self._has_directory(path):
            path, _, name = path.rpartition(b"/")
            ahead.append(name)
        return path, ahead

    def _has_directory(self, path: bytes) -> bool:
        node = self.tree.get(path)
        return node is not None and node.kind is EntryKind.DIRECTORY

    def _imply(self, path: bytes, mtime_ns: int) -> None:
        """A directory that no member speaks of."""
        if path.rpartition(b"/")[2].startswith(WHITEOUT + WHITEOUT):
            raise EntryRefused(f"it lies below {show(path)}, which is metadata of AUFS")
        if path.count(b"/") + 1 >= self._limits.depth:
            raise EntryRefused(f"links lead it deeper than {self._limits.depth} directories")
        self._implied += len(path) + NAMED
        if self._implied > self._limits.names:
            raise EntryRefused(
                f"directories that no member speaks of have names of {self._limits.names} bytes"
            )
        node = FileNode(EntryKind.DIRECTORY, self._owner, _IMPLIED_MODE, 0, 0, mtime_ns, implied=True)
        self.tree.add(path, node)

    def _discard(self, path: bytes) -> None:
        node = self.tree.get(path)
        if node is not None and node.kind in (EntryKind.SYMLINK, EntryKind.DIRECTORY):
            self._led.clear()
        self.tree.discard(path)
