"""Limits of archives, beyond which they are refused: bytes, entries, ratio (zip bombs), names, memory."""

from __future__ import annotations

from dataclasses import dataclass

GIB = 1 << 30
NAMED = 256
"""Bytes of memory that a name needs besides its own."""


@dataclass(frozen=True)
class ArchiveLimits:
    """Bounds on one archive, or, for an image, on all its layers together.

    `bytes` is the length of the archive after decompression, `entries` the number of its members. `ratio` is
    how many bytes one compressed byte may become; it is checked after `ratio_floor` bytes, so that a small
    archive of zeros passes. `path` and `depth` bound a member's name in bytes and in components; `extension`
    bounds the bytes of one PAX or GNU header. `names` bounds the memory for names, with `NAMED` for each:
    those of an index, or of whiteouts. `held` bounds the memory for whole members: name, target, xattrs, and
    the buffered content (`memory_budget.py`). `holes` bounds the holes of sparse files; they count as
    `bytes`, too. The defaults allow every image that we know of.
    """

    bytes: int = 128 * GIB
    entries: int = 8_000_000
    ratio: int = 500
    ratio_floor: int = GIB
    path: int = 4096
    depth: int = 1024
    extension: int = 1 << 20
    names: int = 256 << 20
    held: int = GIB
    holes: int = 16 * GIB


DEFAULT = ArchiveLimits()
