"""Reads a stream ahead of its consumer, in a thread.

Decompressing and hashing release the interpreter's lock, so a chain of readers uses several processors. At
most `DEPTH` pieces wait in memory.
"""

from __future__ import annotations

import threading
from queue import SimpleQueue
from types import TracebackType
from typing import Self

from sandwright.rootfs.tar.reader import CHUNK, Readable

DEPTH = 4
_LARGER = 8 * CHUNK


class Prefetch:
    """A stream, read by a thread until it ends, fails, or `close` is called. Use it as a context manager.

    Errors of the stream are raised at the same offset. The thread reads large pieces of `CHUNK` bytes, since
    passing one on needs the interpreter's lock.
    """

    def __init__(self, stream: Readable) -> None:
        _settle_allocator()
        self._stream = stream
        self._rest = b""
        self._pieces: SimpleQueue[bytes | BaseException] = SimpleQueue()
        self._room: SimpleQueue[bool] = SimpleQueue()
        self._ended: bytes | BaseException | None = None
        self._stopped = False
        for _ in range(DEPTH):
            self._room.put(True)
        self._thread = threading.Thread(target=self._read_ahead, name="sandwright-ahead", daemon=True)
        self._thread.start()

    def read(self, size: int, /) -> bytes:
        """The next bytes, at most `size`; nothing at the end."""
        piece = self._rest or self._next_piece()
        self._rest = piece[size:]
        return piece[:size]

    def close(self) -> None:
        """Stop the thread, and wait for its current read."""
        self._stopped = True
        self._room.put(True)
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _next_piece(self) -> bytes:
        piece = self._pieces.get() if self._ended is None else self._ended
        if not piece or isinstance(piece, BaseException):
            self._ended = piece
        else:
            self._room.put(True)
        if isinstance(piece, BaseException):
            raise piece
        return piece

    def _read_ahead(self) -> None:
        try:
            while self._room.get() and not self._stopped:
                piece = self._stream.read(CHUNK)
                self._pieces.put(piece)
                if not piece:
                    return
        except BaseException as error:  # noqa: BLE001 - it is raised again, where the stream is read
            self._pieces.put(error)


def _settle_allocator() -> None:
    """Make the C library keep freed memory of the size of pieces.

    glibc maps every block above a threshold anew, zeroed by the kernel, until a larger block was freed
    (mallopt(3), M_MMAP_THRESHOLD). That would take a quarter of the time of decompressing.
    """
    bytes(_LARGER)
