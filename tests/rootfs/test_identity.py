"""The identity of a process: numbers, names, groups, and passwd files by strangers."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandwright.errors import ArchiveRefused, BuildError
from sandwright.rootfs.bundles.identity import AccountFiles, ExecUser, read_accounts, resolve_user
from sandwright.rootfs.securejoin import Root

PASSWD = """\
root:x:0:0:root:/root:/bin/bash
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
app:x:1000:1001:App,,,:/home/app:/bin/sh
apple:x:1002:1002::/home/apple:/bin/sh
2147483648:x:0:0::/evil:/bin/sh
4294967296:x:0:0::/evil:/bin/sh
-1:x:0:0::/evil:/bin/sh
0x0:x:0:0::/evil:/bin/sh
"""
GROUP = """\
root:x:0:
app:x:1001:
staff:x:50:app,apple
video:x:44:apple , app
wheel:x:10:app
also:x:1001:app
12345:x:0:
"""
ACCOUNTS = AccountFiles(PASSWD, GROUP)

IDENTITIES = {
    "": ExecUser(0, 0, (), "/root"),
    "root": ExecUser(0, 0, (), "/root"),
    "0": ExecUser(0, 0, (), "/root"),
    "app": ExecUser(1000, 1001, (10, 50), "/home/app"),
    "1000": ExecUser(1000, 1001, (10, 50), "/home/app"),  # as Docker, containerd and Podman do
    "app:staff": ExecUser(1000, 50, (), "/home/app"),
    "app:7": ExecUser(1000, 7, (), "/home/app"),
    "1000:7": ExecUser(1000, 7, (), "/home/app"),
    "1000:staff": ExecUser(1000, 50, (), "/home/app"),
    "app:0": ExecUser(1000, 0, (), "/home/app"),
    "4711": ExecUser(4711, 0, (), "/"),
    "4711:4712": ExecUser(4711, 4712, (), "/"),
    "007": ExecUser(7, 0, (), "/"),
    "2147483647:2147483647": ExecUser(2147483647, 2147483647, (), "/"),
    ":staff": ExecUser(0, 50, (), "/root"),
}


@pytest.mark.parametrize(("user", "expected"), IDENTITIES.items(), ids=lambda value: repr(value)[:30])
def test_user_of_an_image(user: str, expected: ExecUser) -> None:
    assert resolve_user(user, ACCOUNTS) == expected


REFUSED = {
    # CVE-2024-40635, CVE-2026-46680: a number that overflows became root, or was looked up as a name.
    "2147483648": "id 2147483648 is out of range, the highest is 2147483647",
    "4294967295": "id 4294967295 is out of range",
    "4294967296": "id 4294967296 is out of range",
    "18446744073709551616": "id 18446744073709551616 is out of range",
    "9" * 5000: "is out of range",
    "1000:99999999999": "id 99999999999 is out of range",
    "app:4294967296": "id 4294967296 is out of range",
    "-1": "'-1' is neither a decimal id nor a name",
    "+0": "'+0' is neither a decimal id nor a name",
    "0x0": "'0x0' is neither a decimal id nor a name",
    "0o0": "'0o0' is neither a decimal id nor a name",
    "1e3": "'1e3' is neither a decimal id nor a name",
    "0.0": "'0.0' is neither a decimal id nor a name",
    "1_000": "'1_000' is neither a decimal id nor a name",
    "app:0x0": "'0x0' is neither a decimal id nor a name",
    "\u0660": "no user '\u0660'",  # a zero, but not an ASCII one
    "nobody": "the image's /etc/passwd has no user 'nobody'",
    "app:nogroup": "the image's /etc/group has no group 'nogroup'",
    "ap": "no user 'ap'",
    "App": "no user 'App'",
    "app:": "the group after ':' is missing",
    "app:staff:x": "'staff:x' is not a name",
    "app ": "'app ' is not a name",
    "../app": "'../app' is not a name",
    "app\n": "is not a name",
    "+app": "no user '+app'",
}


@pytest.mark.parametrize(("user", "message"), REFUSED.items(), ids=lambda value: repr(value)[:30])
def test_user_that_is_an_error(user: str, message: str) -> None:
    with pytest.raises(BuildError) as raised:
        resolve_user(user, ACCOUNTS)
    assert message in str(raised.value)


def test_name_that_looks_unusual_is_a_name() -> None:
    accounts = AccountFiles(
        "3proxy:x:13:13::/:/x\nwww-data:x:33:33::/:/x\nsvc$:x:5:5::/:/x\nstraße:x:6:6::/:/x\n"
    )
    for name, uid in (("3proxy", 13), ("www-data", 33), ("svc$", 5), ("straße", 6)):
        assert resolve_user(name, accounts).uid == uid


FILES = {
    "no newline at the end": ("app:x:5:6::/h:/s", "", ExecUser(5, 6, (), "/h")),
    "CRLF": ("root:x:0:0::/:/s\r\napp:x:5:6::/h:/s\r\n", "g:x:9:app\r\n", ExecUser(5, 6, (9,), "/h")),
    "comments and blank lines": (
        "# app:x:0:0::/:/s\n\n \napp:x:5:6::/h:/s\n",
        "#g:x:0:app\n",
        ExecUser(5, 6, (), "/h"),
    ),
    "NIS lines": (
        "+app:x:0:0::/:/s\n+\n-app:x:0:0::/:/s\napp:x:5:6::/h:/s\n",
        "+\n",
        ExecUser(5, 6, (), "/h"),
    ),
    "blanks before the name": ("  app:x:5:6::/h:/s\n", "", ExecUser(5, 6, (), "/h")),
    "the first line counts": ("app:x:5:6::/h:/s\napp:x:0:0::/:/s\n", "", ExecUser(5, 6, (), "/h")),
    "malformed lines of others": (
        "x\n:::::\nb:x:y:z\napp:x:5:6::/h:/s\n",
        "x\nb:x:y:z\n",
        ExecUser(5, 6, (), "/h"),
    ),
    "only four fields": ("app:x:5:6", "", ExecUser(5, 6, (), "/")),
    "home that is relative": ("app:x:5:6::home:/s\n", "", ExecUser(5, 6, (), "/")),
    "bytes that are no text": ("app:x:5:6:\udcff\udcfe:/h:/s\n", "", ExecUser(5, 6, (), "/h")),
}


@pytest.mark.parametrize(("passwd", "group", "expected"), FILES.values(), ids=FILES.keys())
def test_files_as_they_are_found(passwd: str, group: str, expected: ExecUser) -> None:
    assert resolve_user("app", AccountFiles(passwd, group)) == expected


MALFORMED = {
    "uid empty": ("app:x::6::/:/s", "", "/etc/passwd:1: '' is not a decimal id"),
    "uid too high": ("a:b\napp:x:99999999999:6::/:/s", "", "/etc/passwd:2: id 99999999999 is out of range"),
    "uid no number": ("app:x:0x5:6::/:/s", "", "/etc/passwd:1: '0x5' is not a decimal id"),
    "uid negative": ("app:x:-1:6::/:/s", "", "/etc/passwd:1: '-1' is not a decimal id"),
    "gid no number": ("app:x:5:six::/:/s", "", "/etc/passwd:1: 'six' is not a decimal id"),
    "too few fields": ("app:x:5", "", "/etc/passwd:1: the line of user 'app' has fewer than four fields"),
    "group's gid": ("app:x:5:6::/:/s", "g:x:-1:app", "/etc/group:1: '-1' is not a decimal id"),
}


@pytest.mark.parametrize(("passwd", "group", "message"), MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_line_of_the_user_itself_is_an_error(passwd: str, group: str, message: str) -> None:
    with pytest.raises(BuildError, match=re.escape(message)):
        resolve_user("app", AccountFiles(passwd, group))


def test_number_needs_no_line_and_is_not_disturbed_by_a_malformed_one() -> None:
    accounts = AccountFiles("app:x:5:bad::/:/s\n")
    assert resolve_user("5", accounts) == ExecUser(5, 0)
    assert resolve_user("5:6", AccountFiles()) == ExecUser(5, 6)
    with pytest.raises(BuildError, match="/etc/group has no group"):
        resolve_user("5:staff", AccountFiles())


@given(user=st.text(max_size=20), passwd=st.text(max_size=60), group=st.text(max_size=60))
def test_no_text_gives_an_id_out_of_range(user: str, passwd: str, group: str) -> None:
    try:
        identity = resolve_user(user, AccountFiles(passwd, group))
    except BuildError:
        return
    assert all(0 <= each < 1 << 31 for each in (identity.uid, identity.gid, *identity.groups))
    assert identity.home.startswith("/")


# Reading the files.


def read(rootfs: Path) -> AccountFiles:
    with Root(rootfs) as root:
        return read_accounts(root)


def test_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text(PASSWD)
    assert read(tmp_path) == AccountFiles(PASSWD, "")


def test_image_without_files_has_no_accounts(tmp_path: Path) -> None:
    assert read(tmp_path) == AccountFiles()


@pytest.mark.parametrize(
    "target", ["../usr/passwd", "/usr/passwd", "../../../../usr/passwd", "/usr/../usr/./passwd"]
)
def test_link_is_followed_inside_the_root(target: str, tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "usr").mkdir()
    (tmp_path / "usr/passwd").write_text("inside:x:1:1::/:/s\n")
    (tmp_path / "etc/passwd").symlink_to(target)
    assert read(tmp_path).passwd == "inside:x:1:1::/:/s\n"


@pytest.mark.parametrize("through", ["etc/passwd", "etc"])
def test_link_to_a_file_of_the_host_leads_nowhere(through: str, tmp_path: Path) -> None:
    """CVE-2024-9676: the host's file, or a FIFO of the host, was opened."""
    rootfs, host = tmp_path / "rootfs", tmp_path / "host"
    (rootfs / "etc").mkdir(parents=True)
    host.mkdir()
    (host / "passwd").write_text("secret:x:0:0::/:/s\n")
    if through == "etc":
        (rootfs / "etc").rmdir()
        (rootfs / "etc").symlink_to(host)
    else:
        (rootfs / through).symlink_to(host / "passwd")
    assert read(rootfs).passwd == ""


