"""Writes `/etc/ld.so.cache` from the headers of ELF files, without running ldconfig.

The format is glibc's `glibc-ld.so.cache1.1` (since glibc 2.2, and the only one ldconfig writes since 2.32): a
header, one record of 24 bytes for each library, the strings. Numbers are little-endian, as a byte in the
header says. ld.so uses a binary search, so records must be in the order of its comparison: `order`.

The names that ldconfig 2.36 lists were found by running it on test trees; the test repeats that. The
`glibc-hwcaps` directories, with copies of libraries for newer processors, are left out: ld.so then takes the
plain copy.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from itertools import groupby

from sandwright.image.tree import FileTree
from sandwright.rootfs.elf import Elf

MAGIC = b"glibc-ld.so.cache1.1"
_HEADER = struct.Struct("<20sIIB3xI12x")
_RECORD = struct.Struct("<iIIIQ")
_LITTLE_ENDIAN = 2
_ELF_LIBC6 = 0x0003

FLAGS: Mapping[str, Mapping[tuple[int, int, int], int]] = {
    "amd64": {(64, 1, 62): 0x0300 | _ELF_LIBC6, (32, 1, 3): _ELF_LIBC6, (32, 1, 62): 0x0800 | _ELF_LIBC6},
    "arm64": {(64, 1, 183): 0x0A00 | _ELF_LIBC6},
}
"""The flags of a library by `Elf.target`, for each architecture (glibc, ldconfig.h). ldconfig lists no other
library."""

TRIPLETS: Mapping[str, str] = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}
"""Debian's multiarch directory names."""


@dataclass(frozen=True)
class CachedLibrary:
    """One record: the name programs ask for, and the path ld.so opens."""

    name: bytes
    path: bytes
    flags: int


@dataclass(frozen=True)
class LibraryLink:
    """A link `path` → `target` that ldconfig would create, so that programs find a library by its soname."""

    path: bytes
    target: bytes


def directories(configuration: Mapping[bytes, bytes], architecture: str) -> list[bytes]:
    """The directories that ldconfig scans, in its order: those of `etc/ld.so.conf`, then its built-in ones.

    `configuration` maps paths (`etc/ld.so.conf.d/libc.conf`) to contents. Paths come back absolute.
    """
    found: list[bytes] = []
    _read_configuration(b"etc/ld.so.conf", configuration, found, depth=0)
    triplet = TRIPLETS[architecture].encode()
    found += [b"/lib/" + triplet, b"/usr/lib/" + triplet, b"/lib", b"/usr/lib"]
    return list(dict.fromkeys(found))


def scan(
    tree: FileTree, elves: Mapping[bytes, Elf], directories: Iterable[bytes], architecture: str
) -> tuple[list[CachedLibrary], list[LibraryLink]]:
    """The records for a tree, and the links that the tree needs for them.

    `elves` holds the headers of the tree's ELF files, by their real paths.
    """
    libraries: list[CachedLibrary] = []
    links: list[LibraryLink] = []
    seen: set[bytes] = set()
    for directory in directories:
        real = tree.resolve(directory.strip(b"/"))
        if real is None or real in seen:
            continue
        seen.add(real)
        found = _libraries_in(tree, real, elves, FLAGS[architecture])
        libraries += [
            CachedLibrary(name, directory + b"/" + name, flags) for name, (_, flags) in found.items()
        ]
        links += _missing_links(tree, real, {name: file for name, (file, _) in found.items()})
    return libraries, links


def write(libraries: Sequence[CachedLibrary]) -> bytes:
    """The bytes of the cache. Libraries of the same name keep their order."""
    ordered = sorted(libraries, key=lambda library: cmp_to_key(order)(library.name), reverse=True)
    ordered = [entry for _, same in groupby(ordered, key=lambda each: each.name) for entry in _by_flags(same)]
    start = _HEADER.size + _RECORD.size * len(ordered)
    offsets: dict[bytes, int] = {}
    strings = bytearray()
    for text in (text for library in ordered for text in (library.name, library.path)):
        if text not in offsets:
            offsets[text] = start + len(strings)
            strings += text + b"\0"
    records = (_RECORD.pack(each.flags, offsets[each.name], offsets[each.path], 0, 0) for each in ordered)
    return _HEADER.pack(MAGIC, len(ordered), len(strings), _LITTLE_ENDIAN, 0) + b"".join(records) + strings


