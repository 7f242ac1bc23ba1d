"""Finds a shared library's soname while the library streams past.

Names of fields and constants are those of the ELF specification (gABI, chapters 4 and 5).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

HEAD = 1 << 22
"""How much of a file's beginning is kept. The dynamic string table lies in the first pages of almost all."""

_LONGEST_TABLE = 1 << 16
_LONGEST_SONAME = 255
_PT_LOAD, _PT_DYNAMIC = 1, 2
_ET_DYN = 3
_DT_STRTAB, _DT_SONAME = 5, 14


@dataclass(frozen=True)
class Elf:
    """What an ELF file says of itself. `shared` is true of position-independent programs, too."""

    bits: int
    machine: int
    shared: bool
    soname: bytes = b""


@dataclass(frozen=True)
class _Shape:
    """Where fields lie in 32 or 64-bit little-endian files: formats for `struct`, and what they give."""

    bits: int
    phoff: tuple[str, int]
    phentsize: tuple[str, int]
    segment: str
    offset_address_size: tuple[int, int, int]
    dynamic: str


_SHAPES = {
    1: _Shape(32, ("<I", 28), ("<HH", 42), "<8I", (1, 2, 4), "<iI"),
    2: _Shape(64, ("<Q", 32), ("<HH", 54), "<IIQQQQQQ", (2, 3, 5), "<qQ"),
}


@dataclass
class _Range:
    """A part of the file that is waited for."""

    start: int
    size: int
    data: bytes = b""

    @property
    def end(self) -> int:
        return self.start + self.size


class ElfScan:
    """Takes a file's bytes in order, then says what the file is.

    Two parts of a library matter: the dynamic section, which tends to lie at the end, and the strings it
    points into, which lie before it. The scan keeps `HEAD` bytes of the beginning and, once the program
    headers are known, the dynamic section. When the strings are elsewhere, `elf` is None and `again` gives a
    scan that has to see the file once more.
    """

    def __init__(self, *, wanted: tuple[int, int] | None = None) -> None:
        self.again: ElfScan | None = None
        self.elf: Elf | None = None
        self._head = bytearray()
        self._seen = 0
        self._shape: _Shape | None = None
        self._segments: list[tuple[int, int, int, int]] = []
        self._dynamic = _Range(0, 0)
        self._extra = _Range(*wanted) if wanted else _Range(0, 0)

    def feed(self, data: bytes) -> None:
        """The next bytes of the file."""
        start = self._seen
        self._seen += len(data)
        if len(self._head) < HEAD:
            self._head += data[: HEAD - len(self._head)]
        if self._shape is None and self._read_header():
            self._keep(self._dynamic, bytes(self._head), 0)
        if self._shape is not None:
            self._keep(self._dynamic, data, start)
        self._keep(self._extra, data, start)

    def finish(self) -> None:
        """The file is at its end: set `elf`, unless it is no ELF file or `again` has to look."""
        if self._shape is None:
            return
        machine, kind = (
            struct.unpack_from("<H", self._head, 18)[0],
            struct.unpack_from("<H", self._head, 16)[0],
        )
        soname = self._soname(self._shape)
        if soname is not None:
            self.elf = Elf(self._shape.bits, machine, kind == _ET_DYN, soname)

    def _read_header(self) -> bool:
        """Whether the header and the program headers are there to read, and now have been."""
        head = self._head
        if len(head) < 64 or head[:4] != b"\x7fELF" or head[5] != 1 or head[4] not in _SHAPES:
            return False
        shape = _SHAPES[head[4]]
        (at,) = struct.unpack_from(*_from(shape.phoff, head))
        size, count = struct.unpack_from(*_from(shape.phentsize, head))
        if at + size * count > len(head) or size < struct.calcsize(shape.segment):
            return False
        for index in range(count):
            fields = struct.unpack_from(shape.segment, head, at + index * size)
            self._segments.append((fields[0], *(fields[which] for which in shape.offset_address_size)))
        dynamic = next((each for each in self._segments if each[0] == _PT_DYNAMIC), None)
        if dynamic is not None:
            self._dynamic = _Range(dynamic[1], min(dynamic[3], _LONGEST_TABLE))
        self._shape = shape
        return True

    def _soname(self, shape: _Shape) -> bytes | None:
        """The soname, empty for none; None when its bytes have not been kept."""
        entries = dict(_entries(self._dynamic.data, shape.dynamic))
        if _DT_SONAME not in entries or _DT_STRTAB not in entries:
            return b""
        address = entries[_DT_STRTAB] + entries[_DT_SONAME]
        for kind, offset, start, size in self._segments:
            if kind == _PT_LOAD and start <= address < start + size:
                return self._text(offset + address - start)
        return b""

    def _text(self, at: int) -> bytes | None:
        held = self._extra if self._extra.size else _Range(0, len(self._head), bytes(self._head))
        if held.start <= at < held.end:
            text, end, _ = held.data[at - held.start :][: _LONGEST_SONAME + 1].partition(b"\0")
            if end:
                return text
        if self._extra.size or at >= self._seen:
            return b""
        self.again = ElfScan(wanted=(at, min(_LONGEST_SONAME + 1, self._seen - at)))
        return None

    @staticmethod
    def _keep(part: _Range, data: bytes, start: int) -> None:
        """Add to a part what of `data`, which begins at `start`, belongs to it."""
        begin = part.start + len(part.data)
        if part.size and start <= begin < start + len(data):
            part.data += data[begin - start : part.end - start]


def _from(field: tuple[str, int], head: bytearray) -> tuple[str, bytearray, int]:
    return field[0], head, field[1]


def _entries(data: bytes, layout: str) -> Iterator[tuple[int, int]]:
    size = struct.calcsize(layout)
    for tag, value in struct.iter_unpack(layout, data[: len(data) - len(data) % size]):
        if tag == 0:
            return
        yield tag, value