def fifo(path: Path) -> None:
    os.mkfifo(path)


def directory(path: Path) -> None:
    path.mkdir()


def enormous(path: Path) -> None:
    path.touch()
    os.truncate(path, 10 << 30)


def loop(path: Path) -> None:
    path.symlink_to("passwd")


def binary(path: Path) -> None:
    path.write_bytes(b"root:x:0:0::/:/s\0")


def device(path: Path) -> None:
    os.mknod(path, 0o20666, os.makedev(1, 5))  # /dev/zero


HOSTILE: list[tuple[Callable[[Path], None], str]] = [
    (fifo, "'/etc/passwd' in .* is a FIFO, not a file"),
    (directory, "is a directory, not a file"),
    (enormous, "is longer than 8388608 bytes"),
    (loop, "leads through more than 40 links, or in a circle"),
    (binary, "holds NUL bytes"),
    pytest.param(
        device,
        "is a character device, not a file",
        marks=pytest.mark.skipif(os.geteuid() != 0, reason="making a device takes root"),
    ),  # type: ignore[list-item]
]


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("make", "message"), HOSTILE, ids=lambda value: getattr(value, "__name__", ""))
@pytest.mark.parametrize("linked", [False, True], ids=["itself", "behind a link"])
def test_what_is_no_plain_file_is_refused(
    make: Callable[[Path], None], message: str, linked: bool, tmp_path: Path
) -> None:
    (tmp_path / "etc").mkdir()
    make(tmp_path / "etc/passwd")
    if linked:
        (tmp_path / "etc/passwd").rename(tmp_path / "elsewhere")
        (tmp_path / "etc/passwd").symlink_to("/elsewhere")
        if make is loop:
            (tmp_path / "passwd").symlink_to("/etc/passwd")
    with pytest.raises(ArchiveRefused, match=message):
        read(tmp_path)


