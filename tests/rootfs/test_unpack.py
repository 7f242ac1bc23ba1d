"""Unpacking: the resulting root file system, for root and others, under any umask.

Tests of rootfs/tar/archive_warnings.py.
Tests of rootfs/unpacking/layers.py.
Tests of rootfs/unpacking/place.py.
Tests of rootfs/unpacking/removal.py.
Tests of rootfs/unpacking/steps.py.
Tests of rootfs/unpacking/unpack.py.
"""

from __future__ import annotations

import os
import resource
import stat
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandwright import process
from sandwright.errors import ArchiveRefused, HostError
from sandwright.rootfs.tar.limits import ArchiveLimits
from sandwright.rootfs.unpacking.unpack import unpack
from support.tars import (
    TIME,
    archive,
    described,
    device,
    file,
    folder,
    hardlink,
    layer,
    member,
    pax,
    stack,
    symlink,
    tree,
)

NS = 10**9
ROOT = os.geteuid() == 0
NOBODY = 65534
CAPABILITY = bytes.fromhex("0100000200040000000000000000000000000000")
"""cap_net_bind_service, permitted and effective, as the kernel stores it (struct vfs_cap_data, version 2)."""

needs_root = pytest.mark.skipif(not ROOT, reason="needs root")


@pytest.fixture
def nobody(tmp_path: Path) -> Iterator[Path]:
    """A directory of a user without privileges; this process runs as that user during a test."""
    if not ROOT:
        yield tmp_path
        return
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    os.chown(home, NOBODY, NOBODY)
    for above in (tmp_path, *tmp_path.parents):
        if above.stat().st_uid == 0 and above.name.startswith(("pytest", "popen", "test")):
            above.chmod(above.stat().st_mode | 0o111)
    unpack(stack([]), tmp_path / "first")  # modules that Python loads may be root's alone
    groups = os.getgroups()
    os.setgroups([])
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield home
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)


EVERYTHING = [
    folder(b"./", 0o755, mtime=7),
    folder(b"bin", mtime=8),
    file(b"bin/su", b"program", mode=0o4755),
    file(b"bin/wall", b"program", mode=0o2755),
    folder(b"tmp", 0o1777, mtime=9),
    folder(b"mail", 0o2775, mtime=10),
    file(b"mail/in", b"", mode=0o660),
    file(b"secret", b"s", mode=0),
    folder(b"closed", 0, mtime=11),
    file(b"closed/inside", b"x", mode=0o400),
    symlink(b"link", b"bin/su", mtime=12),
    hardlink(b"bin/sudo", b"bin/su"),
    member(b"fifo", kind=b"6", mode=0o622, mtime=13),
    pax({b"mtime": b"1.123456789"}) + file(b"fine"),
    pax({b"mtime": b"-100.5"}) + file(b"old"),
]


def expected(uid: int, gid: int) -> dict[str, tuple[object, ...]]:
    at = TIME * NS
    return {
        ".": ("drwxr-xr-x", uid, gid, None, 7 * NS),
        "bin": ("drwxr-xr-x", uid, gid, None, 8 * NS),
        "bin/su": ("-rwsr-xr-x", uid, gid, b"program", at),
        "bin/sudo": ("-rwsr-xr-x", uid, gid, b"program", at),
        "bin/wall": ("-rwxr-sr-x", uid, gid, b"program", at),
        "closed": ("d---------", uid, gid, None, 11 * NS),
        "closed/inside": ("-r--------", uid, gid, b"x", at),
        "fifo": ("prw--w--w-", uid, gid, None, 13 * NS),
        "fine": ("-rw-r--r--", uid, gid, b"", 1_123_456_789),
        "link": ("lrwxrwxrwx", uid, gid, "bin/su", 12 * NS),
        "mail": ("drwxrwsr-x", uid, gid, None, 10 * NS),
        "mail/in": ("-rw-rw----", uid, gid, b"", at),
        "old": ("-rw-r--r--", uid, gid, b"", -100_500_000_000),
        "secret": ("----------", uid, gid, b"s", at),
        "tmp": ("drwxrwxrwt", uid, gid, None, 9 * NS),
    }


