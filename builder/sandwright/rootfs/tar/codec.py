"""Decompresses streams: gzip, Zstandard, xz or none, detected by their first bytes.

Decompression runs in this process: helper programs on PATH have been replaced (CVE-2014-9357,
GHSA-x86f-5xw2-fm2r). Output comes in bounded pieces, for any compression ratio. A truncated or damaged
stream, or one with trailing data, is an error, never a short read.
"""

from __future__ import annotations

import lzma
from collections.abc import Callable, Collection
from typing import IO, Literal, Protocol, assert_never, cast

import zstandard
from isal import igzip_lib

from sandwright.errors import ArchiveRefused, IntegrityError
from sandwright.rootfs.tar.limits import DEFAULT, ArchiveLimits
from sandwright.rootfs.tar.reader import Readable
from sandwright.rootfs.tar.zstd import ZstdFrames

Codec = Literal["gzip", "zstd", "xz", "plain"]

LAYER: Collection[Codec] = ("gzip", "zstd", "plain")
_INPUT = 1 << 17
_FIRST = 1 << 10  # fed to a member that has just begun: many may be tiny, and their unused data is copied
_ZSTD_WINDOW = 1 << 27  # the default limit of the zstd program
_XZ_MEMORY = 1 << 28
_DAMAGE = (
    ValueError,
    lzma.LZMAError,
    cast("type[Exception]", igzip_lib.IsalError),  # isal's own types say it is an instance
    zstandard.ZstdError,
)
_GZIP_MAGIC, _XZ_MAGIC = b"\x1f\x8b", b"\xfd7zXZ\0"


def decompressed(
    stream: Readable, *, name: str, allow: Collection[Codec] = LAYER, limits: ArchiveLimits = DEFAULT
) -> DecompressedStream:
    """Decompress a stream with a codec of `allow`; xz is for packages only.

    `name` is the stream's name in messages. Raise ArchiveRefused for another codec; reading raises
    IntegrityError when the data are damaged or truncated, ArchiveRefused when they grow beyond
    `limits.ratio`.
    """
    source = _Source(stream)
    codec = _codec(source.peek(6), name)
    if codec not in allow:
        raise ArchiveRefused(f"{name}: is compressed with {codec}, and only {', '.join(allow)} is taken here")
    return DecompressedStream(codec, source, name, limits)


class DecompressedStream:
    """A decompressed stream. `codec` is its compression, `bytes` the output so far."""

    def __init__(self, codec: Codec, source: _Source, name: str, limits: ArchiveLimits) -> None:
        self.codec: Codec = codec
        self.bytes = 0
        self._source = source
        self._name = name
        self._limits = limits
        self._produce = _producer(codec, source)

    def read(self, size: int, /) -> bytes:
        """The next bytes, at most `size`; nothing only at the end of a complete stream."""
        try:
            data = self._produce(size)
        except EOFError:
            raise IntegrityError(f"{self._name}: its {self.codec} data ends early") from None
        except _DAMAGE as damage:
            raise IntegrityError(f"{self._name}: its {self.codec} data is damaged: {damage}") from damage
        self.bytes += len(data)
        if self.bytes > self._limits.ratio_floor and self.bytes > self._limits.ratio * self._source.bytes:
            grown = f"{self._source.bytes} bytes have become {self.bytes}"
            raise ArchiveRefused(
                f"{self._name}: {grown}; at most {self._limits.ratio} for one are let through"
            )
        return data


class _Source:
    """The compressed stream, counted and peekable."""

    def __init__(self, stream: Readable) -> None:
        self.bytes = 0
        self._stream = stream
        self._ahead = b""

    def peek(self, size: int) -> bytes:
        while len(self._ahead) < size and (more := self._stream.read(_INPUT)):
            self._ahead += more
        return self._ahead[:size]

    def read(self, size: int = _INPUT, /) -> bytes:
        data = self._ahead[:size] if self._ahead else self._stream.read(size)
        self._ahead = self._ahead[size:]
        self.bytes += len(data)
        return data


def _codec(magic: bytes, name: str) -> Codec:
    if magic.startswith(_GZIP_MAGIC):
        return "gzip"
    if magic.startswith(_XZ_MAGIC):
        return "xz"
    if ZstdFrames.begin(magic):
        return "zstd"
    if magic.startswith((b"BZh", b"\x5d\0\0")):
        raise ArchiveRefused(
            f"{name}: is compressed with bzip2 or lzma, which no layer or package uses today"
        )
    return "plain"


def _producer(codec: Codec, source: _Source) -> Callable[[int], bytes]:
    match codec:
        case "gzip":
            return _Members(
                source, _GZIP_MAGIC, lambda: igzip_lib.IgzipDecompressor(igzip_lib.DECOMP_GZIP)
            ).read
        case "xz":
            return _Members(source, _XZ_MAGIC, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, _XZ_MEMORY)).read
        case "zstd":
            return _zstd(source)
        case "plain":
            return source.read
        case _:
            assert_never(codec)


def _zstd(source: _Source) -> Callable[[int], bytes]:
    frames = ZstdFrames(source)
    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
    stream = cast("IO[bytes]", frames)  # all it calls is read
    reader = decompressor.stream_reader(stream, read_size=_INPUT, read_across_frames=True)
    return lambda size: reader.read(size) or frames.finish()


class _Decompressor(Protocol):
    """The common interface of the decompressors of isal and lzma."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /, max_length: int) -> bytes: ...


class _Members:
    """gzip and xz: one or more members, one after another, and perhaps zeros at the end."""

    def __init__(self, source: _Source, magic: bytes, make: Callable[[], _Decompressor]) -> None:
        self._source = source
        self._magic = magic
        self._make = make
        self._current = make()
        self._input = b""
        self._at = 0
        self._feed = _FIRST

    def read(self, size: int) -> bytes:
        """Raise EOFError at an end inside a member, ValueError where something else follows one."""
        while True:
            if self._current.eof and not self._next_member():
                return b""
            current = self._current
            piece = self._piece() if current.needs_input else b""
            data = current.decompress(piece, size)
            if current.eof:
                self._at -= len(current.unused_data)
            if data:
                return data

    def _piece(self) -> bytes:
        if self._at == len(self._input):
            self._input, self._at = self._source.read(), 0
            if not self._input:
                raise EOFError
        piece = self._input[self._at : self._at + self._feed]
        self._at += len(piece)
        self._feed = min(self._feed * 8, _INPUT)
        return piece

    def _next_member(self) -> bool:
        """Whether another member follows. Zeros may pad the end (tapes, xz)."""
        while len(rest := self._input[self._at : self._at + len(self._magic)]) < len(self._magic):
            more = self._source.read()
            if not more:
                break
            self._input, self._at = self._input[self._at :] + more, 0
        if rest == self._magic:
            self._current = self._make()
            self._feed = _FIRST
            return True
        while not self._input[self._at :].strip(b"\0"):
            self._input, self._at = self._source.read(), 0
            if not self._input:
                return False
        raise ValueError("something else follows its end")
