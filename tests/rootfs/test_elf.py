"""ELF headers of programs and libraries, the loaders' search, and files with false headers."""

from __future__ import annotations

import os
import struct
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from elftools.elf.segments import InterpSegment
from hypothesis import given, settings
from hypothesis import strategies as st

from sandwright import process
from sandwright.errors import ArchiveRefused, BuildError
from sandwright.rootfs.elf import WATCHED, Dlopen, Elf, Malformed, read_elf
from sandwright.rootfs.minimal.ldso import DynamicLoader, LoadedObject
from sandwright.rootfs.minimal.linking import link
from sandwright.rootfs.minimal.packages import PackageDatabase
from sandwright.rootfs.securejoin import Root
from sandwright.rootfs.tar.limits import ArchiveLimits
from support import elffiles
from support.elffiles import (
    AUDIT,
    AUXILIARY,
    DEPAUDIT,
    FILTER,
    FLAGS_1,
    NEEDED,
    RPATH,
    RUNPATH,
    SONAME,
    Machine,
)
from support.thorough import examples

MACHINES = [
    Machine(elffiles.X86_64),
    Machine(elffiles.AARCH64),
    Machine(elffiles.I386, 32),
    Machine(elffiles.S390, 64, ">"),
    Machine(8, 32, ">"),
]


def read(raw: bytes, tmp_path: Path) -> Elf | None:
    path = tmp_path / "file"
    path.write_bytes(raw)
    fd = os.open(path, os.O_RDONLY)
    try:
        return read_elf(fd)
    finally:
        os.close(fd)


# Valid files.


@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_everything_about_a_file(machine: Machine, tmp_path: Path) -> None:
    raw = elffiles.elf(
        machine=machine,
        interpreter=b"/lib/ld.so",
        texts=[
            (NEEDED, b"libb.so.2"),
            (NEEDED, b"liba.so.1"),
            (SONAME, b"libme.so.0"),
            (RPATH, b"/r:$ORIGIN/../lib"),
            (RUNPATH, b"/one::/two"),
            (FILTER, b"libfilter.so"),
            (AUXILIARY, b"libmaybe.so"),
            (AUDIT, b"liba1.so:liba2.so"),
            (DEPAUDIT, b"libdep.so"),
        ],
        values=[(FLAGS_1, 0x800)],
        imports=[b"printf", b"dlopen", b"getaddrinfo"],
        exports=[b"iconv_open"],
    )
    assert read(raw, tmp_path) == Elf(
        target=(machine.bits, 1 if machine.order == "<" else 2, machine.number),
        interpreter=b"/lib/ld.so",
        needed=(b"libb.so.2", b"liba.so.1", b"libfilter.so", b"liba1.so", b"liba2.so", b"libdep.so"),
        optional=(b"libmaybe.so",),
        soname=b"libme.so.0",
        rpath=(b"/r", b"$ORIGIN/../lib"),
        runpath=(b"/one", b"/two"),
        default_directories=False,
        imports=frozenset({b"dlopen", b"getaddrinfo"}),
    )


def test_file_that_is_linked_statically(tmp_path: Path) -> None:
    assert read(elffiles.elf(dynamic=False), tmp_path) == Elf(target=(64, 1, elffiles.X86_64))


@pytest.mark.parametrize("raw", [b"", b"#!/bin/sh\n", b"\x7fEL", b"MZ" * 50])
def test_file_that_is_something_else(raw: bytes, tmp_path: Path) -> None:
    assert read(raw, tmp_path) is None


def test_notes_of_libraries_loaded_at_run_time(tmp_path: Path) -> None:
    notes = elffiles.dlopen_note(
        {"soname": ["liblz4.so.1"], "feature": "lz4", "priority": "suggested"},
        {"soname": ["liba.so", "libb.so"]},
        {"soname": "not a list"},
        "no object",  # type: ignore[arg-type]
    )
    build_id = struct.pack("<III", 4, 4, 3) + b"GNU\0" + b"abcd"
    found = read(elffiles.elf(notes=build_id + notes), tmp_path)
    assert found is not None
    assert found.dlopens == (
        Dlopen(("liblz4.so.1",), "suggested", "lz4"),
        Dlopen(("liba.so", "libb.so"), "recommended", ""),
    )


