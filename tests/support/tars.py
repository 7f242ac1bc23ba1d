"""Archives and layers made byte by byte, without the code under test, and the resulting trees."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import zstandard

from sandwright.rootfs.unpacking.unpack import ImageLayer

GNU = b"ustar  \0"
USTAR = b"ustar\x0000"
END = bytes(1024)
TIME = 1_600_000_000

Tree = dict[str, tuple[object, ...]]


def header(
    name: bytes,
    *,
    kind: bytes = b"0",
    mode: int | bytes = 0o644,
    uid: int | bytes = 0,
    gid: int | bytes = 0,
    size: int | bytes = 0,
    mtime: int | bytes = TIME,
    link: bytes = b"",
    magic: bytes = USTAR,
    prefix: bytes = b"",
    device: tuple[int, int] = (0, 0),
    trailer: bytes = b"",
    checksum: bytes | None = None,
) -> bytes:
    """A header block. Numbers as bytes are inserted unchanged."""
    fields = [
        name.ljust(100, b"\0"),
        _number(mode, 8),
        _number(uid, 8),
        _number(gid, 8),
        _number(size, 12),
        _number(mtime, 12),
        b" " * 8,
        kind,
        link.ljust(100, b"\0"),
        magic.ljust(72, b"\0"),
        _number(device[0], 8),
        _number(device[1], 8),
        prefix.ljust(155, b"\0"),
    ]
    block = bytearray(b"".join(fields).ljust(512, b"\0"))
    block[508 : 508 + len(trailer)] = trailer
    assert len(block) == 512
    block[148:156] = b"%06o\0 " % sum(block) if checksum is None else checksum
    return bytes(block)


def member(name: bytes, content: bytes = b"", **fields: Any) -> bytes:
    """A header with its content. A name or link that is too long for it is in a PAX header."""
    fields.setdefault("size", len(content))
    longer = {b"path": name, b"linkpath": fields.get("link", b"")}
    longer = {key: value for key, value in longer.items() if len(value) > 100}
    fields["link"] = fields.get("link", b"")[:100]
    return (pax(longer) if longer else b"") + header(name[:100], **fields) + padded(content)


def file(name: bytes, content: bytes = b"", **fields: Any) -> bytes:
    """A regular file."""
    return member(name, content, **fields)


def folder(name: bytes, mode: int = 0o755, **fields: Any) -> bytes:
    """A directory."""
    return member(name, kind=b"5", mode=mode, **fields)


def symlink(name: bytes, target: bytes, **fields: Any) -> bytes:
    """A symbolic link."""
    return member(name, kind=b"2", link=target, mode=0o777, **fields)


def hardlink(name: bytes, target: bytes, **fields: Any) -> bytes:
    """A hard link."""
    return member(name, kind=b"1", link=target, **fields)


def device(name: bytes, major: int, minor: int, *, kind: bytes = b"3", **fields: Any) -> bytes:
    """A character device, or with b"4" a block device."""
    return member(name, kind=kind, device=(major, minor), **fields)


def pax(records: Mapping[bytes, bytes] | bytes, *, kind: bytes = b"x") -> bytes:
    """A PAX header; `records` as bytes are inserted unchanged."""
    data = records if isinstance(records, bytes) else b"".join(_record(k, v) for k, v in records.items())
    return member(b"PaxHeaders/x", data, kind=kind)


def long(name: bytes, kind: bytes = b"L") -> bytes:
    """GNU tar's header for a long name, or with b"K" for a long link."""
    return member(b"././@LongLink", name + b"\0", kind=kind, magic=GNU)


def archive(*members: bytes) -> bytes:
    """The members, and the end."""
    return b"".join(members) + END


def padded(content: bytes) -> bytes:
    """Content up to the next block."""
    return content + bytes(-len(content) % 512)


def layer(raw: bytes, codec: str = "gzip") -> ImageLayer:
    """A layer whose archive is `raw`."""
    match codec:
        case "gzip":
            blob, media = gzip.compress(raw, 1, mtime=0), ".tar+gzip"
        case "zstd":
            blob, media = zstandard.ZstdCompressor().compress(raw), ".tar+zstd"
        case _:
            blob, media = raw, ".tar"
    return described(blob, raw, f"application/vnd.oci.image.layer.v1{media}")


def described(blob: bytes, raw: bytes, media_type: str) -> ImageLayer:
    """A layer of the given bytes, with their own digest."""
    return ImageLayer(
        digest=f"sha256:{hashlib.sha256(blob).hexdigest()}",
        size=len(blob),
        media_type=media_type,
        diff_id=f"sha256:{hashlib.sha256(raw).hexdigest()}",
        open=lambda: io.BytesIO(blob),
    )


def stack(*layers: list[bytes] | tuple[bytes, ...]) -> list[ImageLayer]:
    """Layers, the lowest first, each from its members."""
    return [layer(archive(*members)) for members in layers]


def tree(root: Path, *, times: bool = True) -> Tree:
    """Everything below `root`, and `root` as ".": type, mode, owner, content, target or device, and time."""
    return dict(_rows(root, root, times=times))


def _rows(root: Path, path: Path, *, times: bool) -> Iterator[tuple[str, tuple[object, ...]]]:
    status = path.lstat()
    mode = status.st_mode
    what: object = None
    if stat.S_ISREG(mode):
        with _opened_up(path, mode):
            what = path.read_bytes()
    elif stat.S_ISLNK(mode):
        what = os.readlink(path)  # noqa: PTH115 - Path.readlink changes what it reads
    elif stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        what = (os.major(status.st_rdev), os.minor(status.st_rdev))
    row: tuple[object, ...] = (stat.filemode(mode), status.st_uid, status.st_gid, what)
    yield str(path.relative_to(root)), (*row, status.st_mtime_ns) if times else row
    if stat.S_ISDIR(mode):
        with _opened_up(path, mode):
            for child in sorted(path.iterdir()):
                yield from _rows(root, child, times=times)


@contextlib.contextmanager
def _opened_up(path: Path, mode: int) -> Iterator[None]:
    """Give the owner, who may be an ordinary user, the right to read."""
    if mode & 0o500 == 0o500 or os.geteuid() == 0:
        yield
        return
    path.chmod(mode | 0o500)
    try:
        yield
    finally:
        path.chmod(stat.S_IMODE(mode))


def _number(value: int | bytes, width: int) -> bytes:
    if isinstance(value, bytes):
        return value.ljust(width, b"\0")
    return b"%0*o\0" % (width - 1, value)


def _record(key: bytes, value: bytes) -> bytes:
    length = len(key) + len(value) + 3
    for _ in range(3):
        length = len(key) + len(value) + 3 + len(str(length))
    return b"%d %s=%s\n" % (length, key, value)
