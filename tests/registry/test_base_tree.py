"""A stranger's layers together: the build sees the same tree as unpacking makes."""

from __future__ import annotations

import gzip
import hashlib
import os
from pathlib import Path
from threading import Event

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandwright.errors import ArchiveRefused, IntegrityError, SandwrightError
from sandwright.image.cache import Cache
from sandwright.image.derived import read_tree
from sandwright.image.existing import PlatformImage
from sandwright.image.layout import Blob
from sandwright.image.registrybase import RegistryImage
from sandwright.image.tree import FileTree
from sandwright.rootfs.unpacking.unpack import unpack
from support import tars
from support.thorough import examples

PASSWD = b"etc/passwd"


def tree_of(root: Path, layers: list[bytes], *, lie: bool = False) -> FileTree:
    cache = Cache(root)
    blobs, diff_ids = [], []
    for raw in layers:
        packed = gzip.compress(raw, 1, mtime=0)
        digest = hashlib.sha256(packed).hexdigest()
        with cache.adding(digest) as sink:
            sink.write(packed)
        blobs.append(Blob(f"sha256:{digest}", len(packed)))
        diff_ids.append(f"sha256:{hashlib.sha256(raw + (b'x' if lie else b'')).hexdigest()}")
    blob = Blob("sha256:" + "0" * 64, 0)
    held = PlatformImage("linux/amd64", blob, blob, tuple(blobs), tuple(diff_ids), (), ("",) * len(blobs))
    base = RegistryImage("base", blob, {"linux/amd64": held}, {}, cache)
    return read_tree(base, held, lambda path: path == PASSWD, Event())


def paths(tree: FileTree) -> dict[str, str]:
    """Path → kind, for every entry except the root."""
    return {path.decode(): node.kind.value for path, node in tree.nodes.items() if path}


F, D, L = "file", "directory", "symbolic link"
TREES: dict[str, tuple[list[list[bytes]], dict[str, str]]] = {
    "one layer": ([[tars.folder(b"a"), tars.file(b"a/b")]], {"a": D, "a/b": F}),
    "parents that nobody names": ([[tars.file(b"a/b/c")]], {"a": D, "a/b": D, "a/b/c": F}),
    "a file is taken away": (
        [[tars.folder(b"a"), tars.file(b"a/b"), tars.file(b"a/c")], [tars.file(b"a/.wh.b")]],
        {"a": D, "a/c": F},
    ),
    "a directory is taken away with what is in it": (
        [[tars.file(b"a/b/c"), tars.file(b"d")], [tars.file(b".wh.a")]],
        {"d": F},
    ),
    "a directory is emptied": (
        [[tars.file(b"a/b/c"), tars.file(b"a/d")], [tars.file(b"a/e"), tars.file(b"a/.wh..wh..opq")]],
        {"a": D, "a/e": F},
    ),
    "what a layer brings it doesn't take away": (
        [[tars.file(b"a")], [tars.file(b"a", b"new"), tars.file(b".wh.a")]],
        {"a": F},
    ),
    "a file in the place of a directory": ([[tars.file(b"a/b")], [tars.file(b"a")]], {"a": F}),
    "a directory in the place of a file": (
        [[tars.file(b"a")], [tars.folder(b"a"), tars.file(b"a/b")]],
        {"a": D, "a/b": F},
    ),
    "a file behind a link of a lower layer": (
        [
            [tars.folder(b"usr"), tars.folder(b"usr/lib"), tars.symlink(b"lib", b"usr/lib")],
            [tars.file(b"lib/x")],
        ],
        {"usr": D, "usr/lib": D, "lib": L, "usr/lib/x": F},
    ),
    "a directory in the place of a link": (
        [
            [tars.folder(b"usr"), tars.folder(b"usr/lib"), tars.symlink(b"lib", b"usr/lib")],
            [tars.folder(b"lib"), tars.file(b"lib/x")],
        ],
        {"usr": D, "usr/lib": D, "lib": D, "lib/x": F},
    ),
    "behind a link a file is taken away": (
        [
            [tars.file(b"usr/lib/x"), tars.symlink(b"lib", b"usr/lib")],
            [tars.file(b"lib/.wh.x")],
        ],
        {"usr": D, "usr/lib": D, "lib": L},
    ),
}


def archived(layers: list[list[bytes]]) -> list[bytes]:
    return [tars.archive(*members) for members in layers]


@pytest.mark.parametrize("name", TREES)
def test_trees(tmp_path: Path, name: str) -> None:
    layers, expected = TREES[name]
    assert paths(tree_of(tmp_path / "cache", archived(layers))) == expected


@pytest.mark.skipif(os.geteuid() != 0, reason="unpacking with owners needs root")
@pytest.mark.parametrize("name", TREES)
def test_unpacking_makes_the_same(tmp_path: Path, name: str) -> None:
    layers, expected = TREES[name]
    assert unpacked(tmp_path / "root", archived(layers)) == expected


def unpacked(root: Path, layers: list[bytes]) -> dict[str, str]:
    unpack([tars.layer(each) for each in layers], root)
    found = {}
    for path in root.rglob("*"):
        kind = L if path.is_symlink() else D if path.is_dir() else F
        found[str(path.relative_to(root))] = kind
    return found


def test_contents_follow(tmp_path: Path) -> None:
    layers = [[tars.file(PASSWD, b"one")], [tars.file(PASSWD, b"two")]]
    assert tree_of(tmp_path / "a", archived(layers)).content(PASSWD) == b"two"
    layers.append([tars.file(b"etc/.wh.passwd")])
    assert tree_of(tmp_path / "b", archived(layers)).content(PASSWD) is None


def test_a_layer_that_is_not_what_the_config_says(tmp_path: Path) -> None:
    with pytest.raises(IntegrityError, match=r"base, layer 1 of 1: its digest is .* was promised"):
        tree_of(tmp_path, [tars.archive(tars.file(b"a"))], lie=True)


REFUSED = {
    "a name that climbs": tars.file(b"../a"),
    "a whiteout of nothing": tars.file(b".wh."),
    "metadata of AUFS": tars.file(b".wh..wh.plnk"),
    "accounts without an end": tars.file(PASSWD, b"x" * ((8 << 20) + 1)),
}


@pytest.mark.parametrize("member", REFUSED.values(), ids=REFUSED)
def test_members_that_are_refused(tmp_path: Path, member: bytes) -> None:
    with pytest.raises(ArchiveRefused, match="base, layer 1 of 1"):
        tree_of(tmp_path, [tars.archive(member)])


NAMES = st.sampled_from([b"a", b"a/b", b"a/b/c", b"d", b"d/b"])
MEMBERS = st.one_of(
    NAMES.map(lambda name: tars.file(name, b"x")),
    NAMES.map(tars.folder),
    NAMES.map(lambda name: tars.file(name.rpartition(b"/")[0] + b"/.wh." + name.rpartition(b"/")[2])),
    NAMES.map(lambda name: tars.file(name + b"/.wh..wh..opq")),
)


@pytest.mark.skipif(os.geteuid() != 0, reason="unpacking with owners needs root")
@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(layers=st.lists(st.lists(MEMBERS, max_size=4), min_size=1, max_size=3))
def test_any_layers(tmp_path_factory: pytest.TempPathFactory, layers: list[list[bytes]]) -> None:
    """For each stack of layers that unpacking accepts, the build sees the same tree."""
    place = tmp_path_factory.mktemp("any")
    stack = archived(layers)
    try:
        expected = unpacked(place / "root", stack)
    except SandwrightError:
        return
    assert paths(tree_of(place / "cache", stack)) == expected
