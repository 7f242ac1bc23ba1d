"""The smallest program that proves a sandbox: says a word, tries a forbidden write, exits with the errno.

It is a static ELF file of less than 300 bytes that needs nothing of its root file system, so it starts
wherever programs of its architecture start. Before an image is blamed for not starting, this has shown that
the runtime starts anything at all.

The code is, in both encodings: write(1, word); result = openat(AT_FDCWD, path, O_WRONLY|O_CREAT, 0600);
exit(-result). A denied write gives its errno as exit status (EROFS: 30); one that succeeded gives 256 - fd.
System call numbers are those of Linux's arch/x86/entry/syscalls/syscall_64.tbl and
include/uapi/asm-generic/unistd.h.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

_BASE = 0x400000
HEADERS = 64 + 56
"""Bytes before the code: the headers of the file and of its one segment."""

_OPEN_FLAGS = 0o101
_OPEN_MODE = 0o600


def marker_program(architecture: str, word: bytes, path: bytes) -> bytes:
    """The program for an OCI architecture (`amd64`, `arm64`): writes `word`, tries to create `path`.

    Raise KeyError for another architecture; `ARCHITECTURES` names them.
    """
    machine, encode = _ENCODINGS[architecture]
    code_size = len(encode(0, 0, len(word)))
    word_at = HEADERS + code_size
    code = encode(word_at, word_at + len(word), len(word))
    return static_program(machine, code + word + path + b"\0")


def static_program(machine: int, content: bytes) -> bytes:
    """An ELF file for a machine (e_machine) whose one segment is `content`, entered at its beginning.

    `content` lies behind `HEADERS` bytes, in memory as in the file.
    """
    size = HEADERS + len(content)
    header = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, _BASE + HEADERS, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    # One loadable segment, readable and executable, aligned for the largest page size of arm64.
    header += struct.pack("<IIQQQQQQ", 1, 5, 0, _BASE, _BASE, size, size, 0x10000)
    return header + content


def _amd64(word_at: int, path_at: int, word_size: int) -> bytes:
    code = b""

    def here(after: int) -> int:
        return HEADERS + len(code) + after

    code += b"\xb8" + struct.pack("<I", 1)  # mov eax, write
    code += b"\xbf" + struct.pack("<I", 1)  # mov edi, 1
    code += b"\x48\x8d\x35" + struct.pack("<i", word_at - here(7))  # lea rsi, [rip + word]
    code += b"\xba" + struct.pack("<I", word_size)  # mov edx, size
    code += b"\x0f\x05"  # syscall
    code += b"\xb8" + struct.pack("<I", 257)  # mov eax, openat
    code += b"\xbf" + struct.pack("<i", -100)  # mov edi, AT_FDCWD
    code += b"\x48\x8d\x35" + struct.pack("<i", path_at - here(7))  # lea rsi, [rip + path]
    code += b"\xba" + struct.pack("<I", _OPEN_FLAGS)  # mov edx, flags
    code += b"\x41\xba" + struct.pack("<I", _OPEN_MODE)  # mov r10d, mode
    code += b"\x0f\x05"  # syscall
    code += b"\xf7\xd8"  # neg eax
    code += b"\x89\xc7"  # mov edi, eax
    code += b"\xb8" + struct.pack("<I", 60)  # mov eax, exit
    return code + b"\x0f\x05"  # syscall


def _arm64(word_at: int, path_at: int, word_size: int) -> bytes:
    words: list[int] = []

    def load(register: int, value: int) -> None:
        words.append(0xD2800000 | value << 5 | register)  # movz

    def address(register: int, of: int) -> None:
        distance = (of - HEADERS - 4 * len(words)) & 0x1FFFFF
        words.append(0x10000000 | (distance & 3) << 29 | distance >> 2 << 5 | register)  # adr

    def call(number: int) -> None:
        load(8, number)
        words.append(0xD4000001)  # svc 0

    load(0, 1)
    address(1, word_at)
    load(2, word_size)
    call(64)  # write
    words.append(0x92800000 | 99 << 5)  # movn x0, 99: AT_FDCWD
    address(1, path_at)
    load(2, _OPEN_FLAGS)
    load(3, _OPEN_MODE)
    call(56)  # openat
    words.append(0xCB0003E0)  # neg x0, x0
    call(93)  # exit
    return struct.pack(f"<{len(words)}I", *words)


_ENCODINGS: Mapping[str, tuple[int, Callable[[int, int, int], bytes]]] = {
    "amd64": (62, _amd64),
    "arm64": (183, _arm64),
}
"""OCI architecture → (ELF e_machine, encoder)."""

ARCHITECTURES = frozenset(_ENCODINGS)
"""The architectures that `marker_program` knows."""
