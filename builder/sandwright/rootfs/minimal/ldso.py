"""The search of the dynamic loaders of glibc and musl for a library, as far as files decide it.

glibc: ld.so(8). DT_RPATH of the object and of those that loaded it (where the object has no DT_RUNPATH),
LD_LIBRARY_PATH, DT_RUNPATH of the object, /etc/ld.so.cache, the default directories. musl: ldso/dynlink.c's
documented order. A file of another machine or class is passed over, as the loaders do.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from sandwright.errors import ArchiveRefused, BuildError
from sandwright.rootfs.elf import Elf, Malformed, read_elf
from sandwright.rootfs.minimal import ldconf
from sandwright.rootfs.securejoin import Root
from sandwright.rootfs.tar.entry import EntryRefused, show
from sandwright.rootfs.tar.limits import NAMED
from sandwright.rootfs.tar.memory_budget import MemoryBudget

CACHE = b"/etc/ld.so.cache"
_LARGEST_CACHE = 64 << 20
_LARGEST_CONF = 1 << 20
_CACHE_MAGIC = b"glibc-ld.so.cache1.1"
_OLD_CACHE_MAGIC = b"ld.so-1.7.0\0"
_HWCAPS = b"glibc-hwcaps"

_TRIPLETS = {
    (64, 62): b"x86_64-linux-gnu",
    (32, 62): b"x86_64-linux-gnux32",
    (64, 183): b"aarch64-linux-gnu",
    (32, 3): b"i386-linux-gnu",
    (32, 40): b"arm-linux-gnueabihf",
    (64, 21): b"powerpc64le-linux-gnu",
    (64, 22): b"s390x-linux-gnu",
    (64, 243): b"riscv64-linux-gnu",
    (64, 258): b"loongarch64-linux-gnu",
}
_PLATFORMS = {(64, 62): b"x86_64", (64, 183): b"aarch64", (32, 3): b"i686", (64, 22): b"s390x"}
_MUSL_ARCHES = {(64, 62): b"x86_64", (64, 183): b"aarch64", (32, 3): b"i386", (32, 40): b"armhf"}


@dataclass(frozen=True)
class LoadedObject:
    """A file in the order of loading: `path` as the loader came to it, and the object that needs it."""

    path: bytes
    elf: Elf
    parent: LoadedObject | None = None

    def chain(self) -> Iterator[LoadedObject]:
        """The object itself, followed by the objects that led to it."""
        current: LoadedObject | None = self
        while current is not None:
            yield current
            current = current.parent


@dataclass(frozen=True)
class FoundLibrary:
    """A library that answers to a name. `how` is the rule by which the loader comes to it."""

    path: bytes
    elf: Elf
    how: str


class DynamicLoader:
    """The loaders of one root file system. `library_path` is LD_LIBRARY_PATH of the image's environment."""

    def __init__(self, root: Root, *, library_path: str = "") -> None:
        self._root = root
        self._library_path = [os.fsencode(part) for part in library_path.replace(";", ":").split(":") if part]
        self._folders: dict[bytes, frozenset[bytes]] = {}
        self._elves: dict[bytes, Elf | None] = {}
        self._held = MemoryBudget()
        self._cache = _read_cache(root)

    def elf(self, path: bytes) -> Elf | None:
        """The headers of the file at `path`; None if it is not an ELF file. Raise Malformed for a broken one.

        Raise BuildError if together they exceed the limit.
        """
        real = self._root.locate(path)
        if not real.is_file:
            return None
        if real.path not in self._elves:
            fd = self._root.open(real.path)
            try:
                found = read_elf(fd)
            finally:
                os.close(fd)
            try:
                self._held.take(0 if found is None else found.weight)
            except EntryRefused as refusal:
                raise BuildError(f"{show(real.path)}: {refusal}") from None
            self._elves[real.path] = found
        return self._elves[real.path]

    def find(self, name: bytes, wanted_by: LoadedObject) -> list[FoundLibrary]:
        """The files that the loader may take for `name`, the first rule's only; empty when there are none.

        There are several where variants for better processors lie beside the plain one: which of them is
        taken depends on the machine.
        """
        if b"/" in name:
            paths = [path for path in _expand_tokens(name, wanted_by) if path.startswith(b"/")]
            return self._first_fitting(paths, "the path in the file", wanted_by)
        for how, folders in self._rules(wanted_by):
            for folder in folders:
                found = self._in_folder(folder, name, how, wanted_by)
                if found:
                    return found
            if how == "DT_RUNPATH" and (cached := self._cached(name, wanted_by)):
                return cached
        return []

    def find_unlisted(self, name: bytes, asker: bytes) -> list[bytes]:
        """Find a library that the loader would find after ldconfig: in directories of ld.so.conf."""
        elf = self.elf(asker)
        if elf is None or b"/" in name:
            return []
        wanted_by = LoadedObject(asker, elf)
        paths = [folder + b"/" + name for folder in ldconf.directories(self._root)]
        return [found.path for found in self._first_fitting(paths, "ld.so.conf", wanted_by)]

    def _rules(self, wanted_by: LoadedObject) -> Iterator[tuple[str, list[bytes]]]:
        """The rules in order. The cache comes after DT_RUNPATH."""
        elf = wanted_by.elf
        if is_musl(wanted_by):
            yield "LD_LIBRARY_PATH", self._library_path
            inherited = [
                p for each in wanted_by.chain() for p in _folders(each.elf.runpath or each.elf.rpath, each)
            ]
            yield "RPATH", inherited
            yield "the default directories of musl", self._musl_defaults(elf)
            return
        if not elf.runpath:
            inherited = [
                path
                for each in wanted_by.chain()
                if not each.elf.runpath
                for path in _folders(each.elf.rpath, each)
            ]
            yield "DT_RPATH", inherited
        yield "LD_LIBRARY_PATH", self._library_path
        yield "DT_RUNPATH", _folders(elf.runpath, wanted_by)
        if elf.default_directories:
            yield "the default directories", _defaults(elf)

    def _in_folder(self, folder: bytes, name: bytes, how: str, wanted_by: LoadedObject) -> list[FoundLibrary]:
        """The library in a directory, and its variants in `glibc-hwcaps`."""
        names = self._names_in(folder)
        paths = [folder + b"/" + name] if name in names else []
        if _HWCAPS in names:
            levels = sorted(self._names_in(folder + b"/" + _HWCAPS))
            paths += [b"/".join((folder, _HWCAPS, level, name)) for level in levels]
        return self._fitting_libraries(paths, how, wanted_by)

    def _cached(self, name: bytes, wanted_by: LoadedObject) -> list[FoundLibrary]:
        """The first that fits among the plain entries of the cache, and all for better processors."""
        rows = self._cache.get(name, [])
        better = [path for path, plain in rows if not plain]
        return self._first_fitting(
            [path for path, plain in rows if plain], "ld.so.cache", wanted_by
        ) + self._fitting_libraries(better, "ld.so.cache", wanted_by)

    def _first_fitting(self, paths: list[bytes], how: str, wanted_by: LoadedObject) -> list[FoundLibrary]:
        return self._fitting_libraries(paths, how, wanted_by)[:1]

    def _fitting_libraries(self, paths: list[bytes], how: str, wanted_by: LoadedObject) -> list[FoundLibrary]:
        found = []
        for path in paths:
            try:
                elf = self.elf(path)
            except (Malformed, ArchiveRefused):
                continue
            if elf is not None and elf.target == wanted_by.elf.target:
                found.append(FoundLibrary(path, elf, how))
        return found

    def _musl_defaults(self, elf: Elf) -> list[bytes]:
        arch = _MUSL_ARCHES.get((elf.target[0], elf.target[2]), b"")
        try:
            text = self._root.read(b"/etc/ld-musl-" + arch + b".path", limit=_LARGEST_CONF)
        except FileNotFoundError:
            return [b"/lib", b"/usr/local/lib", b"/usr/lib"]
        return [part for part in text.replace(b"\n", b":").split(b":") if part]

    def _names_in(self, folder: bytes) -> frozenset[bytes]:
        if folder not in self._folders:
            there = self._root.locate(folder).is_directory
            self._folders[folder] = frozenset(self._root.names(folder)) if there else frozenset()
        return self._folders[folder]