def _of_this_machine() -> list[Path]:
    folders = [Path("/usr/bin"), Path("/usr/lib/x86_64-linux-gnu"), Path("/usr/lib/aarch64-linux-gnu")]
    files = (path for folder in folders if folder.is_dir() for path in sorted(folder.iterdir()))
    return [path for path in files if path.is_file() and not path.is_symlink()]


def _interpreters(parsed: ELFFile) -> list[InterpSegment]:
    return [segment for segment in parsed.iter_segments("PT_INTERP") if isinstance(segment, InterpSegment)]


def _as_pyelftools_sees_it(path: Path) -> tuple[list[str], str, str, str, list[str], set[str]] | None:
    with path.open("rb") as file:
        if file.read(4) != b"\x7fELF":
            return None
        parsed = ELFFile(file)
        interpreter = "".join(each.get_interp_name() for each in _interpreters(parsed))
        texts: dict[str, list[str]] = {}
        imports: set[str] = set()
        for segment in parsed.iter_segments("PT_DYNAMIC"):
            assert isinstance(segment, DynamicSegment)
            for tag in segment.iter_tags():
                for kind in ("needed", "soname", "rpath", "runpath"):
                    if tag.entry.d_tag == f"DT_{kind.upper()}":
                        texts.setdefault(kind, []).append(getattr(tag, kind))
        table = parsed.get_section_by_name(".dynsym")
        assert table is None or isinstance(table, SymbolTableSection)
        for symbol in table.iter_symbols() if table else ():
            if symbol.entry.st_shndx == "SHN_UNDEF" and symbol.name.encode() in WATCHED:
                imports.add(symbol.name)
        return (
            texts.get("needed", []),
            interpreter,
            "".join(texts.get("soname", [])),
            ":".join(texts.get("rpath", [])),
            texts.get("runpath", []),
            imports,
        )


