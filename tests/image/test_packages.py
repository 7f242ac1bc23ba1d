"""From packages to a layer: the place of each file, omitted files, and refusals.

Tests of image/packages.py.
"""

from __future__ import annotations

import gzip
import tarfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from sandwright.errors import ArchiveRefused, BuildError, IntegrityError
from sandwright.image.layer import writing_layer
from sandwright.image.layout import staging
from sandwright.image.packages import PackageRules, PackageSource, WrittenPackages, write_packages
from sandwright.image.tree import merge, unsettled
from sandwright.rootfs.elf import Elf
from support import debs
from support.debs import Member, deb, folder, link, read_tar, source
from support.elves import elf

EPOCH = debs.TIME + 1000
PLAIN = PackageRules(EPOCH)
MERGED = PackageRules(EPOCH, merged_usr=True)


def layer_of(
    tmp_path: Path, sources: Sequence[PackageSource], rules: PackageRules = PLAIN
) -> tuple[list[Member], WrittenPackages]:
    """Write a layer, and read it with Python's tarfile."""
    with ThreadPoolExecutor(2) as pool, staging(tmp_path / "out") as area:
        with writing_layer(area, pool, Event()) as writer:
            written = write_packages(sources, rules, writer)
        packed = (area.path / writer.layer.blob.name).read_bytes()
    return read_tar(gzip.decompress(packed)), written


def one(tmp_path: Path, members: Sequence[Member], rules: PackageRules = PLAIN) -> list[Member]:
    return layer_of(tmp_path, [source(tmp_path, deb(members))], rules)[0]


def names(members: Sequence[Member]) -> list[str]:
    return [member.path for member in members]


def test_everything_that_a_member_is_stays(tmp_path: Path) -> None:
    """Owners, modes, setuid, devices, hard links and capabilities are in the stream, never on disk."""
    capability = "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    members = [
        folder("./"),
        folder("./usr/", 0o2775, uid=7, gid=50),
        Member("./usr/su", "x", mode=0o4755),
        Member("./usr/ping", "y", pax={"SCHILY.xattr.security.capability": capability}),
        Member("./usr/again", kind=tarfile.LNKTYPE, link="./usr/su"),
        link("./usr/link", "../../../outside"),
        Member("./usr/null", kind=tarfile.CHRTYPE, mode=0o666, device=(1, 3)),
        Member("./usr/disk", kind=tarfile.BLKTYPE, mode=0o660, gid=6, device=(8, 0)),
        Member("./usr/pipe", kind=tarfile.FIFOTYPE, mode=0o600),
    ]
    found = {member.path: member for member in one(tmp_path, members)}
    assert list(found) == [member.path.strip("./") for member in members[1:]]
    assert (found["usr"].mode, found["usr"].uid, found["usr"].gid) == (0o2775, 7, 50)
    assert (found["usr/su"].mode, found["usr/su"].content) == (0o4755, b"x")
    assert found["usr/ping"].pax == {"SCHILY.xattr.security.capability": capability}
    assert (found["usr/again"].kind, found["usr/again"].link) == (tarfile.LNKTYPE, "usr/su")
    assert (found["usr/link"].kind, found["usr/link"].link) == (tarfile.SYMTYPE, "../../../outside")
    assert (found["usr/null"].kind, found["usr/null"].device) == (tarfile.CHRTYPE, (1, 3))
    assert (found["usr/disk"].kind, found["usr/disk"].device) == (tarfile.BLKTYPE, (8, 0))
    assert found["usr/pipe"].kind == tarfile.FIFOTYPE


def test_no_file_is_younger_than_the_epoch(tmp_path: Path) -> None:
    found = one(tmp_path, [Member("./old", mtime=EPOCH - 5), Member("./young", mtime=EPOCH + 5)])
    assert [member.mtime for member in found] == [EPOCH - 5, EPOCH]


def test_directories_that_a_package_leaves_out_are_made(tmp_path: Path) -> None:
    found = one(tmp_path, [Member("./a/b/c", "x")])
    assert [(each.path, each.kind, each.mode) for each in found] == [
        ("a", tarfile.DIRTYPE, 0o755),
        ("a/b", tarfile.DIRTYPE, 0o755),
        ("a/b/c", tarfile.REGTYPE, 0o644),
    ]


