"""Declarations in place of maintainer scripts, and additions of a definition: paths, modes, contents.

Tests of image/declared.py.
Tests of image/overlay.py: additions over the base's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from sandwright.errors import BuildError
from sandwright.image import accounts, declared, ldcache
from sandwright.image.declared import declare, mount_points
from sandwright.image.overlay import Overlay
from sandwright.image.sections import ImageGroup, ImageUser
from sandwright.image.tree import PackageContents
from sandwright.rootfs.elf import Elf
from support.filetrees import given, overlay_on, shown

ROOT = ImageUser(name="root", uid=0, gid=0, home="/root", shell="/sbin/nologin")
NONROOT = ImageUser(name="nonroot", uid=65532, gid=65532, comment="no, root", home="/home/nonroot")


def test_merged_usr() -> None:
    overlay = overlay_on("usr/bin/python3", "usr/lib/x", "usr/lib64/ld.so")
    declare("merged-usr", overlay, given())
    assert shown(overlay) == {
        "bin": "-> usr/bin",
        "lib": "-> usr/lib",
        "lib64": "-> usr/lib64",
        "sbin": "-> usr/sbin",
        "usr/sbin": "0755 0:0",
    }
    assert overlay.tree.resolve(b"bin/python3") == b"usr/bin/python3"


def test_accounts() -> None:
    overlay = overlay_on("etc/")
    groups = [ImageGroup(name="root", gid=0), ImageGroup(name="staff", gid=50, members=("nonroot", "root"))]
    declare("accounts", overlay, given(users=[ROOT, NONROOT], groups=groups))
    assert shown(overlay) == {
        "etc/passwd": b"root:x:0:0::/root:/sbin/nologin\n"
        b"nonroot:x:65532:65532:no, root:/home/nonroot:/usr/sbin/nologin\n",
        "etc/group": b"root:x:0:\nstaff:x:50:nonroot,root\n",
    }


def test_ca_bundle() -> None:
    folder = "usr/share/ca-certificates"
    kept = {
        f"{folder}/mozilla/B.crt": b"B\n",
        f"{folder}/mozilla/A.crt": b"A",
        f"{folder}/mozilla/a.crt": b"a\n",
    }
    overlay = overlay_on(kept=kept)
    declare("ca-bundle", overlay, given())
    assert shown(overlay)["etc/ssl/certs/ca-certificates.crt"] == b"A\nB\na\n"


def test_ca_bundle_needs_certificates() -> None:
    with pytest.raises(BuildError, match="ca-bundle: no package brings certificates; add ca-certificates"):
        declare("ca-bundle", overlay_on(), given())


def test_ld_cache() -> None:
    overlay = overlay_on(
        "usr/lib/x86_64-linux-gnu/liba.so.1.2",
        "opt/odd/libb.so.1",
        kept={
            "etc/ld.so.conf": b"include /etc/ld.so.conf.d/*.conf",
            "etc/ld.so.conf.d/odd.conf": b"/opt/odd",
        },
    )
    overlay.tree.elves = {
        b"usr/lib/x86_64-linux-gnu/liba.so.1.2": Elf((64, 1, 62), soname=b"liba.so.1"),
        b"opt/odd/libb.so.1": Elf((64, 1, 62), soname=b"libb.so.1"),
    }
    declare("merged-usr", overlay, given())
    declare("ld-cache", overlay, given())
    found = shown(overlay)
    assert found["usr/lib/x86_64-linux-gnu/liba.so.1"] == "-> liba.so.1.2"
    libraries = [
        ldcache.CachedLibrary(b"libb.so.1", b"/opt/odd/libb.so.1", 0x303),
        ldcache.CachedLibrary(b"liba.so.1", b"/lib/x86_64-linux-gnu/liba.so.1", 0x303),
    ]
    assert found["etc/ld.so.cache"] == ldcache.write(libraries)


def test_package_metadata() -> None:
    thing = PackageContents(
        "thing", control={"control": b"Package: thing\nVersion: 1\n\n", "md5sums": b"00  a\n11  doc/b\n"}
    )
    plain = PackageContents("plain", control={"control": b"Package: plain"})
    overlay = overlay_on("var/lib/dpkg/")
    declare(
        "package-metadata", overlay, given(thing, plain, wanted=lambda path: not path.startswith("/doc/"))
    )
    folder = "var/lib/dpkg/status.d"
    assert shown(overlay) == {
        folder: "0755 0:0",
        f"{folder}/plain": b"Package: plain\n",
        f"{folder}/plain.md5sums": b"",
        f"{folder}/thing": b"Package: thing\nVersion: 1\n",
        f"{folder}/thing.md5sums": b"00  a\n",
    }


def test_os_release() -> None:
    overlay = overlay_on("usr/lib/os-release", "etc/")
    declare("os-release", overlay, given())
    assert shown(overlay) == {"etc/os-release": "-> ../usr/lib/os-release"}
    there = overlay_on("usr/lib/os-release", "etc/os-release -> ../usr/lib/os-release")
    declare("os-release", there, given())
    assert shown(there) == {}
    with pytest.raises(BuildError, match="no package brings /usr/lib/os-release; add base-files"):
        declare("os-release", overlay_on(), given())


def test_tmp() -> None:
    overlay = overlay_on("tmp/")
    declare("tmp", overlay, given())
    assert shown(overlay) == {"tmp": "1777 0:0", "var": "0755 0:0", "var/tmp": "1777 0:0"}


def test_nsswitch() -> None:
    overlay = overlay_on(
        "usr/share/libc-bin/nsswitch.conf", kept={"usr/share/libc-bin/nsswitch.conf": b"hosts: dns\n"}
    )
    declare("nsswitch", overlay, given())
    assert shown(overlay)["etc/nsswitch.conf"] == b"hosts: dns\n"
    bare = overlay_on()
    declare("nsswitch", bare, given())
    assert b"\nhosts: files dns\n" in bytes(shown(bare)["etc/nsswitch.conf"])  # type: ignore[arg-type]


def test_mount_points() -> None:
    overlay = overlay_on("dev/", "proc/", "etc/resolv.conf")
    mount_points(overlay)
    assert shown(overlay) == {
        "etc/hostname": b"",
        "etc/hosts": b"",
        "etc/resolv.conf": b"",
        "run": "0755 0:0",
        "sys": "0555 0:0",
    }


def test_every_name_of_a_definition_is_known() -> None:
    names = {
        "merged-usr",
        "accounts",
        "busybox-applets",
        "ca-bundle",
        "ld-cache",
        "package-metadata",
        "os-release",
        "tmp",
        "nsswitch",
        "alternatives",
    }
    assert set(declared.ORDER) == names
    assert declared.ORDER[0] == "merged-usr"


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("usr/share/ca-certificates/mozilla/A.crt", True),
        ("usr/share/ca-certificates/README", False),
        ("etc/ld.so.conf", True),
        ("etc/ld.so.conf.d/libc.conf", True),
        ("etc/passwd", False),
        ("usr/share/libc-bin/nsswitch.conf", True),
    ],
)
def test_only_what_is_needed_is_kept_in_memory(path: str, kept: bool) -> None:
    assert declared.keeps(path.encode()) is kept


def test_paths_are_followed_inside_the_root() -> None:
    overlay = overlay_on(
        "usr/bin/", "bin -> usr/bin", "out -> ../../..", "abs -> /usr/bin", "usr/loop -> loop"
    )
    overlay.file(b"bin/a", b"1")
    overlay.file(b"out/b", b"2")
    overlay.link(b"abs/c", b"a")
    overlay.directory(b"abs", mode=0o700, uid=3, gid=4)
    assert shown(overlay) == {"usr/bin/a": b"1", "b": b"2", "usr/bin/c": "-> a", "usr/bin": "0700 3:4"}


def test_a_link_at_the_end_of_a_path_is_replaced() -> None:
    overlay = overlay_on("etc/a -> b", "etc/b", "var/run/")
    overlay.file(b"etc/a", b"1")
    overlay.link(b"etc/b", b"c")
    overlay.link(b"var/run", b"/run")
    assert shown(overlay) == {"etc/a": b"1", "etc/b": "-> c", "var/run": "-> /run"}


IN_THE_WAY: Mapping[str, tuple[Callable[[Overlay], object], str]] = {
    "file over directory": (lambda o: o.file(b"d", b""), "cannot create 'd': it is a directory of base"),
    "link over full directory": (
        lambda o: o.link(b"d", b""),
        "cannot create 'd': it is a directory of base",
    ),
    "directory over file": (lambda o: o.directory(b"f"), "'f' cannot be a directory: base has a file there"),
    "below a file": (lambda o: o.file(b"f/x", b""), "cannot create 'f/x': 'f' is a file"),
    "below a dangling link": (
        lambda o: o.file(b"gone/x", b""),
        "cannot create 'gone/x': 'gone' leads nowhere",
    ),
    "below a loop": (lambda o: o.file(b"loop/x", b""), "cannot create 'loop/x': 'loop' leads nowhere"),
}


@pytest.mark.parametrize(("add", "message"), IN_THE_WAY.values(), ids=list(IN_THE_WAY))
def test_what_is_in_the_way_is_named(add: Callable[[Overlay], object], message: str) -> None:
    with pytest.raises(BuildError) as caught:
        add(overlay_on("d/x", "f", "gone -> nowhere", "loop -> loop"))
    assert str(caught.value) == message


BASE = {
    b"etc/passwd": b"root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534::/:/bin/false",
    b"etc/group": b"root:x:0:\nusers:x:100:root\n",
}


def test_accounts_are_added_to_those_of_the_base() -> None:
    agent = ImageUser(name="agent", uid=1000, gid=1000, home="/home/agent", shell="/bin/bash")
    groups = [
        ImageGroup(name="agent", gid=1000),
        ImageGroup(name="users", gid=100, members=("agent", "root")),
    ]
    assert accounts.extended(BASE, [agent], groups) == {
        b"etc/passwd": b"root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534::/:/bin/false\n"
        b"agent:x:1000:1000::/home/agent:/bin/bash\n",
        b"etc/group": b"root:x:0:\nusers:x:100:root,agent\nagent:x:1000:\n",
    }


def test_shadow_files_follow_where_there_are_any() -> None:
    base = {**BASE, b"etc/shadow": b"root:*:19000:0:99999:7:::\n", b"etc/gshadow": b"root:*::\n"}
    agent = ImageUser(name="agent", uid=1000, gid=1000)
    added = accounts.extended(base, [agent], [ImageGroup(name="agent", gid=1000, members=("x",))])
    assert added[b"etc/shadow"] == b"root:*:19000:0:99999:7:::\nagent:!::0:99999:7:::\n"
    assert added[b"etc/gshadow"] == b"root:*::\nagent:!::x\n"


def test_strange_lines_of_a_base() -> None:
    """Numbers that are too long for Python or for chown(2), and members that are not UTF-8."""
    base = {b"etc/group": b"users:x:100:\xff\nlong:x:" + b"9" * 5000 + b":\nhigh:x:4294967295:\nlast:x:7:\n"}
    added = accounts.extended(base, [], [ImageGroup(name="users", gid=100, members=("a",))])
    assert added[b"etc/group"].startswith(b"users:x:100:\xff,a\n")
    assert accounts.names(b"", base[b"etc/group"]).groups == {"root": 0, "users": 100, "last": 7}


def test_nothing_to_add_changes_nothing() -> None:
    assert accounts.extended(BASE, [], []) == {}
    assert accounts.extended(BASE, [], [ImageGroup(name="users", gid=100, members=("root",))]) == {}


TAKEN = {
    "user's name": (
        [ImageUser(name="nobody", uid=5, gid=5)],
        [],
        "cannot add user 'nobody': the base has it, with number 65534",
    ),
    "user's number": (
        [ImageUser(name="toor", uid=0, gid=0)],
        [],
        "cannot add user 'toor': its number 0 is that of 'root' in the base",
    ),
    "group's name": (
        [],
        [ImageGroup(name="users", gid=7)],
        "cannot add group 'users': the base has it, with number 100",
    ),
    "group's number": (
        [],
        [ImageGroup(name="new", gid=100)],
        "cannot add group 'new': its number 100 is that of 'users' in the base",
    ),
}


@pytest.mark.parametrize(("users", "groups", "message"), TAKEN.values(), ids=list(TAKEN))
def test_taken(users: list[ImageUser], groups: list[ImageGroup], message: str) -> None:
    with pytest.raises(BuildError) as caught:
        accounts.extended(BASE, users, groups)
    assert str(caught.value) == message


def test_owners() -> None:
    known = accounts.names(
        BASE[b"etc/passwd"] + b"\nnobody:x:1:1::/:\nodd line\nhalf:x:y:1\n", BASE[b"etc/group"]
    )
    assert (known.uid("nobody"), known.uid(7), known.gid("users"), known.gid("root")) == (65534, 7, 100, 0)
    with pytest.raises(BuildError, match=r"^user 'half' is not in the image's etc/passwd$"):
        known.uid("half")
    with pytest.raises(BuildError, match=r"^group 'nobody' is not in the image's etc/group$"):
        known.gid("nobody")


def test_root_needs_no_file() -> None:
    known = accounts.names(b"", b"")
    assert (known.uid("root"), known.gid("root")) == (0, 0)
