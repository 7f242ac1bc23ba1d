"""Decodes a member's header block, together with the PAX or GNU headers before it, into an Entry.

Pure: no stream, no file. Every fault of a member is a ValueError with the reason as its text.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from sandwright.rootfs.tar import header, sparse
from sandwright.rootfs.tar.archive_warnings import Notes
from sandwright.rootfs.tar.entry import NO_XATTRS, EntryKind, TarEntry, normalise, show
from sandwright.rootfs.tar.header import GNU, USTAR, XATTR
from sandwright.rootfs.tar.limits import ArchiveLimits

KINDS = {
    b"\0": EntryKind.FILE,
    b"0": EntryKind.FILE,
    b"7": EntryKind.FILE,  # "contiguous": a plain file on every system that is left
    b"1": EntryKind.HARDLINK,
    b"2": EntryKind.SYMLINK,
    b"3": EntryKind.CHARACTER,
    b"4": EntryKind.BLOCK,
    b"5": EntryKind.DIRECTORY,
    b"6": EntryKind.FIFO,
}
_UNKNOWN = {
    b"M": "a file continued from another volume",
    b"D": "a directory dump of GNU tar",
    b"V": "a volume label",
    b"N": "a name table of old GNU tar",
    b"X": "an extended header of Solaris tar",
}
_HIGHEST_ID = (1 << 32) - 2  # the highest number means "leave it" to chown(2)
_HIGHEST_TIME = 1 << 62
_HIGHEST_MAJOR, _HIGHEST_MINOR = (1 << 12) - 1, (1 << 20) - 1  # the range of Linux's dev_t
_LONGEST_TARGET = 4095  # PATH_MAX without its NUL
_DECIMAL = re.compile(rb"[0-9]{1,20}")
_REMEMBERED = 4096
_PLAIN_KEYS = frozenset(
    b"path linkpath size uid gid mtime atime ctime uname gname comment charset hdrcharset "
    b"LIBARCHIVE.creationtime".split()
)


@dataclass(slots=True)
class ExtendedHeader:
    """The PAX and GNU headers before a member.

    Of two `path` records in one PAX header the last counts, as for Go, GNU tar and libarchive; every other
    key comes once.
    """

    pax: dict[bytes, bytes] | None = None
    xattrs: dict[bytes, bytes] = field(default_factory=dict)
    name: bytes | None = None
    link: bytes | None = None

    def add(self, flag: bytes, data: bytes, notes: Notes) -> None:
        """Take in the header of type `flag`, one of x, L and K. None may come twice, nor x with the others.

        Readers differ on which of two would win, and on whether the size in `x` is that of a long name that
        follows it (CVE-2025-62518).
        """
        mixed = self.pax is not None or (flag == b"x" and (self.name is not None or self.link is not None))
        if mixed or (flag == b"L" and self.name is not None) or (flag == b"K" and self.link is not None):
            raise ValueError("it has two extended headers that speak of the same thing")
        if flag == b"L":
            self.name = data.partition(b"\0")[0]
        elif flag == b"K":
            self.link = data.partition(b"\0")[0]
        else:
            self._pax(data, notes)

    def _pax(self, data: bytes, notes: Notes) -> None:
        self.pax, pairs = {}, []
        for key, value in header.records(data):
            if key in sparse.PAIRED:
                pairs.append((key, value))
                continue
            into, name = (self.xattrs, key[len(XATTR) :]) if key.startswith(XATTR) else (self.pax, key)
            twice = name in into and not (into is self.pax and name == b"path")
            if twice or not name:
                raise ValueError(f"its PAX header has {show(key)} twice, or nameless")
            into[name] = value
            if into is self.pax and name not in _PLAIN_KEYS and not name.startswith(sparse.SPARSE):
                notes.add(f"PAX key {show(key[:60])} ignored", self.pax.get(b"path", b""))
        paired = sparse.joined(pairs)
        if paired.keys() & self.pax.keys():
            raise ValueError("its sparse map is there twice")
        self.pax |= paired


NOTHING = ExtendedHeader()


class PlainHeaders:
    """The fast path for most members: plain files in known directories and of known owners.

    It compares the bytes of a header with those of headers that `decode` has understood, and decodes only the
    rest.
    """

    def __init__(self) -> None:
        self._folders: dict[bytes, bytes] = {}  # of names, slash included: the replacement in a path
        self._owners: dict[bytes, tuple[int, int, int]] = {}  # mode, uid and gid as written, and as meant

    def read(self, block: bytes) -> TarEntry | None:
        """The member of `block`, or None when there is more to it than can be seen here."""
        owner = self._owners.get(block[100:124])
        size, time = block[124:135], block[136:147]
        if owner is None or block[156] != 0x30 or not size.isdigit() or not time.isdigit():
            return None
        magic = block[257:265]
        # a number ends in NUL or in a space
        if block[135] & 0xDF or block[147] & 0xDF or (magic != USTAR and (magic != GNU or block[345])):
            return None
        end = block.find(0, 0, 100)
        raw = block[:end] if end >= 0 else block[:100]
        if block[345]:
            if block[508]:  # star's prefix is shorter
                return None
            raw = _field_text(block, 345, 500) + b"/" + raw
        cut = raw.rfind(b"/") + 1
        folder, base = self._folders.get(raw[:cut]), raw[cut:]
        if folder is None or base in (b"", b".", b".."):
            return None
        try:
            if int(block[148:154], 8) != header.unsigned_sum(block):
                return None
            numbers = int(size, 8), int(time, 8) * 1_000_000_000
        except ValueError:
            return None
        return TarEntry(folder + base, EntryKind.FILE, *owner, *numbers, b"", (0, 0), NO_XATTRS)

    def learn(self, block: bytes, entry: TarEntry) -> None:
        """Remember the fields of a decoded header that no extended header changed."""
        raw = name(block, NOTHING)
        if raw.startswith(b"/"):  # each is worth a note
            return
        for learnt in (self._folders, self._owners):
            if len(learnt) >= _REMEMBERED:
                learnt.clear()
        self._owners[block[100:124]] = entry.mode, entry.uid, entry.gid
        folder = raw[: raw.rfind(b"/") + 1]
        self._folders[folder] = _with_slash(normalise(folder or b"."))
        if entry.kind is EntryKind.DIRECTORY and raw.endswith(b"/"):
            self._folders[raw] = _with_slash(entry.path)


def _with_slash(path: bytes) -> bytes:
    return path + b"/" if path else b""


def decode(
    block: bytes,
    extension: ExtendedHeader,
    limits: ArchiveLimits,
    notes: Notes,
    *,
    may_be_sparse: bool = False,
) -> TarEntry:
    """The member of any header whose checksum is right; `extension` is the header before it.

    The size of a sparse file, which is refused unless it `may_be_sparse`, is that of its stored content.
    """
    flag, pax = block[156:157], extension.pax or {}
    if sparse.is_sparse(flag, pax):
        if not may_be_sparse or flag not in (b"S", b"0", b"\0"):
            raise ValueError("it is a sparse file")
        flag = b"0"
    raw = name(block, extension)
    kind = _entry_kind(flag, raw)
    path = normalise(raw, limits=limits)
    if not path and kind is not EntryKind.DIRECTORY:
        raise ValueError(f"it would put a {kind.value} in the place of the root")  # CVE-2021-29136
    if raw.startswith(b"/"):
        notes.add("absolute name taken as relative to the root", path)
    link = _link_text_of(kind, block, extension, limits)
    if kind is EntryKind.HARDLINK and link in (b"", path):
        raise ValueError("it is a hard link to the root, or to itself")
    time = pax.get(b"mtime")
    return TarEntry(
        path,
        kind,
        mode=_bounded("mode", header.number(block[100:108]), (1 << 56) - 1) & 0o7777,
        uid=_owner("uid", block[108:116], pax),
        gid=_owner("gid", block[116:124], pax),
        size=_entry_size(block, pax, limits) if kind is EntryKind.FILE else 0,
        mtime_ns=_time(header.nanoseconds(time) if time else header.number(block[136:148]) * 10**9),
        link=link,
        device=_device(block) if kind in (EntryKind.CHARACTER, EntryKind.BLOCK) else (0, 0),
        xattrs=extension.xattrs or NO_XATTRS,
    )


def name(block: bytes, extension: ExtendedHeader) -> bytes:
    """The name of a member as the archive has it."""
    if extension.name is not None:
        return extension.name
    pax = extension.pax or {}
    long = pax.get(sparse.NAME) or pax.get(b"path")
    if long:
        return long
    prefix, short = _prefix(block), _field_text(block, 0, 100)
    return prefix + b"/" + short if prefix else short


def label(block: bytes, extension: ExtendedHeader) -> bytes:
    """The name of a member that may be malformed, for a message about it."""
    try:
        return name(block, extension)
    except ValueError:
        return _field_text(block, 0, 100)


def size_of(block: bytes, limits: ArchiveLimits) -> int:
    """The length of an extended header's data."""
    return _bounded("extended header's size", header.number(block[124:136]), limits.extension)