@pytest.mark.parametrize("mask", [0, 0o022, 0o077, 0o777], ids=oct)
@pytest.mark.parametrize("codec", ["gzip", "zstd", "plain"])
def test_everything_is_as_the_layer_says(codec: str, mask: int, tmp_path: Path) -> None:
    before = os.umask(mask)
    try:
        report = unpack([layer(archive(*EVERYTHING), codec)], tmp_path / "rootfs")
    finally:
        os.umask(before)
    assert tree(tmp_path / "rootfs") == expected(os.geteuid(), os.getegid())
    assert (report.layers, report.entries, report.bytes) == (1, 15, len(archive(*EVERYTHING)))
    assert list(report.missing) == list(report.contained) == []


def test_somebody_without_rights_gets_the_same(nobody: Path) -> None:
    report = unpack(stack(EVERYTHING), nobody / "rootfs")
    assert report.owners == "rootless"
    names = [path.name for path in nobody.iterdir()]
    if ROOT:
        os.seteuid(0)
        assert tree(nobody / "rootfs") == expected(NOBODY, NOBODY)
    assert names == ["rootfs"]


OWNED = [
    folder(b"d", uid=5, gid=6),
    file(b"d/f", b"x", uid=7, gid=8, mode=0o6755),
    symlink(b"d/s", b"f", uid=9, gid=10),
    device(b"d/null", 1, 3, uid=11, gid=12, mode=0o666),
    device(b"d/disk", 8, 0, kind=b"4", uid=0, gid=6, mode=0o660),
    file(b"d/mine"),
]


@needs_root
def test_root_gives_files_to_whom_they_belong(tmp_path: Path) -> None:
    report = unpack(stack(OWNED), tmp_path / "rootfs")
    rows = tree(tmp_path / "rootfs", times=False)
    assert rows == {
        ".": ("drwxr-xr-x", 0, 0, None),
        "d": ("drwxr-xr-x", 5, 6, None),
        "d/disk": ("brw-rw----", 0, 6, (8, 0)),
        "d/f": ("-rwsr-sr-x", 7, 8, b"x"),
        "d/mine": ("-rw-r--r--", 0, 0, b""),
        "d/null": ("crw-rw-rw-", 11, 12, (1, 3)),
        "d/s": ("lrwxrwxrwx", 9, 10, "f"),
    }
    assert len(report.missing) == 0


def test_rootless_tells_what_the_tree_has_not(tmp_path: Path) -> None:
    report = unpack(stack(OWNED), tmp_path / "rootfs", owners="rootless")
    uid, gid = os.geteuid(), os.getegid()
    assert tree(tmp_path / "rootfs", times=False) == {
        ".": ("drwxr-xr-x", uid, gid, None),
        "d": ("drwxr-xr-x", uid, gid, None),
        "d/disk": ("----------", uid, gid, b""),
        "d/f": ("-rwsr-sr-x", uid, gid, b"x"),
        "d/mine": ("-rw-r--r--", uid, gid, b""),
        "d/null": ("----------", uid, gid, b""),
        "d/s": ("lrwxrwxrwx", uid, gid, "f"),
    }
    assert report.as_dict()["missing"] == {
        "block device (8, 0) not made: an empty file stands for it": {"count": 1, "examples": ["d/disk"]},
        "character device (1, 3) not made: an empty file stands for it": {"count": 1, "examples": ["d/null"]},
        "owner kept in the xattr user.rootlesscontainers alone": {"count": 2, "examples": ["d", "d/f"]},
        "owner not reproduced: it belongs to the user who unpacked it": {"count": 1, "examples": ["d/s"]},
    }


KEPT = "user.rootlesscontainers"
RECORDS = {  # as umoci 0.4.7 writes them
    (5, 6): b"\x08\x05\x10\x06",
    (0, 300): b"\x08\xff\xff\xff\xff\x0f\x10\xac\x02",
    (70000, 0): b"\x08\xf0\xa2\x04\x10\xff\xff\xff\xff\x0f",
}


