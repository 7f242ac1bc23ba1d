"""Verifies streams, such as blobs of layers, by size and digest."""

from __future__ import annotations

import hashlib

from sandwright.errors import IntegrityError
from sandwright.rootfs.descriptor import check_digest
from sandwright.rootfs.tar.reader import Readable


class VerifiedReader:
    """Reads a stream that must have `size` bytes and the digest `digest`.

    Reading raises IntegrityError as soon as the stream is longer, and at its end when it is shorter or
    differs. The stream is verified only after `read` has returned nothing. `size` None allows any length.
    Raise ArchiveRefused for an invalid digest.
    """

    def __init__(self, stream: Readable, digest: str, *, size: int | None = None, name: str) -> None:
        self.bytes = 0
        self._stream = stream
        self._digest = check_digest(digest, name)
        self._size = size
        self._name = name
        self._hash = hashlib.new(digest.partition(":")[0])
        if size is not None and size < 0:
            raise IntegrityError(f"{name}: its size is given as {size}")

    def read(self, size: int, /) -> bytes:
        """The next bytes, at most `size`."""
        data = self._stream.read(size)
        self.bytes += len(data)
        if not data:
            self._finish()
        elif self._size is not None and self.bytes > self._size:
            raise IntegrityError(f"{self._name}: is longer than the {self._size} bytes promised")
        self._hash.update(data)
        return data

    def _finish(self) -> None:
        if self._size is not None and self.bytes != self._size:
            raise IntegrityError(f"{self._name}: has {self.bytes} bytes where {self._size} were promised")
        found = f"{self._hash.name}:{self._hash.hexdigest()}"
        if found != self._digest:
            raise IntegrityError(f"{self._name}: its digest is {found} where {self._digest} was promised")