@pytest.mark.timeout(280)
def test_this_machines_files_read_as_pyelftools_reads_them() -> None:
    """pyelftools is an independent reader; the files are a sample of everything installed here."""
    compared = 0
    for path in _of_this_machine()[:: max(1, len(_of_this_machine()) // 40)]:
        expected = _as_pyelftools_sees_it(path)
        fd = os.open(path, os.O_RDONLY)
        try:
            found = read_elf(fd)
        finally:
            os.close(fd)
        if expected is None:
            assert found is None
            continue
        assert found is not None
        assert [each.decode() for each in found.needed] == expected[0], path
        assert found.interpreter.decode() == expected[1], path
        assert found.soname.decode() == expected[2], path
        assert b":".join(found.rpath).decode() == expected[3], path
        assert b":".join(found.runpath).decode() == ":".join(expected[4]), path
        assert {each.decode() for each in found.imports} == expected[5], path
        compared += 1
    assert compared > 20


# False headers.


def patched(at: int, form: str, value: int) -> Callable[[bytes], bytes]:
    """Change a number in a valid file."""

    def patch(raw: bytes) -> bytes:
        new = bytearray(raw)
        struct.pack_into(form, new, at, value)
        return bytes(new)

    return patch


GOOD = elffiles.program(b"liba.so", imports=[b"dlopen"], texts=[(SONAME, b"x")])
_SEGMENTS = 64
_INTERP, _DYNAMIC = _SEGMENTS + 56, _SEGMENTS + 112
_TABLE = struct.unpack_from("<Q", GOOD, _DYNAMIC + 8)[0]


def entry(tag: int) -> int:
    """The position of a dynamic entry's value in `GOOD`."""
    return next(at + 8 for at in range(_TABLE, len(GOOD), 16) if struct.unpack_from("<q", GOOD, at)[0] == tag)


LIES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "cut in the header": (lambda raw: raw[:40], "cut off"),
    "cut in the program headers": (lambda raw: raw[:80], "program headers .* beyond its end"),
    "cut in the dynamic section": (lambda raw: raw[:-20], "dynamic section .* beyond its end"),
    "class 3": (patched(4, "<B", 3), "names no class"),
    "byte order 0": (patched(5, "<B", 0), "names no class or byte order"),
    "program headers nowhere": (patched(32, "<Q", 1 << 40), "program headers .* beyond its end"),
    "program headers at -1": (patched(32, "<Q", (1 << 64) - 1), "beyond its end"),
    "65535 program headers": (patched(56, "<H", 65535), "65535 program headers"),
    "program headers of 1 byte": (patched(54, "<H", 1), "program headers of 1 bytes"),
    "program headers of no byte": (patched(54, "<H", 0), "program headers of 0 bytes"),
    "interpreter without end": (patched(_INTERP + 32, "<Q", 5), "does not end"),
    "interpreter of a gigabyte": (patched(_INTERP + 32, "<Q", 1 << 30), "has 1073741824 bytes"),
    "interpreter beyond the end": (patched(_INTERP + 8, "<Q", 1 << 50), "beyond its end"),
    "dynamic section of an exabyte": (patched(_DYNAMIC + 32, "<Q", 1 << 60), "a dynamic section of"),
    "strings at no address": (patched(entry(5), "<Q", 7), "address 0x7 is in no part"),
    "strings of a terabyte": (patched(entry(10), "<Q", 1 << 40), "a string table of"),
    "strings beyond the end": (patched(entry(10), "<Q", 1 << 20), "string table .* beyond its end"),
    "name beyond the strings": (patched(entry(1), "<Q", 1 << 20), "a name at 1048576"),
    "name at the highest address": (patched(entry(1), "<Q", (1 << 64) - 1), "a name at"),
    "symbols at no address": (patched(entry(6), "<Q", 1 << 50), "is in no part"),
    "hash table at no address": (patched(entry(0x6FFFFEF5), "<Q", 1), "is in no part"),
    "addresses that overflow": (patched(_SEGMENTS + 16, "<Q", (1 << 64) - 1), "is in no part"),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("lie", "message"), LIES.values(), ids=LIES.keys())
def test_file_that_lies_is_malformed(lie: Callable[[bytes], bytes], message: str, tmp_path: Path) -> None:
    assert read(GOOD, tmp_path) is not None
    with pytest.raises(Malformed, match=message):
        read(lie(GOOD), tmp_path)


def test_four_billion_symbols_are_not_read(tmp_path: Path) -> None:
    """The rows of a GNU hash table: buckets, the first hashed symbol, words of the bloom filter."""
    at = struct.unpack_from("<Q", GOOD, entry(0x6FFFFEF5))[0] - elffiles.BASE
    for row, message in (
        (0, "a hash table of 4294967295 rows"),
        (4, "4294967295 symbols"),
        (8, "a hash table of"),
    ):
        with pytest.raises(Malformed, match=message):
            read(patched(at + row, "<I", 0xFFFFFFFF)(GOOD), tmp_path)


@pytest.mark.parametrize("tag", [elffiles.NEEDED, elffiles.RPATH, elffiles.AUXILIARY, elffiles.AUDIT])
def test_rows_that_share_a_long_name(tag: int, tmp_path: Path) -> None:
    """A file of 40 KB with 8 MB of names, and more in parts: an image could fill the auditor's memory."""
    name = b":".join([b"a"] * 2000)
    raw = elffiles.elf(texts=[(tag, name)], values=[(tag, 1)] * 2000)
    with pytest.raises(Malformed, match="take more than 262144 bytes"):
        read(raw, tmp_path)
    few = read(elffiles.elf(texts=[(tag, name)], values=[]), tmp_path)
    assert few is not None, "the control: once it is taken"
    assert few.weight > len(name)


def test_symbols_whose_names_overlap(tmp_path: Path) -> None:
    """Each starts a byte after the one before: all of them together would be 8 MB."""
    raw = elffiles.elf(imports=[b"x" * 4000, b"dlopen", *([b"y"] * 4000)])
    at = raw.index(struct.pack("<IBBHQQ", 1, 0x12, 0, 0, 0, 0))
    table = bytearray(raw)
    for number in range(3000):
        struct.pack_into("<I", table, at + 24 * (2 + number), 1 + number)
    tracemalloc.start()
    try:
        found = read(bytes(table), tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()
    assert found is not None
    assert found.imports == {b"dlopen"}


def test_notes_that_many_segments_share(tmp_path: Path) -> None:
    note = elffiles.dlopen_note(*([{"soname": ["a"]}] * 20_000))
    raw = elffiles.elf(notes=note)
    rows = struct.unpack_from("<H", raw, 56)[0]
    at = next(64 + 56 * row for row in range(rows) if struct.unpack_from("<I", raw, 64 + 56 * row)[0] == 4)
    made = bytearray(raw)
    for row in range(rows, 8):
        made[64 + 56 * row : 120 + 56 * row] = raw[at : at + 56]
    struct.pack_into("<H", made, 56, 8)
    once, often = read(raw, tmp_path), read(bytes(made), tmp_path)
    assert once is not None
    assert often is not None
    assert len(once.dlopens) == 20_000
    assert len(often.dlopens) < 3 * len(once.dlopens)


def test_sparse_file_of_ten_gigabytes_costs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "big"
    path.write_bytes(patched(entry(10), "<Q", 60 << 20)(GOOD))
    os.truncate(path, 10 << 30)
    fd = os.open(path, os.O_RDONLY)
    try:
        assert read_elf(fd) is not None
    finally:
        os.close(fd)


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), max_size=8))
def test_any_damage_is_read_or_malformed(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]]
) -> None:
    raw = bytearray(GOOD)
    for at, value in changes:
        raw[at] = value
    try:
        found = read(bytes(raw), tmp_path_factory.getbasetemp())
    except Malformed:
        return
    assert found is None or isinstance(found.needed, tuple)