def test_rootless_keeps_owners_where_others_look_for_them(tmp_path: Path) -> None:
    lower = [folder(b"d", uid=5, gid=6), *(file(b"d/%d" % uid, uid=uid, gid=gid) for uid, gid in RECORDS)]
    pretending = pax({b"SCHILY.xattr.user.rootlesscontainers": RECORDS[5, 6]}) + file(b"own")
    layers = stack([*lower, pretending, file(b"closed", uid=5, gid=6, mode=0o444)], [folder(b"was", uid=5)])
    rootfs = tmp_path / "rootfs"
    report = unpack([*layers, *stack([folder(b"was")])], rootfs, owners="rootless")
    found = {path.name: path for path in rootfs.rglob("*")}
    assert {name: os.getxattr(found[str(name)], KEPT) for name, _ in RECORDS} == {
        uid: record for (uid, _), record in RECORDS.items()
    }
    assert os.getxattr(found["d"], KEPT) == os.getxattr(found["closed"], KEPT) == RECORDS[5, 6]
    assert stat.S_IMODE(found["closed"].stat().st_mode) == 0o444
    assert not any(KEPT in os.listxattr(found[name]) for name in ("own", "was"))
    assert "xattr 'user.rootlesscontainers' masked" in report.missing


def test_a_stand_in_for_a_device_can_be_linked_to_and_taken_away(tmp_path: Path) -> None:
    layers = stack([device(b"null", 1, 3)], [hardlink(b"zero", b"null")], [file(b".wh.null")])
    unpack(layers, tmp_path / "rootfs", owners="rootless")
    assert [path.name for path in (tmp_path / "rootfs").iterdir()] == ["zero"]


def xattr(name: bytes, value: bytes) -> bytes:
    return pax({b"SCHILY.xattr." + name: value})


@needs_root
def test_capabilities_and_user_xattrs_are_restored(tmp_path: Path) -> None:
    """They are set after the owner and the content, which clear capabilities (capabilities(7))."""
    report = unpack(
        stack(
            [
                xattr(b"security.capability", CAPABILITY) + file(b"ping", b"program", uid=5, mode=0o755),
                xattr(b"user.note", b"\0\xff") + folder(b"d"),
            ]
        ),
        tmp_path / "rootfs",
    )
    assert os.getxattr(tmp_path / "rootfs" / "ping", "security.capability") == CAPABILITY
    assert os.getxattr(tmp_path / "rootfs" / "d", "user.note") == b"\0\xff"
    assert len(report.missing) == 0


def test_labels_acls_and_orders_to_overlayfs_are_masked_and_told(tmp_path: Path) -> None:
    masked = [
        b"security.selinux",
        b"system.posix_acl_access",
        b"trusted.overlay.opaque",
        b"user.overlay.redirect",
    ]
    raw = b"".join(xattr(name, b"x") + file(b"f%d" % number) for number, name in enumerate(masked))
    report = unpack(stack([raw]), tmp_path / "rootfs")
    for number in range(len(masked)):
        assert os.listxattr(tmp_path / "rootfs" / f"f{number}") == []
    assert [kind for kind, _ in report.missing] == [f"xattr '{name.decode()}' masked" for name in masked]


def test_xattrs_that_can_not_be_set_are_told(tmp_path: Path) -> None:
    """The kernel permits no user xattrs on symbolic links (xattr(7)), and no such capability."""
    raw = (
        xattr(b"user.a", b"1") + symlink(b"s", b"x"),
        xattr(b"security.capability", b"nonsense") + file(b"f"),
    )
    report = unpack(stack(raw), tmp_path / "rootfs")
    kinds = [kind for kind, _ in report.missing]
    assert [kind.partition(":")[0] for kind in kinds] == [
        "xattr 'security.capability' not set",
        "xattr 'user.a' not set",
    ]


def test_a_directory_that_comes_again_has_the_new_xattrs_only(tmp_path: Path) -> None:
    lower, upper = xattr(b"user.a", b"1") + folder(b"d"), xattr(b"user.b", b"2") + folder(b"d")
    unpack(stack([lower], [upper]), tmp_path / "rootfs")
    assert os.listxattr(tmp_path / "rootfs" / "d") == ["user.b"]


