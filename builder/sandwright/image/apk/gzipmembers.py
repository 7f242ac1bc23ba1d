"""Reads a file of several gzip members one at a time, each with the digests of its compressed bytes.

Packages and indices of apk (version 2) consist of such members. Signatures and checksums are about the
compressed bytes of one member, so it matters where one ends.
"""

from __future__ import annotations

import hashlib
from typing import cast

from isal import igzip_lib

from sandwright.errors import ArchiveRefused, IntegrityError
from sandwright.rootfs.tar.limits import ArchiveLimits
from sandwright.rootfs.tar.reader import Readable

_INPUT = 1 << 16
_DAMAGE = (ValueError, cast("type[Exception]", igzip_lib.IsalError))


class GzipMembers:
    """A file of gzip members. `next` begins each; the one before has to be read to its end first."""

    def __init__(self, stream: Readable, name: str) -> None:
        """`name` is the file's name in messages."""
        self.name = name
        self._stream = stream
        self._ahead = b""

    def next(self, limits: ArchiveLimits) -> GzipMember | None:
        """The next member; None at the end of the file."""
        self._ahead = self.take()
        return GzipMember(self, limits) if self._ahead else None

    def peek(self, size: int) -> bytes:
        """The first bytes of the next member."""
        while len(self._ahead) < size and (more := self._stream.read(_INPUT)):
            self._ahead += more
        return self._ahead[:size]

    def take(self) -> bytes:
        """Some bytes of the file; nothing at its end."""
        data, self._ahead = self._ahead or self._stream.read(_INPUT), b""
        return data

    def put_back(self, data: bytes) -> None:
        """Bytes that belong to the next member."""
        self._ahead = data


class GzipMember:
    """The content of one member. `digest` is final at its end."""

    def __init__(self, members: GzipMembers, limits: ArchiveLimits) -> None:
        self._members = members
        self._limits = limits
        self._inflate = igzip_lib.IgzipDecompressor(igzip_lib.DECOMP_GZIP)
        self._digests = {"sha1": hashlib.sha1(usedforsecurity=False), "sha256": hashlib.sha256()}
        self._last = b""  # the last piece of input, not hashed yet
        self._input = self._output = 0

    def digest(self, algorithm: str) -> bytes:
        """The digest of its compressed bytes, `sha1` or `sha256`."""
        return self._digests[algorithm].digest()

    def read(self, size: int, /) -> bytes:
        """Its next bytes, at most `size`; nothing at its end. Raise IntegrityError when it is damaged."""
        data = b""
        while not data and not self._inflate.eof:
            data = self._inflate_piece(size)
        self._output += len(data)
        read = self._input + len(self._last)
        if self._output > self._limits.ratio_floor and self._output > self._limits.ratio * read:
            raise ArchiveRefused(f"{self._members.name}: {read} bytes have become {self._output}")
        return data

    def finish(self) -> None:
        """Read the rest."""
        while self.read(_INPUT):
            pass

    def _inflate_piece(self, size: int) -> bytes:
        piece = b""
        if self._inflate.needs_input:
            piece = self._members.take()
            if not piece:
                raise IntegrityError(f"{self._members.name}: its gzip data ends early")
            self._hash_input(self._last)
            self._last = piece
        try:
            data = self._inflate.decompress(piece, size)
        except _DAMAGE as damage:
            raise IntegrityError(f"{self._members.name}: its gzip data is damaged: {damage}") from damage
        if self._inflate.eof:  # the unused data is the end of the last piece
            rest = self._inflate.unused_data
            self._hash_input(self._last[: len(self._last) - len(rest)])
            self._members.put_back(rest)
        return data

    def _hash_input(self, piece: bytes) -> None:
        self._input += len(piece)
        for each in self._digests.values():
            each.update(piece)
