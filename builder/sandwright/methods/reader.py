"""The program that tries a sandbox out: it writes what it can read of two files, and exits with 42.

Sandboxes over an image's root bring neither shell nor libraries, so it is a static ELF file of some hundred
bytes, like `sandwright.runtime.marker`. For each path it does: file = openat(AT_FDCWD, path, O_RDONLY);
size = read(file, buffer, 64); write(1, buffer, max(size, 0)). The buffer lies below the stack.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from sandwright.runtime.marker import HEADERS, static_program

STATUS = 42
"""What it exits with."""

MOST = 64
"""Bytes that it reads of each file."""


def reader_program(architecture: str, *paths: bytes) -> bytes:
    """The program for an OCI architecture (`amd64`, `arm64`), which reads these files.

    Raise KeyError for another architecture; `ARCHITECTURES` names them.
    """
    machine, encode = _ENCODINGS[architecture]
    size = len(encode([0] * len(paths)))
    places, names = [], b""
    for path in paths:
        places.append(HEADERS + size + len(names))
        names += path + b"\0"
    return static_program(machine, encode(places) + names)


def _amd64(places: list[int]) -> bytes:
    code = b""
    for place in places:
        code += b"\xb8" + struct.pack("<I", 257)  # mov eax, openat
        code += b"\xbf" + struct.pack("<i", -100)  # mov edi, AT_FDCWD
        code += b"\x48\x8d\x35" + struct.pack("<i", place - HEADERS - len(code) - 7)  # lea rsi, [rip + path]
        code += b"\x31\xd2\x45\x31\xd2\x0f\x05"  # xor edx, edx; xor r10d, r10d; syscall
        code += b"\x89\xc7\x48\x8d\xb4\x24" + struct.pack("<i", -256)  # mov edi, eax; lea rsi, [rsp - 256]
        code += (
            b"\xba" + struct.pack("<I", MOST) + b"\x31\xc0\x0f\x05"
        )  # mov edx, MOST; xor eax, eax; syscall
        code += b"\x31\xd2\x85\xc0\x0f\x49\xd0"  # xor edx, edx; test eax, eax; cmovns edx, eax
        code += b"\xbf\x01\0\0\0\xb8\x01\0\0\0\x0f\x05"  # mov edi, 1; mov eax, write; syscall
    return code + b"\xbf" + struct.pack("<I", STATUS) + b"\xb8\x3c\0\0\0\x0f\x05"  # exit(STATUS)


def _arm64(places: list[int]) -> bytes:
    words: list[int] = []

    def load(register: int, value: int) -> None:
        words.append(0xD2800000 | value << 5 | register)  # movz

    def call(number: int) -> None:
        load(8, number)
        words.append(0xD4000001)  # svc 0

    for place in places:
        words.append(0x92800000 | 99 << 5)  # movn x0, 99: AT_FDCWD
        distance = (place - HEADERS - 4 * len(words)) & 0x1FFFFF
        words.append(0x10000000 | (distance & 3) << 29 | distance >> 2 << 5 | 1)  # adr x1, path
        load(2, 0)
        load(3, 0)
        call(56)  # openat
        words.append(0xD10403E1)  # sub x1, sp, 256
        load(2, MOST)
        call(63)  # read
        words += [0xF100001F, 0x9A9FC002]  # cmp x0, 0; csel x2, x0, xzr, gt
        words.append(0xD10403E1)  # sub x1, sp, 256
        load(0, 1)
        call(64)  # write
    load(0, STATUS)
    call(93)  # exit
    return struct.pack(f"<{len(words)}I", *words)


_ENCODINGS: Mapping[str, tuple[int, Callable[[list[int]], bytes]]] = {
    "amd64": (62, _amd64),
    "arm64": (183, _arm64),
}
"""OCI architecture → (ELF e_machine, encoder)."""

ARCHITECTURES = frozenset(_ENCODINGS)
"""The architectures that `reader_program` knows."""