@needs_root
def test_a_setgid_directory_above_lends_nothing(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    os.chown(store, 0, 4242)
    store.chmod(0o2755)
    unpack(stack([folder(b"d"), file(b"f"), symlink(b"s", b"x"), file(b"e/g")]), store / "rootfs")
    assert {row[2] for row in tree(store / "rootfs").values()} == {0}
    assert tree(store / "rootfs")["d"][0] == "drwxr-xr-x"


@needs_root
def test_a_setgid_directory_of_the_image_lends_nothing_that_the_image_does_not_say(tmp_path: Path) -> None:
    members = [
        folder(b"d", 0o2775, gid=77),
        folder(b"d/e", gid=5),
        file(b"d/f"),
        symlink(b"d/s", b"x"),
        file(b"d/g/h"),
    ]
    unpack(stack(members), tmp_path / "rootfs")
    rows = tree(tmp_path / "rootfs")
    assert [rows[name][0] for name in ("d", "d/e", "d/g")] == ["drwxrwsr-x", "drwxr-xr-x", "drwxr-xr-x"]
    assert [rows[name][2] for name in ("d", "d/e", "d/f", "d/s", "d/g", "d/g/h")] == [77, 5, 0, 0, 0, 0]


def test_a_default_acl_above_lends_nothing(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir(mode=0o700)
    entries = [(0x01, 7, -1), (0x02, 7, 4242), (0x04, 7, -1), (0x10, 7, -1), (0x20, 7, -1)]
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
    try:
        os.setxattr(store, "system.posix_acl_default", acl)
    except OSError as error:
        pytest.skip(f"no ACLs here: {error}")
    unpack(stack([folder(b"d", 0o700), file(b"d/f", mode=0o600)]), store / "rootfs")
    assert [row[0] for row in tree(store / "rootfs").values()] == ["drwxr-xr-x", "drwx------", "-rw-------"]
    assert [os.listxattr(path) for path in (store / "rootfs", store / "rootfs" / "d")] == [[], []]


ALONE = """\
import sys
from pathlib import Path
from typing import Any
sys.path[:0] = {paths!r}
from support.tars import file, stack
from sandwright.rootfs.unpacking.unpack import unpack
owners = sys.argv[1] if len(sys.argv) > 1 else None
print(unpack(stack([file(b"a", uid=5, gid=6), file(b"b")]), Path({destination!r}), owners=owners).owners)
"""


@pytest.mark.needs("unshare")
def test_root_who_is_alone_in_its_namespace(tmp_path: Path) -> None:
    script = ALONE.format(paths=sys.path, destination=str(tmp_path / "rootfs"))
    if not process.run("unshare", "-Ur", "true", check=False):
        pytest.skip("no user namespaces here")
    forced = process.run("unshare", "-Ur", sys.executable, "-c", script, "root", check=False)
    assert (
        "'a': cannot change its owner to 5:6 here (Invalid argument); unpacking rootless gives nothing"
        in forced.stderr
    )
    assert list(tmp_path.iterdir()) == []
    assert process.run("unshare", "-Ur", sys.executable, "-c", script).text == "rootless"


ROOT_MODES = {0o555: "dr-xr-xr-x", 0: "d---------", 0o1777: "drwxrwxrwt"}


@pytest.mark.parametrize(("mode", "shown"), ROOT_MODES.items(), ids=map(oct, ROOT_MODES))
def test_the_roots_own_mode(mode: int, shown: str, nobody: Path) -> None:
    unpack(stack([folder(b".", mode), file(b"a")]), nobody / "rootfs")
    assert stat.filemode((nobody / "rootfs").stat().st_mode) == shown


def test_layers_that_change_what_is_closed(nobody: Path) -> None:
    """Closed directories are filled, emptied and removed, and are closed again afterwards."""
    lower = [
        folder(b"a", 0),
        file(b"a/x"),
        folder(b"b", 0o111),
        file(b"b/x"),
        folder(b"c", 0o500),
        file(b"c/d/x"),
    ]
    upper = [
        file(b"a/y", b"1"),
        file(b"b/.wh..wh..opq"),
        file(b".wh.c"),
        *(folder(b"n%d" % n) for n in range(300)),
    ]
    unpack(stack(lower, upper, [file(b"a/z")]), nobody / "rootfs")
    if ROOT:
        os.seteuid(0)
        rows = {name: row for name, row in tree(nobody / "rootfs").items() if not name.startswith("n")}
        assert list(rows) == [".", "a", "a/x", "a/y", "a/z", "b"]
        assert (rows["a"][0], rows["b"][0]) == ("d---------", "d--x--x--x")


def test_no_layers_are_an_empty_root(tmp_path: Path) -> None:
    unpack([], tmp_path / "rootfs")
    assert list(tree(tmp_path / "rootfs", times=False).values()) == [
        ("drwxr-xr-x", os.geteuid(), os.getegid(), None)
    ]


def test_what_no_member_speaks_of_has_the_same_time_everywhere(tmp_path: Path) -> None:
    unpack(stack([file(b"a/b/c")]), tmp_path / "rootfs")
    assert [row[4] for row in tree(tmp_path / "rootfs").values()] == [0, 0, 0, TIME * NS]


@pytest.mark.parametrize("time", [b"4611686018427387903", b"-4611686018427387903.999999999"])
def test_times_that_no_disk_can_hold(time: bytes, tmp_path: Path) -> None:
    """The kernel uses the nearest time of its file system (timestamp_truncate)."""
    members = [pax({b"mtime": time}) + made for made in (file(b"f"), folder(b"d"), symlink(b"s", b"x"))]
    unpack(stack(members), tmp_path / "rootfs")
    assert len(tree(tmp_path / "rootfs")) == 4


def test_a_thousand_directories_deep(tmp_path: Path) -> None:
    """Each name has one letter; the last path is 2,000 bytes long. They can be removed again."""
    deep = b"/".join([b"d"] * 1000)
    unpack(stack([file(deep + b"/f", b"1")]), tmp_path / "rootfs")
    found = process.run("find", tmp_path / "rootfs", "-type", "f", "-printf", "%d")
    assert found.text == "1001"
    unpack(stack([file(deep + b"/f", b"1")], [file(b".wh.d")]), tmp_path / "again")
    assert list((tmp_path / "again").iterdir()) == []
    process.run("rm", "-r", tmp_path / "rootfs")


def test_few_descriptors_are_enough(tmp_path: Path) -> None:
    """3,000 directories, nested and side by side, need no more than 256 descriptors."""
    many = [file(b"%d/%d/f" % (number % 1000, number), b"") for number in range(3000)]
    deep = [file(b"/".join([b"d"] * 600) + b"/f")]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256 + len([*Path("/proc/self/fd").iterdir()]), hard))
    try:
        unpack(stack([*many, *deep], [file(b".wh.d"), *many]), tmp_path / "rootfs")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert sum(1 for path in (tmp_path / "rootfs").rglob("f")) == 3000


