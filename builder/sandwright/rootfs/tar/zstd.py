"""Follows the frames of a Zstandard stream, to detect truncation.

The library's reader ends a stream that was cut inside a frame the same way as a complete one. The frame
format is RFC 8878, section 3.1.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from sandwright.rootfs.tar.reader import Readable

_MAGIC = b"\x28\xb5\x2f\xfd"
_SKIPPABLE = b"\x2a\x4d\x18"
_DICTIONARY = (0, 1, 2, 4)
_CONTENT = (0, 2, 4, 8)
_RLE, _RESERVED = 1, 3


@dataclass(slots=True)
class _Want:
    """The next bytes: skip `skip`, then read `take`. `between`: the stream may end here."""

    skip: int
    take: int
    between: bool = False


class ZstdFrames:
    """Passes a compressed stream through unchanged, and follows its frames."""

    def __init__(self, source: Readable) -> None:
        self._source = source
        self._walk = _frame_steps()
        self._want = next(self._walk)
        self._have = b""

    @staticmethod
    def begin(magic: bytes) -> bool:
        """Whether a stream with these first bytes is Zstandard; it may start with a skippable frame."""
        return magic.startswith(_MAGIC) or (magic[1:4] == _SKIPPABLE and magic[0] & 0xF0 == 0x50)

    def read(self, size: int, /) -> bytes:
        """The next bytes, unchanged. Raise ValueError for an invalid frame."""
        data = self._source.read(size)
        self._follow_frames(data)
        return data

    def finish(self) -> bytes:
        """Return nothing at an end between two frames. Raise EOFError at any other end."""
        if self._have or self._want.skip or not self._want.between:
            raise EOFError
        return b""

    def _follow_frames(self, data: bytes) -> None:
        at, want = 0, self._want
        while at < len(data):
            if want.skip:
                skipped = min(want.skip, len(data) - at)
                want.skip -= skipped
                at += skipped
                continue
            taken = data[at : at + want.take - len(self._have)]
            self._have += taken
            at += len(taken)
            if len(self._have) == want.take:
                self._want = want = self._walk.send(self._have)
                self._have = b""


def _frame_steps() -> Generator[_Want, bytes, None]:
    """Yield the next piece to read; receive it; repeat without end."""
    skip = 0
    while True:
        magic = yield _Want(skip, 4, between=True)
        if magic == _MAGIC:
            skip = yield from _frame()
        elif ZstdFrames.begin(magic):
            skip = int.from_bytes((yield _Want(0, 4)), "little")
        else:
            raise ValueError("something that is not Zstandard follows a frame")


def _frame() -> Generator[_Want, bytes, int]:
    """Follow a frame to its last block; return the number of bytes after it."""
    descriptor = (yield _Want(0, 1))[0]
    single = bool(descriptor & 0x20)
    content = descriptor >> 6
    skip = (0 if single else 1) + _DICTIONARY[descriptor & 3] + (_CONTENT[content] or int(single))
    while True:
        block = int.from_bytes((yield _Want(skip, 3)), "little")
        kind, size = block >> 1 & 3, block >> 3
        if kind == _RESERVED:
            raise ValueError("a block is of the reserved type")
        skip = 1 if kind == _RLE else size
        if block & 1:
            return skip + (4 if descriptor & 4 else 0)
