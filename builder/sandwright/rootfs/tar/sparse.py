"""Sparse files, as GNU tar and bsdtar write them: old GNU headers, and PAX formats 0.0, 0.1 and 1.0. Pure.

Formats: GNU tar's manual, "Storing Sparse Files", and tar.h; read as Go's archive/tar does. Every fault is a
ValueError with the reason as its text. A map is data in ascending order, without overlaps.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from sandwright.rootfs.tar import header
from sandwright.rootfs.tar.header import GNU

SPARSE = b"GNU.sparse."
NAME = SPARSE + b"name"
PAIRED = (SPARSE + b"offset", SPARSE + b"numbytes")
"""Keys that format 0.0 repeats, in turn."""

_MAP, _MAJOR, _MINOR, _BLOCKS = (SPARSE + each for each in (b"map", b"major", b"minor", b"numblocks"))
_SIZE, _REAL = SPARSE + b"size", SPARSE + b"realsize"
_KEYS = frozenset((NAME, _MAP, _MAJOR, _MINOR, _BLOCKS, _SIZE, _REAL, *PAIRED))
_NUMBER = re.compile(rb"[0-9]{1,19}")
_OLD, _OLD_MORE = 4, 21
"""The number of pieces in an old GNU header, and in each block that continues it."""

SparseMap = Sequence[tuple[int, int]]
"""Offset and length of each piece of data."""


def is_sparse(flag: bytes, pax: Mapping[bytes, bytes]) -> bool:
    """Whether a member is a sparse file of any format."""
    return flag == b"S" or any(key.startswith(SPARSE) for key in pax)


def real_size(block: bytes, pax: Mapping[bytes, bytes]) -> int:
    """The size of a sparse file, holes included."""
    if block[156:157] == b"S":
        if block[257:265] != GNU or any(key.startswith(SPARSE) for key in pax):
            raise ValueError("it is a sparse file of two formats")
        return header.number(block[483:495])
    if unknown := sorted(key for key in pax if key.startswith(SPARSE) and key not in _KEYS):
        raise ValueError(f"it is a sparse file with an unknown key: {unknown[0][:60]!r}")
    sizes = [pax[key] for key in (_SIZE, _REAL) if key in pax]
    if len(sizes) != 1:
        raise ValueError("it is a sparse file without a size, or with two")
    return _decimal(sizes[0])


def has_map_in_content(pax: Mapping[bytes, bytes]) -> bool:
    """Whether the map is at the beginning of the content, as in format 1.0."""
    version = pax.get(_MAJOR), pax.get(_MINOR)
    if version == (b"1", b"0") and not {_MAP, _BLOCKS, *PAIRED} & pax.keys():
        return True
    if version not in ((None, None), (b"0", b"0"), (b"0", b"1")) or _MAP not in pax:
        raise ValueError("it is a sparse file of an unknown format")
    return False


def map_in_header(pax: Mapping[bytes, bytes]) -> SparseMap:
    """The map of formats 0.0, whose pairs the reader of PAX headers has joined, and 0.1."""
    found = _pairs([_decimal(each) for each in pax[_MAP].split(b",")] if pax[_MAP] else [])
    if _BLOCKS in pax and _decimal(pax[_BLOCKS]) != len(found):
        raise ValueError("its sparse map has another length than its header says")
    return found


def joined(pairs: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """The map of the repeated keys of format 0.0 as that of 0.1; nothing for no keys."""
    if [key for key, _ in pairs] != [*PAIRED] * (len(pairs) // 2):
        raise ValueError("its sparse map has an offset without a length")
    return {_MAP: b",".join(value for _, value in pairs)} if pairs else {}


class ContentMap:
    """Reads the map of format 1.0: how many pieces, then offset and length of each, a line a number."""

    def __init__(self, largest: int) -> None:
        """`largest` is how many bytes it may have."""
        self.read = 0
        self._largest = largest
        self._text = b""

    def add(self, block: bytes) -> bool:
        """Take a block of the content. Whether the map is whole."""
        self.read += len(block)
        if self.read > self._largest:
            raise ValueError(f"its sparse map has more than {self._largest} bytes")
        self._text += block
        count, newline, _ = self._text[:32].partition(b"\n")
        return bool(newline) and self._text.count(b"\n") > 2 * _decimal(count)

    def pieces(self) -> SparseMap:
        """The map, once it is whole."""
        numbers = self._text.split(b"\n")
        count = 2 * _decimal(numbers[0])
        if b"\n".join(numbers[count + 1 :]).strip(b"\0"):
            raise ValueError("its sparse map is followed by something else")
        return _pairs([_decimal(each) for each in numbers[1 : count + 1]])


def old_pieces(block: bytes, *, first: bool) -> tuple[SparseMap, bool]:
    """The pieces in an old GNU header, or in a block that continues it, and whether another one follows."""
    start, count, more = (386, _OLD, 482) if first else (0, _OLD_MORE, 504)
    found = []
    for at in range(start, start + 24 * count, 24):
        if block[at] == 0:
            break
        found.append((header.number(block[at : at + 12]), header.number(block[at + 12 : at + 24])))
    return found, block[more] != 0


def check(pieces: SparseMap, size: int, stored: int) -> None:
    """Raise ValueError unless the pieces are in order, inside a file of `size` bytes, and `stored` in all."""
    end = 0
    for offset, length in pieces:
        if offset < end or length < 0 or offset + length > size:
            raise ValueError("its sparse map has pieces that overlap, or lie outside of the file")
        end = offset + length
    if sum(length for _, length in pieces) != stored:
        raise ValueError(f"its sparse map is of another number of bytes than the {stored} that follow")


def _pairs(numbers: Sequence[int]) -> SparseMap:
    if len(numbers) % 2:
        raise ValueError("its sparse map has an offset without a length")
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def _decimal(text: bytes) -> int:
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"a number of its sparse map is {text[:40]!r}")
    return int(text)