def test_links_can_not_lead_deeper_than_the_limit(tmp_path: Path) -> None:
    chain = b"/".join([b"d"] * 900)
    layers = stack([symlink(b"s", chain), file(b"s/" + chain + b"/f")])
    with pytest.raises(ArchiveRefused, match="links lead it deeper than 1024 directories"):
        unpack(layers, tmp_path / "rootfs")
    assert list(tmp_path.iterdir()) == []


def test_links_can_not_make_every_member_a_long_way(tmp_path: Path) -> None:
    """Forty links of two thousand components each take a second, for every member again."""
    links = [symlink(b"l0", b"./" * 2000)]
    links += [symlink(b"l%d" % n, b"./" * 1900 + b"l%d" % (n - 1)) for n in range(1, 39)]
    with pytest.raises(
        ArchiveRefused, match="'l38/f': its folder 'l38' leads through too many symbolic links"
    ):
        unpack(stack([*links, file(b"l38/f")]), tmp_path / "rootfs")


def test_a_link_whose_target_is_too_long_to_follow(tmp_path: Path) -> None:
    layers = stack([symlink(b"s", b"n" * 300), file(b"s/f")])
    with pytest.raises(
        ArchiveRefused, match=r"'s/f': it lies below 'n+…n+', which is not a directory|name .* too long"
    ):
        unpack(layers, tmp_path / "rootfs")


