"""The last layer of an image: what we add on top of a file tree, each thing where its path really leads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from sandwright.errors import BuildError
from sandwright.image.layer import LayerWriter
from sandwright.image.tree import FileNode, FileTree
from sandwright.rootfs.tar.entry import EntryKind, TarEntry, show

Content = Callable[[], Iterable[bytes]]

OURS = "the image's definition"


@dataclass(frozen=True)
class _Addition:
    entry: TarEntry
    content: Content


class Overlay:
    """Additions to a tree, which shows them at once.

    Paths are relative to the root. Links in them are followed, inside the root, so that `bin/x` is added as
    `usr/bin/x` where `bin` is a link.

    `epoch` is the time of everything added, in seconds. Parents that are missing are made, 0755 and root's.
    """

    def __init__(self, tree: FileTree, *, epoch: int) -> None:
        self.tree = tree
        self._epoch_ns = epoch * 10**9
        self._additions: dict[bytes, _Addition] = {}

    def directory(self, path: bytes, *, mode: int = 0o755, uid: int = 0, gid: int = 0) -> None:
        """A directory; one that is there gets this mode and these owners. A link to a directory is followed.

        Raise BuildError when something else is there.
        """
        real = self.tree.resolve(path)
        place = self._place(path) if real is None else real
        node = self.tree.get(place)
        if node is not None and node.kind is not EntryKind.DIRECTORY:
            raise BuildError(f"{show(path)} can't be a directory: {node.owner} has a {node.kind.value} there")
        self._put(TarEntry(place, EntryKind.DIRECTORY, mode, uid, gid))

    def file(
        self,
        path: bytes,
        content: bytes | Content,
        *,
        size: int = 0,
        mode: int = 0o644,
        uid: int = 0,
        gid: int = 0,
    ) -> None:
        """A file, in the place of a file or link that is there. `size` is needed for streamed `content`.

        Raise BuildError when a directory is there.
        """
        place = self._free(path)
        if isinstance(content, bytes):
            data = content
            self.tree.kept[place] = data
            self._put(
                TarEntry(place, EntryKind.FILE, mode, uid, gid, size=len(data)),
                lambda: (data,) if data else (),
            )
        else:
            self.tree.kept.pop(place, None)
            self._put(TarEntry(place, EntryKind.FILE, mode, uid, gid, size=size), content)

    def link(self, path: bytes, target: bytes) -> None:
        """A symbolic link, in the place of a file, link or empty directory that is there.

        Raise BuildError when a directory with something in it is there.
        """
        self._put(TarEntry(self._free(path, or_empty=True), EntryKind.SYMLINK, 0o777, link=target))

    def again(self, path: bytes) -> None:
        """Say once more what the tree has at a directory's path, because layers below disagree."""
        node = self.tree.nodes[path]
        entry = TarEntry(path, node.kind, node.mode, node.uid, node.gid, mtime_ns=node.mtime_ns)
        self._additions.setdefault(path, _Addition(entry, tuple))

    def missing(self, path: bytes) -> bool:
        """Whether nothing is at a path, links followed."""
        return self.tree.resolve(path) is None

    def write(self, layer: LayerWriter) -> None:
        """Write the additions to a layer, sorted, parents first."""
        for addition in self:
            layer.add(addition.entry, addition.content())

    def __iter__(self) -> Iterator[_Addition]:
        return (self._additions[path] for path in sorted(self._additions))

    def __len__(self) -> int:
        return len(self._additions)

    def _free(self, path: bytes, *, or_empty: bool = False) -> bytes:
        place = self._place(path)
        node = self.tree.get(place)
        if node is not None and node.kind is EntryKind.DIRECTORY and (self.tree.names(place) or not or_empty):
            raise BuildError(f"{show(path)} can't be put there: it is a directory of {node.owner}")
        return place

    def _place(self, path: bytes) -> bytes:
        """The path with its parents followed, and made where they are missing; the last name as it is."""
        parent, _, name = path.rpartition(b"/")
        real = self.tree.resolve(parent)
        if real is None:
            real = self._place(parent)
            if self.tree.get(real) is not None:
                raise BuildError(f"{show(path)} can't be put there: {show(parent)} leads nowhere")
            self._put(TarEntry(real, EntryKind.DIRECTORY, 0o755))
        above = self.tree.get(real)
        if above is not None and above.kind is not EntryKind.DIRECTORY:
            raise BuildError(f"{show(path)} can't be put there: {show(parent)} is a {above.kind.value}")
        return real + b"/" + name if real else name

    def _put(self, entry: TarEntry, content: Content = tuple) -> None:
        entry.mtime_ns = self._epoch_ns
        self._additions[entry.path] = _Addition(entry, content)
        self.tree.add(entry.path, FileNode.of(entry, OURS))
