"""Images of registries as bases of ours: locks them, and fetches them into the cache.

The cache holds documents and layers by digest; a cached base needs no registry.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from sandwright.errors import ArchiveRefused, LockError
from sandwright.image.baselock import BaseGone, BaseLock
from sandwright.image.cache import Cache
from sandwright.image.definition import ImageDefinition
from sandwright.image.documents import timestamp
from sandwright.image.existing import PlatformImage
from sandwright.image.layout import Blob
from sandwright.image.lock import checksum
from sandwright.progress import SILENT, Progress
from sandwright.registry.failure import NotFound
from sandwright.registry.graph import ImageGraph, ManifestNode, walk
from sandwright.registry.pull import fetch_blobs, pull_pinned
from sandwright.registry.reference import parse_reference
from sandwright.registry.repository import Repository, open_repository
from sandwright.registry.settings import RegistrySettings
from sandwright.rootfs.descriptor import (
    CONFIG_TYPES,
    INDEX_TYPES,
    LAYER_TYPES,
    Descriptor,
    Platform,
    parse_platform,
    sequence,
)
from sandwright.rootfs.images.imageconfig import LARGEST_CONFIG, ImageConfig, parse_config


@dataclass(frozen=True)
class RegistryImage:
    """A base that is complete in the cache. `configs` are its own configurations, by platform."""

    name: str
    whole: Blob
    images: Mapping[str, PlatformImage]
    configs: Mapping[str, ImageConfig]
    cache: Cache

    def file(self, blob: Blob) -> Path:
        """The path of a blob."""
        return self.cache.path(blob.name)


class CacheStore:
    """The cache as the content store of a pull."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def has(self, descriptor: Descriptor) -> bool:
        """Whether a blob is there, by its content."""
        return self._cache.holds(_sha256(descriptor), descriptor.size, verify=True)

    def read(self, descriptor: Descriptor) -> bytes:
        """A blob that is there."""
        return self._cache.path(_sha256(descriptor)).read_bytes()

    @contextmanager
    def adding(self, descriptor: Descriptor) -> Iterator[BinaryIO]:
        """A file that is in the cache when the `with` ends without an error."""
        with self._cache.adding(_sha256(descriptor)) as file:
            yield file


def lock_base(
    definition: ImageDefinition, *, settings: RegistrySettings, cache: Cache, progress: Progress = SILENT
) -> BaseLock:
    """Resolve the definition's base in the registry.

    Raise LockError when the base lacks a platform of the definition or is unusable, and the errors of the
    registry's client.
    """
    assert definition.reference is not None
    reference = parse_reference(definition.reference)
    store = CacheStore(cache)
    with open_repository(reference, settings) as repository:
        root = repository.manifest(reference.what)
        with store.adding(root.descriptor) as file:
            file.write(root.content)
        graph = _documents(repository, root.descriptor, store, definition.platforms)
        found = {
            platform: _platform_manifest(graph, platform, repository, store)
            for platform in definition.platforms
        }
    progress.note(f"{definition.name}: {reference} is {root.digest}")
    return BaseLock(
        checksum(definition),
        str(reference),
        max(_created(config) for _, config in found.values()),
        root.descriptor,
        {
            platform: Descriptor(node.descriptor.media_type, node.descriptor.digest, node.descriptor.size)
            for platform, (node, _) in found.items()
        },
    )


def fetch_base(
    lock: BaseLock,
    platforms: Collection[str],
    *,
    settings: RegistrySettings,
    cache: Cache,
    progress: Progress = SILENT,
) -> RegistryImage:
    """Fetch the base of a lock into the cache, for some platforms.

    Raise BaseGone when the registry no longer has it, IntegrityError and ArchiveRefused for an unusable base,
    and the errors of the registry's client.
    """
    store = CacheStore(cache)
    images, configs = {}, {}
    with open_repository(lock.pinned, settings) as repository:
        for platform in platforms:
            pin = lock.platforms.get(platform)
            if pin is None:
                raise LockError(f"the lock does not hold {platform}, only {', '.join(lock.platforms)}")
            try:
                graph = pull_pinned(repository, pin, store, progress=progress)
            except NotFound as gone:
                raise BaseGone(f"{lock.pinned} is no longer there for {platform}: {gone}") from gone
            config = _fetch_config(graph.root, repository, store)
            _check_config_platform(config, platform, str(repository))
            configs[platform] = config
            images[platform] = _held(graph.root, config, platform, lock)
    whole = Blob.of(lock.base)
    return RegistryImage(str(parse_reference(lock.reference)), whole, images, configs, cache)