LIMITS = {
    "entries": (ArchiveLimits(entries=5), r"'[df]': it is one more than the \d members allowed"),
    "bytes": (ArchiveLimits(bytes=5000), r"with it the archive has more than \d+ bytes"),
    "ratio": (
        ArchiveLimits(ratio=2, ratio_floor=100),
        r"bytes have become \d+; at most 2 for one are let through",
    ),
}


@pytest.mark.parametrize(("limits", "message"), LIMITS.values(), ids=LIMITS.keys())
def test_limits_hold_for_all_layers_together(limits: ArchiveLimits, message: str, tmp_path: Path) -> None:
    layers = stack([file(b"a"), file(b"b"), file(b"c")], [file(b"d"), file(b"e"), file(b"f")])
    unpack(layers, tmp_path / "rootfs")
    with pytest.raises(ArchiveRefused, match=message):
        unpack(layers, tmp_path / "other", limits=limits)
    assert [path.name for path in tmp_path.iterdir()] == ["rootfs"]


def test_progress_is_told_in_bytes_of_the_blob(tmp_path: Path) -> None:
    told: list[tuple[str, int | None]] = []
    done = []

    class Watching:
        def step(self, label: str, total: int | None = None, *, unit: str = "bytes") -> Watching:
            assert unit == "bytes"
            told.append((label, total))
            return self

        def note(self, text: str) -> None:
            raise AssertionError(text)

        def advance(self, amount: int) -> None:
            done.append(amount)

        def __enter__(self) -> Watching:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    layers = stack([file(b"a", b"x" * 10_000)], [file(b"b")])
    unpack(layers, tmp_path / "rootfs", progress=Watching())
    assert told == [(f"unpack {one.digest[:19]}", one.size) for one in layers]
    assert sum(done) == sum(one.size for one in layers)


def test_a_codec_that_is_not_the_media_types_is_told(tmp_path: Path) -> None:
    honest = layer(archive(file(b"a")), "zstd")
    lying = described(
        honest.open().read(), archive(file(b"a")), "application/vnd.oci.image.layer.v1.tar+gzip"
    )
    report = unpack([lying], tmp_path / "rootfs")
    assert [kind for kind, _ in report.contained] == [
        "application/vnd.oci.image.layer.v1.tar+gzip is really zstd"
    ]


def test_a_report_stays_small_whatever_a_layer_makes_up(tmp_path: Path) -> None:
    raw = b"".join(pax({b"EVIL.\x1b[%d" % number: b"x"}) + file(b"f%d" % number) for number in range(500))
    report = unpack(stack([raw]), tmp_path / "rootfs")
    kinds = dict(report.contained)
    assert len(kinds) == 201
    assert kinds["more of other kinds"].count == 300
    assert "PAX key 'EVIL.\\x1b[0' ignored" in kinds


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte, mounted nosuid."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = process.run("mount", "-t", "tmpfs", "-o", "size=1m,nosuid", "none", disk, check=False)
    if not mounted:
        pytest.skip(f"may not mount here: {mounted.stderr.strip()}")
    try:
        yield disk
    finally:
        process.run("umount", disk)


@needs_root
@pytest.mark.needs("mount")
def test_a_full_disk(small_disk: Path) -> None:
    layers = stack([file(b"a", b"x"), file(b"usr/big", bytes(3 << 20))])
    with pytest.raises(HostError) as error:
        unpack(layers, small_disk / "rootfs")
    assert str(error.value) == f"layer {layers[0].digest}: 'usr/big': the disk is full"
    assert list(small_disk.iterdir()) == []
    unpack(stack([file(b"a", b"x")]), small_disk / "rootfs")
    assert (small_disk / "rootfs" / "a").read_bytes() == b"x"


