"""Reads the loading data of an ELF file: interpreter, needed libraries, search paths, imports.

Written for untrusted files: every offset and count is bounded before it is used, only requested parts are
read, and a file that breaks the format is a `Malformed`, never a crash or a long wait. Names of fields are
those of the gABI (chapters 4 and 5); tags of GNU are those of glibc's <elf.h>.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from sandwright.documents import strictjson

MAGIC = b"\x7fELF"

WATCHED = frozenset(
    {
        b"dlopen",
        b"dlmopen",
        b"iconv_open",
        b"getaddrinfo",
        b"gethostbyname",
        b"getpwnam",
        b"getpwnam_r",
        b"getpwuid",
        b"getpwuid_r",
        b"getgrnam",
        b"getgrnam_r",
        b"setlocale",
        b"newlocale",
        b"tzset",
        b"localtime",
        b"localtime_r",
        b"setupterm",
        b"tgetent",
    }
)
"""Functions through which a program reaches for files that its own file does not name."""

_HEADER = 64
_MOST_SEGMENTS = 1024
_LARGEST_DYNAMIC = 1 << 20
_LARGEST_NOTES = 1 << 20
_LARGEST_STRINGS = 64 << 20
_LARGEST_NAMES = 256 << 10
_NAME = 64  # bytes of memory that a name takes besides its own
_MOST_SYMBOLS = 1 << 20
_LONGEST_STRING = 4096

_ET_DYN = 3
_PT_LOAD, _PT_DYNAMIC, _PT_INTERP, _PT_NOTE = 1, 2, 3, 4
_DT_NEEDED, _DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ = 1, 4, 5, 6, 10
_DT_SONAME, _DT_RPATH, _DT_RUNPATH = 14, 15, 29
_DT_GNU_HASH, _DT_FLAGS_1 = 0x6FFFFEF5, 0x6FFFFFFB
_DT_DEPAUDIT, _DT_AUDIT = 0x6FFFFEFB, 0x6FFFFEFC
_DT_AUXILIARY, _DT_FILTER = 0x7FFFFFFD, 0x7FFFFFFF
_DF_1_NODEFLIB = 0x800
_FDO_DLOPEN = 0x407C0C0A  # "ELF dlopen metadata" of the UAPI Group


class Malformed(ValueError):
    """The file begins with ELF's magic bytes but is invalid. The text describes the fault."""


@dataclass(frozen=True)
class Dlopen:
    """Libraries that a file may load at run time: any of `sonames`, with the note's `priority`."""

    sonames: tuple[str, ...]
    priority: str
    feature: str


@dataclass(frozen=True)
class Elf:
    """The headers of an ELF file.

    `target` (bits, byte order, machine) must be equal for files that are loaded together. Paths are as
    written, `$ORIGIN` and all. `optional` are libraries that the loader takes when they are there
    (DT_AUXILIARY). `imports` are those of `WATCHED` that it takes from others. `shared` (ET_DYN) is true of
    position-independent programs, too.
    """

    target: tuple[int, int, int]
    shared: bool = True
    interpreter: bytes = b""
    needed: tuple[bytes, ...] = ()
    optional: tuple[bytes, ...] = ()
    soname: bytes = b""
    rpath: tuple[bytes, ...] = ()
    runpath: tuple[bytes, ...] = ()
    default_directories: bool = True
    imports: frozenset[bytes] = frozenset()
    dlopens: tuple[Dlopen, ...] = ()

    @property
    def weight(self) -> int:
        """About how many bytes of memory it takes."""
        names = (self.interpreter, self.soname, *self.needed, *self.optional, *self.rpath, *self.runpath)
        late = [each for found in self.dlopens for each in (found.priority, found.feature, *found.sonames)]
        return sum(len(each) + _NAME for each in names) + sum(4 * len(each) + _NAME for each in late)


@dataclass(frozen=True)
class _Layout:
    """Formats for `struct`, for one class of files, without the byte order."""

    header: str  # e_type e_machine e_version e_entry e_phoff e_shoff e_flags e_ehsize e_phentsize e_phnum
    segment: str
    order: tuple[int, int, int, int]  # where p_type, p_offset, p_vaddr, p_filesz are in it
    dynamic: str
    symbol: str
    section: int  # where st_shndx is in it


_LAYOUTS = {
    1: _Layout("HHIIIIIHHH", "IIIIIIII", (0, 1, 2, 4), "iI", "IIIBBH", 5),
    2: _Layout("HHIQQQIHHH", "IIQQQQQQ", (0, 2, 3, 5), "qQ", "IBBHQQ", 3),
}


