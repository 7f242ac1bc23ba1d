"""The linker's cache: equal to ldconfig's for the same tree, read by ldconfig and used by ld.so."""

from __future__ import annotations

import functools
import itertools
import os
import platform
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandwright import process
from sandwright.image.ldcache import CachedLibrary, LibraryLink, directories, order, scan, write
from sandwright.image.tree import FileNode, FileTree
from sandwright.rootfs.elf import Elf, read_elf
from sandwright.rootfs.tar.entry import EntryKind
from support import elves
from support.elves import elf

X64 = b"usr/lib/x86_64-linux-gnu/"
CONFIGURATION = {
    b"etc/ld.so.conf": b"include /etc/ld.so.conf.d/*.conf\n",
    b"etc/ld.so.conf.d/libc.conf": b"# default\n/usr/local/lib\n",
    b"etc/ld.so.conf.d/more.conf": b"/opt/odd/  # trailing\n",
    b"etc/ld.so.conf.d/x86_64-linux-gnu.conf": b"/lib/x86_64-linux-gnu\n/usr/lib/x86_64-linux-gnu\n",
}


def scanned(content: bytes) -> Elf | None:
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.flush()
        return read_elf(file.fileno(), symbols=False)


def tree_of(files: Mapping[bytes, bytes | str]) -> tuple[FileTree, dict[bytes, Elf]]:
    """A tree and its ELF files. A text is the target of a link."""
    tree, found = FileTree(), {}
    for path, content in files.items():
        for up in range(1, path.count(b"/") + 1):
            above = b"/".join(path.split(b"/")[:up])
            tree.add(above, tree.get(above) or FileNode(EntryKind.DIRECTORY, "test", 0o755, 0, 0, 0))
        if isinstance(content, str):
            tree.add(path, FileNode(EntryKind.SYMLINK, "test", 0o777, 0, 0, 0, content.encode()))
            continue
        tree.add(path, FileNode(EntryKind.FILE, "test", 0o644, 0, 0, 0))
        known = scanned(content)
        if known is not None:
            found[path] = known
    return tree, found


def listed(
    files: Mapping[bytes, bytes | str], architecture: str = "amd64"
) -> tuple[list[CachedLibrary], list[LibraryLink]]:
    tree, found = tree_of(files)
    return scan(tree, found, directories(CONFIGURATION, architecture), architecture)


TREES: Mapping[str, Mapping[bytes, bytes | str]] = {
    "library and its link": {X64 + b"libz.so.1.2": elf("libz.so.1"), X64 + b"libz.so.1": "libz.so.1.2"},
    "link for developers": {
        X64 + b"libz.so.1.2": elf("libz.so.1"),
        X64 + b"libz.so.1": "libz.so.1.2",
        X64 + b"libz.so": "libz.so.1.2",
    },
    "link to the link": {
        X64 + b"libz.so.1.2": elf("libz.so.1"),
        X64 + b"libz.so.1": "libz.so.1.2",
        X64 + b"libz.so": "libz.so.1",
    },
    "no soname": {
        X64 + b"libplain.so.5": elf(),
        X64 + b"libplain.so": "libplain.so.5",
        X64 + b"libother.so.4": "libplain.so.5",
    },
    "soname without link": {X64 + b"liby.so.1.2": elf("liby.so.1")},
    "soname of another name": {X64 + b"libx.so.1": elf("libx.so.9")},
    "two versions, no link": {
        X64 + b"libw.so.1.9": elf("libw.so.1"),
        X64 + b"libw.so.1.10": elf("libw.so.1"),
    },
    "one name in two directories": {
        b"opt/odd/libz.so.1": elf("libz.so.1"),
        X64 + b"libz.so.1": elf("libz.so.1"),
    },
    "link into a subdirectory": {
        b"usr/lib/sub/libsub.so.1": elf("libsub.so.1"),
        b"usr/lib/libsub.so.1": "sub/libsub.so.1",
    },
    "absolute link to another name": {
        X64 + b"libz.so.1.2": elf("libz.so.1"),
        X64 + b"libz.so.1": "libz.so.1.2",
        X64 + b"libabs.so.7": "/usr/lib/x86_64-linux-gnu/libz.so.1.2",
    },
    "dangling": {X64 + b"libgone.so.1": "nowhere", X64 + b"liba.so.1": elf("liba.so.1")},
    "not a library's name": {X64 + b"plugin.so": elf("plugin.so"), X64 + b"liba.so.1": elf("liba.so.1")},
    "linker": {X64 + b"ld-linux-x86-64.so.2": elf("ld-linux-x86-64.so.2")},
    "text": {X64 + b"libtext.so": b"GROUP(libz.so)\n", X64 + b"liba.so.1": elf("liba.so.1")},
    "program": {X64 + b"libprog.so": elf(kind=elves.EXECUTABLE), X64 + b"liba.so.1": elf("liba.so.1")},
    "32 bits": {
        X64 + b"liba.so.1": elf("liba.so.1"),
        b"usr/lib/liba.so.1": elf("liba.so.1", machine=elves.I386, bits=32),
    },
    "numbers in order": {
        X64 + name.encode(): elf(name)
        for name in ("libn.so.1", "libn.so.2", "libn.so.10", "libn2.so.1", "libn10.so")
    },
}


