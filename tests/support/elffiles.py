"""Writes small ELF files for tests: program headers, a dynamic section, symbols, notes; none can run."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

NEEDED, SONAME, RPATH, RUNPATH, FLAGS_1 = 1, 14, 15, 29, 0x6FFFFFFB
AUXILIARY, FILTER, AUDIT, DEPAUDIT = 0x7FFFFFFD, 0x7FFFFFFF, 0x6FFFFEFC, 0x6FFFFEFB
X86_64, AARCH64, I386, S390 = 62, 183, 3, 22
BASE = 0x400000


@dataclass(frozen=True)
class Machine:
    """The machine of an ELF file."""

    number: int = X86_64
    bits: int = 64
    order: str = "<"

    @property
    def word(self) -> str:
        """The format of an address."""
        return "Q" if self.bits == 64 else "I"


HERE = Machine()


def elf(
    *,
    machine: Machine = HERE,
    interpreter: bytes | None = None,
    texts: Sequence[tuple[int, bytes]] = (),
    values: Sequence[tuple[int, int]] = (),
    imports: Sequence[bytes] = (),
    exports: Sequence[bytes] = (),
    notes: bytes = b"",
    dynamic: bool = True,
) -> bytes:
    """A shared object. `texts` are dynamic entries with a string as value, `values` those with a number."""
    body = _Body(machine)
    segments = []
    if interpreter is not None:
        segments.append((3, *body.add(interpreter + b"\0")))
    if notes:
        segments.append((4, *body.add(notes)))
    if dynamic:
        segments.append((2, *body.dynamic(texts, values, imports, exports)))
    segments.insert(0, (1, 0, body.start + len(body.data)))
    head = _header(machine, len(segments)) + b"".join(_segment(machine, *each) for each in segments)
    assert len(segments) <= _Body.MOST
    return head.ljust(body.start, b"\0") + body.data


def library(soname: bytes, *needed: bytes, **more: Any) -> bytes:
    """A library with a soname."""
    texts = [(SONAME, soname), *((NEEDED, name) for name in needed), *more.pop("texts", ())]
    return elf(texts=texts, **more)


def program(*needed: bytes, interpreter: bytes = b"/lib64/ld-linux-x86-64.so.2", **more: Any) -> bytes:
    """A program with an interpreter."""
    texts = [*((NEEDED, name) for name in needed), *more.pop("texts", ())]
    return elf(interpreter=interpreter, texts=texts, **more)


def dlopen_note(*rows: Mapping[str, Any]) -> bytes:
    """A note of the UAPI Group's "ELF dlopen metadata"."""
    data = json.dumps(rows).encode() + b"\0"
    return struct.pack("<III", 4, len(data), 0x407C0C0A) + b"FDO\0" + data + bytes(-len(data) % 4)


class _Body:
    """The content after the headers, in order."""

    MOST = 8

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.start = 0x40 + 56 * self.MOST
        self.data = b""

    def add(self, content: bytes) -> tuple[int, int]:
        """Offset and size of `content` in the file."""
        self.data += bytes(-len(self.data) % 8)
        at = self.start + len(self.data)
        self.data += content
        return at, len(content)

    def dynamic(
        self,
        texts: Sequence[tuple[int, bytes]],
        values: Sequence[tuple[int, int]],
        imports: Sequence[bytes],
        exports: Sequence[bytes],
    ) -> tuple[int, int]:
        order, word = self.machine.order, self.machine.word
        strings = b"\0"
        entries = []
        for tag, text in texts:
            entries.append((tag, len(strings)))
            strings += text + b"\0"
        symbols = [(0, 0)]
        for names, section in ((imports, 0), (exports, 1)):
            for name in names:
                symbols.append((len(strings), section))
                strings += name + b"\0"
        table = b"".join(self._symbol(*each) for each in symbols)
        hashed = struct.pack(f"{order}IIIII", 1, 1 + len(imports), 0, 0, 0)
        addresses = [(5, strings), (6, table), (0x6FFFFEF5, hashed)]
        entries += [(tag, BASE + self.add(content)[0]) for tag, content in addresses]
        entries += [(10, len(strings)), *values, (0, 0)]
        packed = [struct.pack(f"{order}{word}{word}", *entry) for entry in entries]
        return self.add(b"".join(packed))

    def _symbol(self, name: int, section: int) -> bytes:
        if self.machine.bits == 64:
            return struct.pack(f"{self.machine.order}IBBHQQ", name, 0x12, 0, section, 0, 0)
        return struct.pack(f"{self.machine.order}IIIBBH", name, 0, 0, 0x12, 0, section)


def _header(machine: Machine, segments: int) -> bytes:
    wide = machine.bits == 64
    ident = b"\x7fELF" + bytes([2 if wide else 1, 1 if machine.order == "<" else 2, 1]) + bytes(9)
    size, row = (64, 56) if wide else (52, 32)
    form = f"{machine.order}HHI{machine.word * 3}IHHHHHH"
    return ident + struct.pack(form, 3, machine.number, 1, 0, size, 0, 0, size, row, segments, 0, 0, 0)


def _segment(machine: Machine, kind: int, offset: int, size: int) -> bytes:
    address = BASE + offset
    if machine.bits == 64:
        return struct.pack(f"{machine.order}IIQQQQQQ", kind, 4, offset, address, address, size, size, 8)
    return struct.pack(f"{machine.order}IIIIIIII", kind, offset, address, address, size, size, 4, 8)
