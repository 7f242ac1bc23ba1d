"""Layers that attack the host, each known from a CVE: all files outside of the root stay unchanged.

Beside every root lies a canary: files and directories whose content, mode, owner, time, number of names and
xattrs are compared. A layer is either refused, with its entry named, or contained: then its intended change
outside happened inside the root, or not at all.

Tests of rootfs/securejoin.py.
Tests of rootfs/unpacking/tree.py.
"""

from __future__ import annotations

import dataclasses
import io
import os
import shutil
import stat
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sandwright import process
from sandwright.errors import ArchiveRefused, IntegrityError
from sandwright.rootfs.tar.limits import ArchiveLimits
from sandwright.rootfs.unpacking.unpack import unpack
from support.tars import (
    GNU,
    archive,
    device,
    file,
    folder,
    hardlink,
    header,
    layer,
    long,
    member,
    padded,
    pax,
    stack,
    symlink,
)

ROOT = os.geteuid() == 0
PATIENCE = 30.0
"""Seconds after which an unpacking counts as hanging; each takes some hundredths."""


@dataclass(frozen=True)
class Host:
    """A directory with a canary in it, and a path for a root beside it."""

    home: Path

    @property
    def canary(self) -> Path:
        return self.home / "canary"

    @property
    def root(self) -> Path:
        return self.home / "store" / "rootfs"

    def out(self, path: str = "") -> bytes:
        """The absolute path of a file in the canary."""
        return os.fsencode(self.canary / path)

    def state(self) -> dict[str, tuple[object, ...]]:
        """Everything that an attack could change, except the store."""
        found: dict[str, tuple[object, ...]] = {}
        for path in [self.home, self.canary, *self.canary.rglob("*")]:
            status = path.lstat()
            content = path.read_bytes() if stat.S_ISREG(status.st_mode) else None
            times = () if path == self.home else (status.st_mtime_ns, status.st_ctime_ns)
            fields = (
                status.st_mode,
                status.st_uid,
                status.st_gid,
                status.st_nlink,
                status.st_ino,
                status.st_size,
            )
            found[str(path)] = (*fields, *times, content, tuple(os.listxattr(path, follow_symlinks=False)))
        found["names"] = tuple(sorted(path.name for path in self.home.iterdir()))
        return found


def inodes(top: Path) -> set[int]:
    """The inodes of everything below a directory, however long its paths are."""
    return {
        os.stat(name, dir_fd=fd, follow_symlinks=False).st_ino
        for _, folders, files, fd in os.fwalk(top)
        for name in folders + files
    }


def furnished(home: Path) -> Host:
    """A host with a canary."""
    host = Host(home)
    for path in ("dir/inside", "file", "secret"):
        (host.canary / path).parent.mkdir(parents=True, exist_ok=True)
        (host.canary / path).write_text(f"canary {path}")
        (host.canary / path).chmod(0o640)
    (host.canary / "link").symlink_to("file")
    host.root.parent.mkdir(mode=0o700)
    return host


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """A host that must be the same after the test."""
    host = furnished(tmp_path)
    before = host.state()
    yield host
    assert host.state() == before
    if host.root.exists():
        assert not inodes(host.canary) & inodes(host.root)


def attempt(host: Host, *layers: list[bytes]) -> str:
    """Unpack, within the time limit; "contained", or the reason of the refusal after the layer's name."""
    outcome: list[str] = []

    def work() -> None:
        try:
            unpack(stack(*layers), host.root)
            outcome.append("contained")
        except ArchiveRefused as refused:
            outcome.append(str(refused).partition(": ")[2])

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(timeout=PATIENCE)
    assert outcome, "it hangs, or failed in another way than by a refusal"
    if outcome[0] != "contained":
        assert list(host.root.parent.iterdir()) == []
    return outcome[0]


# Every kind of member and every primitive, through every shape of link.

