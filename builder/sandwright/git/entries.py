"""An index's entries, without the fields of a refresh: times, inodes, caches (gitformat-index(5))."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

_STAT = 40
"""Bytes of an entry before the object's name: times, device, inode, mode, user, group, size."""
_EXTENDED = 0x4000
_HASHES = {20: hashlib.sha1, 32: hashlib.sha256}
"""By the length of an object's name, and of the checksum at the end."""
_CHANGING = (b"link", b"sdir")
"""Extensions with entries: a split or sparse index is not compared."""


def _has_checksum(data: bytes, length: int, make: Callable[..., Any]) -> bool:
    """Whether it ends with its checksum, or with zeros in place of one (index.skipHash)."""
    end = data[-length:]
    return len(data) >= 12 + length and end in (bytes(length), make(data[:-length]).digest())


def entries_digest(data: bytes) -> str:
    """A digest of paths, modes, objects and flags; two indexes have the same if they stage the same.

    Empty for a damaged index, for versions other than 2 and 3, and for a split or sparse index.
    """
    length = next((each for each, make in _HASHES.items() if _has_checksum(data, each, make)), 0)
    if not length or data[:4] != b"DIRC" or int.from_bytes(data[4:8], "big") not in (2, 3):
        return ""
    digest, at, end = hashlib.sha256(), 12, len(data) - length
    for _ in range(int.from_bytes(data[8:12], "big")):
        flags_at = at + _STAT + length
        extended = 2 * bool(int.from_bytes(data[flags_at : flags_at + 2], "big") & _EXTENDED)
        name_end = data.find(b"\0", flags_at + 2 + extended, end)
        if name_end < 0:
            return ""
        digest.update(data[at + 24 : at + 28] + data[at + _STAT : name_end + 1])
        at += (name_end - at) // 8 * 8 + 8  # an entry is padded with 1 to 8 NULs
    while at + 8 <= end:
        if data[at : at + 4] in _CHANGING:
            return ""
        at += 8 + int.from_bytes(data[at + 4 : at + 8], "big")
    return digest.hexdigest() if at == end else ""
