"""Layers on top of each other: whiteouts, opaque directories, hard links; tables, a model, and umoci.

Tests of rootfs/unpacking/merge.py.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import random
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandwright import process
from sandwright.errors import ArchiveRefused
from sandwright.rootfs.tar.limits import ArchiveLimits
from sandwright.rootfs.tar.reader import CHUNK
from sandwright.rootfs.unpacking.unpack import ImageLayer, unpack
from support.tars import archive, file, folder, hardlink, layer, pax, stack, symlink, tree
from support.thorough import examples

ROOT = os.geteuid() == 0


def paths(root: Path) -> dict[str, object]:
    """A tree's paths: files with content, links with an arrow and the target, directories with a slash."""
    found: dict[str, object] = {}
    for name, (mode, _, _, what) in tree(root, times=False).items():
        if name == ".":
            continue
        kind = str(mode)[0]
        found[name + ("/" if kind == "d" else "")] = f"-> {what}" if kind == "l" else what
    return found


BASE = [
    folder(b"etc"),
    file(b"etc/a", b"lower a"),
    file(b"etc/b", b"lower b"),
    folder(b"etc/d"),
    file(b"etc/d/x", b"lower x"),
    folder(b"usr"),
    folder(b"usr/lib"),
    file(b"usr/lib/so", b"lower so"),
    symlink(b"lib", b"usr/lib"),
]
BELOW = {
    "etc/": None,
    "etc/a": b"lower a",
    "etc/b": b"lower b",
    "etc/d/": None,
    "etc/d/x": b"lower x",
    "usr/": None,
    "usr/lib/": None,
    "usr/lib/so": b"lower so",
    "lib": "-> usr/lib",
}


def but(*gone: str) -> dict[str, object]:
    return {path: what for path, what in BELOW.items() if path not in gone}