SHAPES: dict[str, Callable[[Host], list[bytes]]] = {
    "absolute": lambda host: [symlink(b"bridge", host.out())],
    "absolute, doubled slashes": lambda host: [
        symlink(b"bridge", b"//" + host.out()[1:].replace(b"/", b"//"))
    ],
    "relative": lambda _: [symlink(b"bridge", b"../../canary")],
    "relative from deep inside": lambda _: [
        folder(b"a/b/c"),
        symlink(b"bridge", b"a/b/c/../../../../../canary"),
    ],
    "through what is not there": lambda _: [symlink(b"bridge", b"no/../../../canary")],
    "far up": lambda host: [symlink(b"bridge", b"../" * 40 + host.out()[1:])],
    "a chain": lambda host: [
        symlink(b"one", host.out()),
        symlink(b"two", b"one"),
        symlink(b"bridge", b"./two/."),
    ],
    "a chain of parents": lambda _: [
        symlink(b"up", b".."),
        symlink(b"upup", b"up/.."),
        symlink(b"bridge", b"upup/upup/canary"),
    ],
    "the process's own root": lambda host: [symlink(b"bridge", b"/proc/self/root" + host.out())],
    "the process's working directory": lambda _: [symlink(b"bridge", b"/proc/self/cwd/canary")],
    "a dot in the name": lambda host: [symlink(b"./bridge", host.out())],
    "an absolute name": lambda host: [symlink(b"/bridge", host.out())],
    "a hard link to the link": lambda host: [symlink(b"first", host.out()), hardlink(b"bridge", b"first")],
    "a loop": lambda _: [symlink(b"bridge", b"loop"), symlink(b"loop", b"bridge")],
    "to itself": lambda _: [symlink(b"bridge", b"bridge")],
}


def attributed(raw: bytes) -> bytes:
    """A member with xattrs before it."""
    return (
        pax({b"SCHILY.xattr.user.evil": b"1", b"SCHILY.xattr.security.capability": b"\1\0\0\2" + bytes(16)})
        + raw
    )


PRIMITIVES: dict[str, list[bytes]] = {
    "write a new file": [file(b"bridge/new", b"evil")],
    "write over a file": [file(b"bridge/file", b"evil", mtime=1)],
    "write below a directory": [file(b"bridge/dir/new", b"evil")],
    "make directories": [folder(b"bridge/one/two/three")],
    "imply directories": [file(b"bridge/a/b/c/d", b"evil")],
    "chmod and touch a directory": [folder(b"bridge/dir", 0o777, mtime=1)],
    "chmod the target": [folder(b"bridge", 0o777, mtime=1)],
    "chown": [folder(b"bridge/dir", uid=4242, gid=4242), file(b"bridge/file", uid=4242)],
    "setuid": [file(b"bridge/file", b"evil", mode=0o6777, uid=0)],
    "make a character device": [device(b"bridge/null", 1, 3), device(b"bridge/file", 1, 3)],
    "make a block device": [device(b"bridge/disk", 8, 0, kind=b"4"), device(b"bridge/file", 8, 0, kind=b"4")],
    "make a fifo": [member(b"bridge/fifo", kind=b"6"), member(b"bridge/file", kind=b"6")],
    "make a link": [symlink(b"bridge/new", b"evil"), symlink(b"bridge/file", b"evil")],
    "take a link's place": [symlink(b"bridge/link", b"/evil"), file(b"bridge/link", b"evil")],
    "make a hard link outside": [
        file(b"evil", b"1"),
        hardlink(b"bridge/new", b"evil"),
        hardlink(b"bridge/file", b"evil"),
    ],
    "link to a file outside": [hardlink(b"mine", b"bridge/file")],
    "link to a file outside, and write": [hardlink(b"mine", b"bridge/file"), file(b"mine", b"evil")],
    "link to a file outside, and chmod": [hardlink(b"mine", b"bridge/secret", mode=0o777, uid=4242)],
    "link to the bridge, and write through it": [hardlink(b"mine", b"bridge"), file(b"mine/new", b"evil")],
    "link to the bridge, and chmod it": [hardlink(b"mine", b"bridge"), folder(b"mine", 0o777, mtime=1)],
    "set xattrs": [
        attributed(file(b"bridge/file")),
        attributed(folder(b"bridge/dir")),
        attributed(folder(b"bridge")),
    ],
    "white out a file": [file(b"bridge/.wh.file")],
    "white out a directory": [file(b"bridge/.wh.dir")],
    "white out from below": [file(b"bridge/dir/.wh.inside")],
    "empty": [file(b"bridge/.wh..wh..opq")],
    "empty from below": [file(b"bridge/dir/.wh..wh..opq")],
    "white out the bridge": [file(b".wh.bridge")],
    "replace the bridge by a directory": [folder(b"bridge", 0o777), file(b"bridge/file", b"evil")],
    "replace the bridge by a file": [file(b"bridge", b"evil")],
}