def _documents(
    repository: Repository, root: Descriptor, store: CacheStore, platforms: Collection[str]
) -> ImageGraph:
    """The documents of the wanted platforms, without their blobs."""

    def load(descriptor: Descriptor) -> bytes:
        if not store.has(descriptor):
            document = repository.manifest(descriptor.digest)
            with store.adding(descriptor) as file:
                file.write(document.content)
        return store.read(descriptor)

    chosen = [parse_platform(each) for each in platforms]
    return walk(
        root,
        load,
        str(repository),
        platforms=lambda platform: platform is None or any(_same_platform(platform, each) for each in chosen),
    )


def _platform_manifest(
    graph: ImageGraph, platform: str, repository: Repository, store: CacheStore
) -> tuple[ManifestNode, ImageConfig]:
    """The manifest for a platform, and its config. The index names the platform, or the config does."""
    parsed = parse_platform(platform)
    history = {
        child.digest: child.platform
        for node in graph.nodes
        for child in node.children
        if child.platform is not None
    }
    manifests = [node for node in graph.nodes if node.descriptor.media_type not in INDEX_TYPES]
    for node in sorted(manifests, key=lambda each: history.get(each.descriptor.digest) != parsed):
        declared = history.get(node.descriptor.digest)
        if declared is not None and not _same_platform(declared, parsed):
            continue
        if declared is None and node.blobs[0].media_type not in CONFIG_TYPES:
            continue
        config = _fetch_config(node, repository, store)
        if declared is not None or _same_platform(config.platform, parsed):
            _check_config_platform(config, platform, str(repository))
            return node, config
    offered = ", ".join(sorted({str(each) for each in history.values()})) or "another one"
    raise LockError(
        f"{repository}: {graph.root.descriptor.digest} is not made for {platform}, only for {offered}"
    )


def _fetch_config(node: ManifestNode, repository: Repository, store: CacheStore) -> ImageConfig:
    """The config of a manifest, fetched if needed."""
    config = node.blobs[0]
    where = f"{repository}: config {config.digest}"
    if config.media_type not in CONFIG_TYPES:
        raise ArchiveRefused(f"{where}: {config.media_type} is not the config of a container image")
    if config.size > LARGEST_CONFIG:
        raise ArchiveRefused(f"{where}: has {config.size} bytes; at most {LARGEST_CONFIG} are read")
    fetch_blobs(repository, [config], store)
    return parse_config(store.read(config), config.digest, where)


def _check_config_platform(config: ImageConfig, platform: str, where: str) -> None:
    if not _same_platform(config.platform, parse_platform(platform)):
        raise ArchiveRefused(f"{where}: the image for {platform} says it is for {config.platform}")


def _same_platform(one: Platform, other: Platform) -> bool:
    """Whether two platforms are the same apart from their variants."""
    return (one.os, one.architecture) == (other.os, other.architecture)


def _held(node: ManifestNode, config: ImageConfig, platform: str, lock: BaseLock) -> PlatformImage:
    layers = node.blobs[1:]
    where = f"{lock.pinned}: {platform}"
    if len(layers) != len(config.diff_ids):
        raise ArchiveRefused(
            f"{where}: {len(layers)} layers, and {len(config.diff_ids)} diff_ids in the config"
        )
    for layer in layers:
        _sha256(layer)
        if layer.media_type not in LAYER_TYPES:
            raise ArchiveRefused(f"{where}: {layer.media_type} is not a layer that can be unpacked here")
    return PlatformImage.of(platform, node, config, _history(config, len(layers), lock))


def _history(config: ImageConfig, count: int, lock: BaseLock) -> tuple[Mapping[str, Any], ...]:
    """A line of history for each layer: the base's own, if the numbers match."""
    history = sequence(config.document.get("history"), "history")
    layers_of = [each for each in history if isinstance(each, dict) and not each.get("empty_layer")]
    if len(layers_of) != count:
        layers_of = [{}] * count
    return tuple(
        {
            "created": _text_or(each.get("created"), timestamp(lock.epoch)),
            "created_by": _text_or(each.get("created_by"), f"layer {number} of {lock.pinned.name}"),
        }
        for number, each in enumerate(layers_of, 1)
    )


def _text_or(value: object, otherwise: str) -> str:
    return value if isinstance(value, str) and value else otherwise


def _created(config: ImageConfig) -> int:
    """The time of an image in seconds; 0 where it has none."""
    try:
        return max(0, int(datetime.fromisoformat(str(config.document.get("created"))).timestamp()))
    except (ValueError, OverflowError):
        return 0


def _sha256(descriptor: Descriptor) -> str:
    algorithm, _, encoded = descriptor.digest.partition(":")
    if algorithm != "sha256":
        raise ArchiveRefused(f"{descriptor.digest}: only SHA-256 can be kept here")
    return encoded