# The search. Each row is a root file system and the files that the loader loads from it.

MUSL = b"/lib/ld-musl-x86_64.so.1"


def build(root: Path, files: dict[str, bytes | str]) -> Path:
    """Files (bytes) and links (text) of a root."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(content) if isinstance(content, str) else path.write_bytes(content)
    return root


def found(root: Path, start: str = "/bin/p", *, library_path: str = "") -> dict[str, list[str]]:
    """For each named library, the files that it may become."""
    with Root(root) as opened:
        loader = DynamicLoader(opened, library_path=library_path)
        elf = loader.elf(start.encode())
        assert elf is not None
        steps = list(link(loader, LoadedObject(start.encode(), elf)))
        return {
            step.name.decode(): [opened.locate(each.path).path.decode() for each in step.found]
            for step in steps
        }


def cache(*rows: tuple[bytes, bytes, int], old: bool = False) -> bytes:
    """A cache of ldconfig: name, path, hwcap."""
    strings, entries = b"", []
    base = 48 + 24 * len(rows)
    for name, path, hwcap in rows:
        entries.append(
            struct.pack("<iIIIQ", 0x303, base + len(strings), base + len(strings) + len(name) + 1, 0, hwcap)
        )
        strings += name + b"\0" + path + b"\0"
    new = struct.pack("<20sIIB3xIIII", b"glibc-ld.so.cache1.1", len(rows), len(strings), 2, 0, 0, 0, 0)
    front = (b"ld.so-1.7.0\0" + struct.pack("<I", 1) + bytes(12)).ljust(32, b"\0") if old else b""
    return front + new + b"".join(entries) + strings


LIB = elffiles.library(b"liba.so.1")
OTHER_MACHINE = elffiles.library(b"liba.so.1", machine=Machine(elffiles.AARCH64))
OTHER_CLASS = elffiles.library(b"liba.so.1", machine=Machine(elffiles.X86_64, 32))
NEEDS_A = elffiles.program(b"liba.so.1")


def with_paths(*texts: tuple[int, bytes], **more: Any) -> bytes:
    """A program that needs liba.so.1, with search paths."""
    return elffiles.program(b"liba.so.1", texts=list(texts), **more)


SEARCHES: dict[str, tuple[dict[str, bytes | str], list[str]]] = {
    "default directory": ({"bin/p": NEEDS_A, "usr/lib/liba.so.1": LIB}, ["/usr/lib/liba.so.1"]),
    "multiarch before plain": (
        {"bin/p": NEEDS_A, "lib/x86_64-linux-gnu/liba.so.1": LIB, "usr/lib/liba.so.1": LIB},
        ["/lib/x86_64-linux-gnu/liba.so.1"],
    ),
    "lib64": ({"bin/p": NEEDS_A, "usr/lib64/liba.so.1": LIB}, ["/usr/lib64/liba.so.1"]),
    "another machine's is passed over": (
        {"bin/p": NEEDS_A, "lib/liba.so.1": OTHER_MACHINE, "usr/lib/liba.so.1": LIB},
        ["/usr/lib/liba.so.1"],
    ),
    "another class's is passed over": (
        {"bin/p": NEEDS_A, "lib/liba.so.1": OTHER_CLASS, "usr/lib/liba.so.1": LIB},
        ["/usr/lib/liba.so.1"],
    ),
    "a broken one is passed over": (
        {"bin/p": NEEDS_A, "lib/liba.so.1": LIB[:70], "usr/lib/liba.so.1": LIB},
        ["/usr/lib/liba.so.1"],
    ),
    "no default elsewhere": ({"bin/p": NEEDS_A, "opt/liba.so.1": LIB}, []),
    "RUNPATH before default": (
        {"bin/p": with_paths((RUNPATH, b"/opt")), "opt/liba.so.1": LIB, "lib/liba.so.1": LIB},
        ["/opt/liba.so.1"],
    ),
    "RPATH": ({"bin/p": with_paths((RPATH, b"/x:/opt")), "opt/liba.so.1": LIB}, ["/opt/liba.so.1"]),
    "RPATH is nothing beside RUNPATH": (
        {"bin/p": with_paths((RPATH, b"/r"), (RUNPATH, b"/run")), "r/liba.so.1": LIB},
        [],
    ),
    "$ORIGIN": (
        {
            "opt/app/bin/p": with_paths((RUNPATH, b"$ORIGIN/../lib")),
            "opt/app/lib/liba.so.1": LIB,
            "bin/p": "/opt/app/bin/p",
        },
        [],
    ),
    "${LIB}": (
        {"bin/p": with_paths((RUNPATH, b"/opt/${LIB}")), "opt/lib/x86_64-linux-gnu/liba.so.1": LIB},
        ["/opt/lib/x86_64-linux-gnu/liba.so.1"],
    ),
    "$LIB elsewhere": (
        {"bin/p": with_paths((RUNPATH, b"/opt/$LIB")), "opt/lib64/liba.so.1": LIB},
        ["/opt/lib64/liba.so.1"],
    ),
    "$PLATFORM": (
        {"bin/p": with_paths((RUNPATH, b"/opt/$PLATFORM")), "opt/x86_64/liba.so.1": LIB},
        ["/opt/x86_64/liba.so.1"],
    ),
    "relative paths are nobody's": ({"bin/p": with_paths((RUNPATH, b"lib")), "lib2/liba.so.1": LIB}, []),
    "no default with nodeflib": (
        {"bin/p": with_paths(values=[(FLAGS_1, 0x800)]), "lib/liba.so.1": LIB},
        [],
    ),
    "link to a link": (
        {"bin/p": NEEDS_A, "lib": "usr/lib", "usr/lib/liba.so.1": "liba.so.1.2", "usr/lib/liba.so.1.2": LIB},
        ["/usr/lib/liba.so.1.2"],
    ),
    "link out of the root": ({"bin/p": NEEDS_A, "usr/lib/liba.so.1": "/../../../lib/liba.so.1"}, []),
    "cache": (
        {
            "bin/p": NEEDS_A,
            "opt/liba.so.1": LIB,
            "etc/ld.so.cache": cache((b"liba.so.1", b"/opt/liba.so.1", 0)),
        },
        ["/opt/liba.so.1"],
    ),
    "cache after an old one": (
        {
            "bin/p": NEEDS_A,
            "opt/liba.so.1": LIB,
            "etc/ld.so.cache": cache((b"liba.so.1", b"/opt/liba.so.1", 0), old=True),
        },
        ["/opt/liba.so.1"],
    ),
    "cache before default, RUNPATH before cache": (
        {
            "bin/p": NEEDS_A,
            "opt/liba.so.1": LIB,
            "lib/liba.so.1": LIB,
            "etc/ld.so.cache": cache((b"liba.so.1", b"/opt/liba.so.1", 0)),
        },
        ["/opt/liba.so.1"],
    ),
    "cache that names what is not there": (
        {
            "bin/p": NEEDS_A,
            "lib/liba.so.1": LIB,
            "etc/ld.so.cache": cache((b"liba.so.1", b"/opt/liba.so.1", 0)),
        },
        ["/lib/liba.so.1"],
    ),
    "cache with a variant": (
        {
            "bin/p": NEEDS_A,
            "opt/liba.so.1": LIB,
            "opt/glibc-hwcaps/x86-64-v3/liba.so.1": LIB,
            "etc/ld.so.cache": cache(
                (b"liba.so.1", b"/opt/glibc-hwcaps/x86-64-v3/liba.so.1", 1 << 62),
                (b"liba.so.1", b"/opt/liba.so.1", 0),
            ),
        },
        ["/opt/liba.so.1", "/opt/glibc-hwcaps/x86-64-v3/liba.so.1"],
    ),
    "cache that is damaged": (
        {"bin/p": NEEDS_A, "lib/liba.so.1": LIB, "etc/ld.so.cache": cache((b"liba.so.1", b"/x", 0))[:60]},
        ["/lib/liba.so.1"],
    ),
    "cache that is nonsense": (
        {"bin/p": NEEDS_A, "lib/liba.so.1": LIB, "etc/ld.so.cache": b"x" * 99},
        ["/lib/liba.so.1"],
    ),
    "variants for processors": (
        {
            "bin/p": NEEDS_A,
            "lib/liba.so.1": LIB,
            "lib/glibc-hwcaps/x86-64-v2/liba.so.1": LIB,
            "lib/glibc-hwcaps/x86-64-v3/liba.so.1": LIB,
        },
        [
            "/lib/liba.so.1",
            "/lib/glibc-hwcaps/x86-64-v2/liba.so.1",
            "/lib/glibc-hwcaps/x86-64-v3/liba.so.1",
        ],
    ),
    "musl": (
        {"bin/p": elffiles.program(b"liba.so.1", interpreter=MUSL), "usr/local/lib/liba.so.1": LIB},
        ["/usr/local/lib/liba.so.1"],
    ),
    "musl knows no multiarch": (
        {
            "bin/p": elffiles.program(b"liba.so.1", interpreter=MUSL),
            "usr/lib/x86_64-linux-gnu/liba.so.1": LIB,
        },
        [],
    ),
    "musl's path file": (
        {
            "bin/p": elffiles.program(b"liba.so.1", interpreter=MUSL),
            "etc/ld-musl-x86_64.path": b"/opt/a:/opt/b\n/opt/c\n",
            "opt/c/liba.so.1": LIB,
            "lib/liba.so.1": LIB,
        },
        ["/opt/c/liba.so.1"],
    ),
}


@pytest.mark.parametrize(("files", "expected"), SEARCHES.values(), ids=SEARCHES.keys())
def test_search(files: dict[str, bytes | str], expected: Sequence[str], tmp_path: Path) -> None:
    assert found(build(tmp_path, files))["liba.so.1"] == expected


def test_origin_is_where_the_program_really_lies(tmp_path: Path) -> None:
    """For the program itself the kernel resolves links; SEARCHES has the row in which it does not."""
    files = SEARCHES["$ORIGIN"][0]
    assert found(build(tmp_path, files), "/opt/app/bin/p")["liba.so.1"] == ["/opt/app/lib/liba.so.1"]


def test_library_path_of_the_environment(tmp_path: Path) -> None:
    files: dict[str, bytes | str] = {
        "bin/p": with_paths((RUNPATH, b"/run")),
        "env/liba.so.1": LIB,
        "run/liba.so.1": LIB,
    }
    build(tmp_path, files)
    assert found(tmp_path)["liba.so.1"] == ["/run/liba.so.1"]
    assert found(tmp_path, library_path="/none:/env")["liba.so.1"] == ["/env/liba.so.1"]


def test_rpath_is_inherited_and_runpath_is_not(tmp_path: Path) -> None:
    files: dict[str, bytes | str] = {
        "bin/p": elffiles.program(b"libmid.so", texts=[(RPATH, b"/priv")]),
        "bin/q": elffiles.program(b"libmid.so", texts=[(RUNPATH, b"/priv")]),
        "priv/libmid.so": elffiles.library(b"libmid.so", b"liba.so.1"),
        "priv/liba.so.1": LIB,
    }
    build(tmp_path, files)
    assert found(tmp_path, "/bin/p")["liba.so.1"] == ["/priv/liba.so.1"]
    assert found(tmp_path, "/bin/q")["liba.so.1"] == []


def test_soname_that_is_loaded_is_not_searched_again(tmp_path: Path) -> None:
    files: dict[str, bytes | str] = {
        "bin/p": elffiles.program(b"/opt/private.so", b"liba.so.1"),
        "opt/private.so": LIB,
        "lib/liba.so.1": LIB,
    }
    assert found(build(tmp_path, files)) == {
        "/opt/private.so": ["/opt/private.so"],
        "liba.so.1": ["/opt/private.so"],
    }


@pytest.mark.parametrize(
    "files",
    [
        {"bin/p": NEEDS_A, "etc/ld.so.cache": cache(*((b"n%d" % each, b"/lib/x", 0) for each in range(200)))},
        {"bin/p": NEEDS_A, "lib/liba.so.1": elffiles.library(b"liba.so.1", *[b"liba.so.1"] * 300)},
        {
            "bin/p": NEEDS_A,
            "var/lib/dpkg/status": b"Package: p\n",
            "var/lib/dpkg/info/p.list": b"/f\n" * 200,
        },
    ],
    ids=["a cache", "libraries", "a database"],
)
def test_what_is_kept_of_a_root_is_bounded(
    files: dict[str, bytes | str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Rows of a cache may share their text, and an image may have any number of libraries and packages."""
    root = build(tmp_path, files)

    def look() -> None:
        with Root(root) as opened:
            PackageDatabase(opened)
        found(root)

    look()
    monkeypatch.setattr("sandwright.rootfs.tar.memory_budget.DEFAULT", ArchiveLimits(held=20_000))
    with pytest.raises((ArchiveRefused, BuildError), match="need more than 20000 bytes of memory"):
        look()