def test_a_directory_is_written_once_in_a_layer(tmp_path: Path) -> None:
    first = source(tmp_path, deb([folder("./usr"), Member("./usr/a")], name="first"), name="first")
    second = source(tmp_path, deb([folder("./usr"), Member("./usr/b")], name="second"), name="second")
    members, _ = layer_of(tmp_path, [first, second])
    assert names(members) == ["usr", "usr/a", "usr/b"]


def test_what_two_layers_disagree_on_is_found(tmp_path: Path) -> None:
    """base-files decides; otherwise the first package by name does."""
    made = {}
    for name, mode in (("aaa", 0o700), ("base-files", 0o1777), ("zzz", 0o755)):
        raw = deb([folder("./tmp", mode), folder("./same")], name=name)
        made[name] = layer_of(tmp_path, [source(tmp_path, raw, name=name)])[1]
    tree = merge(package for written in made.values() for package in written.packages)
    assert tree.nodes[b"tmp"].mode == 0o1777
    assert unsettled(tree, [written.directories for written in made.values()]) == [b"tmp"]


def test_merged_usr_moves_what_lies_below_top_directories(tmp_path: Path) -> None:
    members = [
        folder("./"),
        folder("./bin/"),
        Member("./bin/sh", "x", mode=0o755),
        Member("./bin/bash", kind=tarfile.LNKTYPE, link="./bin/sh"),
        folder("./lib64/"),
        link("./lib64/ld.so", "/lib/ld.so"),
        Member("./binary", "y"),
        Member("./usr/lib/z", "z"),
    ]
    found = {member.path: member for member in one(tmp_path, members, MERGED)}
    below = ["usr", "usr/bin", "usr/bin/sh", "usr/bin/bash", "usr/lib64", "usr/lib64/ld.so"]
    assert list(found) == [*below, "binary", "usr/lib", "usr/lib/z"]
    assert found["usr/bin/bash"].link == "usr/bin/sh"
    assert found["usr/lib64/ld.so"].link == "/lib/ld.so"


def test_the_link_that_merging_makes_may_come_from_a_package(tmp_path: Path) -> None:
    assert names(one(tmp_path, [folder("./usr/bin"), link("./bin", "usr/bin")], MERGED)) == ["usr", "usr/bin"]


@pytest.mark.parametrize("member", [link("./bin", "/etc"), Member("./lib64", "x")], ids=["link", "file"])
def test_nothing_else_may_stand_there(tmp_path: Path, member: Member) -> None:
    with pytest.raises(
        BuildError, match=r"^package thing 1\.0-1 \(amd64\): '(bin|lib64)' is neither a directory nor"
    ):
        one(tmp_path, [member], MERGED)


def wanted(path: str) -> bool:
    return not path.startswith("/doc/") or path.endswith("/copyright")


def test_what_is_not_wanted_is_left_out(tmp_path: Path) -> None:
    members = [
        folder("./doc", 0o700),
        folder("./doc/a", 0o750),
        folder("./doc/b"),
        Member("./doc/a/readme", "long"),
    ]
    members += [Member("./doc/a/copyright", "mine"), Member("./doc/b/readme", "more")]
    found = one(tmp_path, members, PackageRules(EPOCH, wanted=wanted))
    assert [(each.path, each.mode) for each in found] == [
        ("doc", 0o700),
        ("doc/a", 0o750),
        ("doc/a/copyright", 0o644),
    ]


def test_a_hard_link_whose_file_is_not_wanted_becomes_the_file(tmp_path: Path) -> None:
    members = [Member("./doc/a", "content", mode=0o640)]
    members += [Member(f"./{name}", kind=tarfile.LNKTYPE, link="./doc/a") for name in ("doc/x", "b", "c")]
    members += [Member("./d", kind=tarfile.LNKTYPE, link="./doc/x")]
    found = one(tmp_path, members, PackageRules(EPOCH, wanted=lambda path: not path.startswith("/doc")))
    assert [(each.path, each.kind, each.content, each.link, each.mode) for each in found] == [
        ("b", tarfile.REGTYPE, b"content", "", 0o640),
        ("c", tarfile.LNKTYPE, b"", "b", found[1].mode),
        ("d", tarfile.LNKTYPE, b"", "b", found[2].mode),
    ]


