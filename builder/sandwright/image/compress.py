"""Compresses layers: gzip, the same bytes on every machine.

Measurements (109 MB of Debian's files in chunks of 1 MiB, one thread of a busy 2-core Xeon; ratio is
compressed/plain; other processors are qemu's Nehalem, Haswell, Skylake-Server, max and qemu64):

    library            level   MiB/s   ratio   the same bytes on other processors
    zlib 1.2.13            6      14   0.383   yes; but zlib-ng stands in its place in some systems
    isal 1.9.1             1     205   0.437   no: other bytes on qemu64, level 3 on four of them
    libdeflate             1      78   0.413   yes, and on arm64
    libdeflate             3      58   0.390   yes, and on arm64
    libdeflate             6      35   0.380   yes, and on arm64
    zstandard 0.25.0       3     109   0.334   yes; but Docker 20.10 and umoci 0.4.7 refuse such layers

This module therefore uses libdeflate, through the package `deflate`, which bundles it, at level 1: level 3
made a build of distroless a seventh slower and its layers six per cent smaller. libdeflate compresses whole
buffers only, so each `CHUNK` bytes become one member of the gzip file (RFC 1952, 2.2). Every reader of layers
accepts that, and members can be compressed in parallel. Their headers hold no time and no name.

`IDENTITY` names everything that determines the bytes; each manifest records it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future

import deflate

LEVEL = 1
CHUNK = 1 << 20
IDENTITY = f"gzip; deflate={deflate.__version__}; level={LEVEL}; chunk={CHUNK}"
_AHEAD = 4


class Compressor:
    """Writes gzip members to `sink` in order, from pieces of any size, in constant memory.

    Compression runs on `pool`; `write` waits while `_AHEAD` chunks are in progress.
    """

    def __init__(self, sink: Callable[[bytes], object], pool: Executor) -> None:
        self._sink = sink
        self._pool = pool
        self._pieces: list[bytes] = []
        self._held = 0
        self._under_way: deque[Future[bytes]] = deque()

    def write(self, data: bytes) -> None:
        """Compress more bytes."""
        self._pieces.append(data)
        self._held += len(data)
        if self._held >= CHUNK:
            held = b"".join(self._pieces)
            whole = self._held - self._held % CHUNK
            for at in range(0, whole, CHUNK):
                self._submit(held[at : at + CHUNK])
            self._pieces = [held[whole:]]
            self._held -= whole

    def close(self) -> None:
        """Compress the rest, and wait until the sink has it. Empty input gives one empty member."""
        self._submit(b"".join(self._pieces))
        self._pieces = []
        self._drain(0)

    def _submit(self, chunk: bytes) -> None:
        self._under_way.append(self._pool.submit(_member, chunk))
        self._drain(_AHEAD)

    def _drain(self, allowed: int) -> None:
        while len(self._under_way) > allowed:
            self._sink(self._under_way.popleft().result())


def _member(chunk: bytes) -> bytes:
    return bytes(deflate.gzip_compress(chunk, LEVEL))