def is_musl(loaded: LoadedObject) -> bool:
    """Whether musl's loader is at work: by the program's interpreter, for a lone library by its libc."""
    for each in loaded.chain():
        if each.elf.interpreter:
            return b"ld-musl" in each.elf.interpreter
        if any(name.startswith(b"libc.musl") for name in each.elf.needed):
            return True
    return False


def _defaults(elf: Elf) -> list[bytes]:
    """The directories that distributions compile into glibc's loader."""
    triplet = _TRIPLETS.get((elf.target[0], elf.target[2]))
    multiarch = [b"/lib/" + triplet, b"/usr/lib/" + triplet] if triplet else []
    wide = [b"/lib64", b"/usr/lib64"] if elf.target[0] == 64 else [b"/lib32", b"/usr/lib32"]
    return [*multiarch, *wide, b"/lib", b"/usr/lib"]


def _folders(paths: tuple[bytes, ...], loaded: LoadedObject) -> list[bytes]:
    return [folder for path in paths for folder in _expand_tokens(path, loaded) if folder.startswith(b"/")]


def _expand_tokens(path: bytes, loaded: LoadedObject) -> list[bytes]:
    """A path with `$ORIGIN`, `$LIB` and `$PLATFORM` put in; the build of glibc defines `$LIB`."""
    key = (loaded.elf.target[0], loaded.elf.target[2])
    origin = loaded.path.rpartition(b"/")[0] or b"/"
    path = path.replace(b"${ORIGIN}", origin).replace(b"$ORIGIN", origin)
    platform = _PLATFORMS.get(key, b"")
    path = path.replace(b"${PLATFORM}", platform).replace(b"$PLATFORM", platform)
    if b"$LIB" not in path and b"${LIB}" not in path:
        return [path]
    meanings = [b"lib/" + _TRIPLETS[key]] if key in _TRIPLETS else []
    meanings += [b"lib64", b"lib"] if key[0] == 64 else [b"lib"]
    return [path.replace(b"${LIB}", each).replace(b"$LIB", each) for each in meanings]