def test_asked_for_contents_and_sonames_are_noted(tmp_path: Path) -> None:
    members = [
        Member("./etc/kept", "this"),
        Member("./etc/passed", "that"),
        Member("./lib/liba.so.1", elf("liba.so.1")),
        Member("./lib/far.txt", elf("far")),
    ]
    written = layer_of(
        tmp_path, [source(tmp_path, deb(members))], PackageRules(EPOCH, True, keep=lambda p: p == b"etc/kept")
    )[1]
    (package,) = written.packages
    assert package.contents == {b"etc/kept": b"this"}
    assert package.elves == {
        b"usr/lib/liba.so.1": Elf((64, 1, 62), needed=(b"libc.so.6",), soname=b"liba.so.1")
    }
    assert package.control["control"].startswith(b"Package: thing\n")


REFUSED = {
    "twice": (
        [Member("./a"), Member("./a")],
        BuildError,
        r"^package thing 1\.0-1 \(amd64\): has 'a' twice$",
    ),
    "directory over file": (
        [Member("./a"), folder("./a")],
        BuildError,
        r"has 'a' twice$",
    ),
    "hard link to nothing": (
        [Member("./a", kind=tarfile.LNKTYPE, link="b"), Member("./b")],
        BuildError,
        r"'a' is a hard link to 'b', which is no file before it$",
    ),
    "whiteout": (
        [Member("./etc/.wh.passwd")],
        BuildError,
        r"'etc/\.wh\.passwd' would hide a file of the image$",
    ),
    "opaque directory": ([Member("./.wh..wh..opq/x")], BuildError, r"would hide a file of the image$"),
    "climbs": ([Member("./../x")], ArchiveRefused, r"its name climbs with '\.\.'"),
}


@pytest.mark.parametrize(("members", "error", "message"), REFUSED.values(), ids=list(REFUSED))
def test_refused(tmp_path: Path, members: list[Member], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        one(tmp_path, members)
    assert list((tmp_path / "out").iterdir()) == []


def test_merging_can_make_a_path_twice(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"has 'usr/lib/x' twice$"):
        one(tmp_path, [Member("./lib/x"), Member("./usr/lib/x")], MERGED)


@pytest.mark.parametrize("key", ["Package", "Version", "Architecture"])
def test_a_package_must_be_the_one_the_lock_names(tmp_path: Path, key: str) -> None:
    said = {"Package": "name", "Version": "version", "Architecture": "architecture"}[key]
    other = deb([], **{said: {"Architecture": "all"}.get(key, "2.0")})  # type: ignore[arg-type]
    with pytest.raises(
        BuildError, match=rf"^package thing 1\.0-1 \(amd64\): its {key} is '(2\.0|all)', the lock says"
    ):
        layer_of(tmp_path, [source(tmp_path, other)])


def test_a_flipped_bit_in_the_data_goes_before_what_it_led_to(tmp_path: Path) -> None:
    raw = bytearray(deb([Member("./a", "x" * 5000)], suffix=""))
    good = source(tmp_path, bytes(raw))
    raw[raw.index(b"./a")] ^= 0x20
    good.path.write_bytes(raw)
    with pytest.raises(IntegrityError, match=r"^package thing 1\.0-1 \(amd64\): its SHA-256 is"):
        layer_of(tmp_path, [good])


CONFLICTS = {
    "two files": ([Member("./a")], [Member("./a")], r"'a': a file of first, a file of second"),
    "file and directory": ([Member("./a")], [folder("./a")], r"'a': a file of first, a directory of second"),
    "below a link": (
        [folder("./d"), link("./d/l", "/etc")],
        [folder("./d"), Member("./d/l/passwd")],
        r"'d/l': a symbolic link of first, a directory of second",
    ),
    "below a file": ([Member("./a")], [Member("./a/b")], r"'a': a file of first, a directory of second"),
}


@pytest.mark.parametrize(("first", "second", "message"), CONFLICTS.values(), ids=list(CONFLICTS))
def test_conflicts(tmp_path: Path, first: list[Member], second: list[Member], message: str) -> None:
    sources = [
        source(tmp_path, deb(data, name=name), name=name)
        for name, data in (("first", first), ("second", second))
    ]
    with pytest.raises(BuildError, match=f"packages are in each other's way:\n  {message}"):
        merge(layer_of(tmp_path, sources)[1].packages)


def test_many_conflicts_are_counted(tmp_path: Path) -> None:
    data = [Member(f"./{number:02}") for number in range(25)]
    sources = [source(tmp_path, deb(data, name=name), name=name) for name in ("first", "second")]
    with pytest.raises(BuildError, match=r"'00': a file of first, a file of second\n(.*\n){9}  and 15 more$"):
        merge(layer_of(tmp_path, sources)[1].packages)
