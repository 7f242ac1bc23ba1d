"""Looks into the layers of a base, for what has to be known to put another layer on top.

The base's layers are not changed and not copied: the image on top names the same blobs by the same digests.
What they make of each other is told by image-spec 1.1, layer.md: what a layer takes away it takes from the
layers below it, whatever the order of its members.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Event

from sandwright.errors import ArchiveRefused
from sandwright.image.existing import BaseImage, PlatformImage
from sandwright.image.layered import LayeredTree
from sandwright.image.tree import FileNode, FileTree
from sandwright.registry.failure import Cancelled
from sandwright.rootfs.digest import VerifiedReader
from sandwright.rootfs.tar.codec import decompressed
from sandwright.rootfs.tar.entry import EntryKind, EntryRefused
from sandwright.rootfs.tar.reader import TarReader
from sandwright.rootfs.unpacking.merge import whiteout

_OWNER = "the base"
_LARGEST_KEPT = 8 << 20


def read_tree(
    base: BaseImage,
    image: PlatformImage,
    keep: Callable[[bytes], bool],
    cancelled: Event,
    advance: Callable[[int], object] = lambda _: None,
) -> FileTree:
    """The tree that the layers of an image make, with the contents of the files that `keep` picks.

    Every layer is verified as it is read. Raise IntegrityError for one that isn't what its digest says,
    ArchiveRefused for one with a member that can't be.
    """
    layered = LayeredTree(_OWNER)
    for number, (blob, diff_id) in enumerate(zip(image.layers, image.diff_ids, strict=True), 1):
        name = f"{base.name}, layer {number} of {len(image.layers)}"
        with base.file(blob).open("rb") as file:
            packed = VerifiedReader(file, blob.digest, size=blob.size, name=name)
            reader = TarReader(VerifiedReader(decompressed(packed, name=name), diff_id, name=name), name=name)
            _apply(layered, _read_layer(reader, keep, cancelled), name)
        advance(blob.size)
    return layered.tree


def _apply(layered: LayeredTree, layer: _Layer, name: str) -> None:
    try:
        layered.apply_whiteouts(layer.gone, layer.emptied)
        for path, node in layer.nodes:
            place = layered.put(path, node)
            if path in layer.kept:
                layered.tree.kept[place] = layer.kept[path]
    except ArchiveRefused as refused:
        raise ArchiveRefused(f"{name}: {refused}") from None


class _Layer:
    """What one layer takes away and what it brings, in its order."""

    def __init__(self) -> None:
        self.gone: list[bytes] = []
        self.emptied: list[bytes] = []
        self.nodes: list[tuple[bytes, FileNode]] = []
        self.kept: dict[bytes, bytes] = {}


def _read_layer(reader: TarReader, keep: Callable[[bytes], bool], cancelled: Event) -> _Layer:
    layer = _Layer()
    for entry in reader:
        if cancelled.is_set():
            raise Cancelled
        try:
            hidden = whiteout(entry.path)
        except EntryRefused as refusal:
            reader.refuse(entry.path, str(refusal))
        if hidden is None:
            layer.nodes.append((entry.path, FileNode.of(entry, _OWNER)))
            if entry.kind is EntryKind.FILE and keep(entry.path):
                if entry.size > _LARGEST_KEPT:
                    reader.refuse(entry.path, f"has more than the {_LARGEST_KEPT} bytes that are read of it")
                layer.kept[entry.path] = b"".join(reader.chunks())
        elif hidden == entry.path:
            layer.emptied.append(hidden.rpartition(b"/")[0])
        else:
            layer.gone.append(hidden)
    return layer