# The walk itself.


@pytest.fixture
def maze(tmp_path: Path) -> Path:
    """Links of all kinds around a file, and the same names outside."""
    rootfs = tmp_path / "rootfs"
    (rootfs / "a/b").mkdir(parents=True)
    (rootfs / "a/b/file").write_text("inside")
    for name, target in {
        "absolute": "/a/b",
        "relative": "a/b",
        "climbing": "../../../../../../a/b",
        "chain": "absolute",
        "dangling": "/nothing/here",
        "loop": "/loop",
        "a/up": "..",
        "dots": "./a//./b/.",
    }.items():
        (rootfs / name).symlink_to(target)
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/file").write_text("outside")
    return rootfs


@pytest.mark.parametrize(
    ("path", "real", "links"),
    [
        (b"/a/b/file", b"/a/b/file", ()),
        (b"a/b/file", b"/a/b/file", ()),
        (b"//a///b/./file", b"/a/b/file", ()),
        (b"/../../a/b/file", b"/a/b/file", ()),
        (b"/absolute/file", b"/a/b/file", (b"/absolute",)),
        (b"/relative/file", b"/a/b/file", (b"/relative",)),
        (b"/climbing/file", b"/a/b/file", (b"/climbing",)),
        (b"/dots/file", b"/a/b/file", (b"/dots",)),
        (b"/chain/file", b"/a/b/file", (b"/chain", b"/absolute")),
        (b"/a/up/a/up/relative/../b/file", b"/a/b/file", (b"/a/up", b"/a/up", b"/relative")),
        (b"/", b"/", ()),
        (b"/..", b"/", ()),
        (b"/a/up", b"/", (b"/a/up",)),
    ],
)
def test_path_is_taken_as_after_chroot(
    path: bytes, real: bytes, links: tuple[bytes, ...], maze: Path
) -> None:
    with Root(maze) as root:
        place = root.locate(path)
        assert (place.path, place.links) == (real, links)
        assert place.status is not None
        if real.endswith(b"file"):
            assert root.read(path, limit=100) == b"inside"


