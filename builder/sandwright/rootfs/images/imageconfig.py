"""Parses an image's configuration: its platform and its layers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sandwright.documents.fields import CONFIG
from sandwright.documents.strictjson import parse_json
from sandwright.errors import ArchiveRefused
from sandwright.rootfs.descriptor import Platform, check_digest, mapping, sequence

LARGEST_CONFIG = 8 << 20
"""Bytes of a configuration that are read (unbounded reads: CVE-2020-1702, CVE-2023-25153)."""


@dataclass(frozen=True)
class ImageConfig:
    """A configuration whose platform and layers are checked; the rest of `document` is as it was written."""

    digest: str
    document: Mapping[str, Any]
    platform: Platform
    diff_ids: tuple[str, ...]


def parse_config(raw: bytes, digest: str, where: str) -> ImageConfig:
    """Read a configuration. `where` begins the message of the ArchiveRefused for one that breaks a rule."""
    document = parse_json(raw, where, CONFIG)
    return ImageConfig(digest, document, _platform(document, where), _diff_ids(document, where))


def _platform(document: Mapping[str, Any], where: str) -> Platform:
    words = [document.get(key) or "" for key in ("os", "architecture", "variant")]
    good = all(isinstance(word, str) and word.isprintable() for word in words)
    if not good or not words[0] or not words[1]:
        raise ArchiveRefused(f"{where}: os and architecture are required, and printable strings")
    if words[0] != "linux":
        raise ArchiveRefused(f"{where}: it is for {words[0]!r}; only images for linux can be unpacked here")
    return Platform(*words).normal()


def _diff_ids(document: Mapping[str, Any], where: str) -> tuple[str, ...]:
    rootfs = mapping(document.get("rootfs"), f"{where}: rootfs")
    if rootfs.get("type") != "layers":
        raise ArchiveRefused(f"{where}: rootfs.type must be 'layers'")
    listed = enumerate(sequence(rootfs.get("diff_ids"), f"{where}: rootfs.diff_ids"))
    return tuple(check_digest(item, f"{where}: rootfs.diff_ids[{index}]") for index, item in listed)
