"""Looks the documents of an OCI layout over: every blob that is there, and every blob that should be."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandwright.check.finding import ImageFinding
from sandwright.documents.fields import INDEX, MANIFEST_OR_INDEX
from sandwright.documents.strictjson import parse_json
from sandwright.errors import ArchiveRefused, SandwrightError
from sandwright.rootfs.descriptor import (
    INDEX_TYPES,
    MANIFEST_TYPES,
    Descriptor,
    read_descriptor,
    sequence,
)
from sandwright.rootfs.images.blobs import DirectoryBlobs, read
from sandwright.rootfs.images.layout import LARGEST_DOCUMENT, MOST_DESCRIPTORS
from sandwright.rootfs.images.source import Image
from sandwright.rootfs.tar.limits import DEFAULT

_DEEPEST = 8
_CHUNK = 1 << 20


def check_layout(path: Path) -> Iterator[ImageFinding]:
    """Findings of rules `layout/blob`, `layout/unreferenced` and `layout/media-type` of a layout's directory.

    All of it is looked at, whichever image is meant. A document that can't be read is a finding as well.
    """
    blobs = DirectoryBlobs(path)
    walk = _Walk(blobs)
    try:
        document = parse_json(read(blobs, "index.json", limit=LARGEST_DOCUMENT), "index.json", INDEX)
        yield from walk.document(document, "index.json", 0)
    except (SandwrightError, OSError) as error:
        yield ImageFinding("layout/blob", "index.json", str(error))
        return
    for blob in sorted(path.glob("blobs/*/*")):
        digest = f"{blob.parent.name}:{blob.name}"
        if digest not in walk.seen:
            yield ImageFinding("layout/unreferenced", digest, "no document leads to it")


def check_manifest(image: Image) -> Iterator[ImageFinding]:
    """Findings of rules `layout/history`, `layout/media-type` and `layout/elsewhere` of one image."""
    history = image.config.get("history")
    if isinstance(history, list):
        made = sum(1 for step in history if isinstance(step, dict) and not step.get("empty_layer"))
        if made != len(image.layers):
            yield ImageFinding(
                "layout/history",
                "config",
                f"has {made} steps with a layer; there are {len(image.layers)} layers",
            )
    elif image.layers:
        yield ImageFinding("layout/history", "config", "has no history")
    if image.manifest and "mediaType" not in image.manifest:
        yield ImageFinding(
            "layout/media-type",
            "manifest",
            "doesn't name its media type, so that it can be taken for another",
        )
    for number, layer in enumerate(image.manifest.get("layers") or (), 1):
        if isinstance(layer, dict) and layer.get("urls"):
            yield ImageFinding("layout/elsewhere", f"layer {number}", "is to be fetched from a URL")


@dataclass
class _Walk:
    blobs: DirectoryBlobs
    seen: set[str] = field(default_factory=set)

    def document(self, document: Mapping[str, Any], where: str, depth: int) -> Iterator[ImageFinding]:
        """An index or a manifest, and all documents and blobs that it references."""
        listed = ("manifests", "layers")
        for key in listed:
            for number, item in enumerate(sequence(document.get(key), f"{where}: {key}")):
                yield from self._walk_named(item, f"{where}: {key}[{number}]", depth)
        for key in ("config", "subject"):
            if document.get(key) is not None:
                yield from self._walk_named(
                    document[key], f"{where}: {key}", depth, optional=key == "subject"
                )

    def _walk_named(
        self, item: object, where: str, depth: int, *, optional: bool = False
    ) -> Iterator[ImageFinding]:
        descriptor = read_descriptor(item, where)
        if descriptor.digest in self.seen:
            return
        self.seen.add(descriptor.digest)
        if len(self.seen) > MOST_DESCRIPTORS:
            raise ArchiveRefused(f"{where}: more than {MOST_DESCRIPTORS} blobs are named")
        try:
            content, wrong = self._read_small_blob(descriptor)
        except ArchiveRefused as refused:
            content, wrong = b"", str(refused)
        if wrong:
            if not (optional and content is None):
                yield ImageFinding("layout/blob", descriptor.digest, f"{where}: {wrong}")
            return
        if descriptor.media_type in INDEX_TYPES | MANIFEST_TYPES and depth < _DEEPEST and content is not None:
            inner = parse_json(content, descriptor.digest, MANIFEST_OR_INDEX)
            if "mediaType" not in inner:
                yield ImageFinding("layout/media-type", descriptor.digest, "doesn't name its media type")
            yield from self.document(inner, descriptor.digest, depth + 1)

    def _read_small_blob(self, descriptor: Descriptor) -> tuple[bytes | None, str]:
        """A document's content, or b"" for anything larger; and the blob's faults."""
        algorithm, _, name = descriptor.digest.partition(":")
        size = self.blobs.size(descriptor.path)
        if size is None:
            return None, "is not there"
        if size != descriptor.size:
            return b"", f"has {size} bytes, not {descriptor.size}"
        digest, content = hashlib.new(algorithm), bytearray()
        is_document = descriptor.media_type in INDEX_TYPES | MANIFEST_TYPES
        if size > (LARGEST_DOCUMENT if is_document else DEFAULT.bytes):
            return b"", f"has {size} bytes, more than are read of it"
        with self.blobs.open(descriptor.path) as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
                if is_document:
                    content += chunk
        if digest.hexdigest() != name:
            return b"", f"has the digest {algorithm}:{digest.hexdigest()}"
        return bytes(content), ""
