"""Archives: the members that the reader accepts, its refusals with messages, and the writer's bytes.

Tests of rootfs/tar/header.py.
Tests of rootfs/tar/limits.py: bytes, entries, ratio, names, memory.
Tests of rootfs/tar/member.py.
Tests of rootfs/tar/memory_budget.py.
"""

from __future__ import annotations

import io

import pytest

from sandwright.errors import ArchiveRefused, IntegrityError
from sandwright.rootfs.tar.entry import EntryKind, TarEntry
from sandwright.rootfs.tar.limits import ArchiveLimits
from sandwright.rootfs.tar.reader import TarReader
from sandwright.rootfs.tar.writer import TarWriter
from support.tars import (
    END,
    GNU,
    TIME,
    archive,
    device,
    file,
    folder,
    hardlink,
    header,
    long,
    member,
    padded,
    pax,
    symlink,
)

NS = 10**9
STAR = b"p" * 131 + b"00000000000 00000000000 "


class Drip(io.RawIOBase):
    """A stream that returns at least one byte less than requested."""

    def __init__(self, raw: bytes, step: int) -> None:
        self._file = io.BytesIO(raw)
        self._step = step

    def read(self, size: int = -1, /) -> bytes:
        return self._file.read(min(size, self._step))


def read(raw: bytes, limits: ArchiveLimits | None = None) -> list[tuple[TarEntry, bytes]]:
    reader = TarReader(io.BytesIO(raw), limits=limits or ArchiveLimits(), name="a.tar")
    return [(entry, b"".join(reader.chunks())) for entry in reader]


def entries(raw: bytes) -> list[TarEntry]:
    return [entry for entry, _ in read(raw)]


def written(*members: tuple[TarEntry, bytes]) -> bytes:
    sink = io.BytesIO()
    writer = TarWriter(sink)
    for entry, content in members:
        writer.add(entry, [content])
    writer.close()
    return sink.getvalue()


