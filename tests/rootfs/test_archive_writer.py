"""The writer's bytes, read by ourselves, by tarfile and by GNU tar; and archives that those two wrote.

Tests of rootfs/tar/writer.py.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandwright import process
from sandwright.errors import IntegrityError
from sandwright.rootfs.tar.entry import EntryKind, TarEntry
from sandwright.rootfs.tar.reader import TarReader
from sandwright.rootfs.tar.writer import TarWriter
from support.tars import END, TIME, header, member, pax
from support.thorough import examples

NS = 10**9
Members = list[tuple[TarEntry, bytes]]


def written(members: Members) -> bytes:
    sink = io.BytesIO()
    writer = TarWriter(sink)
    for entry, content in members:
        writer.add(entry, [content])
    writer.close()
    return sink.getvalue()


def read(raw: bytes) -> Members:
    reader = TarReader(io.BytesIO(raw))
    return [(entry, b"".join(reader.chunks())) for entry in reader]


BYTES = {
    "file": (
        (TarEntry(b"a/b", EntryKind.FILE, 0o4755, 1, 2, 5, TIME * NS), b"hello"),
        member(b"a/b", b"hello", mode=0o4755, uid=1, gid=2),
    ),
    "directory": (
        (TarEntry(b"a", EntryKind.DIRECTORY, 0o755), b""),
        header(b"a/", kind=b"5", mode=0o755, mtime=0),
    ),
    "root": ((TarEntry(b"", EntryKind.DIRECTORY, 0o755), b""), header(b"./", kind=b"5", mode=0o755, mtime=0)),
    "symlink": (
        (TarEntry(b"a", EntryKind.SYMLINK, 0o777, link=b"../x"), b""),
        header(b"a", kind=b"2", mode=0o777, mtime=0, link=b"../x"),
    ),
    "hard link": (
        (TarEntry(b"a", EntryKind.HARDLINK, 0o644, link=b"x"), b""),
        header(b"a", kind=b"1", mtime=0, link=b"x"),
    ),
    "device": (
        (TarEntry(b"null", EntryKind.CHARACTER, 0o666, device=(1, 3)), b""),
        header(b"null", kind=b"3", mode=0o666, mtime=0, device=(1, 3)),
    ),
    "block device": (
        (TarEntry(b"sda", EntryKind.BLOCK, 0o660, device=(8, 1)), b""),
        header(b"sda", kind=b"4", mode=0o660, mtime=0, device=(8, 1)),
    ),
    "fifo": ((TarEntry(b"p", EntryKind.FIFO, 0o600), b""), header(b"p", kind=b"6", mode=0o600, mtime=0)),
    "long name with a slash": (
        (TarEntry(b"p" * 60 + b"/" + b"n" * 90, EntryKind.FILE), b""),
        header(b"n" * 90, prefix=b"p" * 60, mtime=0),
    ),
    "xattrs, sorted": (
        (TarEntry(b"a", EntryKind.FILE, xattrs={b"user.b": b"2", b"security.capability": b"\1\0"}), b""),
        header(b"././@PaxHeader", kind=b"x", size=64, mtime=0)
        + b"39 SCHILY.xattr.security.capability=\1\0\n25 SCHILY.xattr.user.b=2\n".ljust(512, b"\0")
        + header(b"a", mtime=0),
    ),
    "owner beyond ustar": (
        (TarEntry(b"a", EntryKind.FILE, uid=2_097_152), b""),
        header(b"././@PaxHeader", kind=b"x", size=15, mtime=0)
        + b"15 uid=2097152\n".ljust(512, b"\0")
        + header(b"a", mtime=0),
    ),
    "time before 1970": (
        (TarEntry(b"a", EntryKind.FILE, mtime_ns=-NS * 3 // 2), b""),
        header(b"././@PaxHeader", kind=b"x", size=14, mtime=0)
        + b"14 mtime=-1.5\n".ljust(512, b"\0")
        + header(b"a", mtime=0),
    ),
    "name that is not ASCII": (
        (TarEntry("é".encode(), EntryKind.FILE), b""),
        header(b"././@PaxHeader", kind=b"x", size=11, mtime=0)
        + b"11 path=\xc3\xa9\n".ljust(512, b"\0")
        + header("é".encode(), mtime=0),
    ),
    "name that is not UTF-8": (
        (TarEntry(b"\xff", EntryKind.FILE), b""),
        header(b"././@PaxHeader", kind=b"x", size=30, mtime=0)
        + b"21 hdrcharset=BINARY\n9 path=\xff\n".ljust(512, b"\0")
        + header(b"\xff", mtime=0),
    ),
}


@pytest.mark.parametrize(("item", "expected"), BYTES.values(), ids=BYTES.keys())
def test_written_bytes(item: tuple[TarEntry, bytes], expected: bytes) -> None:
    assert written([item]) == expected + END
    assert read(written([item])) == [item]


WRONG = {
    "short content": (
        TarEntry(b"a", EntryKind.FILE, size=3),
        b"xx",
        "'a': 2 bytes of content where 3 were announced",
    ),
    "long content": (
        TarEntry(b"a", EntryKind.FILE, size=1),
        b"xx",
        "'a': 2 bytes of content where 1 were announced",
    ),
    "content of a link": (
        TarEntry(b"a", EntryKind.SYMLINK, link=b"x", size=2),
        b"xx",
        "'a': 2 bytes of content where 2 were announced",
    ),
}


@pytest.mark.parametrize(("entry", "content", "message"), WRONG.values(), ids=WRONG.keys())
def test_content_must_be_as_long_as_announced(entry: TarEntry, content: bytes, message: str) -> None:
    with pytest.raises(IntegrityError) as error:
        written([(entry, content)])
    assert str(error.value) == message


@pytest.mark.parametrize("path", [b"/a", b"a/", b"./a", b"a//b", b"../a", b"a/..", b"a\0b"])
def test_names_must_be_normalised(path: bytes) -> None:
    with pytest.raises(ValueError, match=r"name|normalised"):
        written([(TarEntry(path, EntryKind.FILE), b"")])


NAMES = st.binary(min_size=1, max_size=255).filter(
    lambda name: not {b"/"[0], 0} & {*name} and name not in {b".", b".."}
)
PATHS = st.lists(NAMES, min_size=1, max_size=6).map(b"/".join)
TEXT = st.binary(min_size=1, max_size=300).filter(lambda text: 0 not in text)
XATTRS = st.dictionaries(
    st.binary(min_size=1, max_size=60).filter(lambda key: not {0, b"="[0]} & {*key}),
    st.binary(max_size=300),
    max_size=3,
)
OWNERS = st.integers(0, (1 << 32) - 2)
TIMES = st.integers(-(10**20), 10**20)


@st.composite
def items(draw: st.DrawFn) -> tuple[TarEntry, bytes]:
    kind = draw(st.sampled_from(list(EntryKind)))
    content = draw(st.binary(max_size=1500)) if kind is EntryKind.FILE else b""
    path = draw(PATHS)
    entry = TarEntry(
        path,
        kind,
        draw(st.integers(0, 0o7777)),
        draw(OWNERS),
        draw(OWNERS),
        len(content),
        draw(TIMES),
        link={
            EntryKind.SYMLINK: draw(TEXT),
            EntryKind.HARDLINK: draw(PATHS.filter(lambda link: link != path)),
        }.get(kind, b""),
        device=(draw(st.integers(0, 4095)), draw(st.integers(0, (1 << 20) - 1)))
        if kind in (EntryKind.CHARACTER, EntryKind.BLOCK)
        else (0, 0),
        xattrs=draw(XATTRS),
    )
    return entry, content


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(items(), max_size=5))
def test_what_is_written_is_read_again(members: Members) -> None:
    assert read(written(members)) == members


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(items(), min_size=1, max_size=4))
def test_tarfile_reads_the_same(members: Members) -> None:
    with tarfile.open(
        fileobj=io.BytesIO(written(members)), encoding="utf-8", errors="surrogateescape"
    ) as theirs:
        for entry, content in members:
            info = theirs.next()
            assert info is not None
            assert os.fsencode(info.name) == entry.path
            assert (info.mode, info.uid, info.gid) == (entry.mode, entry.uid, entry.gid)
            assert (info.devmajor, info.devminor) == entry.device
            if entry.kind in (EntryKind.SYMLINK, EntryKind.HARDLINK):
                assert os.fsencode(info.linkname) == entry.link
            if entry.kind is EntryKind.FILE:
                file = theirs.extractfile(info)
                assert file is not None
                assert file.read() == content
            assert abs(info.mtime - entry.mtime_ns / NS) < 1e5


FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}


@pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS.keys())
def test_archives_of_tarfile(form: int) -> None:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w", format=form) as theirs:
        for name in ("short", "d" * 60 + "/" + "n" * 80):
            info = tarfile.TarInfo(name)
            info.size, info.mode, info.uid, info.mtime = 3, 0o640, 1234, TIME
            theirs.addfile(info, io.BytesIO(b"abc"))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "t" * 90
        theirs.addfile(link)
    expected = TarEntry(b"", EntryKind.FILE, 0o640, 1234, 0, 3, TIME * NS)
    expected.path = b"short"
    first, second, third = read(sink.getvalue())
    assert first == (expected, b"abc")
    expected.path = b"d" * 60 + b"/" + b"n" * 80
    assert second == (expected, b"abc")
    assert third[0].link == b"t" * 90


@pytest.mark.parametrize("form", ["gnu", "pax"])
def test_long_names_of_tarfile(form: str) -> None:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w", format=FORMATS[form]) as theirs:
        info = tarfile.TarInfo("n" * 250)
        info.type, info.linkname, info.uid = tarfile.SYMTYPE, "t" * 300, 3_000_000
        theirs.addfile(info)
    [(entry, _)] = read(sink.getvalue())
    assert (entry.path, entry.link, entry.uid) == (b"n" * 250, b"t" * 300, 3_000_000)


@pytest.mark.needs("tar")
@pytest.mark.parametrize("form", ["v7", "oldgnu", "gnu", "ustar", "posix"])
def test_archives_of_gnu_tar(form: str, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "folder").mkdir(parents=True)
    (source / "folder" / "file").write_bytes(b"content" * 100)
    (source / "folder" / "link").symlink_to("file")
    os.link(source / "folder" / "file", source / "folder" / "other")
    os.utime(source / "folder" / "file", ns=(TIME * NS, TIME * NS))
    (source / "folder" / "file").chmod(0o640)
    raw = process.run("tar", "-c", f"--format={form}", "--sort=name", "-C", source, ".").stdout
    found = {entry.path: (entry, content) for entry, content in read(raw)}
    assert list(found) == [b"", b"folder", b"folder/file", b"folder/link", b"folder/other"]
    file, content = found[b"folder/file"]
    assert (file.kind, file.mode, file.mtime_ns, content) == (
        EntryKind.FILE,
        0o640,
        TIME * NS,
        b"content" * 100,
    )
    assert (found[b"folder/link"][0].kind, found[b"folder/link"][0].link) == (EntryKind.SYMLINK, b"file")
    assert (found[b"folder/other"][0].kind, found[b"folder/other"][0].link) == (
        EntryKind.HARDLINK,
        b"folder/file",
    )


@pytest.mark.needs("tar")
@pytest.mark.parametrize("form", ["oldgnu", "gnu", "posix"])
def test_long_names_of_gnu_tar(form: str, tmp_path: Path) -> None:
    deep = tmp_path / "source" / ("d" * 120) / ("e" * 120)
    deep.mkdir(parents=True)
    (deep / "link").symlink_to("t" * 200)
    raw = process.run("tar", "-c", f"--format={form}", "-C", tmp_path / "source", ".").stdout
    last = read(raw)[-1][0]
    assert last.path == b"d" * 120 + b"/" + b"e" * 120 + b"/link"
    assert last.link == b"t" * 200


@pytest.mark.needs("tar")
def test_gnu_tar_lists_what_was_written(tmp_path: Path) -> None:
    members: Members = [
        (TarEntry(b"", EntryKind.DIRECTORY, 0o755), b""),
        (TarEntry(b"a" * 150, EntryKind.FILE, 0o4755, 5, 6, 3, TIME * NS), b"xyz"),
        (TarEntry(b"l", EntryKind.SYMLINK, 0o777, link=b"t" * 150), b""),
        (TarEntry(b"n", EntryKind.CHARACTER, 0o666, device=(1, 3)), b""),
    ]
    (tmp_path / "a.tar").write_bytes(written(members))
    listing = process.run(
        "tar", "-tvf", tmp_path / "a.tar", "--numeric-owner", env={"TZ": "UTC", "PATH": os.defpath}
    )
    lines = [line.split() for line in listing.text.splitlines()]
    assert [(line[0], line[1], line[5]) for line in lines] == [
        ("drwxr-xr-x", "0/0", "./"),
        ("-rwsr-xr-x", "5/6", "a" * 150),
        ("lrwxrwxrwx", "0/0", "l"),
        ("crw-rw-rw-", "0/0", "n"),
    ]
    assert lines[1][3:5] == ["2020-09-13", "12:26"]


def test_the_same_members_are_the_same_bytes() -> None:
    members: Members = [
        (TarEntry(b"a", EntryKind.FILE, size=2, xattrs={b"user.b": b"1", b"user.a": b"2"}), b"xy"),
        (TarEntry("é".encode(), EntryKind.DIRECTORY, 0o700), b""),
    ]
    other: Members = [
        (TarEntry(b"a", EntryKind.FILE, size=2, xattrs={b"user.a": b"2", b"user.b": b"1"}), b"xy"),
        members[1],
    ]
    assert written(members) == written(other)
    golden = "1cba830ac7bc470b63efb73d222ff351981afa1b54e06eb73edbef95846039fd"
    assert hashlib.sha256(written(members)).hexdigest() == golden


def test_a_pax_header_is_not_kept_for_the_next_member() -> None:
    raw = pax({b"SCHILY.xattr.user.a": b"1"}) + member(b"a") + member(b"b") + END
    assert [dict(entry.xattrs) for entry, _ in read(raw)] == [{b"user.a": b"1"}, {}]
