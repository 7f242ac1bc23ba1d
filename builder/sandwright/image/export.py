"""Writes an image as one archive for `docker load`, `podman load` and readers of OCI archives.

Docker before 25 reads `manifest.json` (the format of `docker save`); Podman and skopeo read an OCI layout.
The archive is both, over the same blobs. It holds one platform under one name: engines differ on several.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from sandwright.errors import UsageError
from sandwright.image.documents import REF_NAME, platform_of
from sandwright.image.existing import BaseImage, PlatformImage, read_layout
from sandwright.image.layout import LAYOUT_FILE, Blob
from sandwright.outputs import disk_errors, output_stream
from sandwright.rootfs.descriptor import IMAGE_NAME, OCI_INDEX, OCI_MANIFEST, canonical
from sandwright.rootfs.digest import VerifiedReader
from sandwright.rootfs.tar.entry import EntryKind, TarEntry
from sandwright.rootfs.tar.writer import TarWriter, Writable

_BLOBS = b"blobs/sha256/"
_CHUNK = 1 << 20


def write_archive(layout: Path, platform: str, sink: Writable, *, reference: str) -> None:
    """Write the image of a layout of ours for one platform to `sink`, as a stream.

    Engines load it as `reference`, for example `sandwright/debian:latest`. The same image and name give the
    same bytes. Raise UsageError when the layout lacks the platform or `reference` lacks a tag, IntegrityError
    when the layout is damaged; the output is then incomplete.
    """
    existing = read_layout(layout)
    if platform not in existing.images:
        raise UsageError(f"{layout} has no image for {platform}, only for {', '.join(existing.images)}")
    write_image(existing, platform, sink, reference=reference)


def write_image(source: BaseImage, platform: str, sink: Writable, *, reference: str) -> None:
    """Write an image of any source, as `write_archive` does."""
    name, colon, tag = reference.rpartition(":")
    if not colon or not name or "/" in tag:
        raise UsageError(f"'{reference}' is not a name with a tag, like sandwright/debian:latest")
    image = source.images[platform]
    archive = TarWriter(sink)
    for directory in (b"blobs", b"blobs/sha256"):
        archive.add(TarEntry(directory, EntryKind.DIRECTORY, 0o755))
    for blob in sorted(set(image.blobs), key=lambda each: each.name):
        archive.add(_file_entry(_BLOBS + blob.name.encode(), blob.size), _blob_content(source, blob))
    documents = {
        b"index.json": canonical(_image_index(image, reference, tag)),
        b"manifest.json": json.dumps([_docker_row(image, reference)], sort_keys=True).encode(),
        b"oci-layout": LAYOUT_FILE,
    }
    for path, data in documents.items():
        archive.add(_file_entry(path, len(data)), (data,))
    archive.close()


def save_archive(layout: Path, platform: str, target: Path, *, reference: str) -> None:
    """Write the archive to the file `target`, which appears complete or not at all.

    Raise HostError when it can't be written, and the errors of `write_archive`.
    """
    with disk_errors(target), output_stream(str(target)) as sink:
        write_archive(layout, platform, sink, reference=reference)


def _file_entry(path: bytes, size: int) -> TarEntry:
    return TarEntry(path, EntryKind.FILE, 0o644, size=size)


def _blob_content(source: BaseImage, blob: Blob) -> Iterator[bytes]:
    path = source.file(blob)
    with path.open("rb") as file:
        stream = VerifiedReader(file, blob.digest, size=blob.size, name=str(path))
        while data := stream.read(_CHUNK):
            yield data


def _image_index(image: PlatformImage, reference: str, tag: str) -> dict[str, object]:
    """Podman names the image after the one annotation, containerd (in Docker since 25) after the other."""
    names = {REF_NAME: tag, IMAGE_NAME: reference}
    descriptor = image.manifest.descriptor(
        OCI_MANIFEST, platform=platform_of(image.platform), annotations=names
    )
    return {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [descriptor]}


def _docker_row(image: PlatformImage, reference: str) -> dict[str, object]:
    """The image's row in `manifest.json`, whose paths lead to the blobs."""
    return {
        "Config": (_BLOBS + image.config.name.encode()).decode(),
        "Layers": [(_BLOBS + layer.name.encode()).decode() for layer in image.layers],
        "RepoTags": [reference],
    }
