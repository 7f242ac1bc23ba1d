"""Gitlinks: the entries of an index that are other repositories (gitformat-index(5)).

Git enters the directory of such an entry, as for a submodule.
"""

from __future__ import annotations

from collections.abc import Iterator

MOST = 1 << 28
"""Bytes of an index that are looked at."""

MOST_LINKS, MOST_PATH = 4000, 4096
"""Entries that are given, and bytes of a path: an index may be made to name more than memory holds."""

MODE = b"\0\0\xe0\0"
"""160000 in octal, as an entry has it."""

LINK, MOST_SHARED = b"link", 100
"""The name of the extension of a split index, and the names of others that are given for one."""

_BEFORE, _BETWEEN = 24, 12
"""Bytes of an entry before its mode (times, device, inode), and from there to the object's name (user, group,
size)."""

_NAMES = (20, 32)
"""Bytes of an object's name: SHA-1, SHA-256."""

_LEAST = _BEFORE + 4 + _BETWEEN + _NAMES[0] + 2
"""Bytes of an entry without its path."""

_EXTENDED, _LENGTH = 0x4000, 0xFFF
"""Of the flags of an entry: whether two bytes more follow, and the length of the path, at most this."""


def gitlinks(data: bytes) -> set[bytes]:
    """The paths of the gitlinks.

    The bytes of the usual mode are searched for anywhere, as a forged index can have Git begin in its middle;
    so a path may be given that no entry has. Then all entries are read: Git takes any mode of that type for a
    repository, and a path of version 4 continues the one before.
    """
    if data[:4] != b"DIRC":
        return set()
    if int.from_bytes(data[4:8], "big") == 4:
        return {path for length in _NAMES for path in _compressed(data, length)}
    found = {path for length in _NAMES for path in _plain_entries(data, length)}
    at = data.find(MODE, 12)
    for _ in range(len(data) // _LEAST):
        if at == -1 or len(found) >= MOST_LINKS:
            break
        for length in _NAMES:
            start, size = _path_offset(data, at, length)
            path = data[start : start + min(size, MOST_PATH)].partition(b"\0")[0]
            if path and (len(path) == size or size == _LENGTH):
                found.add(path)
        at = data.find(MODE, at + 1)
    return found


def shared_indexes(data: bytes) -> list[str]:
    """The names of files next to a split index that may have its other entries (git-update-index(1)).

    The extension is searched for anywhere, as an entry is. So a name may be given of which no file exists.
    """
    found: dict[str, None] = {}
    at = data.find(LINK, 12)
    while at != -1 and len(found) < MOST_SHARED:
        if is_extension(data, at):
            for length in _NAMES:
                found[f"sharedindex.{data[at + 8 : at + 8 + length].hex()}"] = None
        at = data.find(LINK, at + 1)
    return list(found)


def is_extension(data: bytes, at: int) -> bool:
    """Whether the size behind the name of the extension can be its size, which no text is."""
    size = int.from_bytes(data[at + 4 : at + 8], "big")
    return _NAMES[0] <= size <= len(data) - at - 8


def _path_offset(data: bytes, mode: int, length: int) -> tuple[int, int]:
    """The offset of an entry's path, and its length according to the flags."""
    at = mode + 4 + _BETWEEN + length
    flags = int.from_bytes(data[at : at + 2], "big")
    return at + (4 if flags & _EXTENDED else 2), flags & _LENGTH


def _is_link(data: bytes, mode: int) -> bool:
    """Whether Git takes a mode for another repository's (S_ISGITLINK): its other bits don't matter."""
    return mode + 2 < len(data) and data[mode + 2] & 0xF0 == MODE[2]


def _plain_entries(data: bytes, length: int) -> Iterator[bytes]:
    """The entries of versions 2 and 3; ends early if the names of objects have another length."""
    at, found = 12, 0
    for _ in range(int.from_bytes(data[8:12], "big")):
        start, size = _path_offset(data, at + _BEFORE, length)
        end = data.find(b"\0", start) if size == _LENGTH else start + size
        if data[end : end + 1] != b"\0" or found >= MOST_LINKS // 2:
            return
        if _is_link(data, at + _BEFORE):
            found += 1
            yield data[start : min(end, start + MOST_PATH)]
        at += (end - at + 8) & ~7


def _compressed(data: bytes, length: int) -> Iterator[bytes]:
    """The entries of version 4; none if the names of objects have another length."""
    at, path = 12, b""
    found: list[bytes] = []
    for _ in range(int.from_bytes(data[8:12], "big")):
        mode = at + _BEFORE
        start, size = _path_offset(data, mode, length)
        removed, start = _parse_offset(data, start)
        end = data.find(b"\0", start)
        if end == -1 or removed > len(path):
            return
        if len(path) - removed + end - start > MOST_PATH or len(found) >= MOST_LINKS // 2:
            break
        path = path[: len(path) - removed] + data[start:end]
        if size != min(len(path), _LENGTH):
            return
        if _is_link(data, mode):
            found.append(path)
        at = end + 1
    yield from found


def _parse_offset(data: bytes, at: int) -> tuple[int, int]:
    """A number of variable length, as pack files have offsets, and where it ends (gitformat-pack(5))."""
    value = -1
    while at < len(data):
        byte = data[at]
        at += 1
        value = ((value + 1) << 7) | (byte & 0x7F)
        if not byte & 0x80:
            break
    return value, at
