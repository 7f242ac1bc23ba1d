"""Reads the output of `docker save` and `podman save`: `manifest.json`, configurations, and layers.

There are no descriptors in it: a layer is known by the diff_id in the configuration alone, and a
configuration by the name of its file, where that is a digest.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO

from sandwright.documents.fields import SAVED
from sandwright.documents.strictjson import parse_json_value
from sandwright.errors import ArchiveRefused, IntegrityError
from sandwright.rootfs.descriptor import Platform, mapping, sequence
from sandwright.rootfs.images import blobs
from sandwright.rootfs.images.blobs import BlobSource
from sandwright.rootfs.images.candidates import ImageCandidate, choose, choose_all
from sandwright.rootfs.images.imageconfig import LARGEST_CONFIG, ImageConfig, parse_config
from sandwright.rootfs.unpacking.unpack import ImageLayer

LARGEST_MANIFEST = 4 << 20
_PROMISED = re.compile(r"(?:^|/)([0-9a-f]{64})(?:\.json)?$")
_TYPE = "application/vnd.oci.image.layer.v1.tar"
_MAGICS = {b"\x1f\x8b": "+gzip", b"\x28\xb5\x2f\xfd": "+zstd"}


@dataclass(frozen=True)
class SavedImage:
    """An image of the archive. `layers` are the paths of its layers."""

    config: ImageConfig
    layers: tuple[str, ...]
    names: tuple[str, ...]


class DockerArchive:
    """An archive with a checked `manifest.json`."""

    def __init__(self, source: BlobSource) -> None:
        self.name = source.name
        self._place = source
        where = f"{self.name}: manifest.json"
        listed = parse_json_value(blobs.read(source, "manifest.json", limit=LARGEST_MANIFEST), where, SAVED)
        if not isinstance(listed, list):
            raise ArchiveRefused(f"{where}: expected an array (skopeo's dir: is not taken)")
        self._rows = [mapping(row, f"{where}: [{number}]") for number, row in enumerate(listed)]

    def select(self, platform: Platform | None, ref: str | None) -> SavedImage:
        """The matching image. `source.open_image` lists the exceptions."""
        return self.images()[choose(map(_candidate, self._images()), platform, ref, self.name)]

    def select_all(self, platform: Platform | None, ref: str | None) -> list[ImageCandidate]:
        """Every matching image. `source.list_images` lists the exceptions."""
        return choose_all(map(_candidate, self._images()), platform, ref, self.name)

    def images(self) -> dict[str, SavedImage]:
        """Every image, by the digest of its configuration."""
        return {image.config.digest: image for image in self._images()}

    def _images(self) -> list[SavedImage]:
        return [self._saved(row, number) for number, row in enumerate(self._rows)]

    def config_digests(self) -> set[str]:
        """The digests that the configurations are named by."""
        names = (_PROMISED.search(str(row.get("Config"))) for row in self._rows)
        return {f"sha256:{name[1]}" for name in names if name}

    def layers(self, saved: SavedImage) -> tuple[ImageLayer, ...]:
        """The layers of an image, each with the digest of the file it is in."""
        diff_ids = saved.config.diff_ids
        if len(diff_ids) != len(saved.layers):
            raise ArchiveRefused(
                f"{self.name}: {saved.config.digest}: {len(saved.layers)} layers, {len(diff_ids)} diff_ids"
            )
        return tuple(map(self._archive_layer, saved.layers, diff_ids))

    def _saved(self, row: Mapping[str, Any], number: int) -> SavedImage:
        where = f"{self.name}: manifest.json[{number}]"
        path = _check_archive_path(row.get("Config"), f"{where}.Config")
        raw = self._read_blob_at(path, f"{where}.Config")
        digest = hashlib.sha256(raw).hexdigest()
        promised = _PROMISED.search(path)
        if promised and promised[1] != digest:
            raise IntegrityError(f"{self.name}: {path} does not have the digest that names it")
        layers = tuple(
            _check_archive_path(item, f"{where}.Layers")
            for item in sequence(row.get("Layers"), f"{where}.Layers")
        )
        names = sequence(row.get("RepoTags"), f"{where}.RepoTags")
        return SavedImage(
            parse_config(raw, f"sha256:{digest}", f"{self.name}: {path}"), layers, tuple(map(str, names))
        )

    def _archive_layer(self, path: str, diff_id: str) -> ImageLayer:
        size = self._place.size(path)
        if size is None:
            raise IntegrityError(f"{self.name}: the layer {path} is missing")
        with self._place.open(path) as file:
            magic = file.read(4)
            kind = next((suffix for start, suffix in _MAGICS.items() if magic.startswith(start)), "")
            file.seek(0)
            digest = _digest(file) if kind else diff_id
        return ImageLayer(digest, size, _TYPE + kind, diff_id, partial(self._place.open, path))

    def _read_blob_at(self, path: str, where: str) -> bytes:
        try:
            return blobs.read(self._place, path, limit=LARGEST_CONFIG)
        except FileNotFoundError:
            raise IntegrityError(f"{where}: {path} is missing") from None


def _candidate(image: SavedImage) -> ImageCandidate:
    return ImageCandidate(image.config.digest, image.config.platform, image.names)


def _digest(file: BinaryIO) -> str:
    hashed = hashlib.sha256()
    while piece := file.read(1 << 20):
        hashed.update(piece)
    return f"sha256:{hashed.hexdigest()}"


def _check_archive_path(path: object, where: str) -> str:
    """A plain path inside the archive (an ID was once used as a path: CVE-2014-9358)."""
    if (
        not isinstance(path, str)
        or not path
        or {"", ".", ".."} & set(path.split("/"))
        or not path.isprintable()
    ):
        raise ArchiveRefused(f"{where}: {str(path)[:100]!r} is not a plain relative path")
    return path
