"""Reads an OCI image layout, in a directory or in an archive."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from sandwright.documents.fields import CONFIG, INDEX, LAYOUT, MANIFEST
from sandwright.documents.strictjson import parse_json
from sandwright.errors import ArchiveRefused, IntegrityError
from sandwright.rootfs.descriptor import (
    CONFIG_TYPES,
    INDEX_TYPES,
    LAYER_TYPES,
    MANIFEST_TYPES,
    OCI_INDEX,
    UNKNOWN,
    Descriptor,
    Platform,
    check_document,
    is_attachment,
    read_descriptor,
    sequence,
)
from sandwright.rootfs.images import blobs
from sandwright.rootfs.images.blobs import BlobSource
from sandwright.rootfs.images.candidates import ImageCandidate, choose, choose_all
from sandwright.rootfs.images.imageconfig import LARGEST_CONFIG, ImageConfig, parse_config
from sandwright.rootfs.unpacking.unpack import ImageLayer

LARGEST_DOCUMENT = 4 << 20
"""Bytes of an index or a manifest that are read; registries must take manifests of this size."""

DEEPEST = 8
MOST_DESCRIPTORS = 10_000
_STATEMENT = "application/vnd.in-toto+json"


@dataclass(frozen=True)
class SelectedImage:
    """The manifest that was chosen, with its blobs. `alone`: there was no other to choose."""

    digest: str
    manifest: Mapping[str, Any]
    config: ImageConfig
    layers: tuple[ImageLayer, ...]
    names: tuple[str, ...]
    alone: bool


@dataclass(frozen=True)
class _Leaf:
    """A manifest's descriptor, and the names that lead to it."""

    descriptor: Descriptor
    names: tuple[str, ...] = ()
    above: tuple[str, ...] = ()


