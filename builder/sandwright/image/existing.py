"""Looks at a layout that is there already: what it holds, and whether it is whole."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from sandwright.errors import IntegrityError, SandwrightError
from sandwright.image.documents import ALL_PLATFORMS, INPUTS, REF_NAME
from sandwright.image.layout import LAYOUT_FILE, Blob
from sandwright.reading import open_regular
from sandwright.rootfs.descriptor import parse_json, read_descriptor, sequence, strings
from sandwright.rootfs.images.blobs import DirectoryBlobs, read

_DOCUMENT_SIZE = 8 << 20


@dataclass(frozen=True)
class PlatformImage:
    """One platform's image in a layout: its manifest, and everything that the manifest names.

    `types` are the media types of the layers.
    """

    platform: str
    manifest: Blob
    config: Blob
    layers: tuple[Blob, ...]
    diff_ids: tuple[str, ...]
    history: tuple[Mapping[str, Any], ...]
    types: tuple[str, ...]

    @property
    def size(self) -> int:
        """Bytes of the compressed layers."""
        return sum(layer.size for layer in self.layers)

    @property
    def blobs(self) -> tuple[Blob, ...]:
        """All of it."""
        return (self.manifest, self.config, *self.layers)


@dataclass(frozen=True)
class ImageLayout:
    """A layout of ours. `whole` is the index for all platforms; `inputs` says what it was made from."""

    path: Path
    whole: Blob
    inputs: str
    images: Mapping[str, PlatformImage]

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.path.name

    @property
    def blobs(self) -> list[Blob]:
        """Every blob, each once."""
        held = (blob for image in self.images.values() for blob in image.blobs)
        return list(dict.fromkeys([self.whole, *held]))

    def file(self, blob: Blob) -> Path:
        """Where a blob lies."""
        return blob_path(self.path, blob)


class BaseImage(Protocol):
    """An image for several platforms, whole and at hand, on which another one can be put."""

    @property
    def name(self) -> str:
        """What messages call it."""
        ...

    @property
    def images(self) -> Mapping[str, PlatformImage]:
        """What it consists of, by platform."""
        ...

    def file(self, blob: Blob) -> Path:
        """Where a blob lies."""
        ...


def blob_path(layout: Path, blob: Blob) -> Path:
    """Where a layout has a blob."""
    return layout / "blobs" / "sha256" / blob.name


def read_layout(path: Path, *, verify: bool = False) -> ImageLayout:
    """Read the layout in a directory, as `build_images` writes them, and look whether it is whole.

    Documents are compared with their digests, of everything else the size; with `verify`, all digests. Raise
    IntegrityError, saying what is wrong, when it isn't a layout of ours or isn't whole.
    """
    try:
        existing = _read(path)
    except (SandwrightError, OSError, KeyError, ValueError, TypeError) as error:
        raise IntegrityError(f"{path}: not a whole image layout: {error}") from error
    for blob in existing.blobs:
        _check_size(existing.file(blob), blob)
        if verify:
            _check_digest(existing.file(blob), blob)
    return existing


def _read(path: Path) -> ImageLayout:
    place = DirectoryBlobs(path)
    if read(place, "oci-layout", limit=_DOCUMENT_SIZE) != LAYOUT_FILE:
        raise IntegrityError("its file oci-layout has an unknown content")
    index = parse_json(read(place, "index.json", limit=_DOCUMENT_SIZE), "index.json")
    named = dict(_named(index))
    whole = named[ALL_PLATFORMS]
    platforms = _document(path, whole)
    images = [_held(path, entry) for entry in sequence(platforms["manifests"], "manifests")]
    inputs = strings(index.get("annotations"), "annotations").get(INPUTS, "")
    return ImageLayout(path, whole, inputs, {image.platform: image for image in images})


def _named(index: Mapping[str, Any]) -> Iterator[tuple[str, Blob]]:
    for entry in sequence(index["manifests"], "manifests"):
        descriptor = read_descriptor(entry, "index.json")
        yield descriptor.annotations.get(REF_NAME, ""), Blob(descriptor.digest, descriptor.size)


def _held(path: Path, entry: Any) -> PlatformImage:  # noqa: ANN401 - JSON
    descriptor = read_descriptor(entry, "index")
    if descriptor.platform is None:
        raise IntegrityError("its index has a manifest without a platform")
    platform = f"{descriptor.platform.os}/{descriptor.platform.architecture}"
    manifest = Blob(descriptor.digest, descriptor.size)
    document = _document(path, manifest)
    config = _blob(document["config"])
    listed = [read_descriptor(each, "manifest") for each in sequence(document["layers"], "layers")]
    layers = tuple(Blob(layer.digest, layer.size) for layer in listed)
    settings = _document(path, config)
    diff_ids = tuple(settings["rootfs"]["diff_ids"])
    if len(diff_ids) != len(layers):
        raise IntegrityError(
            f"its image for {platform} has {len(layers)} layers and {len(diff_ids)} diff_ids"
        )
    history = tuple(sequence(settings.get("history"), "history"))
    types = tuple(layer.media_type for layer in listed)
    return PlatformImage(platform, manifest, config, layers, diff_ids, history, types)


def _blob(entry: Any) -> Blob:  # noqa: ANN401 - JSON
    descriptor = read_descriptor(entry, "manifest")
    return Blob(descriptor.digest, descriptor.size)


def settings_of(existing: ImageLayout, platform: str) -> Mapping[str, Any]:
    """The image config of one platform."""
    return _document(existing.path, existing.images[platform].config)


def _document(path: Path, blob: Blob) -> dict[str, Any]:
    if blob.size > _DOCUMENT_SIZE:
        raise IntegrityError(f"{blob.digest} is too long for a document: {blob.size} bytes")
    data = read(DirectoryBlobs(path), f"blobs/sha256/{blob.name}", limit=_DOCUMENT_SIZE)
    if Blob(f"sha256:{hashlib.sha256(data).hexdigest()}", len(data)) != blob:
        raise IntegrityError(f"{blob.digest} does not have that digest")
    return parse_json(data, blob.digest)


def _check_size(file: Path, blob: Blob) -> None:
    size = file.stat().st_size if file.is_file() else None
    if size != blob.size:
        found = "is missing" if size is None else f"has {size} bytes, not {blob.size}"
        raise IntegrityError(f"{file} {found}")


def _check_digest(file: Path, blob: Blob) -> None:
    with os.fdopen(open_regular(file), "rb") as opened:
        digest = f"sha256:{hashlib.file_digest(opened, 'sha256').hexdigest()}"
    if digest != blob.digest:
        raise IntegrityError(f"{file} has the digest {digest}")
