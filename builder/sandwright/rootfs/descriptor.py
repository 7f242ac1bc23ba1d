"""Descriptors, digests and platforms of OCI documents. Pure.

The documents are not trusted. A digest is checked before it becomes part of a path (CVE-2024-3727), a size
before it is used, a document before it counts as a manifest or an index (CVE-2021-41190).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sandwright.documents.strictjson import fold
from sandwright.errors import ArchiveRefused, UsageError

REF_NAME = "org.opencontainers.image.ref.name"
IMAGE_NAME = "io.containerd.image.name"
"""The full name in images of Docker (since 25) and BuildKit, which put only the tag into `REF_NAME`."""

OCI_INDEX = "application/vnd.oci.image.index.v1+json"
OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_CONFIG = "application/vnd.oci.image.config.v1+json"
OCI_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
OCI_LAYER_ZSTD = "application/vnd.oci.image.layer.v1.tar+zstd"
INDEX_TYPES = frozenset(
    {
        OCI_INDEX,
        "application/vnd.docker.distribution.manifest.list.v2+json",
    }
)
MANIFEST_TYPES = frozenset(
    {
        OCI_MANIFEST,
        "application/vnd.docker.distribution.manifest.v2+json",
    }
)
CONFIG_TYPES = frozenset(
    {
        OCI_CONFIG,
        "application/vnd.docker.container.image.v1+json",
    }
)
LAYER_TYPES = frozenset(
    {
        "application/vnd.oci.image.layer.v1.tar",
        OCI_LAYER,
        OCI_LAYER_ZSTD,
        "application/vnd.docker.image.rootfs.diff.tar",
        "application/vnd.docker.image.rootfs.diff.tar.gzip",
        "application/vnd.docker.image.rootfs.diff.tar.zstd",
        "application/vnd.oci.image.layer.nondistributable.v1.tar",
        "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
        "application/vnd.oci.image.layer.nondistributable.v1.tar+zstd",
        "application/vnd.docker.image.rootfs.foreign.diff.tar",
        "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
    }
)
"""The media types of layers. Non-distributable layers are layers like any other if their blob is there."""

HEX_LENGTH = {"sha256": 64, "sha512": 128}
"""The supported digest algorithms, with their number of hex digits."""

_DIGEST = re.compile(r"([a-z0-9]+(?:[+._-][a-z0-9]+)*):([a-zA-Z0-9=_-]+)", re.ASCII)
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*", re.ASCII)
_ARCHITECTURES = {"x86_64": "amd64", "x86-64": "amd64", "aarch64": "arm64", "i386": "386", "armhf": "arm"}
_IMPLIED_VARIANT = {"amd64": "v1", "arm64": "v8", "arm": "v7"}


@dataclass(frozen=True, order=True)
class Platform:
    """An operating system and an architecture in Go's words (`linux`, `arm64`), perhaps a variant (`v8`).

    The implied variant of an architecture (v8 for arm64) equals none.
    """

    os: str
    architecture: str
    variant: str = ""

    def __str__(self) -> str:
        return "/".join(filter(None, (self.os, self.architecture, self.variant)))

    def normal(self) -> Platform:
        """The platform in its canonical spelling."""
        architecture = _ARCHITECTURES.get(self.architecture, self.architecture)
        implied = self.variant == _IMPLIED_VARIANT.get(architecture)
        return Platform(self.os, architecture, "" if implied else self.variant)


UNKNOWN = Platform("unknown", "unknown")
"""The platform of attestations, which BuildKit keeps in an image's index. An image could have it as well."""


@dataclass(frozen=True)
class Descriptor:
    """A checked descriptor. `size` is in bytes. `platform` is None where the document gives none."""

    media_type: str
    digest: str
    size: int
    platform: Platform | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Its names in the annotations: the reference name of the image-spec, and containerd's full name."""
        return tuple(self.annotations[key] for key in (REF_NAME, IMAGE_NAME) if key in self.annotations)

    @property
    def path(self) -> str:
        """The blob's path in a layout: `blobs/sha256/…`."""
        return f"blobs/{self.digest.replace(':', '/', 1)}"

    def document(self, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON values
        """The descriptor for documents that point to the blob; platform and annotations only from `more`."""
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size, **more}


_ATTACHMENT = re.compile(r"sha(?:256|512)-[0-9a-f]{64}(?:\.(?:sig|att))?")


def is_attachment(names: Sequence[str]) -> bool:
    """Whether names in a layout belong to attachments of an image, and not to an image."""
    return bool(names) and all(_ATTACHMENT.fullmatch(name) for name in names)


