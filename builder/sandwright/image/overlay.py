"""The last layer of an image: additions to a file tree, with links in their paths resolved."""

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
    """Additions to a tree, which includes them at once.

    Paths are relative to the root. Links in them are followed inside the root: `bin/x` is added as
    `usr/bin/x` where `bin` is a link.

    `epoch` is the time of all additions, in seconds. Missing parents are created, owned by root, mode 0755.
    """

    def __init__(self, tree: FileTree, *, epoch: int) -> None:
        self.tree = tree
        self._epoch_ns = epoch * 10**9
        self._additions: dict[bytes, _Addition] = {}

    def directory(self, path: bytes, *, mode: int = 0o755, uid: int = 0, gid: int = 0) -> None:
        """Add a directory, or give an existing one this mode and these owners. Follow a link to a directory.

        Raise BuildError when something else is in the way.
        """
        real = self.tree.resolve(path)
        moved = self._resolve_path(path) if real is None else real
        node = self.tree.get(moved)
        if node is not None and node.kind is not EntryKind.DIRECTORY:
            raise BuildError(
                f"{show(path)} cannot be a directory: {node.owner} has a {node.kind.value} there"
            )
        self._put_entry(TarEntry(moved, EntryKind.DIRECTORY, mode, uid, gid))

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
        """Add a file, which replaces a file or link. Streamed `content` needs `size`.

        Raise BuildError when a directory is in the way.
        """
        moved = self._free(path)
        if isinstance(content, bytes):
            data = content
            self.tree.kept[moved] = data
            self._put_entry(
                TarEntry(moved, EntryKind.FILE, mode, uid, gid, size=len(data)),
                lambda: (data,) if data else (),
            )
        else:
            self.tree.kept.pop(moved, None)
            self._put_entry(TarEntry(moved, EntryKind.FILE, mode, uid, gid, size=size), content)

    def link(self, path: bytes, target: bytes) -> None:
        """Add a symbolic link, which replaces a file, a link or an empty directory.

        Raise BuildError when a directory that is not empty is in the way.
        """
        self._put_entry(TarEntry(self._free(path, or_empty=True), EntryKind.SYMLINK, 0o777, link=target))

    def again(self, path: bytes) -> None:
        """Repeat a directory with the tree's metadata, because lower layers disagree on it."""
        node = self.tree.nodes[path]
        entry = TarEntry(path, node.kind, node.mode, node.uid, node.gid, mtime_ns=node.mtime_ns)
        self._additions.setdefault(path, _Addition(entry, tuple))

    def missing(self, path: bytes) -> bool:
        """Whether a path leads to nothing, links followed."""
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
        moved = self._resolve_path(path)
        node = self.tree.get(moved)
        if node is not None and node.kind is EntryKind.DIRECTORY and (self.tree.names(moved) or not or_empty):
            raise BuildError(f"cannot create {show(path)}: it is a directory of {node.owner}")
        return moved

    def _resolve_path(self, path: bytes) -> bytes:
        """The path with links in its parents resolved and missing parents created."""
        parent, _, name = path.rpartition(b"/")
        real = self.tree.resolve(parent)
        if real is None:
            real = self._resolve_path(parent)
            if self.tree.get(real) is not None:
                raise BuildError(f"cannot create {show(path)}: {show(parent)} leads nowhere")
            self._put_entry(TarEntry(real, EntryKind.DIRECTORY, 0o755))
        above = self.tree.get(real)
        if above is not None and above.kind is not EntryKind.DIRECTORY:
            raise BuildError(f"cannot create {show(path)}: {show(parent)} is a {above.kind.value}")
        return real + b"/" + name if real else name

    def _put_entry(self, entry: TarEntry, content: Content = tuple) -> None:
        entry.mtime_ns = self._epoch_ns
        self._additions[entry.path] = _Addition(entry, content)
        self.tree.add(entry.path, FileNode.of(entry, OURS))
