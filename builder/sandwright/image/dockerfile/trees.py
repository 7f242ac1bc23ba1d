"""Compares two images file by file: that of the embedded builder with that of an engine.

Each is read from its layers, upper over lower; nothing is unpacked. The table `KNOWN` lists the allowed
differences, each with its reason. Any other difference is a fault of one of the two builders.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sandwright.image import ldcache
from sandwright.image.layered import LayeredTree, read_layer
from sandwright.image.tree import FileNode
from sandwright.rootfs.images.source import Image
from sandwright.rootfs.tar.entry import EntryKind, TarEntry, show
from sandwright.rootfs.tar.limits import DEFAULT
from sandwright.rootfs.tar.memory_budget import MemoryBudget
from sandwright.rootfs.tar.reader import TarReader

Value = object

_LINKER_CACHE = b"etc/ld.so.cache"


@dataclass(slots=True)
class FileFacts:
    """The entry at a path. `linked` are all its names, where it has several.

    `content` is the SHA-256 of a file's bytes; `meaning` that of their meaning, where other bytes can have
    the same one: for the linker's cache it covers the records.
    """

    kind: str
    mode: int
    owner: tuple[int, int]
    target: str = ""
    content: str = ""
    meaning: str = ""
    xattrs: Mapping[bytes, bytes] = field(default_factory=dict)
    time: int = 0
    linked: tuple[bytes, ...] = ()


FIELDS = ("kind", "mode", "owner", "target", "content", "meaning", "xattrs", "linked", "time")


@dataclass(frozen=True)
class Difference:
    """A field of a path in which two images differ; `there` is that of a path that only one of them has."""

    path: str
    kind: str
    field: str
    embedded: Value
    engine: Value

    def describe(self) -> str:
        """In one line."""
        embedded, engine = _show_value(self.embedded), _show_value(self.engine)
        return f"/{self.path}: {self.field}: embedded {embedded}, engine {engine}"


@dataclass(frozen=True)
class KnownDifference:
    """A kind of accepted difference, and the reason. `engines` are those it is seen with; none: all."""

    name: str
    reason: str
    fits: Callable[[Difference], bool]
    engines: tuple[str, ...] = ()


def read_files(image: Image) -> dict[bytes, FileFacts]:
    """Path → entry, of the whole image. Raise the errors of reading its layers."""
    layered, held = LayeredTree("the image"), MemoryBudget()
    facts: dict[bytes, FileFacts] = {}
    for layer in image.layers:
        with layer.archive(DEFAULT, lambda _: None) as stream:
            reader = TarReader(stream, name=layer.name, may_be_sparse=True)
            found = read_layer(reader, partial(_digests, reader), held)
        layered.apply_whiteouts(found.removed, found.emptied)
        for entry, digests in found.entries:
            linked = layered.find(entry.link) if entry.kind is EntryKind.HARDLINK else None
            same = None if linked is None else facts[linked]  # one object for one file
            stored = layered.put(entry.path, FileNode.of(entry, ""))
            facts[stored] = same or _facts(entry, *digests)
    tree = {path: facts[path] for path in layered.tree.nodes if path in facts and path}
    _name_links(tree)
    return tree


def compare(embedded: Mapping[bytes, FileFacts], engine: Mapping[bytes, FileFacts]) -> list[Difference]:
    """Every difference, by path."""
    found = []
    for path in sorted(embedded.keys() | engine.keys()):
        ours, theirs = embedded.get(path), engine.get(path)
        name = path.decode("utf-8", "backslashreplace")
        if ours is None or theirs is None:
            there = ours or theirs
            assert there is not None
            found.append(Difference(name, there.kind, "there", ours is not None, theirs is not None))
            continue
        for each in FIELDS:
            mine, other = getattr(ours, each), getattr(theirs, each)
            if mine != other:
                found.append(Difference(name, ours.kind, each, mine, other))
    return found


def unexplained(differences: Iterable[Difference], engine: str) -> list[Difference]:
    """The differences that no row of `KNOWN` allows."""
    rows = [row for row in KNOWN if not row.engines or engine in row.engines]
    return [each for each in differences if not any(row.fits(each) for row in rows)]


def explained(differences: Iterable[Difference], engine: str) -> Mapping[str, int]:
    """The number of differences that each row of `KNOWN` allows, by its name. The first match counts."""
    counts: dict[str, int] = {}
    rows = [row for row in KNOWN if not row.engines or engine in row.engines]
    for each in differences:
        row = next((row for row in rows if row.fits(each)), None)
        if row is not None:
            counts[row.name] = counts.get(row.name, 0) + 1
    return counts


KNOWN: tuple[KnownDifference, ...] = (
    KnownDifference(
        "time of a directory",
        "the last thing that was put into it or taken out of it gave it the time of the build",
        lambda each: each.field == "time" and each.kind == "directory",
    ),
    KnownDifference(
        "time of a file",
        "--timestamp, without which no two builds are alike, gives all that is in a layer one time",
        lambda each: each.field == "time",
        ("podman", "buildah"),
    ),
    KnownDifference(
        "bytes of the linker's cache",
        "ldconfig shares the ends of strings and adds its version; the records are the same, see `meaning`",
        lambda each: each.field == "content" and each.path == _LINKER_CACHE.decode(),
    ),
    KnownDifference(
        "apt's directory of logs",
        "the embedded builder has apt of the building machine install packages, and it makes one",
        lambda each: each.field == "there" and each.path == "var/log/apt" and not each.engine,
    ),
)
"""Every difference that is left between an image of the embedded builder and the same of an engine."""


def _digests(reader: TarReader, entry: TarEntry) -> tuple[str, str]:
    """The digest of a file's content, and that of its meaning; empty for other entries."""
    if entry.kind is not EntryKind.FILE:
        return "", ""
    digest = hashlib.sha256()
    cache_content: list[bytes] | None = [] if entry.path == _LINKER_CACHE else None
    for chunk in reader.chunks():
        digest.update(chunk)
        if cache_content is not None:
            cache_content.append(chunk)
    content = digest.hexdigest()
    if cache_content is None:
        return content, content
    return content, hashlib.sha256(repr(ldcache.read(b"".join(cache_content))).encode()).hexdigest()


def _facts(entry: TarEntry, content: str, meaning: str) -> FileFacts:
    return FileFacts(
        entry.kind.value,
        entry.mode,
        (entry.uid, entry.gid),
        entry.link.decode("utf-8", "backslashreplace"),
        content,
        meaning,
        dict(entry.xattrs),
        entry.mtime_ns // 10**9,
    )


def _name_links(tree: Mapping[bytes, FileFacts]) -> None:
    names: dict[int, list[bytes]] = {}
    for path, facts in tree.items():
        names.setdefault(id(facts), []).append(path)
    for paths in names.values():
        if len(paths) > 1:
            tree[paths[0]].linked = tuple(sorted(paths))


def _show_value(value: Any) -> str:  # noqa: ANN401 - any value of a field
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple) and value and isinstance(value[0], bytes):
        return ", ".join(show(each) for each in value)
    return oct(value) if isinstance(value, int) and value < 0o10000 else str(value)