LAYERED: dict[str, tuple[list[bytes], dict[str, object]]] = {
    "a file is whited out": ([file(b"etc/.wh.a")], but("etc/a")),
    "a directory is whited out": ([file(b"etc/.wh.d")], but("etc/d/", "etc/d/x")),
    "a link is whited out, not what it leads to": ([file(b".wh.lib")], but("lib")),
    "through a link": ([file(b"lib/.wh.so")], but("usr/lib/so")),
    "a whiteout of nothing": ([file(b"etc/.wh.zzz"), file(b"no/where/.wh.x")], dict(BELOW)),
    "whiteout, then the file": ([file(b"etc/.wh.a"), file(b"etc/a", b"new")], {**BELOW, "etc/a": b"new"}),
    "the file, then its whiteout": ([file(b"etc/a", b"new"), file(b"etc/.wh.a")], {**BELOW, "etc/a": b"new"}),
    "whiteout, then a new directory": (
        [file(b"etc/.wh.d"), folder(b"etc/d"), file(b"etc/d/y", b"new")],
        {**but("etc/d/x"), "etc/d/y": b"new"},
    ),
    "a new directory, then its whiteout": (
        [folder(b"etc/d"), file(b"etc/d/y", b"new"), file(b"etc/.wh.d")],
        {**but("etc/d/x"), "etc/d/y": b"new"},
    ),
    "opaque, then a file": (
        [folder(b"etc"), file(b"etc/.wh..wh..opq"), file(b"etc/c", b"new")],
        {**but("etc/a", "etc/b", "etc/d/", "etc/d/x"), "etc/c": b"new"},
    ),
    "a file, then opaque": (
        [folder(b"etc"), file(b"etc/c", b"new"), file(b"etc/.wh..wh..opq")],
        {**but("etc/a", "etc/b", "etc/d/", "etc/d/x"), "etc/c": b"new"},
    ),
    "opaque keeps what the layer has of the same names": (
        [file(b"etc/a", b"new"), folder(b"etc/d"), file(b"etc/d/y", b"new"), file(b"etc/.wh..wh..opq")],
        {**but("etc/b", "etc/d/x"), "etc/a": b"new", "etc/d/y": b"new"},
    ),
    "the root is opaque": ([file(b"new", b"1"), file(b".wh..wh..opq")], {"new": b"1"}),
    "a whiteout inside what is whited out": (
        [file(b"etc/d/.wh.x"), file(b"etc/.wh.d")],
        but("etc/d/", "etc/d/x"),
    ),
    "a file in the place of a directory": (
        [file(b"etc/d", b"new")],
        {**but("etc/d/", "etc/d/x"), "etc/d": b"new"},
    ),
    "a directory in the place of a file": ([folder(b"etc/a")], {**but("etc/a"), "etc/a/": None}),
    "a link in the place of a directory": (
        [symlink(b"etc/d", b"/usr")],
        {**but("etc/d/", "etc/d/x"), "etc/d": "-> /usr"},
    ),
    "a directory in the place of a link": (
        [folder(b"lib"), file(b"lib/new", b"1")],
        {**but("lib"), "lib/": None, "lib/new": b"1"},
    ),
    "a file through a link": ([file(b"lib/new", b"1")], {**BELOW, "usr/lib/new": b"1"}),
    "a file in the place of one through a link": ([file(b"lib/so", b"new")], {**BELOW, "usr/lib/so": b"new"}),
    "an opaque directory in the place of a link": (
        [file(b"lib/.wh..wh..opq"), folder(b"lib"), file(b"lib/new", b"1")],
        {**but("lib"), "lib/": None, "lib/new": b"1"},
    ),
    "a whiteout below a directory in the place of a link": (
        [file(b"lib/.wh.so"), folder(b"lib")],
        {**but("lib"), "lib/": None},
    ),
    "a link that is whited out and used in one layer, the file first": (
        [file(b"lib/new", b"1"), file(b".wh.lib")],
        {**but("lib"), "lib/": None, "lib/new": b"1"},
    ),
    "a link that is whited out and used in one layer, the whiteout first": (
        [file(b".wh.lib"), file(b"lib/new", b"1")],
        {**but("lib"), "lib/": None, "lib/new": b"1"},
    ),
    "a dangling link is followed inside": (
        [symlink(b"var", b"/data/var"), file(b"var/x", b"1")],
        {**BELOW, "var": "-> /data/var", "data/": None, "data/var/": None, "data/var/x": b"1"},
    ),
    "a link out of the root stays inside": (
        [symlink(b"up", b"../../../../etc"), file(b"up/c", b"1")],
        {**BELOW, "up": "-> ../../../../etc", "etc/c": b"1"},
    ),
    "links in the way of links": (
        [symlink(b"one", b"two"), symlink(b"two", b"./usr/../etc/d/."), file(b"one/y", b"1")],
        {**BELOW, "one": "-> two", "two": "-> ./usr/../etc/d/.", "etc/d/y": b"1"},
    ),
    "a member twice: the last one counts": (
        [file(b"etc/a", b"1"), file(b"etc/a", b"2")],
        {**BELOW, "etc/a": b"2"},
    ),
    "a hard link to a lower file": ([hardlink(b"etc/c", b"etc/a")], {**BELOW, "etc/c": b"lower a"}),
    "a hard link through a link": ([hardlink(b"etc/c", b"lib/so")], {**BELOW, "etc/c": b"lower so"}),
    "a hard link to a link": ([hardlink(b"etc/c", b"lib")], {**BELOW, "etc/c": "-> usr/lib"}),
    "a hard link in the place of a directory": (
        [hardlink(b"etc/d", b"etc/a")],
        {**but("etc/d/", "etc/d/x"), "etc/d": b"lower a"},
    ),
    "a hard link to a rooted name": ([hardlink(b"etc/c", b"/etc/a")], {**BELOW, "etc/c": b"lower a"}),
    "a hard link from above the root": (
        [hardlink(b"etc/c", b"../../../../../etc/a"), hardlink(b"etc/e", b"/.././../etc/a")],
        {**BELOW, "etc/c": b"lower a", "etc/e": b"lower a"},
    ),
    "a hard link from above the root through a link": (
        [symlink(b"etc/up", b"../../../lib"), hardlink(b"etc/c", b"../etc/up/so")],
        {**BELOW, "etc/up": "-> ../../../lib", "etc/c": b"lower so"},
    ),
    "below a name that only begins as a whiteout does": (
        [file(b".wh.etc/some", b"1")],
        {**BELOW, ".wh.etc/": None, ".wh.etc/some": b"1"},
    ),
    "a whiteout and a directory of its name": (
        [file(b".wh.usr"), file(b".wh.usr/.wh.b"), file(b".wh.usr/c", b"1")],
        {
            **{path: what for path, what in BELOW.items() if path.partition("/")[0] != "usr"},
            ".wh.usr/": None,
            ".wh.usr/c": b"1",
        },
    ),
    "a path twice in a PAX header": (
        [pax(b"14 path=etc/b\n14 path=etc/c\n") + file(b"x", b"1")],
        {**BELOW, "etc/c": b"1"},
    ),
    "a hard link to what has its name already": (
        [hardlink(b"etc/c", b"etc/a"), hardlink(b"etc/c", b"etc/a")],
        {**BELOW, "etc/c": b"lower a"},
    ),
}


