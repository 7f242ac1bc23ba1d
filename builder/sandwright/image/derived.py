"""Looks into the layers of a base image of ours, for what has to be known to put another layer on top.

The base's layers are not changed and not copied: the image on top names the same blobs by the same digests.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Event

from sandwright.errors import BuildError
from sandwright.image.existing import Existing, Held
from sandwright.image.layer import Cancelled
from sandwright.image.tree import Node, Tree
from sandwright.rootfs.codec import decompressed
from sandwright.rootfs.digest import Verified
from sandwright.rootfs.entry import WHITEOUT, Kind, show
from sandwright.rootfs.reader import Reader


def read_tree(
    base: Existing,
    image: Held,
    keep: Callable[[bytes], bool],
    cancelled: Event,
    advance: Callable[[int], object] = lambda _: None,
) -> Tree:
    """The tree that the layers of an image make, with the contents of the files that `keep` picks.

    Every layer is verified as it is read. Raise IntegrityError for one that isn't what its digest says,
    BuildError for one that takes something away, which none of ours does.
    """
    tree = Tree()
    for number, (blob, diff_id) in enumerate(zip(image.layers, image.diff_ids, strict=True), 1):
        name = f"{base.path.name}, layer {number} of {len(image.layers)}"
        with base.file(blob).open("rb") as file:
            packed = Verified(file, blob.digest, size=blob.size, name=name)
            reader = Reader(Verified(decompressed(packed, name=name), diff_id, name=name), name=name)
            _read_layer(reader, tree, keep, cancelled)
        advance(blob.size)
    return tree


def _read_layer(reader: Reader, tree: Tree, keep: Callable[[bytes], bool], cancelled: Event) -> None:
    for entry in reader:
        if cancelled.is_set():
            raise Cancelled
        if entry.path.rpartition(b"/")[2].startswith(WHITEOUT):
            raise BuildError(f"the base hides a file with {show(entry.path)}; no image of ours does")
        tree.add(entry.path, Node.of(entry, "the base"))
        if entry.kind is Kind.FILE and keep(entry.path):
            tree.kept[entry.path] = b"".join(reader.chunks())
        elif entry.kind is not Kind.DIRECTORY:
            tree.kept.pop(entry.path, None)