def test_libraries_that_need_each_other(tmp_path: Path) -> None:
    files: dict[str, bytes | str] = {
        "bin/p": NEEDS_A,
        "lib/liba.so.1": elffiles.library(b"liba.so.1", b"libb.so.1", b"liba.so.1"),
        "lib/libb.so.1": elffiles.library(b"libb.so.1", b"liba.so.1", b"ld-linux-x86-64.so.2"),
        "lib64/ld-linux-x86-64.so.2": elffiles.library(b"ld-linux-x86-64.so.2"),
    }
    assert found(build(tmp_path, files)) == {
        "liba.so.1": ["/lib/liba.so.1"],
        "libb.so.1": ["/lib/libb.so.1"],
        "ld-linux-x86-64.so.2": ["/lib64/ld-linux-x86-64.so.2"],
    }


PROGRAMS = [
    "/usr/bin/python3",
    "/usr/bin/git",
    "/usr/bin/curl",
    "/usr/bin/ssh",
    "/usr/bin/gdb",
    "/usr/bin/bash",
]


@pytest.mark.parametrize("program", [path for path in PROGRAMS if Path(path).exists()])
def test_this_machines_programs_are_linked_as_its_loader_links_them(program: str) -> None:
    """The loader's own list is the reference (`ld.so --list`)."""
    with Root(Path("/")) as root:
        loader = DynamicLoader(root)
        real = root.locate(program.encode())
        elf = loader.elf(real.path)
        assert elf is not None
        said = process.run(elf.interpreter.decode(), "--list", program, timeout=30).text
        expected = {
            str(Path(line.split("=>")[1].split("(")[0].strip()).resolve())
            for line in said.splitlines()
            if "=>" in line
        }
        ours = {
            root.locate(step.found[0].path).path.decode()
            for step in link(loader, LoadedObject(real.path, elf))
            if step.found and step.name != elf.interpreter.rpartition(b"/")[2]
        }
    interpreter = str(Path(elf.interpreter.decode()).resolve())
    assert ours - {interpreter} == expected - {interpreter}
    assert len(ours) >= 1