def read_elf(fd: int, *, symbols: bool = True) -> Elf | None:
    """Read the file behind a descriptor; None when it is no ELF file. Raise Malformed for a broken one.

    Without `symbols`, `imports` and `dlopens` stay empty.
    """
    head = os.pread(fd, _HEADER, 0)
    if not head.startswith(MAGIC):
        return None
    try:
        return _File(fd, head).elf(symbols=symbols)
    except (struct.error, OverflowError) as error:
        raise Malformed(f"a field does not fit: {error}") from error


class _File:
    def __init__(self, fd: int, head: bytes) -> None:
        if len(head) < 52 or head[4] not in _LAYOUTS or head[5] not in (1, 2):
            raise Malformed("its header names no class or byte order, or is cut off")
        self._fd = fd
        self._layout = _LAYOUTS[head[4]]
        self._end = "<" if head[5] == 1 else ">"
        fields = struct.unpack_from(self._end + self._layout.header, head.ljust(_HEADER, b"\0"), 16)
        self._target = (32 * head[4], head[5], fields[1])
        self._shared = fields[0] == _ET_DYN
        self._segments = list(self._read_segments(fields[4], fields[8], fields[9]))
        self._dynamic: dict[int, list[int]] = {}
        self._strings = b""
        self._left = _LARGEST_NAMES

    def elf(self, *, symbols: bool) -> Elf:
        """Everything about the file."""
        self._read_dynamic()
        flags = self._first_value(_DT_FLAGS_1) or 0
        return Elf(
            target=self._target,
            shared=self._shared,
            interpreter=self._interpreter(),
            needed=self._texts(_DT_NEEDED, _DT_FILTER) + self._directories_of(_DT_AUDIT, _DT_DEPAUDIT),
            optional=self._texts(_DT_AUXILIARY),
            soname=next(iter(self._texts(_DT_SONAME)), b""),
            rpath=self._directories_of(_DT_RPATH),
            runpath=self._directories_of(_DT_RUNPATH),
            default_directories=not flags & _DF_1_NODEFLIB,
            imports=self._imports() if symbols else frozenset(),
            dlopens=tuple(self._read_dlopens()) if symbols else (),
        )

    def _read_segments(self, at: int, size: int, count: int) -> Iterator[tuple[int, int, int, int]]:
        """Type, offset, address and size of each segment."""
        if not count:
            return
        form = self._end + self._layout.segment
        if count > _MOST_SEGMENTS or size != struct.calcsize(form):
            raise Malformed(f"{count} program headers of {size} bytes")
        kind, offset, address, length = self._layout.order
        for fields in struct.iter_unpack(form, self._read_at(at, size * count, "program headers")):
            yield fields[kind], fields[offset], fields[address], fields[length]

    def _read_dynamic(self) -> None:
        found = next((segment for segment in self._segments if segment[0] == _PT_DYNAMIC), None)
        if found is None or not found[3]:
            return
        form = self._end + self._layout.dynamic
        size = found[3] - found[3] % struct.calcsize(form)
        if size > _LARGEST_DYNAMIC:
            raise Malformed(f"a dynamic section of {size} bytes")
        for tag, value in struct.iter_unpack(form, self._read_at(found[1], size, "dynamic section")):
            if tag == 0:
                break
            self._dynamic.setdefault(tag, []).append(value)
        start, length = self._first_value(_DT_STRTAB), self._first_value(_DT_STRSZ)
        if start is not None and length is not None:
            if length > _LARGEST_STRINGS:
                raise Malformed(f"a string table of {length} bytes")
            self._strings = self._read_at(self._offset(start), length, "string table")

    def _interpreter(self) -> bytes:
        for kind, offset, _, size in self._segments:
            if kind == _PT_INTERP:
                if not 2 <= size <= _LONGEST_STRING:
                    raise Malformed(f"the name of its interpreter has {size} bytes")
                text, nul, _ = self._read_at(offset, size, "interpreter").partition(b"\0")
                if not nul:
                    raise Malformed("the name of its interpreter does not end")
                return text
        return b""

    def _imports(self) -> frozenset[bytes]:
        table, count = self._first_value(_DT_SYMTAB), self._symbols()
        if table is None or not count:
            return frozenset()
        form = self._end + self._layout.symbol
        data = self._read_at(self._offset(table), count * struct.calcsize(form), "symbol table")
        undefined = (f[0] for f in struct.iter_unpack(form, data) if not f[self._layout.section] and f[0])
        return frozenset(text for at in undefined if (text := self._string_at_offset(at)) in WATCHED)

    def _symbols(self) -> int:
        """The number of symbols. Only the hash table has it."""
        gnu, plain = self._first_value(_DT_GNU_HASH), self._first_value(_DT_HASH)
        count = 0
        if gnu is not None:
            count = self._hashed_symbols(self._offset(gnu))
        elif plain is not None:
            count = self._read_words(self._offset(plain), 2)[1]
        if count > _MOST_SYMBOLS:
            raise Malformed(f"{count} symbols")
        return count

    def _hashed_symbols(self, at: int) -> int:
        """The end of the last chain of a GNU hash table; symbols that no chain has come before all others."""
        buckets, first, bloom, _ = self._read_words(at, 4)
        if buckets > _MOST_SYMBOLS or bloom > _MOST_SYMBOLS:
            raise Malformed(f"a hash table of {max(buckets, bloom)} rows")
        at += 16 + bloom * self._target[0] // 8
        last = max(self._read_words(at, buckets), default=0)
        if last < first:
            return first
        at += 4 * (buckets - first)
        while last < _MOST_SYMBOLS and not self._read_words(at + 4 * last, 1)[0] & 1:
            last += 1
        return last + 1

    def _read_words(self, at: int, count: int) -> tuple[int, ...]:
        return struct.unpack(f"{self._end}{count}I", self._read_at(at, 4 * count, "hash table"))

    def _read_dlopens(self) -> Iterator[Dlopen]:
        remaining = _LARGEST_NOTES
        for kind, offset, _, size in self._segments:
            if kind == _PT_NOTE and 0 < size <= remaining:
                remaining -= size
                yield from _dlopen_notes(self._read_at(offset, size, "notes"), self._end)

    def _texts(self, *tags: int) -> tuple[bytes, ...]:
        return tuple(
            self._count_name(self._string_at_offset(at)) for tag in tags for at in self._dynamic.get(tag, ())
        )

    def _directories_of(self, *tags: int) -> tuple[bytes, ...]:
        return tuple(
            self._count_name(part) for text in self._texts(*tags) for part in text.split(b":") if part
        )

    def _count_name(self, name: bytes) -> bytes:
        """A name. Many rows may point to one, and one row to many: all together are bounded."""
        self._left -= len(name) + _NAME
        if self._left < 0:
            raise Malformed(f"names of libraries and directories that take more than {_LARGEST_NAMES} bytes")
        return name

    def _string_at_offset(self, at: int) -> bytes:
        end = self._strings.find(0, at, at + _LONGEST_STRING)
        if at >= len(self._strings) or end < 0:
            raise Malformed(f"a name at {at} of its string table does not end in it")
        return self._strings[at:end]

    def _first_value(self, tag: int) -> int | None:
        return next(iter(self._dynamic.get(tag, ())), None)

    def _offset(self, address: int) -> int:
        for kind, offset, start, size in self._segments:
            if kind == _PT_LOAD and start <= address < start + size:
                return offset + address - start
        raise Malformed(f"address {address:#x} is in no part of the file")

    def _read_at(self, at: int, size: int, what: str) -> bytes:
        data = os.pread(self._fd, size, at) if at < 1 << 62 else b""
        if len(data) != size:
            raise Malformed(f"its {what} ({size} bytes at {at}) lies beyond its end")
        return data


def _dlopen_notes(data: bytes, end: str) -> Iterator[Dlopen]:
    """The libraries of "FDO" notes; notes of another form are ignored."""
    at = 0
    while at + 12 <= len(data):
        name_size, size, kind = struct.unpack_from(end + "III", data, at)
        start = at + 12 + name_size + -name_size % 4
        if kind == _FDO_DLOPEN and data[at + 12 : at + 16] == b"FDO\0":
            yield from _dlopen_rows(data[start : start + size])
        at = start + size + -size % 4


def _dlopen_rows(raw: bytes) -> Iterator[Dlopen]:
    try:
        rows = strictjson.loads(raw.rstrip(b"\0").decode())
    except ValueError:
        return
    for row in rows if isinstance(rows, list) else ():
        names = row.get("soname") if isinstance(row, dict) else None
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            priority, feature = (str(row.get(key) or "") for key in ("priority", "feature"))
            yield Dlopen(tuple(names), priority or "recommended", feature)
