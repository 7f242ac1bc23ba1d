"""Compresses layers reproducibly: gzip or Zstandard, the same bytes on every machine.

Measurements (109 MB of Debian's files in chunks of 1 MiB, one thread of a busy 2-core Xeon; ratio is
compressed/plain; other processors are qemu's Nehalem, Haswell, Skylake-Server, max and qemu64):

    library            level   MiB/s   ratio   the same bytes on other processors
    zlib 1.2.13            6      14   0.383   yes; but zlib-ng stands in its place in some systems
    isal 1.9.1             1     205   0.437   no: other bytes on qemu64, level 3 on four of them
    libdeflate             1      78   0.413   yes, and on arm64
    libdeflate             3      58   0.390   yes, and on arm64
    libdeflate             6      35   0.380   yes, and on arm64
    zstandard 0.25.0       3     109   0.334   yes; but Docker 20.10 and umoci 0.4.7 refuse such layers

The default is libdeflate, through the package `deflate`, which bundles it, at level 1: every reader of layers
accepts gzip. Compressors get whole chunks, so each chunk becomes one member of the gzip file (RFC 1952, 2.2)
or one frame of the Zstandard file (RFC 8878, 3.1), and chunks are compressed in parallel. Headers hold no
time and no name. Frames of Zstandard are longer, because its window spans megabytes: the 196 MB of the image
`debian` become 60.6 MB at level 9 in chunks of 1 MiB, and 51.7 MB in chunks of 8 MiB.

`Compression.identity` names everything that determines the bytes; each manifest records it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass

import deflate
import zstandard

from sandwright.rootfs.descriptor import OCI_LAYER, OCI_LAYER_ZSTD

_AHEAD = 4


@dataclass(frozen=True)
class _Codec:
    """`library` and its version determine the bytes, with level and chunk size."""

    library: str
    media_type: str
    chunk: int
    default: int
    highest: int


_CODECS: Mapping[str, _Codec] = {
    "gzip": _Codec(f"deflate={deflate.__version__}", OCI_LAYER, 1 << 20, default=1, highest=12),
    "zstd": _Codec(f"zstandard={zstandard.__version__}", OCI_LAYER_ZSTD, 8 << 20, default=9, highest=19),
}


@dataclass(frozen=True)
class Compression:
    """Codec and level of an image's own layers."""

    codec: str = "gzip"
    level: int = 1

    def __str__(self) -> str:
        return f"{self.codec}:{self.level}"

    @property
    def identity(self) -> str:
        """Everything that determines the compressed bytes."""
        return f"{self.codec}; {_CODECS[self.codec].library}; level={self.level}; chunk={self.chunk}"

    @property
    def media_type(self) -> str:
        """The media type of layers."""
        return _CODECS[self.codec].media_type

    @property
    def chunk(self) -> int:
        """Bytes that are compressed as one member or frame."""
        return _CODECS[self.codec].chunk

    def compress(self, chunk: bytes) -> bytes:
        """One member or frame."""
        if self.codec == "zstd":
            return zstandard.ZstdCompressor(level=self.level).compress(chunk)
        return bytes(deflate.gzip_compress(chunk, self.level))


DEFAULT = Compression()


def parse_compression(text: str) -> Compression:
    """Parse `gzip`, `zstd`, or either with `:LEVEL`. Raise ValueError for anything else."""
    name, colon, level = text.partition(":")
    codec = _CODECS.get(name)
    if codec is None:
        raise ValueError(f"'{text}' is none of {', '.join(_CODECS)}, with or without :LEVEL")
    if not colon:
        return Compression(name, codec.default)
    if not (level.isascii() and level.isdecimal()) or not 1 <= int(level) <= codec.highest:
        raise ValueError(f"'{text}': levels of {name} are 1 to {codec.highest}")
    return Compression(name, int(level))


class Compressor:
    """Writes members or frames to `sink` in order, from pieces of any size, in constant memory.

    Compression runs on `pool`; `write` waits while `_AHEAD` chunks are in progress.
    """

    def __init__(
        self, sink: Callable[[bytes], object], pool: Executor, compression: Compression = DEFAULT
    ) -> None:
        self._compression = compression
        self._sink = sink
        self._pool = pool
        self._pieces: list[bytes] = []
        self._held = 0
        self._under_way: deque[Future[bytes]] = deque()

    def write(self, data: bytes) -> None:
        """Compress more bytes."""
        self._pieces.append(data)
        self._held += len(data)
        size = self._compression.chunk
        if self._held >= size:
            held = b"".join(self._pieces)
            whole = self._held - self._held % size
            for at in range(0, whole, size):
                self._submit(held[at : at + size])
            self._pieces = [held[whole:]]
            self._held -= whole

    def close(self) -> None:
        """Compress the rest, and wait until the sink has it. Empty input gives one empty member or frame."""
        self._submit(b"".join(self._pieces))
        self._pieces = []
        self._drain(0)

    def _submit(self, chunk: bytes) -> None:
        self._under_way.append(self._pool.submit(self._compression.compress, chunk))
        self._drain(_AHEAD)

    def _drain(self, allowed: int) -> None:
        while len(self._under_way) > allowed:
            self._sink(self._under_way.popleft().result())