@needs_root
@pytest.mark.needs("mount")
def test_setuid_programs_on_a_disk_where_they_are_none_are_told(small_disk: Path) -> None:
    report = unpack(stack([file(b"su", mode=0o4755), file(b"ls", mode=0o755)]), small_disk / "rootfs")
    kind = "setuid or setgid bit without effect: the file system is mounted nosuid"
    assert report.as_dict()["missing"] == {kind: {"count": 1, "examples": ["su"]}}


MEASURED = """\
import hashlib, sys, zlib
from pathlib import Path
from typing import Any
sys.path[:0] = {paths!r}
from sandwright.rootfs.unpacking.unpack import ImageLayer, unpack
from support.tars import header
size = {size} << 20
def pieces():
    yield header(b"big", size=size)
    for _ in range(size >> 16):
        yield bytes(1 << 16)
    yield bytes(1024)
blob, inner = Path({blob!r}), hashlib.sha256()
deflate = zlib.compressobj(1, zlib.DEFLATED, 31)
with blob.open("wb") as sink:
    for piece in pieces():
        inner.update(piece)
        sink.write(deflate.compress(piece))
    sink.write(deflate.flush())
digests = ["sha256:" + found.hexdigest() for found in (hashlib.sha256(blob.read_bytes()), inner)]
kind = "application/vnd.oci.image.layer.v1.tar+gzip"
one = ImageLayer(digests[0], blob.stat().st_size, kind, digests[1], lambda: blob.open("rb"))
unpack([one], Path({destination!r}))
[peak] = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
print(peak.split()[1])
"""


def test_memory_does_not_grow_with_the_layer(tmp_path: Path) -> None:
    def peak(megabytes: int) -> int:
        script = MEASURED.format(
            paths=sys.path,
            size=megabytes,
            blob=str(tmp_path / "blob"),
            destination=str(tmp_path / f"rootfs{megabytes}"),
        )
        return int(process.run(sys.executable, "-c", script, timeout=120).text)

    assert peak(200) - peak(10) < 8 * 1024


def test_two_deep_directories_in_turns_are_not_walked_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two directories 900 deep get a hundred files in turns: no path is walked twice for it."""
    one, other = b"/".join([b"a"] * 900), b"/".join([b"b"] * 900)
    turns = [file(folder_ + b"/f%d" % number) for number in range(50) for folder_ in (one, other)]
    opened, count = os.open, [0]

    def counted(*arguments: Any, **options: Any) -> int:
        count[0] += 1
        return opened(*arguments, **options)

    monkeypatch.setattr(os, "open", counted)
    unpack(stack(turns), tmp_path / "rootfs")
    monkeypatch.undo()
    assert count[0] < 4000
    process.run("rm", "-r", tmp_path / "rootfs")


def test_deep_members_apart_from_each_other_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand steps for each of many members: the cost grows with the square of the archive's length."""
    monkeypatch.setattr("sandwright.rootfs.unpacking.steps._FREE", 2_000)
    chains = [b"/".join([b"%d" % number] + [b"d"] * 200) for number in range(16)]
    members = [file(chain + b"/f%d" % number) for number in range(30) for chain in chains]
    with pytest.raises(ArchiveRefused, match="and those before it are too many directories to enter"):
        unpack(stack(members), tmp_path / "rootfs")
    assert list(tmp_path.iterdir()) == []


def test_a_way_up_from_deep_directories(tmp_path: Path) -> None:
    """`..` of a directory whose parents were closed leads to its parent, and stops at the root."""
    deep = b"/".join([b"d"] * 500)
    up = symlink(deep + b"/up", b"../" * 499 + b"top")
    beyond = symlink(deep + b"/beyond", b"../" * 900 + b"top")
    unpack(
        stack([folder(b"top"), up, beyond, file(deep + b"/up/f", b"1"), file(deep + b"/beyond/g", b"2")]),
        tmp_path / "rootfs",
    )
    root = tmp_path / "rootfs"
    assert ((root / "d/top/f").read_bytes(), (root / "top/g").read_bytes()) == (b"1", b"2")
    process.run("rm", "-r", tmp_path / "rootfs")