def _entry_kind(flag: bytes, raw: bytes) -> EntryKind:
    kind = KINDS.get(flag)
    if kind is None:
        what = _UNKNOWN.get(flag)
        raise ValueError(f"it is {what}" if what else f"it is of a type that tar does not have: {flag!r}")
    if kind is not EntryKind.FILE or not raw.endswith(b"/"):
        return kind
    if flag != b"\0":
        raise ValueError("it is a file, and its name ends in a slash")
    return EntryKind.DIRECTORY  # as archives were before 1988


def _prefix(block: bytes) -> bytes:
    """The prefix of the name in `block`: only ustar has it.

    GNU tar keeps two times there; but Go before 1.8 wrote a prefix into GNU headers too (golang/go#12594).
    """
    if block[257:263] == b"ustar\0":
        return _field_text(block, 345, 476 if block[508:] == b"tar\0" else 500)
    if block[257:265] != GNU:
        return b""
    try:
        header.number(block[345:357])
        header.number(block[357:369])
    except ValueError:
        prefix = _field_text(block, 345, 500)
        if prefix.isascii():
            return prefix
        raise
    return b""


def _link_text_of(kind: EntryKind, block: bytes, extension: ExtendedHeader, limits: ArchiveLimits) -> bytes:
    if kind not in (EntryKind.SYMLINK, EntryKind.HARDLINK):
        return b""
    raw = extension.link
    if raw is None:
        raw = (extension.pax or {}).get(b"linkpath") or _field_text(block, 157, 257)
    if kind is EntryKind.SYMLINK:
        if not raw or b"\0" in raw or len(raw) > _LONGEST_TARGET:
            raise ValueError("it is a symbolic link whose target is empty, too long, or holds a NUL byte")
        return raw
    try:
        return normalise(_rooted(raw), limits=limits)
    except ValueError as wrong:
        raise ValueError(f"it is a hard link, and of its target: {wrong}") from None


