"""Makes ELF files of a few hundred bytes with exactly the content that a test needs."""

from __future__ import annotations

import struct

X86_64, AARCH64, I386 = 62, 183, 3
SHARED, EXECUTABLE = 3, 2
_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_NEEDED, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ, _DT_SYMENT, _DT_SONAME = 1, 5, 6, 10, 11, 14


def elf(
    soname: str | None = None,
    *,
    machine: int = X86_64,
    bits: int = 64,
    kind: int = SHARED,
    gap: int = 0,
    late: int = 0,
) -> bytes:
    """An ELF file that needs libc. `gap` bytes lie before its strings, `late` more before its dynamics."""
    wide = bits == 64
    header, segment, item = (64, 56, 16) if wide else (52, 32, 8)
    strings = b"\0" + (soname.encode() + b"\0" if soname is not None else b"") + b"libc.so.6\0"
    string_at = header + 2 * segment + gap
    dynamic_at = (string_at + len(strings) + late + 15) // 16 * 16
    items = [(_DT_STRTAB, string_at), (_DT_SYMTAB, string_at), (_DT_STRSZ, len(strings)), (_DT_SYMENT, item)]
    items += [(_DT_SONAME, 1)] if soname is not None else []
    items += [(_DT_NEEDED, strings.index(b"libc.so.6"))]
    layout = "<QQ" if wide else "<II"
    dynamic = b"".join(struct.pack(layout, *each) for each in [*items, (0, 0)])
    end = dynamic_at + len(dynamic)
    segments = [(_PT_LOAD, 0, end), (_PT_DYNAMIC, dynamic_at, len(dynamic))]
    parts = [_header(kind, machine, header, segment, wide=wide)]
    for which, at, size in segments:
        fields = (which, 4, at, at, at, size, size, 8) if wide else (which, at, at, at, size, size, 4, 8)
        parts.append(struct.pack("<IIQQQQQQ" if wide else "<8I", *fields))
    body = b"".join(parts).ljust(string_at, b"\0") + strings
    return body.ljust(dynamic_at, b"\0") + dynamic


def _header(kind: int, machine: int, size: int, segment: int, *, wide: bool) -> bytes:
    identity = b"\x7fELF" + bytes([2 if wide else 1, 1, 1]) + bytes(9)
    layout = "<HHIQQQIHHHHHH" if wide else "<HHIIIIIHHHHHH"
    return identity + struct.pack(layout, kind, machine, 1, 0, size, 0, 0, size, segment, 2, 0, 0, 0)