def check_digest(value: object, where: str) -> str:
    """Return a valid digest; raise ArchiveRefused, with `where`, for any other.

    Hex digits must be lower case: image-spec descriptor.md, "Registered Algorithms". Unsupported algorithms
    are refused, since their blobs can't be verified.
    """
    match = _DIGEST.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ArchiveRefused(f"{where}: {shorten_repr(value)} is not a digest")
    length = HEX_LENGTH.get(match[1])
    if length is None:
        algorithms = ", ".join(HEX_LENGTH)
        raise ArchiveRefused(f"{where}: {shorten_repr(value)}: the algorithm is none of {algorithms}")
    if len(match[2]) != length or not re.fullmatch(r"[0-9a-f]+", match[2]):
        raise ArchiveRefused(f"{where}: {shorten_repr(value)}: expected {length} lower-case hex digits")
    return match[0]


def parse_platform(text: str) -> Platform:
    """Parse a platform of a user: `linux/amd64`, `linux/arm/v7`. Raise UsageError for anything else."""
    parts = text.split("/")
    if not 2 <= len(parts) <= 3 or not all(
        re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", part) for part in parts
    ):
        raise UsageError(
            f"platform {text!r}: expected os/architecture or os/architecture/variant, as linux/amd64"
        )
    return Platform(*parts).normal()


def read_platform(value: object, where: str) -> Platform | None:
    """The `platform` object of a descriptor, or None."""
    if value is None:
        return None
    fields = mapping(value, where)
    words = [fields.get(key) or "" for key in ("os", "architecture", "variant")]
    if not all(isinstance(word, str) and word.isprintable() for word in words):
        raise ArchiveRefused(f"{where}: os, architecture and variant must be printable strings")
    return Platform(*words).normal()


def read_descriptor(value: object, where: str) -> Descriptor:
    """Parse a descriptor in a document. Raise ArchiveRefused, with `where`, for an invalid one."""
    fields = mapping(value, where)
    media_type = fields.get("mediaType")
    if not isinstance(media_type, str) or not media_type:
        raise ArchiveRefused(f"{where}: mediaType is required")
    if not media_type.isprintable():
        raise ArchiveRefused(f"{where}: {shorten_repr(media_type)} is no media type")
    digest = check_digest(fields.get("digest"), f"{where}.digest")
    size = fields.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 1 << 63:
        raise ArchiveRefused(f"{where}: size {shorten_repr(size)} is not a number of bytes")
    annotations = strings(fields.get("annotations"), f"{where}.annotations")
    return Descriptor(media_type, digest, size, read_platform(fields.get("platform"), where), annotations)


def check_document(document: Mapping[str, Any], media_type: str, where: str) -> None:
    """Refuse a document that does not clearly match the media type of its descriptor (CVE-2021-41190).

    Its own mediaType may be absent (image-spec before 1.1 left it out, and umoci still does) but not
    different. It must not hold fields of both a manifest and an index, in upper or lower case: Go's decoder
    ignores case.
    """
    stated = document.get("mediaType")
    if stated is not None and stated != media_type:
        raise ArchiveRefused(f"{where}: says it is {shorten_repr(stated)}, its descriptor says {media_type}")
    keys = {fold(key) for key in document}
    shapes = {"index": {"manifests"}, "manifest": {"layers", "config"}}
    expected = "index" if media_type in INDEX_TYPES else "manifest"
    for shape, marks in shapes.items():
        if shape != expected and keys & marks:
            article = "an" if expected == "index" else "a"
            raise ArchiveRefused(
                f"{where}: {article} {expected} that also has {', '.join(sorted(keys & marks))}"
            )
    if not shapes[expected] <= document.keys():
        raise ArchiveRefused(f"{where}: no {expected}: {', '.join(sorted(shapes[expected]))} required")
    if document.get("schemaVersion") != 2:
        raise ArchiveRefused(f"{where}: schemaVersion must be 2")


def canonical(document: Mapping[str, Any]) -> bytes:
    """JSON with sorted keys and no white space, UTF-8: the same document gives the same bytes."""
    return json.dumps(
        document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def mapping(value: object, where: str) -> Mapping[str, Any]:
    """A JSON object, or ArchiveRefused."""
    if not isinstance(value, dict):
        raise ArchiveRefused(f"{where}: expected an object")
    return value


def sequence(value: object, where: str) -> Sequence[Any]:
    """A JSON array, or ArchiveRefused. null is an empty one."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise ArchiveRefused(f"{where}: expected an array")
    return value


def strings(value: object, where: str) -> dict[str, str]:
    """A JSON object whose values are strings, or ArchiveRefused. null is an empty one."""
    fields = {} if value is None else dict(mapping(value, where))
    if not all(isinstance(item, str) for item in fields.values()):
        raise ArchiveRefused(f"{where}: values must be strings")
    return fields


def shorten_repr(value: object) -> str:
    """A value as a message shows it, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:100]}…"