ACCEPTED = {
    "file": (
        file(b"a", b"hello", mode=0o4755, uid=1, gid=2),
        TarEntry(b"a", EntryKind.FILE, 0o4755, 1, 2, 5, TIME * NS),
    ),
    "a second file of a folder": (
        file(b"d/a") + file(b"d/b"),
        TarEntry(b"d/b", EntryKind.FILE, 0o644, mtime_ns=TIME * NS),
    ),
    "dot slash": (file(b"./a/./b"), TarEntry(b"a/b", EntryKind.FILE, mtime_ns=TIME * NS)),
    "doubled slashes": (file(b"a//b"), TarEntry(b"a/b", EntryKind.FILE, mtime_ns=TIME * NS)),
    "absolute": (file(b"/a/b"), TarEntry(b"a/b", EntryKind.FILE, mtime_ns=TIME * NS)),
    "directory": (folder(b"a/", 0o1777), TarEntry(b"a", EntryKind.DIRECTORY, 0o1777, mtime_ns=TIME * NS)),
    "root": (folder(b"./"), TarEntry(b"", EntryKind.DIRECTORY, 0o755, mtime_ns=TIME * NS)),
    "root as slash": (folder(b"/"), TarEntry(b"", EntryKind.DIRECTORY, 0o755, mtime_ns=TIME * NS)),
    "old directory": (
        member(b"a/", kind=b"\0", magic=b"", mode=0o700),
        TarEntry(b"a", EntryKind.DIRECTORY, 0o700, mtime_ns=TIME * NS),
    ),
    "old file": (
        member(b"a", b"x", kind=b"\0", magic=b""),
        TarEntry(b"a", EntryKind.FILE, size=1, mtime_ns=TIME * NS),
    ),
    "contiguous file": (
        member(b"a", b"x", kind=b"7"),
        TarEntry(b"a", EntryKind.FILE, size=1, mtime_ns=TIME * NS),
    ),
    "symlink": (
        symlink(b"a", b"../../x"),
        TarEntry(b"a", EntryKind.SYMLINK, 0o777, mtime_ns=TIME * NS, link=b"../../x"),
    ),
    "hard link": (
        hardlink(b"a", b"./d//x"),
        TarEntry(b"a", EntryKind.HARDLINK, mtime_ns=TIME * NS, link=b"d/x"),
    ),
    "hard link, size of its target": (
        header(b"a", kind=b"1", link=b"x", size=7777),
        TarEntry(b"a", EntryKind.HARDLINK, mtime_ns=TIME * NS, link=b"x"),
    ),
    "character device": (
        device(b"null", 1, 3, mode=0o666),
        TarEntry(b"null", EntryKind.CHARACTER, 0o666, mtime_ns=TIME * NS, device=(1, 3)),
    ),
    "block device": (
        device(b"sda", 8, 0, kind=b"4", mode=0o660),
        TarEntry(b"sda", EntryKind.BLOCK, 0o660, mtime_ns=TIME * NS, device=(8, 0)),
    ),
    "fifo": (member(b"p", kind=b"6"), TarEntry(b"p", EntryKind.FIFO, mtime_ns=TIME * NS)),
    "ustar prefix": (
        file(b"b" * 100, prefix=b"p/q"),
        TarEntry(b"p/q/" + b"b" * 100, EntryKind.FILE, mtime_ns=TIME * NS),
    ),
    "a second file with a prefix": (
        file(b"a", prefix=b"p/q") + file(b"b", prefix=b"p/q"),
        TarEntry(b"p/q/b", EntryKind.FILE, mtime_ns=TIME * NS),
    ),
    "star's shorter prefix": (
        header(b"a", prefix=STAR, trailer=b"tar\0") + header(b"b", prefix=STAR, trailer=b"tar\0"),
        TarEntry(b"p" * 131 + b"/b", EntryKind.FILE, mtime_ns=TIME * NS),
    ),
    "name of a hundred bytes": (file(b"n" * 100), TarEntry(b"n" * 100, EntryKind.FILE, mtime_ns=TIME * NS)),
    "what comes after a NUL in the name": (
        file(b"a\0b"),
        TarEntry(b"a", EntryKind.FILE, mtime_ns=TIME * NS),
    ),
    "numbers with spaces": (
        file(b"a", mode=b"   644 \0", uid=b"     7 \0", gid=b"     6  ", size=b"          0 "),
        TarEntry(b"a", EntryKind.FILE, 0o644, 7, 6, mtime_ns=TIME * NS),
    ),
    "empty numbers": (
        file(b"a", mode=b"", uid=b"", gid=b""),
        TarEntry(b"a", EntryKind.FILE, 0, mtime_ns=TIME * NS),
    ),
    "type bits in the mode": (
        file(b"a", mode=b"0100644"),
        TarEntry(b"a", EntryKind.FILE, 0o644, mtime_ns=TIME * NS),
    ),
    "base-256 owner": (
        file(b"a", uid=b"\x80\0\0\0\0\x2d\xc6\xc0", magic=GNU),
        TarEntry(b"a", EntryKind.FILE, uid=3_000_000, mtime_ns=TIME * NS),
    ),
    "time before 1970": (
        file(b"a", mtime=b"\xff" * 11 + b"\xfe"),
        TarEntry(b"a", EntryKind.FILE, mtime_ns=-2 * NS),
    ),
    "long GNU name": (
        long(b"x/" * 90 + b"y") + member(b"x/" * 50, magic=GNU),
        TarEntry(b"x/" * 90 + b"y", EntryKind.FILE, mtime_ns=TIME * NS),
    ),
    "long GNU link and name": (
        long(b"t" * 150, b"K") + long(b"n" * 120) + member(b"n" * 100, kind=b"2", magic=GNU),
        TarEntry(b"n" * 120, EntryKind.SYMLINK, mtime_ns=TIME * NS, link=b"t" * 150),
    ),
    "GNU times where ustar has a prefix": (
        member(b"a", magic=GNU, prefix=b"14247602537\x0014247602540"),
        TarEntry(b"a", EntryKind.FILE, mtime_ns=TIME * NS),
    ),
    "prefix in a GNU header, as old Go wrote": (
        member(b"a", magic=GNU, prefix=b"some/where/deep/inside"),
        TarEntry(b"some/where/deep/inside/a", EntryKind.FILE, mtime_ns=TIME * NS),
    ),
    "pax": (
        pax({b"path": b"long/" * 60 + b"\xc3\xa9", b"uid": b"4000000", b"gid": b"5000000", b"mtime": b"1.25"})
        + file(b"short"),
        TarEntry(b"long/" * 60 + b"\xc3\xa9", EntryKind.FILE, 0o644, 4_000_000, 5_000_000, 0, NS * 5 // 4),
    ),
    "pax zeros count": (
        pax({b"uid": b"0", b"gid": b"0", b"size": b"0"}) + header(b"a", uid=5, gid=6, size=512),
        TarEntry(b"a", EntryKind.FILE, mtime_ns=TIME * NS),
    ),
    "pax size": (
        pax({b"size": b"600"}) + header(b"a", size=0) + padded(b"x" * 600),
        TarEntry(b"a", EntryKind.FILE, size=600, mtime_ns=TIME * NS),
    ),
    "pax linkpath": (
        pax({b"linkpath": b"t" * 200}) + header(b"a", kind=b"2"),
        TarEntry(b"a", EntryKind.SYMLINK, mtime_ns=TIME * NS, link=b"t" * 200),
    ),
    "pax xattrs": (
        pax({b"SCHILY.xattr.security.capability": b"\1\0\n=\0", b"SCHILY.xattr.user.empty": b""})
        + file(b"a"),
        TarEntry(
            b"a",
            EntryKind.FILE,
            mtime_ns=TIME * NS,
            xattrs={b"security.capability": b"\1\0\n=\0", b"user.empty": b""},
        ),
    ),
    "pax empty values take a record back": (
        pax({b"path": b"", b"uid": b"", b"mtime": b"", b"size": b""}) + file(b"a", b"xy", uid=9),
        TarEntry(b"a", EntryKind.FILE, uid=9, size=2, mtime_ns=TIME * NS),
    ),
    "pax time, finer than a nanosecond": (
        pax({b"mtime": b"-1.5000000009"}) + file(b"a"),
        TarEntry(b"a", EntryKind.FILE, mtime_ns=-NS * 3 // 2),
    ),
    "pax counts for one member": (
        pax({b"path": b"other", b"uid": b"5"}) + file(b"a") + file(b"b"),
        TarEntry(b"b", EntryKind.FILE, mtime_ns=TIME * NS),
    ),
    "hard link from above the root": (
        hardlink(b"a", b"/.././../x/y"),
        TarEntry(b"a", EntryKind.HARDLINK, mtime_ns=TIME * NS, link=b"x/y"),
    ),
    "pax path twice": (
        pax(b"10 path=b\n10 path=c\n") + file(b"a"),
        TarEntry(b"c", EntryKind.FILE, mtime_ns=TIME * NS),
    ),
    "global pax is ignored": (
        pax({b"path": b"evil", b"comment": b"x", b"uid": b"7"}, kind=b"g") + file(b"a"),
        TarEntry(b"a", EntryKind.FILE, mtime_ns=TIME * NS),
    ),
    "newline and invalid UTF-8 in a name": (
        file(b"a\n\xff"),
        TarEntry(b"a\n\xff", EntryKind.FILE, mtime_ns=TIME * NS),
    ),
    "signed checksum": (
        header(b"\xe9", checksum=b"%06o\0 " % (sum(header(b"\xe9", checksum=b" " * 8)) - 256)),
        TarEntry(b"\xe9", EntryKind.FILE, mtime_ns=TIME * NS),
    ),
}


@pytest.mark.parametrize(("raw", "expected"), ACCEPTED.values(), ids=ACCEPTED.keys())
def test_reader_takes(raw: bytes, expected: TarEntry) -> None:
    assert entries(raw + END)[-1] == expected


REFUSED = {
    "empty name": (file(b""), "'': its name is empty"),
    "climbing": (file(b"../a"), "'../a': its name climbs with '..'"),
    "climbing inside": (folder(b"a/../b"), "'a/../b': its name climbs with '..'"),
    "climbing to the root": (symlink(b"a/..", b"x"), "'a/..': its name climbs with '..'"),
    "climbing, absolute": (file(b"/../a"), "'/../a': its name climbs with '..'"),
    "root as link": (symlink(b".", b"x"), "'.': it would put a symbolic link in the place of the root"),
    "root as link, slash dot": (
        symlink(b"/.", b"x"),
        "'/.': it would put a symbolic link in the place of the root",
    ),
    "root as link, slashes": (
        symlink(b"//", b"x"),
        "'//': it would put a symbolic link in the place of the root",
    ),
    "root as file": (file(b"."), "'.': it would put a file in the place of the root"),
    "root as hard link": (hardlink(b"./.", b"x"), "'./.': it would put a hard link in the place of the root"),
    "root as device": (device(b".", 1, 3), "'.': it would put a character device in the place of the root"),
    "root as fifo": (member(b".", kind=b"6"), "'.': it would put a fifo in the place of the root"),
    "component too long": (
        pax({b"path": b"a/" + b"b" * 256}) + file(b"x"),
        f"'a/{'b' * 148}…{'b' * 45}': its name has a component longer than 255 bytes",
    ),
    "name too long": (
        pax({b"path": b"ab/" * 1400}) + folder(b"x"),
        f"'{'ab/' * 50}…{'ab/' * 15}': its name is longer than 4096 bytes",
    ),
    "too deep": (
        pax({b"path": b"a/" * 1025}) + folder(b"x"),
        f"'{'a/' * 75}…{('a/' * 23)[1:]}': its name has more than 1024 components",
    ),
    "NUL in a pax name": (pax({b"path": b"a\0b"}) + file(b"x"), "'a\\x00b': its name holds a NUL byte"),
    "file that ends in a slash": (file(b"a/"), "'a/': it is a file, and its name ends in a slash"),
    "symlink to nothing": (
        symlink(b"a", b""),
        "'a': it is a symbolic link whose target is empty, too long, or holds a NUL byte",
    ),
    "symlink with NUL": (
        pax({b"linkpath": b"x\0y"}) + symlink(b"a", b"x"),
        "'a': it is a symbolic link whose target is empty, too long, or holds a NUL byte",
    ),
    "hard link to nothing": (
        hardlink(b"a", b""),
        "'a': it is a hard link, and of its target: its name is empty",
    ),
    "hard link to the root": (hardlink(b"a", b"/"), "'a': it is a hard link to the root, or to itself"),
    "hard link to itself": (hardlink(b"./a", b"a"), "'./a': it is a hard link to the root, or to itself"),
    "unknown type": (member(b"a", kind=b"Q"), "'a': it is of a type that tar does not have: b'Q'"),
    "GNU sparse": (member(b"a", kind=b"S", magic=GNU), "'a': it is a sparse file"),
    "GNU dump": (member(b"a", kind=b"D", magic=GNU), "'a': it is a directory dump of GNU tar"),
    "GNU volume": (member(b"a", kind=b"M", magic=GNU), "'a': it is a file continued from another volume"),
    "GNU label": (member(b"a", kind=b"V", magic=GNU), "'a': it is a volume label"),
    "pax sparse": (
        pax({b"GNU.sparse.major": b"1"}) + file(b"a"),
        "'a': it is a sparse file",
    ),
    "Solaris header": (member(b"a", kind=b"X"), "'a': it is an extended header of Solaris tar"),
    "negative size": (
        file(b"a", size=b"\xff" * 12),
        "'a': its size is -1; it may be from 0 to 137438953472",
    ),
    "endless size": (
        file(b"a", size=b"\x80" + b"\0" * 5 + b"\1" + b"\0" * 5),
        "'a': its size is 1099511627776; it may be from 0 to 137438953472",
    ),
    "negative owner": (file(b"a", uid=b"\xff" * 8), "'a': its uid is -1; it may be from 0 to 4294967294"),
    "owner that means no change": (
        pax({b"gid": b"4294967295"}) + file(b"a"),
        "'a': its gid is 4294967295; it may be from 0 to 4294967294",
    ),
    "device too big": (
        device(b"a", 4096, 0),
        "'a': its major is 4096; it may be from 0 to 4095",
    ),
    "time of no clock": (
        pax({b"mtime": b"9" * 19}) + file(b"a"),
        "'a': its time is 9999999999999999999; it may be from 0 to 4611686018427387904",
    ),
    "number that is none": (file(b"a", mode=b"rw-r--r"), "'a': a number in its header is b'rw-r--r\\x00'"),
    "digit that is none": (file(b"a", mode=b"0000648"), "'a': a number in its header is b'0000648\\x00'"),
    "number as Python writes it": (
        file(b"a", size=b"0_000_000_0"),
        "'a': a number in its header is b'0_000_000_0\\x00'",
    ),
    "number with a hole": (
        file(b"a", mode=b"06\x0044"),
        "'a': a number in its header is b'06\\x0044\\x00\\x00\\x00'",
    ),
    "pax number that is none": (
        pax({b"uid": b"1e3"}) + file(b"a"),
        "'a': a number in its PAX header is b'1e3'",
    ),
    "pax number with a sign": (
        pax({b"size": b"-1"}) + file(b"a"),
        "'a': a number in its PAX header is b'-1'",
    ),
    "pax time that is none": (
        pax({b"mtime": b"now"}) + file(b"a"),
        "'a': a time in its PAX header is b'now'",
    ),
    "pax without a length": (
        pax(b"path=x\n") + file(b"a"),
        "'PaxHeaders/x': its PAX header has a malformed record at byte 0",
    ),
    "pax length too large": (
        pax(b"99 path=x\n") + file(b"a"),
        "'PaxHeaders/x': its PAX header has a malformed record at byte 0",
    ),
    "pax length too small": (
        pax(b"3 path=x\n") + file(b"a"),
        "'PaxHeaders/x': its PAX header has a malformed record at byte 0",
    ),
    "pax length of nothing": (
        pax(b"2 \n") + file(b"a"),
        "'PaxHeaders/x': its PAX header has a malformed record at byte 0",
    ),
    "pax without a key": (
        pax(b"5 =x\n") + file(b"a"),
        "'PaxHeaders/x': its PAX header has a record without a key at byte 0",
    ),
    "pax without equals": (
        pax(b"5 pa\n") + file(b"a"),
        "'PaxHeaders/x': its PAX header has a record without a key at byte 0",
    ),
    "pax key twice": (
        pax(b"8 uid=1\n8 uid=2\n") + file(b"a"),
        "'PaxHeaders/x': its PAX header has 'uid' twice, or nameless",
    ),
    "pax size twice": (
        pax(b"9 size=1\n9 size=2\n") + file(b"a", b"1"),
        "'PaxHeaders/x': its PAX header has 'size' twice, or nameless",
    ),
    "pax linkpath twice": (
        pax(b"14 linkpath=b\n14 linkpath=c\n") + symlink(b"a", b"x"),
        "'PaxHeaders/x': its PAX header has 'linkpath' twice, or nameless",
    ),
    "hard link to what is above the root": (
        hardlink(b"a", b"../.."),
        "'a': it is a hard link to the root, or to itself",
    ),
    "hard link that climbs on the way": (
        hardlink(b"a", b"../b/../c"),
        "'a': it is a hard link, and of its target: its name climbs with '..'",
    ),
    "xattr without a name": (
        pax({b"SCHILY.xattr.": b"x"}) + file(b"a"),
        "'PaxHeaders/x': its PAX header has 'SCHILY.xattr.' twice, or nameless",
    ),
    "two pax headers": (
        pax({b"path": b"x"}) + pax({b"path": b"y"}) + file(b"a"),
        "'x': it has two extended headers that speak of the same thing",
    ),
    "two long names": (
        long(b"x") + long(b"y") + file(b"a"),
        "'x': it has two extended headers that speak of the same thing",
    ),
    "pax and a long name": (
        pax({b"size": b"9"}) + long(b"y") + file(b"a"),
        "'././@LongLink': it has two extended headers that speak of the same thing",
    ),
    "long name and pax": (
        long(b"y") + pax({b"size": b"9"}) + file(b"a"),
        "'y': it has two extended headers that speak of the same thing",
    ),
    "long name of a gigabyte": (
        header(b"././@LongLink", kind=b"L", size=1 << 30),
        "'././@LongLink': its extended header's size is 1073741824; it may be from 0 to 1048576",
    ),
    "garbage for a prefix in a GNU header": (
        member(b"a", magic=GNU, prefix=b"x\xe9/../.."),
        "'a': a number in its header is b'x\\xe9/../..\\x00\\x00\\x00\\x00'",
    ),
}


@pytest.mark.parametrize(("raw", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_reader_refuses(raw: bytes, message: str) -> None:
    with pytest.raises(ArchiveRefused) as refused:
        read(raw + END)
    assert str(refused.value) == f"a.tar: {message}"


DAMAGED = {
    "checksum": (
        file(b"ok") + header(b"a", checksum=b"000000\0 "),
        "the header after 'ok' is damaged: its checksum is wrong",
    ),
    "checksum that is none": (
        header(b"a", checksum=b"zzzzzzzz"),
        "the header at its start is damaged: its checksum is wrong",
    ),
    "text": (b"hello, world\n" * 100, "the header at its start is damaged: its checksum is wrong"),
    "half a header": (header(b"a")[:300], "ends in the middle of a member, at its start"),
    "content cut": (file(b"a", b"x" * 700)[:-600], "ends in the middle of a member, after 'a'"),
    "padding cut": (file(b"a", b"x" * 700)[:-1], "ends in the middle of a member, after 'a'"),
    "extension cut": (pax({b"path": b"x" * 600})[:-512], "ends in the middle of a member, at its start"),
    "extension of nothing": (
        file(b"a") + long(b"x") + END,
        "ends after 'a' with a header that extends nothing",
    ),
    "zeros in the middle": (
        file(b"a") + bytes(512) + file(b"b") + END,
        "a block of zeros after 'a', and then more",
    ),
}


@pytest.mark.parametrize(("raw", "message"), DAMAGED.values(), ids=DAMAGED.keys())
def test_reader_finds_damage(raw: bytes, message: str) -> None:
    with pytest.raises(IntegrityError) as damage:
        read(raw)
    assert str(damage.value) == f"a.tar: {message}"


WHOLE = {
    "two blocks of zeros": file(b"a") + END,
    "one block of zeros": file(b"a") + bytes(512),
    "no end": file(b"a"),
    "a full record": file(b"a") + bytes(10240 - 512),
}


@pytest.mark.parametrize("raw", WHOLE.values(), ids=WHOLE.keys())
def test_ends_that_are_accepted(raw: bytes) -> None:
    assert [entry.path for entry in entries(raw)] == [b"a"]


def test_an_empty_stream_is_an_empty_archive() -> None:
    assert entries(b"") == []


def test_every_cut_is_found_or_lies_between_members() -> None:
    raw = archive(file(b"a", b"x" * 513), pax({b"path": b"long"}) + file(b"b", b"y"), folder(b"c"))
    boundaries = {0, 512 + 1024, 512 + 1024 + 1024 + 1024, len(raw) - 1024, len(raw) - 512}
    for cut in range(len(raw)):
        try:
            read(raw[:cut])
        except IntegrityError:
            assert cut not in boundaries
        else:
            assert cut in boundaries


@pytest.mark.parametrize("step", [1, 7, 511, 512, 513, 4096])
def test_pieces_of_any_size_give_the_same(step: int) -> None:
    raw = archive(
        file(b"a", bytes(range(256)) * 9),
        long(b"n" * 200) + file(b"n"),
        folder(b"d"),
        file(b"d/e", b"z" * 512),
    )
    reader = TarReader(Drip(raw, step))
    dripped = [(entry, b"".join(reader.chunks())) for entry in reader]
    assert dripped == read(raw)


@pytest.mark.parametrize("taken", [0, 1], ids=["nothing is taken", "one piece is taken"])
def test_content_that_is_not_taken_is_skipped(taken: int) -> None:
    reader = TarReader(Drip(archive(file(b"a", b"x" * 5000), file(b"b", b"y" * 10)), 700))
    paths = []
    for entry in reader:
        paths.append(entry.path)
        for _ in range(taken):
            next(iter(reader.chunks()))
    assert paths == [b"a", b"b"]


def test_the_stream_is_read_to_its_end_and_what_follows_the_archive_is_told() -> None:
    stream = io.BytesIO(archive(file(b"a")) + b"more" + bytes(3000))
    reader = TarReader(stream)
    assert [entry.path for entry in reader] == [b"a"]
    assert not stream.read()
    assert reader.notes["bytes after the end of the archive ignored"].count == 1


def test_notes_name_what_was_changed() -> None:
    reader = TarReader(io.BytesIO(archive(file(b"/a"), file(b"/b"), pax({b"RHT.x": b"1"}) + file(b"c"))))
    assert len(list(reader)) == 3
    assert reader.notes["absolute name taken as relative to the root"].examples == [b"a", b"b"]
    assert reader.notes["PAX key 'RHT.x' ignored"].count == 1


LIMITS = {
    "entries": (ArchiveLimits(entries=2), "'c': it is one more than the 2 members allowed"),
    "bytes": (ArchiveLimits(bytes=1000), "'': with it the archive has more than 1000 bytes"),
    "path": (ArchiveLimits(path=3), "'long': its name is longer than 3 bytes"),
    "depth": (ArchiveLimits(depth=1), "'d/e': its name has more than 1 components"),
    "extension": (
        ArchiveLimits(extension=10),
        "'PaxHeaders/x': its extended header's size is 11; it may be from 0 to 10",
    ),
}


@pytest.mark.parametrize(("limits", "message"), LIMITS.values(), ids=LIMITS.keys())
def test_limits(limits: ArchiveLimits, message: str) -> None:
    raw = archive(
        file(b"a"), file(b"b"), file(b"c"), file(b"long"), file(b"d/e"), pax({b"path": b"x1"}) + file(b"x")
    )
    assert len(read(raw)) == 6
    with pytest.raises(ArchiveRefused) as refused:
        read(raw, limits)
    assert str(refused.value) == f"a.tar: {message}"