def _rooted(raw: bytes) -> bytes:
    """A hard link's target without the `..` that it begins with: they stop at the root, for every runtime.

    A `..` after a name may follow a symbolic link, and readers differ on where it leads then.
    """
    parts = itertools.dropwhile(lambda part: part in (b"", b".", b".."), raw.split(b"/"))
    return b"/".join(parts) or (b"/" if raw else b"")


def _owner(what: str, field_: bytes, pax: Mapping[bytes, bytes]) -> int:
    return _bounded(what, _either(pax.get(what.encode()), field_), _HIGHEST_ID)


def _entry_size(block: bytes, pax: Mapping[bytes, bytes], limits: ArchiveLimits) -> int:
    return _bounded("size", _either(pax.get(b"size"), block[124:136]), limits.bytes)


def _time(time_ns: int) -> int:
    _bounded("time", abs(time_ns) // 10**9, _HIGHEST_TIME)
    return time_ns


def _device(block: bytes) -> tuple[int, int]:
    major, minor = header.number(block[329:337]), header.number(block[337:345])
    return _bounded("major", major, _HIGHEST_MAJOR), _bounded("minor", minor, _HIGHEST_MINOR)


def _either(value: bytes | None, field_: bytes) -> int:
    """A number of a PAX header; or, where there is none or an empty one, that of the block."""
    if not value:
        return header.number(field_)
    if not _DECIMAL.fullmatch(value):
        raise ValueError(f"a number in its PAX header is {value[:40]!r}")
    return int(value)


def _bounded(what: str, value: int, highest: int) -> int:
    if not 0 <= value <= highest:
        raise ValueError(f"its {what} is {value}; it may be from 0 to {highest}")
    return value


def _field_text(block: bytes, start: int, end: int) -> bytes:
    nul = block.find(0, start, end)
    return block[start : end if nul < 0 else nul]