@pytest.mark.parametrize(("upper", "expected"), LAYERED.values(), ids=LAYERED.keys())
def test_two_layers(upper: list[bytes], expected: dict[str, object], tmp_path: Path) -> None:
    unpack(stack(BASE, upper), tmp_path / "rootfs")
    assert paths(tmp_path / "rootfs") == dict(sorted(expected.items()))


NAMELESS = {
    "empty": (b"etc/.wh.", "'etc/.wh.': it is a whiteout of nothing that a directory can hold"),
    "dot": (b"etc/.wh..", "'etc/.wh..': it is a whiteout of nothing that a directory can hold"),
    "dot dot": (b"etc/.wh...", "'etc/.wh...': it is a whiteout of nothing that a directory can hold"),
    "AUFS": (b".wh..wh.plnk", "'.wh..wh.plnk': it is metadata of AUFS"),
    "AUFS inside": (
        b".wh..wh.plnk/1.2",
        "'.wh..wh.plnk/1.2': it lies below '.wh..wh.plnk', which is metadata of AUFS",
    ),
}


@pytest.mark.parametrize("lower", [0, 1], ids=["in the lowest layer", "above another"])
@pytest.mark.parametrize(("name", "message"), NAMELESS.values(), ids=NAMELESS.keys())
def test_whiteouts_of_nothing_are_refused(name: bytes, message: str, lower: int, tmp_path: Path) -> None:
    layers = stack(*[BASE] * lower, [file(name)])
    with pytest.raises(ArchiveRefused) as refused:
        unpack(layers, tmp_path / "rootfs")
    assert str(refused.value) == f"layer {layers[-1].digest}: {message}"
    assert list(tmp_path.iterdir()) == []


UNLINKABLE = {
    "nothing": ([hardlink(b"c", b"none")], "'c': it is a hard link to 'none', which is not there"),
    "nothing, in no directory": (
        [hardlink(b"c", b"no/ne")],
        "'c': it is a hard link to 'no/ne', which is not there",
    ),
    "a directory": ([hardlink(b"c", b"etc")], "'c': it is a hard link to 'etc', a directory"),
    "what comes later": (
        [hardlink(b"c", b"d"), file(b"d")],
        "'c': it is a hard link to 'd', which is not there",
    ),
    "what the layer takes away": (
        [file(b"etc/.wh.a"), hardlink(b"c", b"etc/a")],
        "'c': it is a hard link to 'etc/a', which is not there",
    ),
    "what it takes away later": (
        [hardlink(b"c", b"etc/a"), file(b"etc/.wh.a")],
        "'c': it is a hard link to 'etc/a', which is not there",
    ),
    "what lies in what it replaces": (
        [hardlink(b"etc", b"etc/a")],
        "'etc': it is a hard link to 'etc/a', and takes the place of a directory of that path",
    ),
}


@pytest.mark.parametrize(("upper", "message"), UNLINKABLE.values(), ids=UNLINKABLE.keys())
def test_hard_links_that_are_refused(upper: list[bytes], message: str, tmp_path: Path) -> None:
    layers = stack(BASE, upper)
    with pytest.raises(ArchiveRefused) as refused:
        unpack(layers, tmp_path / "rootfs")
    assert str(refused.value) == f"layer {layers[-1].digest}: {message}"


