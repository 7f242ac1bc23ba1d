"""The libraries of a program, in the order in which the dynamic loader comes to them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from sandwright.rootfs.minimal.ldso import Found, Loaded, Loader


@dataclass(frozen=True)
class Step:
    """`asker` names the library `name`; `found` are the files it may become, none if it can't be found.

    An `optional` one is taken when it is there.
    """

    asker: bytes
    name: bytes
    found: tuple[Found, ...]
    optional: bool = False


def link(loader: Loader, main: Loaded) -> Iterator[Step]:
    """Every library that `main` is loaded with: breadth first, each name once, as glibc and musl do."""
    known: dict[bytes, Found] = {}
    _remember_interpreter(loader, main, known)
    ahead = deque([main])
    while ahead:
        current = ahead.popleft()
        for name, optional in _names(current):
            if name in known:
                yield Step(current.path, name, (known[name],), optional)
                continue
            found = loader.find(name, current)
            yield Step(current.path, name, tuple(found), optional)
            for each in found:
                known.setdefault(name, each)
                known.setdefault(each.elf.soname or name, each)
                ahead.append(Loaded(each.path, each.elf, current))


def _names(loaded: Loaded) -> Iterator[tuple[bytes, bool]]:
    yield from ((name, False) for name in loaded.elf.needed)
    yield from ((name, True) for name in loaded.elf.optional)


def _remember_interpreter(loader: Loader, main: Loaded, known: dict[bytes, Found]) -> None:
    """The loader itself is there already, under its own name."""
    path = main.elf.interpreter
    elf = loader.elf(path) if path.startswith(b"/") else None
    if elf is not None:
        known[elf.soname or path.rpartition(b"/")[2]] = Found(path, elf, "the interpreter")
