"""Writes one layer: a tar archive that is hashed, compressed and hashed again on its way to a blob."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from threading import Event

from sandwright.image.compress import DEFAULT, Compression, Compressor
from sandwright.image.layout import Blob, StagingArea
from sandwright.registry.failure import Cancelled
from sandwright.rootfs.tar.entry import TarEntry
from sandwright.rootfs.tar.writer import TarWriter

_GATHER = 1 << 18


@dataclass(frozen=True)
class WrittenLayer:
    """A finished layer. `diff_id` is the digest of the archive, `blob` the compressed file."""

    blob: Blob
    media_type: str
    diff_id: str
    size: int
    entries: int


class LayerWriter:
    """Takes the entries of a layer in their final order. `layer` is set at the end."""

    layer: WrittenLayer

    def __init__(self, compressor: Compressor, cancelled: Event) -> None:
        self.hash = hashlib.sha256()
        self.size = 0
        self.entries = 0
        self._compressor = compressor
        self._cancelled = cancelled
        self._pieces: list[bytes] = []
        self._gathered = 0
        self._tar = TarWriter(self)

    def add(self, entry: TarEntry, content: Iterable[bytes] = ()) -> None:
        """Write one entry. Raise Cancelled when the build is to stop."""
        if self._cancelled.is_set():
            raise Cancelled
        self._tar.add(entry, content)
        self.entries += 1

    def write(self, data: bytes) -> None:
        """Take bytes of the archive from the tar writer, and buffer small pieces."""
        self._pieces.append(data)
        self._gathered += len(data)
        if self._gathered >= _GATHER:
            self._flush()

    def close(self) -> None:
        """End the archive."""
        self._tar.close()
        self._flush()
        self._compressor.close()

    def _flush(self) -> None:
        if self._cancelled.is_set():
            raise Cancelled
        data = b"".join(self._pieces)
        self.hash.update(data)
        self.size += len(data)
        self._compressor.write(data)
        self._pieces = []
        self._gathered = 0


@contextlib.contextmanager
def writing_layer(
    staging: StagingArea, pool: Executor, cancelled: Event, compression: Compression = DEFAULT
) -> Iterator[LayerWriter]:
    """A layer to write for the length of a `with`. Compression runs on `pool`, which others may share."""
    with staging.writing() as blob:
        writer = LayerWriter(Compressor(blob.write, pool, compression), cancelled)
        yield writer
        writer.close()
    diff_id = f"sha256:{writer.hash.hexdigest()}"
    writer.layer = WrittenLayer(blob.blob, compression.media_type, diff_id, writer.size, writer.entries)