def test_hard_links_are_one_file_until_one_name_is_replaced(tmp_path: Path) -> None:
    root = tmp_path / "rootfs"
    unpack(stack([file(b"a", b"1"), hardlink(b"b", b"a")], [hardlink(b"c", b"b")], [file(b"a", b"2")]), root)
    assert (root / "b").samefile(root / "c")
    assert not (root / "a").samefile(root / "b")
    assert [(root / name).read_bytes() for name in "abc"] == [b"2", b"1", b"1"]


def test_a_hard_link_outlives_its_target(tmp_path: Path) -> None:
    root = tmp_path / "rootfs"
    unpack(stack([file(b"a", b"1"), hardlink(b"b", b"a")], [file(b".wh.a")]), root)
    assert paths(root) == {"b": b"1"}
    assert (root / "b").stat().st_nlink == 1


def test_a_hard_link_keeps_its_files_owner_and_mode(tmp_path: Path) -> None:
    root = tmp_path / "rootfs"
    unpack(stack([file(b"a", b"1", mode=0o600)], [hardlink(b"b", b"a", mode=0o4777)]), root)
    assert stat.S_IMODE((root / "a").stat().st_mode) == 0o600


def test_a_directory_that_comes_again_gets_the_new_mode_and_time_and_keeps_what_it_holds(
    tmp_path: Path,
) -> None:
    root = tmp_path / "rootfs"
    unpack(
        stack([folder(b"d", 0o700, mtime=5), file(b"d/x")], [folder(b"d", 0o1777, mtime=9), file(b"d/y")]),
        root,
    )
    status = (root / "d").stat()
    assert (stat.S_IMODE(status.st_mode), status.st_mtime) == (0o1777, 9)
    assert sorted(path.name for path in (root / "d").iterdir()) == ["x", "y"]


def test_a_directory_keeps_its_time_when_an_upper_layer_changes_what_it_holds(tmp_path: Path) -> None:
    root = tmp_path / "rootfs"
    many = [folder(b"d%03d" % number, mtime=number) for number in range(400)]
    unpack(
        stack(
            [folder(b"d", mtime=5), file(b"d/x"), *many], [file(b"d/y"), file(b"d/.wh.x"), file(b"d399/z")]
        ),
        root,
    )
    assert (root / "d").stat().st_mtime == 5
    assert [(root / f"d{number:03}").stat().st_mtime for number in range(400)] == list(range(400))


def test_a_directory_that_is_whited_out_and_implied_again_is_new(tmp_path: Path) -> None:
    root = tmp_path / "rootfs"
    unpack(stack([folder(b"d", 0o700, mtime=5), file(b"d/x")], [file(b"d/y"), file(b".wh.d")]), root)
    status = (root / "d").stat()
    assert (stat.S_IMODE(status.st_mode), status.st_mtime) == (0o755, 0)
    assert [path.name for path in (root / "d").iterdir()] == ["y"]


def test_what_takes_nothing_away_is_told(tmp_path: Path) -> None:
    report = unpack(stack([file(b".wh.x")], [file(b"a/.wh.y"), file(b"b/.wh..wh..opq")]), tmp_path / "rootfs")
    assert report.contained.as_dict() == {
        "whiteout of something that is not there": {"count": 3, "examples": [".wh.x", "b", "a/y"]}
    }


def test_the_word_of_a_whiteout_in_content_is_only_content(tmp_path: Path) -> None:
    """The scan for `.wh.` finds it, and the members show that it is no whiteout."""
    unpack(stack([file(b"a", b"1")], [file(b"b", b".wh.a"), file(b"x.wh.a", b"2")]), tmp_path / "rootfs")
    assert paths(tmp_path / "rootfs") == {"a": b"1", "b": b".wh.a", "x.wh.a": b"2"}


LOST = {"links that loop": b"x", "a name that is too long": b"n" * 300, "a dangling link": b"/no/where"}


@pytest.mark.parametrize(
    "name", [b"d%d/.wh.x", b"d%d/.wh..wh..opq", b"d%d/"], ids=["whiteouts", "opaque", "directories"]
)
def test_names_to_be_remembered_are_bounded(name: bytes, tmp_path: Path) -> None:
    """Otherwise a layer of a few megabytes could use all of the memory."""
    members = [file(b"a/.wh.a"), *((folder if name.endswith(b"/") else file)(name % n) for n in range(100))]
    layers = stack([file(b"a")], members)
    unpack(layers, tmp_path / "whole", limits=ArchiveLimits(names=30_000))
    with pytest.raises(
        ArchiveRefused, match=r"'d7[0-9].*': names that take 20000 bytes were to be remembered"
    ):
        unpack(layers, tmp_path / "refused", limits=ArchiveLimits(names=20_000))
    assert not (tmp_path / "refused").exists()