def _read_cache(root: Root) -> dict[bytes, list[tuple[bytes, bool]]]:
    """The paths for each name in /etc/ld.so.cache, each with whether it is for every processor.

    Empty when there is no cache, or one that the loader would not take.
    """
    try:
        data = root.read(CACHE, limit=_LARGEST_CACHE)
    except FileNotFoundError:
        return {}
    base = 0
    if data.startswith(_OLD_CACHE_MAGIC) and len(data) >= 16:
        base = 16 + 12 * struct.unpack_from("<I", data, 12)[0]
        base += -base % 8
    if data[base : base + 20] != _CACHE_MAGIC or len(data) < base + 48:
        return {}
    order = ">" if data[base + 28] & 3 == 3 else "<"
    (count,) = struct.unpack_from(order + "I", data, base + 20)
    if base + 48 + 24 * count > len(data):
        return {}
    found: dict[bytes, list[tuple[bytes, bool]]] = {}
    held = MemoryBudget()
    for at in range(base + 48, base + 48 + 24 * count, 24):
        _, key, value, _, hwcap = struct.unpack_from(order + "iIIIQ", data, at)
        name, path = _c_string(data, base + key), _c_string(data, base + value)
        try:
            held.take(len(name) + len(path) + NAMED)  # rows may share their text
        except EntryRefused as refusal:
            raise ArchiveRefused(f"{show(CACHE)} in {root.name}: {refusal}") from None
        found.setdefault(name, []).append((path, not hwcap))
    return found


def _c_string(data: bytes, at: int) -> bytes:
    end = data.find(0, at, at + 4096)
    return data[at:end] if end >= 0 else b""
