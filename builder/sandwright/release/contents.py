"""Lists the files of an image with their digests, from its layers, without unpacking."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from sandwright.errors import ArchiveRefused
from sandwright.image.layered import LayeredTree, LayerEntries, read_layer
from sandwright.image.tree import FileNode, FileTree
from sandwright.rootfs.digest import VerifiedReader
from sandwright.rootfs.images.source import Image
from sandwright.rootfs.tar.entry import EntryKind, TarEntry, show
from sandwright.rootfs.tar.limits import DEFAULT
from sandwright.rootfs.tar.memory_budget import MemoryBudget
from sandwright.rootfs.tar.reader import TarReader
from sandwright.rootfs.unpacking.layers import ImageLayer

LARGEST_KEPT = 16 << 20
_OWNER = "the image"
_JOBS = 2


@dataclass(frozen=True, slots=True)
class LayeredFile:
    """A file of any kind except a directory.

    `kind` is never a hard link: each of its names is the file that it names.

    `digests` are by algorithm, in hex; of a symbolic link they are those of its target as written, of a
    device or fifo those of nothing. `layer` counts from 1.
    """

    kind: EntryKind
    size: int
    digests: Mapping[str, str]
    link: bytes
    layer: int


@dataclass
class ImageContents:
    """The files of an image by path (relative, normalised), and the shape of its tree.

    `tree.kept` has the content of the requested files.
    """

    files: dict[bytes, LayeredFile]
    tree: FileTree


def keep_nothing(_path: bytes) -> bool:
    """Keep no file's content."""
    return False


def read_contents(
    image: Image,
    *,
    algorithms: Sequence[str] = ("sha256",),
    keep: Callable[[bytes], bool] = keep_nothing,
) -> ImageContents:
    """Read all layers of an image, two at a time, each compared with its digest and diff_id.

    `keep` picks the files with wanted content, by their path in a layer. Raise IntegrityError for a layer
    with a wrong digest, ArchiveRefused for an invalid member.
    """
    held = MemoryBudget()

    def read(layer: ImageLayer) -> LayerEntries[EntryContent]:
        return _read_layer(layer, algorithms, keep, held)

    with ThreadPoolExecutor(_JOBS, "sandwright-contents") as pool:
        return merge_layers(pool.map(read, image.layers), algorithms=algorithms)


EntryContent = tuple[Mapping[str, str], bytes | None]
"""The digests of a file, and its content if requested."""


def merge_layers(
    layers: Iterable[LayerEntries[EntryContent]], *, algorithms: Sequence[str] = ()
) -> ImageContents:
    """The files that layers make, the lowest first. Raise ArchiveRefused for a member that can't be in one.

    `algorithms` are those of their files' digests.
    """
    tree = _Layered(algorithms)
    for number, layer in enumerate(layers, 1):
        tree.apply(layer, number)
    return ImageContents(tree.files(), tree.tree)


def _read_layer(
    layer: ImageLayer, algorithms: Sequence[str], keep: Callable[[bytes], bool], held: MemoryBudget
) -> LayerEntries[EntryContent]:
    """Read one layer. When this returns, blob and archive have had their digests."""
    layer.check()

    def read(entry: TarEntry) -> EntryContent:
        if entry.kind is not EntryKind.FILE:
            return {}, None
        pieces: list[bytes] | None = [] if keep(entry.path) else None
        if pieces is not None and entry.size > LARGEST_KEPT:
            reader.refuse(entry.path, f"has more than the {LARGEST_KEPT} bytes that are read of it")
        held.take(0 if pieces is None else entry.size)
        digests = hash_stream(reader.chunks(), algorithms, pieces)
        return digests, None if pieces is None else b"".join(pieces)

    with layer.archive(DEFAULT, lambda _: None) as archive:
        reader = TarReader(
            VerifiedReader(archive, layer.diff_id, name=layer.name), name=layer.name, may_be_sparse=True
        )
        return read_layer(reader, read, held)


def hash_stream(
    chunks: Iterator[bytes], algorithms: Sequence[str], copy: list[bytes] | None = None
) -> dict[str, str]:
    """The digests of the passing data, by algorithm; `copy` gets it."""
    made = [hashlib.new(name, usedforsecurity=False) for name in algorithms]
    for chunk in chunks:
        for each in made:
            each.update(chunk)
        if copy is not None:
            copy.append(chunk)
    return {name: each.hexdigest() for name, each in zip(algorithms, made, strict=True)}


class _Layered:
    """The files that layers make, put one on the other."""

    def __init__(self, algorithms: Sequence[str]) -> None:
        self._layered = LayeredTree(_OWNER)
        self.tree = self._layered.tree
        self._algorithms = algorithms
        self._files: dict[bytes, LayeredFile] = {}

    def files(self) -> dict[bytes, LayeredFile]:
        """The resulting entries, by path, sorted."""
        return {
            path: self._files[path]
            for path, node in sorted(self.tree.nodes.items())
            if node.kind is not EntryKind.DIRECTORY
        }

    def apply(self, layer: LayerEntries[EntryContent], number: int) -> None:
        """Put the next layer on. Raise ArchiveRefused for a member with an invalid path."""
        try:
            self._layered.apply_whiteouts(layer.removed, layer.emptied)
            for entry, (digests, content) in layer.entries:
                self._add_entry(entry, digests, content, number)
        except ArchiveRefused as refused:
            raise ArchiveRefused(f"layer {number}: {refused}") from None

    def _add_entry(
        self, entry: TarEntry, digests: Mapping[str, str], content: bytes | None, number: int
    ) -> None:
        same = self._layered.find(entry.link) if entry.kind is EntryKind.HARDLINK else None
        file = self._layered_file(entry, digests, number, same)
        retained = content if same is None else self.tree.kept.get(same)
        stored = self._layered.put(entry.path, FileNode.of(entry, _OWNER))
        if file is not None:
            self._files[stored] = file
        if retained is not None:
            self.tree.kept[stored] = retained

    def _layered_file(
        self, entry: TarEntry, digests: Mapping[str, str], number: int, same: bytes | None
    ) -> LayeredFile | None:
        """The file of a member; a hard link's is that of the file at `same`."""
        if entry.kind is EntryKind.DIRECTORY:
            return None
        if entry.kind is EntryKind.HARDLINK:
            before = self._files.get(same) if same is not None and same in self.tree.nodes else None
            if before is None:
                what = f"{show(entry.path)} is a hard link to {show(entry.link)}, which is no file before it"
                raise ArchiveRefused(what)
            return LayeredFile(before.kind, before.size, before.digests, before.link, number)
        if entry.kind is not EntryKind.FILE:
            digests = hash_stream(iter((entry.link,)), self._algorithms)
        return LayeredFile(entry.kind, entry.size, digests, entry.link, number)
