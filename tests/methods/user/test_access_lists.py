"""Access control lists as the kernel stores them: read, written, and changed without opening other paths."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandwright import process
from sandwright.methods.user.acl import ACCESS, AccessList, decode_acl, encode_acl, of_mode
from sandwright.methods.user.sharing import can_traverse, let_through, read_acl, share, unshare
from support.thorough import examples

RIGHTS = st.integers(0, 7)
LISTS = st.builds(
    AccessList,
    RIGHTS,
    RIGHTS,
    RIGHTS,
    mask=RIGHTS,
    users=st.dictionaries(st.integers(0, 0xFFFFFFFE), RIGHTS, min_size=1, max_size=4),
    groups=st.dictionaries(st.integers(0, 0xFFFFFFFE), RIGHTS, max_size=4),
)

# The result of `setfacl -m u:1000:rwx` for a directory of mode 0750 (acl(5); version 2, then tag, rights,
# id).
WRITTEN = bytes.fromhex(
    "0200000001000700ffffffff02000700e803000004000500ffffffff10000700ffffffff20000000ffffffff"
)


def test_it_is_what_the_kernel_keeps() -> None:
    assert encode_acl(of_mode(0o750).granting(1000, 7)) == WRITTEN
    assert decode_acl(WRITTEN) == AccessList(7, 5, 0, mask=7, users={1000: 7})


@settings(max_examples=examples(40))
@given(LISTS)
def test_what_is_written_is_read(acl: AccessList) -> None:
    assert decode_acl(encode_acl(acl)) == acl


def _may(acl: AccessList) -> dict[tuple[str, int], int]:
    """The permissions of each entry, with the mask."""
    mask = 7 if acl.mask is None else acl.mask
    users = {("user", uid): given & mask for uid, given in acl.users.items()}
    groups = {("group", gid): given & mask for gid, given in acl.groups.items()}
    return {
        ("owner", 0): acl.owner,
        ("own group", 0): acl.group & mask,
        ("others", 0): acl.others,
        **users,
        **groups,
    }


@settings(max_examples=examples(40))
@given(LISTS, st.integers(0, 0xFFFFFFFE), RIGHTS)
def test_nobody_else_gains_or_loses(acl: AccessList, uid: int, rights: int) -> None:
    """A wider mask would give others the rights that the old one denied them (acl(5))."""
    before = {who: may for who, may in _may(acl).items() if who != ("user", uid)}
    granted = _may(acl.granting(uid, rights))
    assert granted.pop(("user", uid)) == rights
    assert granted == before
    assert _may(acl.granting(uid, rights).without(uid)) == before


@pytest.mark.parametrize(
    "value",
    [b"", b"\2\0\0", b"\1\0\0\0", WRITTEN[:-1], WRITTEN[:12], struct.pack("<IHHI", 2, 64, 7, 0), b"\2\0\0\0"],
    ids=["empty", "short", "version", "cut", "owner-only", "unknown-tag", "no-entries"],
)  # fmt: skip
def test_what_is_no_list_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match="access control list"):
        decode_acl(value)


def test_a_tree_is_shared_and_taken_back(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    for name, mode in (("program", 0o755), ("sub/data", 0o640)):
        (tree / name).write_text("x")
        (tree / name).chmod(mode)
    before = {path: path.stat().st_mode for path in (tree, *tree.rglob("*"))}
    assert share(tree, 4711) == []
    assert {path.name: read_acl(path).permissions(4711) for path in before} == {
        "tree": 7, "sub": 7, "program": 7, "data": 6,
    }  # fmt: skip
    (tree / "sub/later").write_text("x")
    assert read_acl(tree / "sub/later").permissions(4711) == 6
    assert unshare(tree, 4711) == []
    assert {path: path.stat().st_mode for path in before} == before
    assert all(read_acl(path).permissions(4711) is None for path in tree.rglob("*"))
    (tree / "sub/last").write_text("x")
    with pytest.raises(OSError, match="No data"):
        os.getxattr(tree / "sub/last", ACCESS)


def test_links_and_second_names_lead_nowhere(tmp_path: Path) -> None:
    """A user of the tree may have made them, and root may be the user who shares it."""
    outside = tmp_path / "outside"
    outside.write_text("secret")
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "link").symlink_to(outside)
    (tree / "up").symlink_to(tmp_path)
    os.link(outside, tree / "second")
    os.mkfifo(tree / "fifo")
    assert share(tree, 4711) == [
        "1 left as they are: a file has other names elsewhere, and may be another user's"
    ]
    assert read_acl(outside).permissions(4711) is None
    assert read_acl(tmp_path).permissions(4711) is None
    assert read_acl(tree).permissions(4711) == 7


def test_passing_through_is_not_seeing(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    assert not can_traverse(closed, 4711)
    let_through(closed, 4711)
    assert can_traverse(closed, 4711)
    assert not can_traverse(closed, 4712)
    assert read_acl(closed).permissions(4711) == 1


def test_what_lies_too_deep_is_left(tmp_path: Path) -> None:
    """The account can make deep directories, and is removed nevertheless."""
    above = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=above)
        below = os.open("d", os.O_RDONLY, dir_fd=above)
        os.close(above)
        above = below
    os.close(above)
    try:
        for change in (share, unshare):
            assert change(tmp_path, 4711) == ["1 left as they are: they lie too deep"]
        assert not read_acl(tmp_path / "d" / "d").users
    finally:
        process.run("rm", "-rf", tmp_path / "d")
