"""Reads the layers of a base image, for the paths that another layer on top has to know.

The base's layers are neither changed nor copied: the image on top names the same blobs by the same digests.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Event

from sandwright.errors import ArchiveRefused
from sandwright.image.existing import BaseImage, PlatformImage
from sandwright.image.layered import LayeredTree, LayerEntries, read_layer
from sandwright.image.tree import FileNode, FileTree
from sandwright.registry.failure import Cancelled
from sandwright.rootfs.digest import VerifiedReader
from sandwright.rootfs.tar.codec import decompressed
from sandwright.rootfs.tar.entry import EntryKind, TarEntry
from sandwright.rootfs.tar.memory_budget import MemoryBudget
from sandwright.rootfs.tar.reader import TarReader

_OWNER = "the base"
_LARGEST_KEPT = 8 << 20


def read_tree(
    base: BaseImage,
    image: PlatformImage,
    keep: Callable[[bytes], bool],
    cancelled: Event,
    advance: Callable[[int], object] = lambda _: None,
) -> FileTree:
    """The file tree of an image, with the contents of the files that `keep` picks.

    Every layer is verified as it is read. Raise IntegrityError for a wrong digest, ArchiveRefused for an
    invalid member.
    """
    layered, held = LayeredTree(_OWNER), MemoryBudget()
    for number, (blob, diff_id) in enumerate(zip(image.layers, image.diff_ids, strict=True), 1):
        name = f"{base.name}, layer {number} of {len(image.layers)}"
        with base.file(blob).open("rb") as file:
            packed = VerifiedReader(file, blob.digest, size=blob.size, name=name)
            reader = TarReader(
                VerifiedReader(decompressed(packed, name=name), diff_id, name=name),
                name=name,
                may_be_sparse=True,
            )
            layer = read_layer(reader, partial(_picked_content, reader, keep, cancelled), held)
        _apply(layered, layer, name)
        advance(blob.size)
    return layered.tree


def _apply(layered: LayeredTree, layer: LayerEntries[bytes | None], name: str) -> None:
    try:
        layered.apply_whiteouts(layer.removed, layer.emptied)
        for entry, content in layer.entries:
            stored = layered.put(entry.path, FileNode.of(entry, _OWNER))
            if content is not None:
                layered.tree.kept[stored] = content
    except ArchiveRefused as refused:
        raise ArchiveRefused(f"{name}: {refused}") from None


def _picked_content(
    reader: TarReader, keep: Callable[[bytes], bool], cancelled: Event, entry: TarEntry
) -> bytes | None:
    """The content of a file that `keep` picks. Raise Cancelled when the build is to stop."""
    if cancelled.is_set():
        raise Cancelled
    if entry.kind is not EntryKind.FILE or not keep(entry.path):
        return None
    if entry.size > _LARGEST_KEPT:
        reader.refuse(entry.path, f"has more than the {_LARGEST_KEPT} bytes that are read of it")
    return b"".join(reader.chunks())
