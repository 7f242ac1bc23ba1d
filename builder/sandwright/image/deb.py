"""Reads a Debian package as a stream: an ar archive that holds two tar archives (deb(5)).

Nothing is unpacked and no program is started.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import BinaryIO

from sandwright.errors import IntegrityError
from sandwright.rootfs.controlfields import parse_control
from sandwright.rootfs.tar.codec import Codec, decompressed
from sandwright.rootfs.tar.entry import EntryKind, show
from sandwright.rootfs.tar.limits import ArchiveLimits
from sandwright.rootfs.tar.reader import Readable, TarReader

CONTROL_LIMITS = ArchiveLimits(bytes=64 << 20, entries=10_000)
_MAGIC = b"!<arch>\n"
_HEADER = 60
_SIZE_AT = 48
_CODECS: Mapping[bytes, frozenset[Codec]] = {
    b"": frozenset({"plain"}),
    b".gz": frozenset({"gzip"}),
    b".xz": frozenset({"xz"}),
    b".zst": frozenset({"zstd"}),
}
"""Allowed compressions of a member. Debian 8 was the last with bzip2 and lzma."""


class DebPackage:
    """An open package. `control` holds the files of its control archive; `data` can be read once."""

    def __init__(self, stream: Readable, *, label: str, copy: PlainCopy | None = None) -> None:
        """Read up to the data archive. Raise IntegrityError for an invalid or damaged package."""
        self.label = label
        self._copy = copy
        self._archive = _Ar(stream, label)
        self._version()
        self.control = self._control()
        self.data = self._tar(b"data.tar", ArchiveLimits())

    def fields(self) -> dict[str, str]:
        """The fields of the `control` file, as written; continuation lines keep their newlines."""
        return parse_control(self.control["control"].decode("utf-8", "replace"))

    def identity(self) -> dict[str, str | None]:
        """Name, version and architecture, in this order, under the names of their fields."""
        fields = self.fields()
        return {name: fields.get(name) for name in ("Package", "Version", "Architecture")}

    def finish(self) -> None:
        """Read the rest of the data archive, and refuse anything after it."""
        for _ in self.data:
            pass
        name = self._archive.next(optional=True)
        if name is not None:
            raise IntegrityError(f"package {self.label}: {show(name)} follows its data archive")

    def _version(self) -> None:
        if self._archive.next() != b"debian-binary":
            raise IntegrityError(f"package {self.label}: its first member is not 'debian-binary'")
        version = self._archive.read(64)
        if not re.match(rb"2\.[0-9]+\n", version):
            raise IntegrityError(f"package {self.label}: its format is {version[:16]!r}, not 2.0")

    def _control(self) -> dict[str, bytes]:
        files = {}
        reader = self._tar(b"control.tar", CONTROL_LIMITS)
        for entry in reader:
            if entry.kind is EntryKind.FILE and b"/" not in entry.path:
                files[entry.path.decode("utf-8", "replace")] = b"".join(reader.chunks())
        if "control" not in files:
            raise IntegrityError(f"package {self.label}: its control archive has no file 'control'")
        return files

    def _tar(self, stem: bytes, limits: ArchiveLimits) -> TarReader:
        name = self._archive.next() or b""
        codec = _CODECS.get(name.removeprefix(stem)) if name.startswith(stem) else None
        if codec is None:
            expected = f"{stem.decode()}, .gz, .xz or .zst is expected"
            raise IntegrityError(f"package {self.label}: {show(name)} stands where {expected}")
        where = f"package {self.label}, {name.decode()}"
        stream: Readable = decompressed(self._archive, name=where, allow=codec, limits=limits)
        if self._copy is not None:
            stream = self._copy.member(stem, stream)
        return TarReader(stream, limits=limits, name=where)


class PlainCopy:
    """Rewrites a package while it is read, with its archives uncompressed and the same content.

    dpkg accepts it like the original; under emulation that saves most of dpkg's time.
    """

    def __init__(self, file: BinaryIO) -> None:
        """`file` is empty and seekable: the length of a member is known only at its end."""
        self._file = file
        file.write(_MAGIC)
        self._begin = len(_MAGIC)
        self._start_member(b"debian-binary")
        file.write(b"2.0\n")

    def member(self, name: bytes, stream: Readable) -> Readable:
        """Begin a member; read `stream` through the returned stream to fill it."""
        self._end_member()
        self._start_member(name)
        return _Copied(stream, self._file)

    def close(self) -> None:
        """End the last member."""
        self._end_member()

    def _start_member(self, name: bytes) -> None:
        self._begin = self._file.tell()
        fields = (name.ljust(16), b"0".ljust(12), b"0".ljust(6), b"0".ljust(6), b"100644".ljust(8))
        self._file.write(b"".join(fields) + b" " * 10 + b"`\n")

    def _end_member(self) -> None:
        size = self._file.tell() - self._begin - _HEADER
        self._file.seek(self._begin + _SIZE_AT)
        self._file.write(b"%d" % size)
        self._file.seek(0, os.SEEK_END)
        self._file.write(b"\n" * (size % 2))


class _Copied:
    """A stream that copies everything read from it."""

    def __init__(self, stream: Readable, file: BinaryIO) -> None:
        self._stream = stream
        self._file = file

    def read(self, size: int, /) -> bytes:
        data = self._stream.read(size)
        self._file.write(data)
        return data


class _Ar:
    """The members of an ar archive, one after another; `read` gives the current one's content."""

    def __init__(self, stream: Readable, label: str) -> None:
        self._stream = stream
        self._label = label
        self._left = 0
        self._pad = 0
        if self._exactly(len(_MAGIC)) != _MAGIC:
            raise IntegrityError(f"package {label}: it is not an ar archive")

    def next(self, *, optional: bool = False) -> bytes | None:
        """Go to the next member and give its name; None at the end, when that is `optional`.

        Members whose names begin with an underscore are skipped, as deb(5) requires.
        """
        while True:
            while self.read(1 << 20):
                pass
            if optional:  # some writers omit the padding of the last member
                self._stream.read(self._pad)
            else:
                self._exactly(self._pad)
            header = self._stream.read(_HEADER)
            if not header and optional:
                return None
            header += self._exactly(_HEADER - len(header))
            name = self._start_member(header)
            if not name.startswith(b"_"):
                return name

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes of the member; nothing at its end."""
        data = self._stream.read(min(size, self._left))
        if not data and self._left and size:
            raise IntegrityError(f"package {self._label}: it ends {self._left} bytes before its member does")
        self._left -= len(data)
        return data

    def _start_member(self, header: bytes) -> bytes:
        length = header[_SIZE_AT:58].rstrip(b" ")
        if header[58:] != b"`\n" or not re.fullmatch(rb"[0-9]{1,10}", length):
            raise IntegrityError(f"package {self._label}: a member's ar header is malformed")
        self._left = int(length)
        self._pad = self._left % 2
        return header[:16].rstrip(b" ").removesuffix(b"/")

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._stream.read(size - len(data))
            if not piece:
                raise IntegrityError(f"package {self._label}: it ends in the middle of an ar header")
            data += piece
        return data