def read(cache: bytes) -> list[CachedLibrary]:
    """The records of a cache, in its order. Raise ValueError for an invalid or damaged cache."""
    try:
        magic, number, _, _, _ = _HEADER.unpack_from(cache)
        if magic != MAGIC:
            raise ValueError(f"it begins with {magic!r}")
        records = [_RECORD.unpack_from(cache, _HEADER.size + each * _RECORD.size) for each in range(number)]
        return [
            CachedLibrary(_string_at(cache, name), _string_at(cache, path), flags)
            for flags, name, path, _, _ in records
        ]
    except struct.error as error:
        raise ValueError(f"it is cut off: {error}") from error


def order(one: bytes, other: bytes) -> int:
    """Negative, zero or positive, as ld.so compares two library names.

    Runs of digits compare by their number, a digit comes after anything else, other bytes go by their value.
    """
    a, b = _WORDS.findall(one), _WORDS.findall(other)
    for left, right in zip(a, b, strict=False):
        if left.isdigit() and right.isdigit():
            difference = int(left) - int(right)
        elif left.isdigit() or right.isdigit():
            difference = 1 if left.isdigit() else -1
        else:
            difference = left[0] - right[0]
        if difference:
            return difference
    return (len(a) > len(b)) - (len(a) < len(b))


_WORDS = re.compile(rb"[0-9]+|[^0-9]", re.DOTALL)
_LIBRARY = re.compile(rb"(lib|ld-).*\.so", re.DOTALL)


def _string_at(cache: bytes, at: int) -> bytes:
    return cache[at : cache.index(b"\0", at)]


def is_library_name(name: bytes) -> bool:
    """Whether ldconfig reads a file of that name."""
    return _LIBRARY.match(name) is not None


def _by_flags(same: Iterable[CachedLibrary]) -> list[CachedLibrary]:
    return sorted(same, key=lambda library: -library.flags)


def _libraries_in(
    tree: FileTree, directory: bytes, elves: Mapping[bytes, Elf], flags: Mapping[tuple[int, int, int], int]
) -> dict[bytes, tuple[bytes, int]]:
    """Library name → (the file it should lead to, flags) for one real directory."""
    found: dict[bytes, tuple[bytes, int]] = {}
    for name in sorted(tree.names(directory), key=cmp_to_key(order)):
        if not is_library_name(name):
            continue
        real = tree.resolve(directory + b"/" + name)
        elf = elves.get(real) if real is not None else None
        if elf is None or not elf.shared or elf.target not in flags:
            continue
        soname = elf.soname or name
        linked = tree.is_link(directory + b"/" + name)
        if linked and name.endswith(b".so") and soname.startswith(name):
            soname = name
        if linked and name != soname and soname in found:
            continue  # another name of a library that has its soname already
        found[soname] = (name, flags[elf.target])
    return found


def _missing_links(tree: FileTree, directory: bytes, found: Mapping[bytes, bytes]) -> list[LibraryLink]:
    return [
        LibraryLink(directory + b"/" + soname, name)
        for soname, name in found.items()
        if soname != name and tree.resolve(directory + b"/" + soname) is None
    ]


def _read_configuration(path: bytes, files: Mapping[bytes, bytes], found: list[bytes], *, depth: int) -> None:
    for raw in files.get(path, b"").splitlines():
        line = raw.partition(b"#")[0].strip()
        word, _, rest = line.partition(b" ")
        if word == b"include" and depth < 8:
            folder = path.rpartition(b"/")[0]
            for word in rest.split():
                pattern = word if word.startswith(b"/") else folder + b"/" + word
                for name in sorted(name for name in files if _matches(name, pattern)):
                    _read_configuration(name, files, found, depth=depth + 1)
        elif line.startswith(b"/"):
            found.append(b"/" + line.strip(b"/"))


def _matches(name: bytes, pattern: bytes) -> bool:
    parts = (re.escape(part) for part in pattern.strip(b"/").split(b"*"))
    return re.fullmatch(b"[^/]*".join(parts), name) is not None
