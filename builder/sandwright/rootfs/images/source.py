"""Opens an image: an OCI layout directory, an OCI archive, or an archive of `docker save` or `podman save`.

One image is selected, by platform and name, through indexes however nested; where several fit, the error
lists them. All parts of the selected image are checked before their first use: digests, sizes,
media types, the number of layers. Nothing is ever fetched: `urls` of descriptors are not followed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandwright.errors import ArchiveRefused, UsageError
from sandwright.rootfs.descriptor import Platform, parse_platform
from sandwright.rootfs.images.blobs import ArchiveBlobs, BlobSource, DirectoryBlobs
from sandwright.rootfs.images.candidates import ImageCandidate
from sandwright.rootfs.images.dockerarchive import DockerArchive
from sandwright.rootfs.images.layout import LayoutReader
from sandwright.rootfs.unpacking.store import explained
from sandwright.rootfs.unpacking.unpack import ImageLayer


@dataclass(frozen=True)
class Image:
    """One image for one platform, checked, its layers not yet read.

    `source` is its name in messages. `digest` is that of the manifest; for a Docker archive, which has
    none, that of the configuration, and `manifest` is empty then. `names` are the references the source
    knows it by.
    """

    source: str
    digest: str
    manifest: Mapping[str, Any]
    config: Mapping[str, Any]
    config_digest: str
    platform: Platform
    layers: tuple[ImageLayer, ...]
    names: tuple[str, ...] = ()


def open_image(path: Path, *, platform: str | None = None, ref: str | None = None) -> Image:
    """Open the image at `path`.

    `platform` is written `linux/amd64`; `ref` is a name the source gives the image, or a digest. Both may
    be left out where only one image fits. An archive with both an OCI and a Docker view is read by the
    first. Raise UsageError when no image fits, or several; ArchiveRefused for documents and entries that
    break a rule; IntegrityError for bytes that are not the promised ones, HostError for an unreadable file.
    """
    requested = parse_platform(platform) if platform else None
    with explained(path):
        return _select(path, requested, ref)


def list_images(path: Path, *, platform: str | None = None, ref: str | None = None) -> list[ImageCandidate]:
    """Every image at `path` that fits, where `open_image` wants a single one. Its digest opens each.

    A manifest that an index calls an attestation counts as well, unless all of its layers are statements. A
    platform without a variant fits all variants. Raise the exceptions of `open_image`, except that several
    images may fit.
    """
    requested = parse_platform(platform) if platform else None
    with explained(path):
        opened = _open_blobs(path)
        layout, archive = _layout(opened), _docker_archive(opened)
        if layout is not None and archive is not None:
            _check_agreement(opened, archive.images(), layout.config_digests())
        reader = layout or archive
        if reader is None:
            raise _unknown(opened)
        return reader.select_all(requested, ref)


def _select(path: Path, requested: Platform | None, ref: str | None) -> Image:
    opened = _open_blobs(path)
    if (layout := _layout(opened)) is not None:
        return _from_layout(opened, layout, requested, ref)
    if (archive := _docker_archive(opened)) is not None:
        return _from_docker(archive, requested, ref)
    raise _unknown(opened)


def _layout(opened: BlobSource) -> LayoutReader | None:
    return LayoutReader(opened) if opened.size("oci-layout") is not None else None


def _docker_archive(opened: BlobSource) -> DockerArchive | None:
    return DockerArchive(opened) if opened.size("manifest.json") is not None else None


def _unknown(opened: BlobSource) -> ArchiveRefused | UsageError:
    if opened.size("repositories") is not None:
        return ArchiveRefused(
            f"{opened.name}: written by Docker before 1.10, without configurations; save it again"
        )
    return UsageError(
        f"{opened.name}: neither an OCI layout (no oci-layout) nor a Docker archive (no manifest.json)"
    )


def _open_blobs(path: Path) -> BlobSource:
    if path.is_dir():
        return DirectoryBlobs(path)
    if path.is_file():
        return ArchiveBlobs(path)
    raise UsageError(f"{path}: {'not a file or directory' if path.exists() else 'no such file or directory'}")


def _from_layout(
    opened: BlobSource, reader: LayoutReader, platform: Platform | None, ref: str | None
) -> Image:
    found = reader.select(platform, ref)
    config = found.config
    if found.alone and opened.size("manifest.json") is not None:
        _check_agreement(opened, DockerArchive(opened).config_digests(), {config.digest})
    return Image(
        opened.name,
        found.digest,
        found.manifest,
        config.document,
        config.digest,
        config.platform,
        found.layers,
        found.names,
    )


def _from_docker(archive: DockerArchive, platform: Platform | None, ref: str | None) -> Image:
    saved = archive.select(platform, ref)
    config, layers = saved.config, archive.layers(saved)
    return Image(
        archive.name, config.digest, {}, config.document, config.digest, config.platform, layers, saved.names
    )


def _check_agreement(opened: BlobSource, docker: Collection[str], layout: Collection[str]) -> None:
    """Refuse an archive of which Docker, by its manifest.json, would load an image that we don't look at."""
    if other := set(docker) - set(layout):
        ours = ", ".join(sorted(layout)) or "no image"
        raise ArchiveRefused(f"{opened.name}: index.json leads to {ours}, manifest.json to {min(other)}")