@pytest.mark.parametrize(
    ("path", "where"),
    [
        (b"/dangling", b"/nothing/here"),
        (b"/dangling/x", b"/nothing/here/x"),
        (b"/a/b/file/x", b"/a/b/file/x"),
        (b"/none/../a/b/file", b"/none/../a/b/file"),
    ],
)
def test_path_to_nothing(path: bytes, where: bytes, maze: Path) -> None:
    with Root(maze) as root:
        place = root.locate(path)
        assert (place.path, place.status) == (where, None)
        with pytest.raises(FileNotFoundError):
            root.read(path, limit=100)


def test_links_without_end_and_depth_without_end_are_refused(maze: Path) -> None:
    with Root(maze) as root:
        with pytest.raises(ArchiveRefused, match="more than 40 links, or in a circle"):
            root.locate(b"/loop")
        deep = maze
        for _ in range(600):
            deep = deep / "d"
        deep.mkdir(parents=True)
        with pytest.raises(ArchiveRefused, match="lies too deep"):
            root.locate(b"/" + b"/".join([b"d"] * 600))
        with pytest.raises(ArchiveRefused, match="too long a name"):
            root.locate(b"/a/" + b"x" * 300)


def test_walk_leaves_no_descriptor_open(maze: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    with Root(maze) as root:
        for path in (b"/chain/file", b"/dangling", b"/a/up/a/b", b"/none/x"):
            root.locate(path)
        with pytest.raises(ArchiveRefused):
            root.locate(b"/loop/x")
        assert sorted(root.tree(b"/")) == [
            b"/a/b/file",
            b"/a/up",
            b"/absolute",
            b"/chain",
            b"/climbing",
            b"/dangling",
            b"/dots",
            b"/loop",
            b"/relative",
        ]
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