@pytest.mark.needs("ldconfig")
@pytest.mark.skipif(
    platform.machine() != "x86_64", reason="ldconfig lists what its own architecture can load"
)
@pytest.mark.parametrize("files", TREES.values(), ids=list(TREES))
def test_same_as_ldconfig(tmp_path: Path, files: Mapping[bytes, bytes | str]) -> None:
    root = tmp_path / "root"
    for path, content in {**files, **CONFIGURATION}.items():
        place = root / os.fsdecode(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            place.symlink_to(content)
        else:
            place.write_bytes(content)
    root.joinpath("lib").symlink_to("usr/lib")
    before = links_below(root)
    process.run("ldconfig", "-r", root)
    libraries, links = listed({b"lib": "usr/lib", **files})
    ours = tmp_path / "cache"
    ours.write_bytes(write(libraries))
    assert shown(ours) == shown(root / "etc/ld.so.cache")
    made = {path: target for path, target in links_below(root).items() if before.get(path) != target}
    assert {os.fsdecode(link.path): os.fsdecode(link.target) for link in links} == made


def shown(cache: Path) -> list[str]:
    lines = process.run("ldconfig", "-p", "-C", cache).text.splitlines()
    assert "libs found in cache" in lines[0]
    return [lines[0].split()[0], *(line.strip() for line in lines[1:] if "=>" in line)]


def links_below(root: Path) -> dict[str, str]:
    found = (path for path in root.rglob("*") if path.is_symlink())
    return {str(path.relative_to(root)): str(path.readlink()) for path in found}


def test_written_down() -> None:
    """The bytes of a small cache, so that a change of the format is seen without ldconfig."""
    raw = write(
        [
            CachedLibrary(b"libb.so.1", b"/lib/libb.so.1", 0x303),
            CachedLibrary(b"liba.so.10", b"/lib/liba.so.10", 0x303),
        ]
    )
    strings = b"libb.so.1\0/lib/libb.so.1\0liba.so.10\0/lib/liba.so.10\0"
    assert raw == (
        b"glibc-ld.so.cache1.1" + bytes([2, 0, 0, 0, len(strings), 0, 0, 0, 2]) + bytes(19)
        + bytes([3, 3, 0, 0, 96, 0, 0, 0, 106, 0, 0, 0]) + bytes(12)
        + bytes([3, 3, 0, 0, 121, 0, 0, 0, 132, 0, 0, 0]) + bytes(12)
        + strings
    )  # fmt: skip


def test_architectures() -> None:
    files: dict[bytes, bytes | str] = {
        b"usr/lib/aarch64-linux-gnu/liba.so.1": elf("liba.so.1", machine=elves.AARCH64),
        b"usr/lib/aarch64-linux-gnu/libforeign.so.1": elf("libforeign.so.1", machine=elves.X86_64),
        b"lib": "usr/lib",
    }
    libraries, _ = listed(files, "arm64")
    assert libraries == [CachedLibrary(b"liba.so.1", b"/lib/aarch64-linux-gnu/liba.so.1", 0x0A03)]


@pytest.mark.needs("bwrap")
def test_the_real_linker_uses_it(tmp_path: Path) -> None:
    """A program gets a C library whose path only the cache contains."""
    libc = next(Path("/usr/lib").glob("*-linux-gnu/libc.so.6"))
    flags = {"x86_64": 0x0303, "aarch64": 0x0A03}[platform.machine()]
    cache = tmp_path / "ld.so.cache"

    def loaded(libraries: list[CachedLibrary]) -> str:
        cache.write_bytes(write(libraries))
        binds = ["--ro-bind", "/", "/", "--tmpfs", "/opt", "--ro-bind", str(libc), "/opt/odd/libc.so.6"]
        binds += ["--ro-bind", str(cache), "/etc/ld.so.cache", "--setenv", "LD_TRACE_LOADED_OBJECTS", "1"]
        return process.run("bwrap", *binds, "--", "/bin/true").text

    others = [
        CachedLibrary(f"lib{name}.so.{n}".encode(), b"/nowhere", flags) for name in "abxyz" for n in range(12)
    ]
    mine = CachedLibrary(b"libc.so.6", b"/opt/odd/libc.so.6", flags)
    assert "libc.so.6 => /opt/odd/libc.so.6" in loaded([*others, mine])
    assert "/opt/odd" not in loaded(others)


@pytest.mark.parametrize("architecture", ["amd64", "arm64"])
def test_directories(architecture: str) -> None:
    triplet = {"amd64": b"x86_64-linux-gnu", "arm64": b"aarch64-linux-gnu"}[architecture]
    configuration = {
        b"etc/ld.so.conf": b"include ld.so.conf.d/*.conf\n/last/\nrelative\n",
        b"etc/ld.so.conf.d/a.conf": b"/first\n\n# /comment\n",
        b"etc/ld.so.conf.d/b.conf": b"include /etc/ld.so.conf\n/second\n",
        b"etc/ld.so.conf.d/not.txt": b"/never\n",
    }
    found = directories(configuration, architecture)
    assert [each for each in found if each in (b"/first", b"/second", b"/last")] == [
        b"/first",
        b"/last",
        b"/second",
    ]
    assert found[-4:] == [b"/lib/" + triplet, b"/usr/lib/" + triplet, b"/lib", b"/usr/lib"]
    assert b"/never" not in found
    assert b"/comment" not in found


NAMES = st.lists(st.sampled_from(["a", "b", ".", "so", "1", "2", "9", "10", "09", "-"]), max_size=6)


@given(st.lists(NAMES.map(lambda words: "".join(words).encode()), min_size=3, max_size=3))
def test_order_is_an_order(names: list[bytes]) -> None:
    for one, other in itertools.permutations(names, 2):
        assert (order(one, other) > 0) == (order(other, one) < 0)
    low, middle, high = sorted(names, key=functools.cmp_to_key(order))
    assert order(low, middle) <= 0
    assert order(middle, high) <= 0
    assert order(low, high) <= 0


ORDERED = [b"", b"lib.so", b"liba.so", b"libb.so", b"libb.so.1", b"libb.so.2", b"libb.so.10", b"libb2.so"]


@pytest.mark.parametrize(("low", "high"), list(itertools.combinations(ORDERED, 2)))
def test_order_written_down(low: bytes, high: bytes) -> None:
    assert order(low, high) < 0 < order(high, low)