@pytest.mark.parametrize("target", LOST.values(), ids=LOST.keys())
def test_a_whiteout_behind_a_link_that_leads_nowhere_takes_nothing(target: bytes, tmp_path: Path) -> None:
    layers = stack([symlink(b"x", target), file(b"a")], [file(b"x/.wh.a"), file(b"x/.wh..wh..opq")])
    report = unpack(layers, tmp_path / "rootfs")
    assert paths(tmp_path / "rootfs") == {"a": b"", "x": f"-> {target.decode()}"}
    assert report.contained["whiteout of something that is not there"].count == 2


@pytest.mark.parametrize("shift", range(4))
def test_a_whiteout_is_found_wherever_pieces_end(shift: int, tmp_path: Path) -> None:
    """The name lies across the boundary of two reads."""
    size = CHUNK - 512 - 512 - (2 + shift)
    upper = archive(file(b"big", bytes(size)))[: 512 + size]
    raw = upper + bytes(-len(upper) % 512) + file(b"etc/.wh.a")
    unpack([layer(archive(*BASE)), layer(raw, "plain")], tmp_path / "rootfs")
    assert not (tmp_path / "rootfs" / "etc" / "a").exists()


# A model of the meaning of layers, in memory, and random stacks.


class Refused(Exception):
    """The model refuses this stack."""


@dataclass(eq=False)
class Node:
    kind: str
    mode: int = 0o755
    time: int = 0
    what: bytes = b""
    names: dict[str, Node] = field(default_factory=dict)


@dataclass(frozen=True)
class Member:
    """A member that the strategies draw. `kind` is file, folder, symlink, hardlink or whiteout."""

    kind: str
    path: str
    what: str = ""
    mode: int = 0o644
    time: int = 1

    def raw(self) -> bytes:
        name, what = self.path.encode(), self.what.encode()
        match self.kind:
            case "file":
                return file(name, what, mode=self.mode, mtime=self.time)
            case "folder":
                return folder(name, self.mode, mtime=self.time)
            case "symlink":
                return symlink(name, what, mtime=self.time)
            case "hardlink":
                return hardlink(name, what, mtime=self.time)
            case _:
                above, _, base = self.path.rpartition("/")
                return file(f"{above}/.wh.{base}".lstrip("/").encode())


class Model:
    """A root file system in memory, to which layers are applied as in the image specification."""

    def __init__(self) -> None:
        self.root = Node("folder")

    def put(self, members: Sequence[Member], *, lowest: bool) -> None:
        own = {member.path for member in members if member.kind == "folder"}
        taken = sorted(
            (member.path for member in members if member.kind == "whiteout" and not lowest),
            key=lambda path: (path.count("/") - path.endswith("/.wh..opq"), path),
        )
        for path in taken:
            self.take(path, own)
        for member in members:
            if member.kind != "whiteout":
                self.add(member)

    def take(self, path: str, own: set[str]) -> None:
        above, _, base = path.rpartition("/")
        if any(prefix in own and self.is_link(prefix) for prefix in prefixes(above)):
            return
        node = self.walk(above, make=False)
        if node is None:
            return
        if base == ".wh..opq":
            node.names.clear()
        else:
            node.names.pop(base, None)

    def add(self, member: Member) -> None:
        above, _, base = member.path.rpartition("/")
        node = Node(member.kind, member.mode, member.time, member.what.encode())
        if member.kind == "hardlink":
            found = self.find(member.what)
            if found is None or found.kind == "folder":
                raise Refused
            node = found
        parent = self.walk(above, make=True)
        assert parent is not None
        there = parent.names.get(base)
        if (
            member.kind == "hardlink"
            and there is not None
            and there is not node
            and self.holds(there, member.what)
        ):
            raise Refused
        if member.kind == "folder" and there is not None and there.kind == "folder":
            there.mode, there.time = member.mode, member.time
        else:
            parent.names[base] = node

    def holds(self, node: Node, path: str) -> bool:
        """Whether the directory of a hard link's target is `node` or below it."""
        above = self.walk(path.rpartition("/")[0], make=False)
        return any(inside is above for inside in below(node))

    def find(self, path: str) -> Node | None:
        above, _, base = path.rpartition("/")
        parent = self.walk(above, make=False)
        return None if parent is None else parent.names.get(base)

    def is_link(self, path: str) -> bool:
        node = self.find(path)
        return node is not None and node.kind == "symlink"

    def walk(self, path: str, *, make: bool) -> Node | None:
        way, todo, links = [self.root], path.split("/"), 0
        while todo:
            name = todo.pop(0)
            if name in ("", "."):
                continue
            if name == "..":
                way = way[:-1] or [self.root]
                continue
            if name not in way[-1].names:
                if not make:
                    return None
                way[-1].names[name] = Node("folder")
            node = way[-1].names[name]
            if node.kind == "folder":
                way.append(node)
            elif node.kind == "symlink":
                links += 1
                if links > 40 and make:
                    raise Refused
                if links > 40:
                    return None
                if node.what.startswith(b"/"):
                    way = [self.root]
                todo = node.what.decode().split("/") + todo
            elif make:
                raise Refused
            else:
                return None
        return way[-1]


