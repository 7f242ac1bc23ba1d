"""Pushes layouts to registries, and pulls images into layouts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from sandwright.documents.fields import INDEX
from sandwright.documents.strictjson import parse_json
from sandwright.errors import IntegrityError, UsageError
from sandwright.image.cache import Cache
from sandwright.image.documents import ALL_PLATFORMS, REF_NAME
from sandwright.image.layout import Blob, staging
from sandwright.image.registrybase import CacheStore
from sandwright.progress import SILENT, Progress
from sandwright.registry.attachments import attachments_of, pull_attachments
from sandwright.registry.graph import ImageGraph, walk
from sandwright.registry.pull import pull
from sandwright.registry.reference import Reference
from sandwright.registry.repository import open_repository
from sandwright.registry.settings import RegistrySettings
from sandwright.rootfs.descriptor import (
    CONFIG_TYPES,
    INDEX_TYPES,
    MANIFEST_TYPES,
    OCI_INDEX,
    UNKNOWN,
    Descriptor,
    Platform,
    is_attachment,
    parse_platform,
    read_descriptor,
    sequence,
)
from sandwright.rootfs.images import blobs
from sandwright.rootfs.images.blobs import BlobSource
from sandwright.rootfs.images.imageconfig import parse_config
from sandwright.rootfs.unpacking.store import explained

_LARGEST = 4 << 20


@dataclass(frozen=True)
class PushSource:
    """One image of a layout, ready to push, with its attached documents."""

    graph: ImageGraph
    open_blob: Callable[[Descriptor], BinaryIO]
    attachments: Mapping[str, ImageGraph] = field(default_factory=dict)


def open_layout(path: Path, ref: str | None = None) -> PushSource:
    """The image of an OCI layout or archive: the one called `ref`, else the one for all platforms.

    Raise UsageError when none or several fit; ArchiveRefused or IntegrityError for invalid documents.
    """
    with explained(path):
        source: BlobSource = blobs.DirectoryBlobs(path) if path.is_dir() else blobs.ArchiveBlobs(path)
        if source.size("oci-layout") is None or source.size("index.json") is None:
            raise UsageError(f"{path}: not an OCI layout: no oci-layout and index.json")
        index = parse_json(blobs.read(source, "index.json", limit=_LARGEST), f"{path}: index.json", INDEX)
        listed = sequence(index.get("manifests"), f"{path}: manifests")
        found = [read_descriptor(each, f"{path}: manifests[{number}]") for number, each in enumerate(listed)]
        root = _choose_root(found, ref, path)

        def load(descriptor: Descriptor) -> bytes:
            return blobs.read(source, descriptor.path, limit=_LARGEST)

        graph = walk(root, load, str(path))
        for blob in graph.blobs:
            size = source.size(blob.path)
            if size != blob.size:
                has = "is missing" if size is None else f"has {size} bytes where {blob.size} were promised"
                raise IntegrityError(f"{path}: {blob.digest} {has}")
        named = {name: each for each in found for name in each.names}
        attachments = {
            name: walk(named[name], load, str(path)) for name in attachments_of(graph) if name in named
        }
    return PushSource(graph, lambda blob: source.open(blob.path), attachments)


def pull_layout(
    reference: Reference,
    target: Path,
    *,
    platforms: Sequence[str] = (),
    evidence: bool = True,
    settings: RegistrySettings,
    cache: Cache,
    progress: Progress = SILENT,
) -> str:
    """Pull an image through the cache into a layout at `target`; return its digest.

    With `evidence`, attached documents are pulled as well. The layout names the image by its tag.
    `platforms` selects platforms, none meaning all. The layout appears complete or not at all. Raise
    UsageError when the image lacks a platform, and the errors of `pull`.
    """
    chosen = [parse_platform(each) for each in platforms]

    def wanted(platform: Platform | None) -> bool:
        return not chosen or (platform is not None and any(_is_platform(platform, each) for each in chosen))

    with open_repository(reference, settings) as repository:
        store = CacheStore(cache)
        graph = pull(repository, reference.what, store, platforms=wanted, progress=progress)
        attached = pull_attachments(repository, graph, store, progress=progress) if evidence else {}
    offered = _index_platforms(graph, cache)
    if not offered:
        raise UsageError(f"{reference} is an index without images")
    _check_there(offered, chosen, reference)
    entries = [(graph.root.descriptor, reference.tag or ALL_PLATFORMS)]
    entries += [(root, name) for name, root in attached.items()]
    index = {
        "schemaVersion": 2,
        "mediaType": OCI_INDEX,
        "manifests": [each.document(annotations={REF_NAME: name}) for each, name in entries],
    }
    target.parent.mkdir(parents=True, exist_ok=True)
    graphs = [graph, *(walk(root, store.read, str(reference)) for root in attached.values())]
    needed = [each for some in graphs for each in (*(node.descriptor for node in some.nodes), *some.blobs)]
    parts = list(dict.fromkeys(Blob.of(each) for each in needed))
    with staging(target.absolute().parent, progress=progress) as area:
        for part in parts:
            area.adopt(part, cache.path(part.name))
        area.publish(index, parts, target)
    return graph.root.descriptor.digest


def _choose_root(found: Sequence[Descriptor], ref: str | None, path: Path) -> Descriptor:
    documents = [each for each in found if each.media_type in INDEX_TYPES | MANIFEST_TYPES]
    images = [each for each in documents if ref is not None or not is_attachment(each.names)]
    if ref is not None:
        fitting = [each for each in images if ref in (each.digest, *each.names)]
    else:
        named = [each for each in images if ALL_PLATFORMS in each.names]
        fitting = named if len(named) == 1 else images
    distinct = {each.digest: each for each in fitting}
    if len(distinct) == 1:
        return next(iter(distinct.values()))
    there = ", ".join(sorted(" ".join(each.names) or each.digest for each in images)) or "nothing"
    problem = "several images" if distinct else f"no image {ref!r}" if ref else "no image"
    raise UsageError(f"{path}: {problem}; name one by its reference or digest: it has {there}")


def _index_platforms(graph: ImageGraph, cache: Cache) -> set[Platform | None]:
    """The platforms of an index, None for a manifest without one; of a lone manifest those of its config.

    That of attestations is none.
    """
    if graph.root.descriptor.media_type in INDEX_TYPES:
        children = [each for node in graph.nodes for each in node.children]
        return {each.platform for each in children if each.media_type in MANIFEST_TYPES} - {UNKNOWN}
    config = graph.root.blobs[0]
    if config.media_type not in CONFIG_TYPES:
        return {None}
    raw = cache.path(Blob.of(config).name).read_bytes()
    return {parse_config(raw, config.digest, f"config {config.digest}").platform}


def _check_there(there: set[Platform | None], chosen: Sequence[Platform], reference: Reference) -> None:
    offered = [each for each in there if each is not None]
    for platform in chosen:
        if not any(_is_platform(each, platform) for each in offered):
            have = ", ".join(sorted(map(str, offered))) or "nothing that it names"
            raise UsageError(f"{reference} is not made for {platform}, only for {have}")


def _is_platform(one: Platform, other: Platform) -> bool:
    return (one.os, one.architecture) == (other.os, other.architecture) and (
        not other.variant or one.variant == other.variant
    )
