"""Writes tar archives reproducibly: the same bytes for the same members on every machine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from sandwright.errors import IntegrityError
from sandwright.rootfs.tar import header
from sandwright.rootfs.tar.entry import EntryKind, TarEntry, normalise, show
from sandwright.rootfs.tar.header import BLOCK, USTAR, XATTR, ZEROS

_FLAGS = {
    EntryKind.FILE: b"0",
    EntryKind.HARDLINK: b"1",
    EntryKind.SYMLINK: b"2",
    EntryKind.CHARACTER: b"3",
    EntryKind.BLOCK: b"4",
    EntryKind.DIRECTORY: b"5",
    EntryKind.FIFO: b"6",
}
_OCTAL_ID = 0o7777777
_OCTAL_LONG = 0o77777777777


class Writable(Protocol):
    """The destination of an archive."""

    def write(self, data: bytes, /) -> object:
        """Write all of `data`."""
        ...


class TarWriter:
    """Writes an archive: `add` each member, then `close`.

    The format is ustar, with a PAX header before a member that ustar can't hold: a long or non-ASCII name,
    an id above 2,097,151, 8 GiB, a time before 1970 or with a fraction, xattrs. There are no names of users
    and groups, no access times, no process ids. Member order is the caller's. `close` ends the archive and
    leaves the sink open.
    """

    def __init__(self, sink: Writable) -> None:
        self._sink = sink

    def add(self, entry: TarEntry, content: Iterable[bytes] = ()) -> None:
        """Write a member and, for a file, its content.

        Raise ValueError for an entry that `Reader` would not give (a name that is not normalised, for one),
        and IntegrityError when the content's length is not `entry.size`; the archive is invalid then.
        """
        self._sink.write(_member_header(entry))
        written = 0
        for chunk in content:
            written += len(chunk)
            self._sink.write(chunk)
        if written != entry.size or (written and entry.kind is not EntryKind.FILE):
            raise IntegrityError(
                f"{show(entry.path)}: {written} bytes of content where {entry.size} were announced"
            )
        self._sink.write(bytes(-written % BLOCK))

    def close(self) -> None:
        """Write the two blocks of zeros that end an archive."""
        self._sink.write(ZEROS + ZEROS)


def _member_header(entry: TarEntry) -> bytes:
    """A member's header, with the PAX header it may need before it."""
    if normalise(entry.path or b".") != entry.path:
        raise ValueError(f"{show(entry.path)} is not normalised")
    path = entry.path or b"."
    if entry.kind is EntryKind.DIRECTORY:
        path += b"/"
    pax: dict[bytes, bytes] = {XATTR + key: value for key, value in entry.xattrs.items()}
    block = _ustar_header(entry, path, pax)
    if not pax:
        return block
    data = b"".join(header.record(key, value) for key, value in sorted(pax.items()))
    front = TarEntry(b"PaxHeader", EntryKind.FILE, size=len(data))
    return _ustar_header(front, b"././@PaxHeader", {}, b"x") + data + bytes(-len(data) % BLOCK) + block


def _ustar_header(entry: TarEntry, path: bytes, pax: dict[bytes, bytes], flag: bytes = b"") -> bytes:
    """The ustar header of a member. Values that do not fit are put into `pax`."""
    prefix, name = _split_name(path, pax)
    major, minor = entry.device
    whole, fraction = divmod(entry.mtime_ns, 10**9)
    if fraction or not 0 <= whole <= _OCTAL_LONG:
        pax[b"mtime"] = header.seconds(entry.mtime_ns)
    return header.checksummed(
        [
            name.ljust(100, b"\0"),
            header.octal(entry.mode, 8),
            header.octal(_fit_number(b"uid", entry.uid, _OCTAL_ID, pax), 8),
            header.octal(_fit_number(b"gid", entry.gid, _OCTAL_ID, pax), 8),
            header.octal(_fit_number(b"size", entry.size, _OCTAL_LONG, pax), 12),
            header.octal(min(max(whole, 0), _OCTAL_LONG), 12),
            b" " * 8,
            flag or _FLAGS[entry.kind],
            _link_field(entry, pax).ljust(100, b"\0"),
            USTAR.ljust(72, b"\0"),
            header.octal(major, 8),
            header.octal(minor, 8),
            prefix.ljust(155, b"\0"),
        ]
    )


def _fit_number(key: bytes, value: int, highest: int, pax: dict[bytes, bytes]) -> int:
    if value <= highest:
        return value
    pax[key] = b"%d" % value
    return 0


def _link_field(entry: TarEntry, pax: dict[bytes, bytes]) -> bytes:
    if not entry.link or (len(entry.link) <= 100 and entry.link.isascii()):
        return entry.link
    return _beyond_ustar(b"linkpath", entry.link, pax)


def _split_name(path: bytes, pax: dict[bytes, bytes]) -> tuple[bytes, bytes]:
    """A name as ustar's prefix and name fields."""
    if path.isascii():
        if len(path) <= 100:
            return b"", path
        cut = path.find(b"/", max(len(path) - 101, 1))
        if 0 < cut <= 155 and cut < len(path) - 1:
            return path[:cut], path[cut + 1 :]
    return b"", _beyond_ustar(b"path", path, pax)


def _beyond_ustar(key: bytes, value: bytes, pax: dict[bytes, bytes]) -> bytes:
    """Put a name into the PAX header (UTF-8 by default); give the name for other readers."""
    pax[key] = value
    try:
        value.decode()
    except UnicodeDecodeError:
        pax[b"hdrcharset"] = b"BINARY"
    return value[:100]