def prefixes(path: str) -> Iterable[str]:
    return itertools.accumulate(path.split("/"), "{}/{}".format) if path else []


def below(node: Node) -> Iterator[Node]:
    yield node
    for child in node.names.values():
        yield from below(child)


def modelled(node: Node, path: str = "") -> Iterator[tuple[str, tuple[object, ...]]]:
    match node.kind:
        case "folder":
            yield path or ".", ("d", node.mode, node.time)
            for name, child in node.names.items():
                yield from modelled(child, f"{path}/{name}".lstrip("/"))
        case "symlink":
            yield path, ("l", node.time, node.what.decode())
        case _:
            yield path, ("-", node.mode, node.time, node.what)


def on_disk(root: Path) -> Iterator[tuple[str, tuple[object, ...]]]:
    for path in [root, *root.rglob("*")]:
        status = path.lstat()
        name, mode, time = str(path.relative_to(root)), stat.S_IMODE(status.st_mode), int(status.st_mtime)
        if path.is_symlink():
            yield name, ("l", time, str(path.readlink()))
        elif path.is_dir():
            yield name, ("d", mode, time)
        else:
            yield name, ("-", mode, time, path.read_bytes())


def same_files(root: Path) -> set[frozenset[str]]:
    groups: dict[int, set[str]] = {}
    for path in root.rglob("*"):
        if path.is_symlink() or not path.is_dir():
            groups.setdefault(path.lstat().st_ino, set()).add(str(path.relative_to(root)))
    return {frozenset(names) for names in groups.values()}


def modelled_files(root: Node) -> set[frozenset[str]]:
    groups: dict[int, set[str]] = {}

    def visit(node: Node, path: str) -> None:
        for name, child in node.names.items():
            inside = f"{path}/{name}".lstrip("/")
            if child.kind == "folder":
                visit(child, inside)
            else:
                groups.setdefault(id(child), set()).add(inside)

    visit(root, "")
    return {frozenset(names) for names in groups.values()}


