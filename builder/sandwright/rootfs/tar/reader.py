"""Reads a tar archive as a stream, strictly, without Python's tarfile.

tarfile is no security boundary on the supported interpreters (CVE-2025-4517, CVE-2025-8194, CVE-2026-11972),
and it is slow. This reader supports ustar, pax and GNU archives, refuses everything else, and bounds every
number. Parsers differ on archives with contradictory headers (CVE-2025-62518), so those are refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NoReturn, Protocol

from sandwright.errors import ArchiveRefused, IntegrityError
from sandwright.rootfs.tar import header, member, sparse
from sandwright.rootfs.tar.archive_warnings import Notes
from sandwright.rootfs.tar.entry import TarEntry, show
from sandwright.rootfs.tar.header import BLOCK, ZEROS
from sandwright.rootfs.tar.limits import DEFAULT, ArchiveLimits
from sandwright.rootfs.tar.member import NOTHING, ExtendedHeader, PlainHeaders
from sandwright.rootfs.tar.sparse import SparseMap

CHUNK = 1 << 19
"""The most bytes of one read."""

HOLE = bytes(CHUNK)
"""Stands in the content of a sparse file for as many bytes without data."""

_LONGEST_PLAIN = 256  # name and prefix of a header without extensions


class Readable(Protocol):
    """A stream of bytes: `read(n)` gives at most n, and nothing only at the end."""

    def read(self, size: int, /) -> bytes:
        """The next bytes, at most `size`."""
        ...


class TarReader:
    """The members of an archive, one after another.

    Iterate once; while a member is current, `chunks()` returns its content. Unread content is skipped. After
    the last member the stream is read to its end, so that a hash covers all of it. A stream that ends between
    two members, without the two blocks of zeros, is complete: some writers of layers omit them, and every
    runtime accepts that.

    Sparse files are refused unless they `may_be_sparse`; their size is the real one, and the holes in their
    content are zeros. `name` is the archive's name in messages. `notes` collects parts that were changed, or
    ignored as harmless; `entries` and `bytes` count the members and bytes read so far, holes included. Raise
    IntegrityError for a damaged or truncated stream, ArchiveRefused for a refused member or an exceeded
    limit; both name it.
    """

    def __init__(
        self,
        stream: Readable,
        *,
        limits: ArchiveLimits = DEFAULT,
        name: str = "archive",
        notes: Notes | None = None,
        may_be_sparse: bool = False,
    ) -> None:
        self.notes = Notes() if notes is None else notes
        self.entries = 0
        self.bytes = 0
        self._stream = stream
        self._limits = limits
        self._name = name
        self._buffer = b""
        self._at = 0  # the used length of the buffer
        self._left = 0  # the unread length of the current member's content
        self._pad = 0
        self._path = b""
        self._extension = NOTHING
        self._plain = PlainHeaders()
        self._may_be_sparse = may_be_sparse
        self._sparse: SparseMap | None = None  # of the current member
        self._size = 0  # of the current member, if that is sparse
        self._holes = 0

    def __iter__(self) -> Iterator[TarEntry]:
        limits, plain = self._limits, self._plain.read
        while True:
            if self._left or self._pad:
                self._skip()
            self._sparse = None
            at = self._at
            block = self._buffer[at : at + BLOCK]
            if len(block) == BLOCK:
                self._at = at + BLOCK
            else:
                block = self._take_bytes(BLOCK)
            entry = plain(block) if block and self._extension is NOTHING else None
            if entry is None:
                if not block or block == ZEROS:
                    self._check_end(block)
                    return
                entry = self._read_member(block)
                if entry is None:
                    continue
            self._path = entry.path
            if self._sparse is None:
                self._left, self._pad = entry.size, -entry.size % BLOCK
            self.entries += 1
            if self.entries > limits.entries:
                self.refuse(entry.path, f"it is one more than the {limits.entries} members allowed")
            yield entry

    def chunks(self) -> Iterator[bytes]:
        """The content of the current member in pieces, once. Nothing for a member that has none."""
        if self._sparse is not None:
            return self._with_holes(self._sparse)
        size, at = self._left, self._at
        if size <= len(self._buffer) - at:
            self._at += size
            self._left = 0
            return iter((self._buffer[at : at + size],) if size else ())
        return self._pieces()

    def refuse(self, path: bytes, reason: str) -> NoReturn:
        """Raise ArchiveRefused for the member `path`."""
        raise ArchiveRefused(f"{self._name}: {show(path)}: {reason}")

    def _with_holes(self, pieces: SparseMap) -> Iterator[bytes]:
        """The content of a sparse file. A long hole is several times `HOLE`, so that callers can skip it."""
        at, stored = 0, self._left
        for offset, length in (*pieces, (self._size, 0)):
            yield from itertools.repeat(HOLE, (offset - at) // len(HOLE))
            if rest := (offset - at) % len(HOLE):
                yield HOLE[:rest]
            stored -= length
            yield from self._pieces(stored)
            at = offset + length

    def _read_sparse(self, block: bytes, entry: TarEntry) -> None:
        """Read the map of a sparse file, whose size becomes the real one. Raise ValueError."""
        pax = self._extension.pax or {}
        size, stored = sparse.real_size(block, pax), entry.size
        pieces: list[tuple[int, int]] = []
        self._pad = -stored % BLOCK
        if block[156:157] == b"S":
            found, more = sparse.old_pieces(block, first=True)
            pieces += found
            while more:
                if len(pieces) * 24 > self._limits.extension:
                    raise ValueError(f"its sparse map has more than {self._limits.extension} bytes")
                found, more = sparse.old_pieces(self._read_block(), first=False)
                pieces += found
        elif sparse.has_map_in_content(pax):
            content = sparse.ContentMap(min(self._limits.extension, stored))
            while not content.add(self._read_block()):
                pass
            pieces += content.pieces()
            stored -= content.read
        else:
            pieces += sparse.map_in_header(pax)
        sparse.check(pieces, size, stored)
        self._holes += size - stored
        self.bytes += size - stored
        if self._holes > self._limits.holes or self.bytes > self._limits.bytes:
            raise ValueError(
                f"with it the archive has more than {self._limits.holes} bytes in holes, or in all"
            )
        self._sparse, self._size, self._left, entry.size = pieces, size, stored, size

    def _read_block(self) -> bytes:
        block = self._take_bytes(BLOCK)
        if not block:
            self._truncated()
        return block

    def _pieces(self, keep: int = 0) -> Iterator[bytes]:
        """The rest of the current member's stored content, except the last bytes."""
        while self._left > keep:
            if self._at == len(self._buffer):
                self._need()
            piece = self._buffer[self._at : self._at + self._left - keep]
            self._at += len(piece)
            self._left -= len(piece)
            yield piece

    def _read_member(self, block: bytes) -> TarEntry | None:
        """The member of a block, or None when the block only begins an extended header."""
        try:
            total = header.number(block[148:156])
        except ValueError:
            total = -1
        if total not in (header.unsigned_sum(block), header.signed_sum(block)):
            raise IntegrityError(
                f"{self._name}: the header {self._after()} is damaged: its checksum is wrong"
            )
        try:
            if block[156:157] in (b"x", b"g", b"L", b"K"):
                self._read_extension(block)
                return None
            entry = member.decode(
                block, self._extension, self._limits, self.notes, may_be_sparse=self._may_be_sparse
            )
            if self._may_be_sparse and sparse.is_sparse(block[156:157], self._extension.pax or {}):
                self._read_sparse(block, entry)
        except ValueError as wrong:
            self.refuse(member.label(block, self._extension), str(wrong))
        if self._extension is NOTHING and self._limits.path >= _LONGEST_PLAIN:
            self._plain.learn(block, entry)
        self._extension = NOTHING
        return entry

    def _read_extension(self, block: bytes) -> None:
        size = member.size_of(block, self._limits)
        data = self._take_bytes(size + -size % BLOCK)[:size]
        if len(data) < size:
            self._truncated()
        if block[156:157] == b"g":  # POSIX lets it speak for all that follow; the runtimes ignore it
            for key, _ in header.records(data):
                if key != b"comment":
                    self.notes.add(f"global PAX key {show(key[:60])} ignored", b"")
            return
        if self._extension is NOTHING:
            self._extension = ExtendedHeader()
        self._extension.add(block[156:157], data, self.notes)

    def _check_end(self, block: bytes) -> None:
        if self._extension is not NOTHING:
            raise IntegrityError(f"{self._name}: ends {self._after()} with a header that extends nothing")
        if block and self._take_bytes(BLOCK) not in (b"", ZEROS):
            raise IntegrityError(f"{self._name}: a block of zeros {self._after()}, and then more")
        rest = self._buffer[self._at :]
        while True:
            if rest.strip(b"\0"):
                self.notes.add("bytes after the end of the archive ignored", b"")
            if not self._fill_buffer():
                return
            rest = self._buffer

    def _take_bytes(self, size: int) -> bytes:
        """`size` bytes, or nothing at the end of the stream. Raise IntegrityError when it ends on the way."""
        data = self._buffer[self._at : self._at + size]
        self._at += len(data)
        while len(data) < size:
            if not self._fill_buffer():
                if data:
                    self._truncated()
                return b""
            more = self._buffer[: size - len(data)]
            self._at = len(more)
            data += more
        return data

    def _skip(self) -> None:
        """Skip the rest of the current member."""
        skip = self._left + self._pad
        while skip > len(self._buffer) - self._at:
            skip -= len(self._buffer) - self._at
            self._need()
        self._at += skip
        self._left = self._pad = 0

    def _need(self) -> None:
        if not self._fill_buffer():
            self._truncated()

    def _fill_buffer(self) -> bool:
        """The next buffer; false at the end of the stream."""
        self._buffer, self._at = self._stream.read(CHUNK), 0
        self.bytes += len(self._buffer)
        if self.bytes > self._limits.bytes:
            self.refuse(self._path, f"with it the archive has more than {self._limits.bytes} bytes")
        return bool(self._buffer)

    def _truncated(self) -> NoReturn:
        raise IntegrityError(f"{self._name}: ends in the middle of a member, {self._after()}")

    def _after(self) -> str:
        return f"after {show(self._path)}" if self.entries else "at its start"