class LayoutReader:
    """An image layout whose marker and index have been checked."""

    def __init__(self, source: BlobSource) -> None:
        self.name = source.name
        self._place = source
        marker = parse_json(
            blobs.read(source, "oci-layout", limit=1 << 16), f"{self.name}: oci-layout", LAYOUT
        )
        if marker.get("imageLayoutVersion") != "1.0.0":
            raise ArchiveRefused(f"{self.name}: oci-layout: imageLayoutVersion must be '1.0.0'")

    def select(self, platform: Platform | None, ref: str | None) -> SelectedImage:
        """The matching image, checked. `source.open_image` lists the exceptions."""
        leaves = self._leaves()
        candidates = list(
            self._leaf_candidates(
                each
                for each in leaves
                if each.descriptor.platform != UNKNOWN or each.descriptor.digest == ref
            )
        )
        digest = choose(candidates, platform, ref, self.name)
        leaf, *others = (leaf for leaf in leaves if leaf.descriptor.digest == digest)
        manifest = self._read_manifest(leaf.descriptor)
        config = self._read_config(manifest, digest)
        for each in (leaf, *others):
            self._check_declared_platform(each.descriptor, config.platform)
        names = tuple(dict.fromkeys(name for each in (leaf, *others) for name in each.names))
        alone = len({candidate.digest for candidate in candidates}) == 1
        return SelectedImage(digest, manifest, config, self._layers(manifest, config, digest), names, alone)

    def _check_declared_platform(self, descriptor: Descriptor, platform: Platform) -> None:
        declared = descriptor.platform
        if declared and (declared.os, declared.architecture) != (platform.os, platform.architecture):
            raise ArchiveRefused(
                f"{self.name}: {descriptor.digest}: an index says {declared}, its config {platform}"
            )

    def select_all(self, platform: Platform | None, ref: str | None) -> list[ImageCandidate]:
        """Every matching image. `source.list_images` lists the exceptions."""
        leaves = self._leaves()
        for leaf in leaves:
            self._check_system(leaf.descriptor)
        return choose_all(self._leaf_candidates(leaves), platform, ref, self.name)

    def config_digests(self) -> set[str]:
        """The digests of the configurations of all manifests."""
        manifests = (self._read_manifest(leaf.descriptor) for leaf in self._leaves())
        return {read_descriptor(each["config"], f"{self.name}: config").digest for each in manifests}

    def _check_system(self, descriptor: Descriptor) -> None:
        """Refuse a Linux image that an index lists for another system: it would escape all checks."""
        platform = descriptor.platform
        if platform is None or platform == UNKNOWN or platform.os == "linux":
            return
        named = read_descriptor(
            self._read_manifest(descriptor)["config"], f"{self.name}: {descriptor.digest}: config"
        )
        config = parse_json(
            self._read_verified(named, LARGEST_CONFIG), f"{self.name}: config {named.digest}", CONFIG
        )
        if config.get("os") != platform.os:
            raise ArchiveRefused(
                f"{self.name}: {descriptor.digest}: an index says {platform}, its config {config.get('os')!r}"
            )

    def _leaf_candidates(self, leaves: Iterable[_Leaf]) -> Iterator[ImageCandidate]:
        for leaf in leaves:
            platform = leaf.descriptor.platform
            if platform is None or platform == UNKNOWN:
                manifest = self._read_manifest(leaf.descriptor)
                if _config_type(manifest) not in CONFIG_TYPES or not _is_image(manifest, platform):
                    continue
                platform = self._read_config(manifest, leaf.descriptor.digest).platform
            yield ImageCandidate(leaf.descriptor.digest, platform, leaf.names, leaf.above)

    def _leaves(self) -> list[_Leaf]:
        """The manifests that are there, of all indexes."""
        try:
            raw = blobs.read(self._place, "index.json", limit=LARGEST_DOCUMENT)
        except FileNotFoundError:
            raise ArchiveRefused(f"{self.name}: an OCI layout without index.json") from None
        where = f"{self.name}: index.json"
        index = parse_json(raw, where, INDEX)
        media_type = index.get("mediaType")
        is_index = isinstance(media_type, str) and media_type in INDEX_TYPES
        check_document(index, str(media_type) if is_index else OCI_INDEX, where)
        leaves: list[_Leaf] = []
        missing: list[_Leaf] = []
        for number, leaf in enumerate(self._walk_index(index, where, _Leaf(_NOTHING), 0)):
            if number >= MOST_DESCRIPTORS:
                raise ArchiveRefused(f"{where}: more than {MOST_DESCRIPTORS} descriptors")
            there = self._place.size(leaf.descriptor.path) is not None
            (leaves if there else missing).append(leaf)
        if missing and all(leaf.descriptor.platform == UNKNOWN for leaf in leaves):
            raise IntegrityError(f"{self.name}: the blob {missing[0].descriptor.digest} is missing")
        return leaves

    def _walk_index(self, index: Mapping[str, Any], where: str, above: _Leaf, depth: int) -> Iterator[_Leaf]:
        for number, item in enumerate(sequence(index["manifests"], f"{where}: manifests")):
            descriptor = read_descriptor(item, f"{where}: manifests[{number}]")
            if depth == 0 and is_attachment(descriptor.names):
                continue
            leaf = _Leaf(descriptor, (*above.names, *descriptor.names), (*above.above, descriptor.digest))
            if descriptor.media_type in MANIFEST_TYPES:
                yield leaf
            elif descriptor.media_type in INDEX_TYPES:
                if depth >= DEEPEST:
                    raise ArchiveRefused(f"{where}: indexes nested more than {DEEPEST} deep")
                nested = f"{self.name}: index {descriptor.digest}"
                document = parse_json(self._read_verified(descriptor, LARGEST_DOCUMENT), nested, INDEX)
                check_document(document, descriptor.media_type, nested)
                yield from self._walk_index(document, nested, leaf, depth + 1)

    def _read_manifest(self, descriptor: Descriptor) -> dict[str, Any]:
        where = f"{self.name}: manifest {descriptor.digest}"
        manifest = parse_json(self._read_verified(descriptor, LARGEST_DOCUMENT), where, MANIFEST)
        check_document(manifest, descriptor.media_type, where)
        return manifest

    def _read_config(self, manifest: Mapping[str, Any], digest: str) -> ImageConfig:
        descriptor = read_descriptor(manifest["config"], f"{self.name}: manifest {digest}: config")
        if descriptor.media_type not in CONFIG_TYPES:
            raise ArchiveRefused(
                f"{self.name}: {digest} is no container image: its config is {descriptor.media_type}"
            )
        raw = self._read_verified(descriptor, LARGEST_CONFIG)
        return parse_config(raw, descriptor.digest, f"{self.name}: config {descriptor.digest}")

    def _layers(
        self, manifest: Mapping[str, Any], config: ImageConfig, digest: str
    ) -> tuple[ImageLayer, ...]:
        where = f"{self.name}: manifest {digest}: layers"
        listed = sequence(manifest["layers"], where)
        if len(listed) != len(config.diff_ids):
            raise ArchiveRefused(
                f"{where}: {len(listed)} of them, and {len(config.diff_ids)} diff_ids in the config"
            )
        descriptors = [read_descriptor(item, f"{where}[{number}]") for number, item in enumerate(listed)]
        return tuple(
            self._image_layer(descriptor, diff_id, f"{where}[{number}]")
            for number, (descriptor, diff_id) in enumerate(zip(descriptors, config.diff_ids, strict=True))
        )

    def _image_layer(self, descriptor: Descriptor, diff_id: str, where: str) -> ImageLayer:
        if descriptor.media_type not in LAYER_TYPES:
            raise ArchiveRefused(f"{where}: {descriptor.media_type} is not a layer that can be unpacked here")
        path = descriptor.path
        self._check_descriptor_size(path, descriptor)
        return ImageLayer(
            descriptor.digest,
            descriptor.size,
            descriptor.media_type,
            diff_id,
            partial(self._place.open, path),
        )

    def _read_verified(self, descriptor: Descriptor, limit: int) -> bytes:
        """A blob, with size and digest checked."""
        path = descriptor.path
        self._check_descriptor_size(path, descriptor)
        content = blobs.read(self._place, path, limit=limit)
        algorithm, _, expected = descriptor.digest.partition(":")
        if hashlib.new(algorithm, content).hexdigest() != expected:
            raise IntegrityError(f"{self.name}: {path} does not have the digest that names it")
        return content

    def _check_descriptor_size(self, path: str, descriptor: Descriptor) -> None:
        size = self._place.size(path)
        if size is None:
            raise IntegrityError(f"{self.name}: the blob {descriptor.digest} is missing")
        if size != descriptor.size:
            raise IntegrityError(
                f"{self.name}: {path} has {size} bytes, its descriptor says {descriptor.size}"
            )


_NOTHING = Descriptor("", "", 0)


def _config_type(manifest: Mapping[str, Any]) -> str:
    """The media type of a manifest's config, empty when it has none that could be one."""
    config = manifest["config"]
    found = config.get("mediaType") if isinstance(config, dict) else None
    return found if isinstance(found, str) else ""


def _is_image(manifest: Mapping[str, Any], platform: Platform | None) -> bool:
    """Whether it is more than an attestation, whose layers are all statements."""
    layers = manifest["layers"] if isinstance(manifest["layers"], list) else [None]
    return platform != UNKNOWN or any(
        not isinstance(each, dict) or each.get("mediaType") != _STATEMENT for each in layers
    )
