"""How much an archive may ask of us before it is refused."""

from __future__ import annotations

from dataclasses import dataclass

GIB = 1 << 30
NAMED = 256
"""Bytes of memory that a name takes beside itself."""


@dataclass(frozen=True)
class ArchiveLimits:
    """Bounds on one archive, or, for an image, on all its layers together.

    `bytes` is the length of the archive after decompression, `entries` the number of its members. `ratio`
    is how many bytes one compressed byte may become; it is looked at once `ratio_floor` bytes have come
    out, so that a small archive of zeros is no alarm. `path` and `depth` bound a member's name in bytes and
    in components; `extension` bounds the bytes of one PAX or GNU header. `names` is how many bytes the names
    may have, with `NAMED` for each, that have to be remembered at a time: those of an index, or of what a
    layer takes away. The defaults let every image through that we know of.
    """

    bytes: int = 128 * GIB
    entries: int = 8_000_000
    ratio: int = 500
    ratio_floor: int = GIB
    path: int = 4096
    depth: int = 1024
    extension: int = 1 << 20
    names: int = 256 << 20


DEFAULT = ArchiveLimits()
