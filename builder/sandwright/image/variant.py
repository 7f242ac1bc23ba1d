"""The caller's choices for all images of a build: labels of the release, compression."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sandwright.documents.strictjson import parse_json
from sandwright.errors import IntegrityError, UsageError
from sandwright.image.compress import Compression, parse_compression
from sandwright.rootfs.descriptor import strings

PREFIX = "org.opencontainers.image."
"""Prefix of the labels and annotations that identify an image (image-spec, annotations.md)."""

_SHORT = (
    *("authors", "documentation", "licenses", "revision", "source", "url", "vendor", "version"),
    "ref.name",
)
"""Keys that may be written without the prefix."""

_FIXED = tuple(PREFIX + key for key in ("title", "description", "created", "base.name", "base.digest"))
"""Set by the build itself."""

_FIELDS = dict.fromkeys(("labels", "compression"))

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True)
class ImageVariant:
    """`labels` go into the config of each image, and as annotations into its manifests and index.

    `compression` is that of all layers, instead of the definitions'.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    compression: Compression | None = None

    def document(self) -> dict[str, Any]:
        """As JSON; empty for a build without choices, so that checksums of those stay the same."""
        return {
            **({"labels": dict(sorted(self.labels.items()))} if self.labels else {}),
            **({"compression": str(self.compression)} if self.compression else {}),
        }

    def encode(self) -> str:
        """The document as text."""
        return json.dumps(self.document(), sort_keys=True)


def read_variant(value: Mapping[str, Any], where: str) -> ImageVariant:
    """Decode the output of `document`. Raise ArchiveRefused or IntegrityError for anything else."""
    if unknown := sorted(value.keys() - _FIELDS.keys()):
        raise IntegrityError(f"{where}: '{unknown[0]}' is unknown to this version of sandwright")
    labels, text = strings(value.get("labels"), f"{where}: labels"), value.get("compression")
    try:
        return ImageVariant(labels, None if text is None else parse_compression(str(text)))
    except ValueError as error:
        raise IntegrityError(f"{where}: compression: {error}") from None


def decode_variant(text: str, where: str) -> ImageVariant:
    """Decode the output of `encode`; empty text is a build without choices."""
    return read_variant(parse_json(text.encode(), where, _FIELDS), where) if text else ImageVariant()


def parse_labels(words: Iterable[str]) -> dict[str, str]:
    """Parse labels as a user writes them, `KEY=VALUE`. Raise UsageError for others.

    Keys of the image-spec may omit their prefix: `revision` is `org.opencontainers.image.revision`.
    """
    labels: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not _KEY.fullmatch(key) or not value or _CONTROL.search(value):
            raise UsageError(f"--label {word!r} is not KEY=VALUE, such as revision=0123abc")
        key = PREFIX + key if key in _SHORT else key
        if "." not in key:
            raise UsageError(f"--label: unknown key '{key}'; short keys are {', '.join(_SHORT)}")
        if key in _FIXED:
            raise UsageError(f"--label: {key} is set by the build")
        if labels.setdefault(key, value) != value:
            raise UsageError(f"--label: {key} is given twice")
    return labels


def identifying(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels that identify the image itself, such as its version."""
    return {key: value for key, value in labels.items() if key.startswith(PREFIX)}


def inheritable(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels that an image on top inherits: all but those that identify the base."""
    return {key: value for key, value in labels.items() if not key.startswith(PREFIX)}
