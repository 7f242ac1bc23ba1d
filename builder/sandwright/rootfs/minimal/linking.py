"""Lists the libraries of a program, in the order of the dynamic loader."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from sandwright.rootfs.minimal.ldso import DynamicLoader, FoundLibrary, LoadedObject


@dataclass(frozen=True)
class LibraryLookup:
    """A library `name` that `asker` needs; `found` are the candidate files, empty if there is none.

    An `optional` one is taken when it is there.
    """

    asker: bytes
    name: bytes
    found: tuple[FoundLibrary, ...]
    optional: bool = False


def link(loader: DynamicLoader, main: LoadedObject) -> Iterator[LibraryLookup]:
    """Every library that `main` is loaded with: breadth first, each name once, as glibc and musl do."""
    libraries: dict[bytes, FoundLibrary] = {}
    _remember_interpreter(loader, main, libraries)
    ahead = deque([main])
    while ahead:
        current = ahead.popleft()
        for name, optional in _library_names(current):
            if name in libraries:
                yield LibraryLookup(current.path, name, (libraries[name],), optional)
                continue
            found = loader.find(name, current)
            yield LibraryLookup(current.path, name, tuple(found), optional)
            for each in found:
                libraries.setdefault(name, each)
                libraries.setdefault(each.elf.soname or name, each)
                ahead.append(LoadedObject(each.path, each.elf, current))


def _library_names(loaded: LoadedObject) -> Iterator[tuple[bytes, bool]]:
    yield from ((name, False) for name in loaded.elf.needed)
    yield from ((name, True) for name in loaded.elf.optional)


def _remember_interpreter(
    loader: DynamicLoader, main: LoadedObject, libraries: dict[bytes, FoundLibrary]
) -> None:
    """The loader itself is there already, under its own name."""
    path = main.elf.interpreter
    elf = loader.elf(path) if path.startswith(b"/") else None
    if elf is not None:
        libraries[elf.soname or path.rpartition(b"/")[2]] = FoundLibrary(path, elf, "the interpreter")