@pytest.mark.parametrize("primitive", PRIMITIVES.values(), ids=PRIMITIVES.keys())
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_nothing_goes_over_a_bridge(
    shape: Callable[[Host], list[bytes]], primitive: list[bytes], host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds for one layer and for two, wherever this process has its working directory."""
    bridge = shape(host)
    for cwd in (host.home, host.canary):
        monkeypatch.chdir(cwd)
        for layers in ([bridge + primitive], [bridge, primitive]):
            outcome = attempt(host, *layers)
            if outcome == "contained":
                shutil.rmtree(host.root)
            else:
                assert outcome.startswith("'")


SINGING = [
    "write a new file",
    "write over a file",
    "make directories",
    "link to a file outside",
    "chmod and touch a directory",
]


@pytest.mark.parametrize("name", SINGING)
def test_the_canary_sings(name: str, tmp_path: Path) -> None:
    """The control: an extractor without defences does to the canary everything that these layers attempt."""
    host = furnished(tmp_path)
    before = host.state()
    raw = archive(*SHAPES["absolute"](host), *PRIMITIVES[name])
    with tarfile.open(fileobj=io.BytesIO(raw)) as naive:
        naive.extraction_filter = lambda entry, _: (
            entry
        )  # trusts all; older versions have no filters and do too
        naive.extractall(host.root)
    assert host.state() != before


FILE_BRIDGES = {"absolute": lambda host: host.out("file"), "relative": lambda _: b"../../canary/file"}


OVER_A_FILE: dict[str, list[bytes]] = {
    "file": [file(b"bridge", b"evil", mode=0o777, mtime=1)],
    "file with owner": [file(b"bridge", b"evil", uid=4242, gid=4242)],
    "file with xattrs": [attributed(file(b"bridge", b"evil"))],
    "directory": [folder(b"bridge", 0o777, mtime=1)],
    "device": [device(b"bridge", 1, 3)],
    "fifo": [member(b"bridge", kind=b"6", mode=0o777)],
    "link": [symlink(b"bridge", b"evil", mtime=1, uid=4242)],
    "link with xattrs": [attributed(symlink(b"bridge", b"evil"))],
    "hard link to it": [hardlink(b"mine", b"bridge", mode=0o777, uid=4242, mtime=1)],
    "hard link to it, then a file": [hardlink(b"mine", b"bridge"), file(b"mine", b"evil", mode=0o777)],
    "whiteout": [file(b".wh.bridge")],
}


@pytest.mark.parametrize("over", OVER_A_FILE.values(), ids=OVER_A_FILE.keys())
@pytest.mark.parametrize("target", FILE_BRIDGES.values(), ids=FILE_BRIDGES.keys())
def test_nothing_is_written_through_a_link_to_a_file(
    target: Callable[[Host], bytes], over: list[bytes], host: Host
) -> None:
    """CVE-2021-32760: containerd changed the mode of a link's target, through a hard link to the link."""
    bridge = [symlink(b"bridge", target(host))]
    for layers in ([bridge + over], [bridge, over]):
        assert attempt(host, *layers) == "contained"
        process.run("rm", "-r", host.root)


# Names that climb, in every kind of member.

CLIMBING = [
    b"../canary/file",
    b"../../canary/file",
    b"a/../../../canary/file",
    b"./../../canary/file",
    b"/../../canary/file",
]
KINDS: dict[str, Callable[[bytes], bytes]] = {
    "file": lambda name: file(name, b"evil"),
    "directory": lambda name: folder(name, 0o777),
    "link": lambda name: symlink(name, b"evil"),
    "hard link": lambda name: hardlink(name, b"evil"),
    "hard link to it": lambda name: hardlink(b"mine", name),
    "character device": lambda name: device(name, 1, 3),
    "block device": lambda name: device(name, 8, 0, kind=b"4"),
    "fifo": lambda name: member(name, kind=b"6"),
    "whiteout": lambda name: file(name.replace(b"file", b".wh.file")),
    "opaque": lambda name: file(name.replace(b"file", b".wh..wh..opq")),
    "PAX name": lambda name: pax({b"path": name}) + file(b"x", b"evil"),
    "GNU name": lambda name: long(name) + member(b"x", b"evil", magic=GNU),
    "PAX link": lambda name: pax({b"linkpath": name}) + hardlink(b"x", b"y"),
    "GNU link": lambda name: long(name, b"K") + member(b"x", kind=b"1", magic=GNU),
    "ustar prefix": lambda name: file(name.rpartition(b"/")[2], b"evil", prefix=name.rpartition(b"/")[0]),
}


NAMED = [KINDS[kind] for kind in ("hard link to it", "PAX link", "GNU link")]
"""The kinds of entries with the name in a hard link's target."""


@pytest.mark.parametrize("name", CLIMBING, ids=os.fsdecode)
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_names_that_climb_are_refused(kind: Callable[[bytes], bytes], name: bytes, host: Host) -> None:
    """CVE-2021-21272 and most others: zip-slip. A hard link's target starts at the root."""
    outcome = attempt(host, [file(b"evil", b"1"), kind(name)])
    assert outcome.startswith("'")
    inside = "it is a hard link to 'canary/file', which is not there"
    assert outcome.endswith(("its name climbs with '..'", *([inside] if kind in NAMED else [])))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "link" not in kind and kind != "directory"])
