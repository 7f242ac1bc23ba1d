"""Reads a layout that sandwright wrote, and verifies it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from sandwright.documents.fields import INDEX
from sandwright.documents.strictjson import parse_json
from sandwright.errors import IntegrityError, SandwrightError
from sandwright.image.documents import ALL_PLATFORMS, INPUTS, REF_NAME, VARIANT
from sandwright.image.layout import LAYOUT_FILE, Blob
from sandwright.image.variant import ImageVariant, decode_variant
from sandwright.reading import open_regular
from sandwright.registry.graph import ManifestNode, walk
from sandwright.registry.graph import verify as verify_content
from sandwright.rootfs.descriptor import Descriptor, read_descriptor, sequence, strings
from sandwright.rootfs.images.blobs import DirectoryBlobs, read
from sandwright.rootfs.images.imageconfig import ImageConfig, parse_config

_DOCUMENT_SIZE = 8 << 20


@dataclass(frozen=True)
class PlatformImage:
    """The image of one platform: its manifest, and everything that the manifest names.

    `types` are the media types of the layers.
    """

    platform: str
    manifest: Blob
    config: Blob
    layers: tuple[Blob, ...]
    diff_ids: tuple[str, ...]
    history: tuple[Mapping[str, Any], ...]
    types: tuple[str, ...]

    @classmethod
    def of(
        cls, platform: str, node: ManifestNode, config: ImageConfig, history: tuple[Mapping[str, Any], ...]
    ) -> PlatformImage:
        """The image of a manifest, which names its config before its layers."""
        blobs = [Blob.of(each) for each in node.blobs]
        types = tuple(oci_type(each.media_type) for each in node.blobs[1:])
        manifest = Blob.of(node.descriptor)
        return cls(platform, manifest, blobs[0], tuple(blobs[1:]), config.diff_ids, history, types)

    @property
    def size(self) -> int:
        """Bytes of the compressed layers."""
        return sum(layer.size for layer in self.layers)

    @property
    def blobs(self) -> tuple[Blob, ...]:
        """All blobs, the manifest first."""
        return (self.manifest, self.config, *self.layers)


@dataclass(frozen=True)
class ImageLayout:
    """A layout of ours. `whole` is the index for all platforms, `input_checksum` that of its inputs."""

    path: Path
    whole: Blob
    input_checksum: str
    images: Mapping[str, PlatformImage]
    configs: Mapping[str, ImageConfig]
    variant: ImageVariant = field(default_factory=ImageVariant)

    @property
    def name(self) -> str:
        """The image's name in messages."""
        return self.path.name

    @property
    def blobs(self) -> list[Blob]:
        """Every blob, each once."""
        held = (blob for image in self.images.values() for blob in image.blobs)
        return list(dict.fromkeys([self.whole, *held]))

    def file(self, blob: Blob) -> Path:
        """The path of a blob."""
        return blob_path(self.path, blob)


class BaseImage(Protocol):
    """A complete local image for several platforms, as the base of another one."""

    @property
    def name(self) -> str:
        """The image's name in messages."""
        ...

    @property
    def images(self) -> Mapping[str, PlatformImage]:
        """Its images, by platform."""
        ...

    @property
    def configs(self) -> Mapping[str, ImageConfig]:
        """Its image configs, by platform."""
        ...

    def file(self, blob: Blob) -> Path:
        """The path of a blob."""
        ...


def blob_path(layout: Path, blob: Blob) -> Path:
    """The path of a blob in a layout."""
    return layout / "blobs" / "sha256" / blob.name


def oci_type(media_type: str) -> str:
    """The OCI name of a layer's type: Docker's types name the same bytes."""
    if not media_type.startswith("application/vnd.docker."):
        return media_type
    _, _, codec = media_type.partition(".diff.tar")
    return f"application/vnd.oci.image.layer.v1.tar{codec.replace('.', '+')}"


def read_layout(path: Path, *, verify: bool = False) -> ImageLayout:
    """Read a layout that `build_images` wrote, and check that it is complete.

    Documents are verified by digest, other blobs by size; with `verify`, by digest too. Raise IntegrityError
    when it is not a layout of ours or is damaged.
    """
    try:
        existing = _read_layout(path)
    except (SandwrightError, OSError, KeyError, ValueError, TypeError) as error:
        raise IntegrityError(f"{path}: not a whole image layout: {error}") from error
    for blob in existing.blobs:
        _check_blob_size(existing.file(blob), blob)
        if verify:
            _check_digest(existing.file(blob), blob)
    return existing


def _read_layout(path: Path) -> ImageLayout:
    source = DirectoryBlobs(path)
    if read(source, "oci-layout", limit=_DOCUMENT_SIZE) != LAYOUT_FILE:
        raise IntegrityError("its file oci-layout has an unknown content")
    index = parse_json(read(source, "index.json", limit=_DOCUMENT_SIZE), "index.json", INDEX)
    listed = [read_descriptor(each, "index.json") for each in sequence(index["manifests"], "manifests")]
    named = [each for each in listed if each.annotations.get(REF_NAME) == ALL_PLATFORMS]
    if len(named) != 1:
        raise IntegrityError(f"{len(named)} of its images are named '{ALL_PLATFORMS}', not one")

    def load(descriptor: Descriptor) -> bytes:
        return read(source, descriptor.path, limit=_DOCUMENT_SIZE)

    graph = walk(named[0], load, "index")
    if not graph.root.children:
        raise IntegrityError(f"'{ALL_PLATFORMS}' is not an index of images")
    nodes = {node.descriptor.digest: node for node in graph.nodes}
    images: dict[str, PlatformImage] = {}
    configs: dict[str, ImageConfig] = {}
    for child in graph.root.children:
        if child.platform is None:
            raise IntegrityError("its index has a manifest without a platform")
        platform = f"{child.platform.os}/{child.platform.architecture}"
        if platform in images:
            raise IntegrityError(f"its index has two images for {platform}")
        node = nodes[child.digest]
        content = load(node.blobs[0])
        verify_content(node.blobs[0], content, "config")
        configs[platform] = config = parse_config(content, node.blobs[0].digest, "config")
        if len(config.diff_ids) != len(node.blobs) - 1:
            counts = f"{len(node.blobs) - 1} layers and {len(config.diff_ids)} diff_ids"
            raise IntegrityError(f"its image for {platform} has {counts}")
        history = tuple(sequence(config.document.get("history"), "history"))
        images[platform] = PlatformImage.of(platform, node, config, history)
    built = strings(index.get("annotations"), "annotations")
    variant = decode_variant(built.get(VARIANT, ""), VARIANT)
    return ImageLayout(path, Blob.of(graph.root.descriptor), built.get(INPUTS, ""), images, configs, variant)


def _check_blob_size(file: Path, blob: Blob) -> None:
    size = file.stat().st_size if file.is_file() else None
    if size != blob.size:
        found = "is missing" if size is None else f"has {size} bytes, not {blob.size}"
        raise IntegrityError(f"{file} {found}")


def _check_digest(file: Path, blob: Blob) -> None:
    with os.fdopen(open_regular(file), "rb") as opened:
        digest = f"sha256:{hashlib.file_digest(opened, 'sha256').hexdigest()}"
    if digest != blob.digest:
        raise IntegrityError(f"{file} has the digest {digest}")