NAMES = st.sampled_from(["a", "b", "c"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
TARGETS = st.one_of(
    PATHS, PATHS.map("/{}".format), PATHS.map("../{}".format), st.sampled_from([".", "..", "/", "a/../b"])
)
TIMES = st.integers(1, 5)
MEMBERS = st.one_of(
    st.builds(
        Member,
        st.just("file"),
        PATHS,
        st.sampled_from(["1", "2", "3"]),
        st.sampled_from([0o644, 0o4755]),
        TIMES,
    ),
    st.builds(Member, st.just("folder"), PATHS, st.just(""), st.sampled_from([0o755, 0o1777, 0o700]), TIMES),
    st.builds(Member, st.just("symlink"), PATHS, TARGETS, st.just(0o777), TIMES),
    st.builds(Member, st.just("hardlink"), PATHS, PATHS).filter(lambda member: member.path != member.what),
    st.builds(Member, st.just("whiteout"), PATHS),
    st.builds(Member, st.just("whiteout"), st.one_of(st.just(".wh..opq"), PATHS.map("{}/.wh..opq".format))),
)


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(st.lists(MEMBERS, max_size=8), min_size=1, max_size=4))
def test_random_stacks_are_what_the_model_says(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[list[Member]]
) -> None:
    model: Model | None = Model()
    assert model is not None
    try:
        for number, members in enumerate(drawn):
            model.put(members, lowest=number == 0)
    except Refused:
        model = None
    root = tmp_path_factory.mktemp("stack") / "rootfs"
    layers = stack(*[[member.raw() for member in members] for members in drawn])
    if model is None:
        with pytest.raises(ArchiveRefused):
            unpack(layers, root)
        assert list(root.parent.iterdir()) == []
        return
    unpack(layers, root)
    assert dict(on_disk(root)) == dict(modelled(model.root))
    assert same_files(root) == modelled_files(model.root)


# umoci, on stacks as real tools make them.


def plausible(source: random.Random, layers: int) -> list[list[Member]]:
    """Layers as builders write them: sorted, whiteouts for existing files, parents before their children."""
    known: set[str] = set()
    drawn = []
    for _ in range(layers):
        members: dict[str, Member] = {}
        for _ in range(source.randrange(1, 14)):
            path = "/".join(source.choices("abcde", k=source.randrange(1, 4)))
            if any(prefix in members and members[prefix].kind != "folder" for prefix in prefixes(path)):
                continue
            if any(other.startswith(f"{path}/") for other in members):
                continue
            for prefix in list(prefixes(path))[:-1]:
                members[prefix] = Member("folder", prefix, "", 0o755, source.randrange(1, 99))
            kind = source.choice(["file", "file", "symlink", "folder", "whiteout"])
            if kind == "whiteout" and path not in known:
                kind = "file"
            members[path] = Member(
                kind,
                path,
                source.choice("xyz"),
                0o755 if kind == "folder" else 0o640,
                source.randrange(1, 99),
            )
        for path, member in members.items():
            known.discard(path) if member.kind == "whiteout" else known.add(path)
        drawn.append([members[path] for path in sorted(members, key=lambda path: (path.count("/"), path))])
    return drawn


def image(folder_: Path, layers: Sequence[ImageLayer]) -> None:
    """An OCI layout of the layers, called `it`."""
    blobs = folder_ / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def put(raw: bytes, kind: str) -> dict[str, Any]:
        digest = hashlib.sha256(raw).hexdigest()
        (blobs / digest).write_bytes(raw)
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(raw)}

    descriptors = [put(one.open().read(), one.media_type) for one in layers]
    rootfs = {"type": "layers", "diff_ids": [one.diff_id for one in layers]}
    config = {"architecture": "amd64", "os": "linux", "rootfs": rootfs}
    manifest = {
        "schemaVersion": 2,
        "config": put(json.dumps(config).encode(), "application/vnd.oci.image.config.v1+json"),
        "layers": descriptors,
    }
    top = put(json.dumps(manifest).encode(), "application/vnd.oci.image.manifest.v1+json")
    top["annotations"] = {"org.opencontainers.image.ref.name": "it"}
    (folder_ / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [top]}))
    (folder_ / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')


@pytest.mark.needs("umoci")
@pytest.mark.parametrize("seed", range(12))
def test_umoci_unpacks_the_same(seed: int, tmp_path: Path) -> None:
    layers = stack(*[[m.raw() for m in members] for members in plausible(random.Random(seed), 1 + seed % 4)])
    image(tmp_path / "image", layers)
    rootless = [] if ROOT else ["--rootless"]
    process.run("umoci", "raw", "unpack", *rootless, "--image", f"{tmp_path}/image:it", tmp_path / "theirs")
    unpack(layers, tmp_path / "ours")
    theirs, ours = dict(on_disk(tmp_path / "theirs")), dict(on_disk(tmp_path / "ours"))
    del theirs["."], ours["."]  # no member is the root
    assert ours == theirs
    assert same_files(tmp_path / "ours") == same_files(tmp_path / "theirs")