def test_absolute_names_are_taken_inside(kind: str, host: Host) -> None:
    outcome = attempt(host, [KINDS[kind](host.out("file"))])
    assert outcome == "contained"


# The rest of the list, one by one.


@pytest.mark.parametrize("name", [b".", b"./", b"/.", b"/", b"//", b"a/..", b"./.", b"/./", b"a/../."])
@pytest.mark.parametrize(
    "kind", ["file", "link", "hard link", "character device", "block device", "fifo", "GNU name"]
)
def test_cve_2021_29136_the_root_is_a_directory(name: bytes, kind: str, host: Host) -> None:
    """umoci: a link entry for `/.`, and later layers were applied to its target."""
    outcome = attempt(host, [file(b"evil"), KINDS[kind](name)], [file(b"canary/file", b"evil")])
    assert outcome.startswith("'")


def test_cve_2021_29136_the_root_is_not_replaced_by_its_own_link(host: Host) -> None:
    assert (
        attempt(host, [symlink(b".", host.out())])
        == "'.': it would put a symbolic link in the place of the root"
    )


TRAP = "#!/bin/sh\ntouch {marker}\n"


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_cve_2014_9357_and_ghsa_x86f_5xw2_fm2r_no_program_is_started(
    codec: str, host: Host, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A decompressor found on PATH, or in the image, ran as root."""
    traps = tmp_path_factory.mktemp("traps")
    for name in (
        "gzip",
        "gunzip",
        "unpigz",
        "pigz",
        "igzip",
        "xz",
        "unxz",
        "zstd",
        "unzstd",
        "zstdcat",
        "tar",
    ):
        (traps / name).write_text(TRAP.format(marker=traps / "sprung"))
        (traps / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{traps}:{host.root}/bin")
    programs = [file(b"bin/" + name, b"#!/bin/sh\n", mode=0o755) for name in (b"unpigz", b"xz", b"zstd")]
    unpack([layer(archive(*programs), codec), layer(archive(file(b"a")), codec)], host.root)
    assert not (traps / "sprung").exists()


def test_cve_2014_9357_layers_in_xz_are_refused(host: Host) -> None:
    import lzma  # noqa: PLC0415

    raw = archive(file(b"a"))
    blob = lzma.compress(raw)
    one = dataclasses.replace(layer(raw, "plain"), open=lambda: io.BytesIO(blob), size=len(blob))
    with pytest.raises(ArchiveRefused, match="is compressed with xz"):
        unpack([one], host.root)


PATHS_FOR_DIGESTS = [
    "sha256:../../canary/file",
    "sha256:" + "A" * 64,
    "sha256:" + "0" * 63,
    "sha256:" + "0" * 65,
]
PATHS_FOR_DIGESTS += [
    "../canary",
    "",
    "sha256",
    "sha256:",
    "sha256:" + "0" * 64 + "\n",
    "md5:" + "0" * 32,
    "SHA256:" + "0" * 64,
]


@pytest.mark.parametrize("digest", PATHS_FOR_DIGESTS)
def test_cve_2014_9358_and_cve_2024_3727_digests_are_digests(digest: str, host: Host) -> None:
    good = layer(archive(file(b"a")))
    for bad in (dataclasses.replace(good, digest=digest), dataclasses.replace(good, diff_id=digest)):
        with pytest.raises(ArchiveRefused):
            unpack([bad], host.root)


def test_cve_2021_20291_a_cut_layer_does_not_wait_for_ever(host: Host) -> None:
    """containers/storage: the reader of a crafted layer and its writer waited for each other."""
    big = layer(archive(file(b"a", os.urandom(5 << 20)), file(b"../b")))
    whole = big.open().read()
    for blob in (whole[: len(whole) // 2], whole, whole + bytes(1 << 20)):
        bad = dataclasses.replace(big, open=lambda blob=blob: io.BytesIO(blob), size=len(blob))  # type: ignore[misc]
        done = threading.Event()

        def work(bad: object = bad, done: threading.Event = done) -> None:
            with pytest.raises((IntegrityError, ArchiveRefused)):
                unpack([bad], host.root)  # type: ignore[list-item]
            done.set()

        threading.Thread(target=work, daemon=True).start()
        assert done.wait(PATIENCE)


@pytest.mark.parametrize("size", [-1, -(1 << 40)])
def test_a_size_below_zero(size: int, host: Host) -> None:
    """image-spec#1285, umoci 0.5.1."""
    with pytest.raises(IntegrityError, match="its size is given as -"):
        unpack([dataclasses.replace(layer(archive(file(b"a"))), size=size)], host.root)


def test_an_endless_blob_is_read_no_further_than_promised(host: Host) -> None:
    class Endless(io.RawIOBase):
        taken = 0

        def read(self, size: int = -1, /) -> bytes:
            self.taken += size
            return bytes(size)

    endless = Endless()
    one = dataclasses.replace(layer(archive(file(b"a")), "plain"), open=lambda: endless)  # type: ignore[arg-type,return-value]
    with pytest.raises(IntegrityError, match="is longer than the 1536 bytes promised"):
        unpack([one], host.root)
    assert endless.taken < 1 << 20


def test_cve_2026_50163_hard_links_are_no_paths_of_the_process(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """oras-go, oras-java: a hard link's target was resolved from the working directory."""
    for cwd in (host.canary, host.home, Path("/"), host.root.parent):
        monkeypatch.chdir(cwd)
        for target in (b"secret", b"canary/secret", host.out("secret"), host.out("secret")[1:]):
            outcome = attempt(host, [hardlink(b"mine", target)])
            assert outcome.startswith("'mine': it is a hard link to '")
            assert outcome.endswith("which is not there")


def test_cve_2026_24842_a_hard_links_target_is_looked_up_where_it_is_linked(host: Host) -> None:
    """node-tar: checked on one path, linked from another."""
    members = [folder(b"a/b"), symlink(b"a/b/up", b"../../../canary"), hardlink(b"mine", b"a/b/up/secret")]
    assert attempt(host, members) == "'mine': it is a hard link to 'a/b/up/secret', which is not there"


def test_cve_2026_46703_a_file_through_an_absolute_link_is_inside(host: Host) -> None:
    assert attempt(host, [symlink(b"bridge", host.out()), file(b"bridge/file", b"evil")]) == "contained"
    inside = host.root / os.fsdecode(host.out("file")[1:])
    assert inside.read_bytes() == b"evil"


def test_cve_2026_42574_what_lies_outside_is_not_read(host: Host) -> None:
    """apko: a package's link was followed, and its target was copied into the image."""
    members = [symlink(b"bridge", host.out()), hardlink(b"mine", b"bridge/secret")]
    assert attempt(host, members) == "'mine': it is a hard link to 'bridge/secret', which is not there"


def test_cve_2025_4517_a_path_longer_than_the_system_resolves(host: Host) -> None:
    """CPython's filters resolved a path longer than PATH_MAX only in part, and accepted the rest."""
    component, steps = b"d" * 247, b"abcdefghijklmnop"
    members, path = [], b""
    for step in steps:
        name = bytes([step])
        members += [folder(path + component), symlink(path + name, component)]
        path += component + b"/"
    short = b"/".join(bytes([step]) for step in steps)
    members += [
        symlink(short + b"/" + b"l" * 254, b"../" * len(steps)),
        symlink(b"escape", short + b"/" + b"l" * 254 + b"/../../../canary"),
        hardlink(b"flag", b"escape/file"),
    ]
    outcome = attempt(host, [*members, symlink(b"flag", b"x"), file(b"flag", b"evil")])
    assert outcome == "'flag': it is a hard link to 'escape/file', which is not there"
    outcome = attempt(
        host, [*members[:-1], file(b"escape/file", b"evil"), folder(b"escape/dir", 0o777, mtime=1)]
    )
    assert outcome == "contained"
    assert (host.root / "canary" / "file").read_bytes() == b"evil"


def test_cve_2025_4330_a_link_that_is_inside_when_it_is_looked_at(host: Host) -> None:
    """CPython: a link's target was judged before a directory on its way was replaced by a link."""
    members = [folder(b"a/b/c"), symlink(b"mine", b"a/b/c/../../../canary/file"), symlink(b"a/b", b"../..")]
    members += [
        file(b"mine", b"evil"),
        symlink(b"again", b"a/b/x/../../../canary"),
        file(b"again/file", b"evil"),
    ]
    attempt(host, members)


def test_cve_2024_12718_modes_and_times_stay_inside(host: Host) -> None:
    members = [
        symlink(b"x", host.out("dir")),
        hardlink(b"y", b"x"),
        folder(b"y", 0o777, mtime=1),
        folder(b"x", 0, mtime=1),
    ]
    assert attempt(host, members) == "contained"


LOOPING = {
    "CVE-2025-8194, an offset below zero": [header(b"a", size=b"\xff" * 12), file(b"b")],
    "CVE-2025-8194, far below": [header(b"a", size=b"\xff\0\0\0\0\0\0\0\0\0\0\0"), file(b"b")],
    "CVE-2026-11972, the end inside a member": [header(b"a", size=1 << 30)],
    "a PAX size below zero": [pax({b"size": b"-512"}) + header(b"a"), file(b"b")],
    "a record of length zero": [pax(b"0 path=x\n") + file(b"a")],
}


@pytest.mark.parametrize("members", LOOPING.values(), ids=LOOPING.keys())
def test_sizes_that_would_loop(members: list[bytes], host: Host) -> None:
    done = threading.Event()

    def work() -> None:
        with pytest.raises((IntegrityError, ArchiveRefused)):
            unpack(stack(members), host.root, limits=ArchiveLimits(bytes=1 << 28))
        done.set()

    threading.Thread(target=work, daemon=True).start()
    assert done.wait(PATIENCE)


def test_cve_2025_62518_an_archive_in_an_archive_is_content(host: Host) -> None:
    """TARmageddon: the size in PAX counts; members that exist only by the other size are content."""
    inner = archive(file(b"smuggled", b"evil"))
    raw = pax({b"size": b"%d" % len(inner)}) + header(b"outer.tar", size=0) + padded(inner)
    assert attempt(host, [raw, file(b"last")]) == "contained"
    assert sorted(path.name for path in host.root.iterdir()) == ["last", "outer.tar"]
    assert (host.root / "outer.tar").read_bytes() == inner


def test_ghsa_5662_modes_do_not_follow_the_umask(host: Host) -> None:
    before = os.umask(0)
    try:
        assert attempt(host, [file(b"a/b", mode=0o644), folder(b"c", 0o755)]) == "contained"
    finally:
        os.umask(before)
    modes = {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in host.root.rglob("*")}
    assert modes == {"a": "0o755", "b": "0o644", "c": "0o755"}


def test_cve_2024_23652_what_is_taken_away_takes_nothing_outside_with_it(host: Host) -> None:
    lower = [folder(b"d"), symlink(b"d/out", host.out()), symlink(b"d/dir", host.out("dir")), file(b"d/f")]
    for upper in ([file(b".wh.d")], [file(b"d/.wh..wh..opq")], [file(b"d", b"x")], [file(b"d/.wh.out")]):
        assert attempt(host, lower, upper) == "contained"
        process.run("rm", "-r", host.root)


def test_a_bomb_of_files_and_one_of_bytes_are_stopped(host: Host) -> None:
    """umoci's own security page states that it has no defence against decompression bombs."""
    with pytest.raises(ArchiveRefused, match="one more than the 1000 members allowed"):
        unpack(stack([file(b"%d" % n) for n in range(1001)]), host.root, limits=ArchiveLimits(entries=1000))
    with pytest.raises(ArchiveRefused, match="bytes have become"):
        unpack(
            stack([file(b"zeros", bytes(8 << 20))]),
            host.root,
            limits=ArchiveLimits(ratio=100, ratio_floor=1 << 20),
        )
    assert list(host.root.parent.iterdir()) == []


@pytest.mark.skipif(not ROOT, reason="needs root, who alone makes devices")
def test_devices_are_behind_a_directory_that_nobody_else_enters(host: Host) -> None:
    """CVE-2021-41091, CVE-2021-41103, CVE-2024-25621: other users of the host could reach them."""
    assert attempt(host, [device(b"mem", 1, 1, mode=0o666), file(b"sh", mode=0o4755)]) == "contained"
    assert stat.S_IMODE(host.root.parent.stat().st_mode) == 0o700
    script = f"import os; os.setuid(65534); os.open({os.fspath(host.root / 'sh')!r}, 0)"
    assert "PermissionError" in process.run(sys.executable, "-c", script, check=False).stderr
