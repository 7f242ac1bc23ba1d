"""The graph of an image: indexes, manifests and blobs. Pure apart from `load`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sandwright.documents.fields import MANIFEST_OR_INDEX
from sandwright.documents.strictjson import parse_json
from sandwright.errors import ArchiveRefused, IntegrityError
from sandwright.rootfs.descriptor import (
    INDEX_TYPES,
    MANIFEST_TYPES,
    Descriptor,
    Platform,
    check_document,
    read_descriptor,
    sequence,
)

DEEPEST = 8
MOST_DOCUMENTS = 1_000

Load = Callable[[Descriptor], bytes]
"""Returns the bytes of a document, which need not be verified."""

PlatformFilter = Callable[[Platform | None], bool]
"""Whether the manifests of a platform are wanted; None where the index names no platform."""


@dataclass(frozen=True)
class ManifestNode:
    """An index or manifest, with the documents or blobs that it names. `subject` is set for referrers."""

    descriptor: Descriptor
    content: bytes
    children: tuple[Descriptor, ...] = ()
    blobs: tuple[Descriptor, ...] = ()
    subject: Descriptor | None = None

    @property
    def document(self) -> Mapping[str, Any]:
        """The document as JSON."""
        return parse_json(self.content, self.descriptor.digest, MANIFEST_OR_INDEX)


@dataclass(frozen=True)
class ImageGraph:
    """The documents of an image, each after those that it names; the root is the last."""

    nodes: tuple[ManifestNode, ...]

    @property
    def root(self) -> ManifestNode:
        """The index or manifest at the top."""
        return self.nodes[-1]

    @property
    def blobs(self) -> tuple[Descriptor, ...]:
        """Configs and layers, each once."""
        return tuple({blob.digest: blob for node in self.nodes for blob in node.blobs}.values())


def walk(
    root: Descriptor, load: Load, where: str, *, platforms: PlatformFilter = lambda _: True
) -> ImageGraph:
    """The graph below a document, without the manifests of platforms that are not `platforms`.

    Every document is verified and must be clearly one of its kind. `where` begins messages. Raise
    ArchiveRefused, IntegrityError, and the exceptions of `load`.
    """
    walker = _Walker(load, where, platforms)
    walker.visit(root, 0)
    return ImageGraph(tuple(walker.found.values()))


class _Walker:
    """Collects the documents below a root, the leaves first."""

    def __init__(self, load: Load, where: str, platforms: PlatformFilter) -> None:
        self.found: dict[str, ManifestNode] = {}
        self._load = load
        self._where = where
        self._wanted = platforms

    def visit(self, at: Descriptor, depth: int) -> None:
        if at.digest in self.found:
            return
        if depth > DEEPEST or len(self.found) >= MOST_DOCUMENTS:
            limit = f"more than {MOST_DOCUMENTS} documents, or nested more than {DEEPEST} deep"
            raise ArchiveRefused(f"{self._where}: {limit}")
        node = read_node(at, self._load(at), f"{self._where}: {at.digest}")
        for child in node.children:
            if child.media_type in INDEX_TYPES or self._wanted(child.platform):
                self.visit(child, depth + 1)
        self.found[at.digest] = node


def read_node(descriptor: Descriptor, content: bytes, where: str) -> ManifestNode:
    """Verify and parse an index or manifest. Raise ArchiveRefused, IntegrityError."""
    verify(descriptor, content, where)
    document = parse_json(content, where, MANIFEST_OR_INDEX)
    if descriptor.media_type not in INDEX_TYPES | MANIFEST_TYPES:
        raise ArchiveRefused(f"{where}: {descriptor.media_type} is neither a manifest nor an index")
    check_document(document, descriptor.media_type, where)
    subject = document.get("subject")
    pointed = None if subject is None else read_descriptor(subject, f"{where}: subject")
    if descriptor.media_type in INDEX_TYPES:
        listed = enumerate(sequence(document["manifests"], f"{where}: manifests"))
        children = tuple(read_descriptor(each, f"{where}: manifests[{n}]") for n, each in listed)
        return ManifestNode(descriptor, content, children, (), pointed)
    config = read_descriptor(document["config"], f"{where}: config")
    listed = enumerate(sequence(document["layers"], f"{where}: layers"))
    layers = tuple(read_descriptor(each, f"{where}: layers[{n}]") for n, each in listed)
    return ManifestNode(descriptor, content, (), (config, *layers), pointed)


def verify(descriptor: Descriptor, content: bytes, where: str) -> None:
    """Raise IntegrityError unless `content` has the size and digest of the descriptor."""
    if len(content) != descriptor.size:
        raise IntegrityError(f"{where}: has {len(content)} bytes where {descriptor.size} were promised")
    algorithm, _, expected = descriptor.digest.partition(":")
    found = hashlib.new(algorithm, content).hexdigest()
    if found != expected:
        raise IntegrityError(
            f"{where}: its digest is {algorithm}:{found} where {descriptor.digest} was promised"
        )


def sha256_descriptor(media_type: str, content: bytes) -> Descriptor:
    """The descriptor of some bytes."""
    return Descriptor(media_type, f"sha256:{hashlib.sha256(content).hexdigest()}", len(content))
