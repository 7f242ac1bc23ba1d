"""The passwd and group files that are mounted over an image's: the libraries find any user in them."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandwright.errors import RenderError
from sandwright.render.accounts import Account, group_file, passwd_file


def _users(account: Account) -> list[list[str]]:
    return [line.split(":") for line in passwd_file(account).decode("utf-8", "surrogateescape").splitlines()]


def _groups(account: Account) -> list[list[str]]:
    return [line.split(":") for line in group_file(account).decode("utf-8", "surrogateescape").splitlines()]


def test_somebody() -> None:
    ada = Account("ada", 1000, 1000, "/home/ada")
    assert passwd_file(ada) == (
        b"ada:x:1000:1000::/home/ada:/bin/sh\n"
        b"root:x:0:0::/root:/sbin/nologin\n"
        b"nobody:x:65534:65534::/nonexistent:/sbin/nologin\n"
    )
    assert group_file(ada) == b"ada:x:1000:\nroot:x:0:\ntty:x:5:\nnogroup:x:65534:\n"


@pytest.mark.parametrize(
    ("account", "user", "group"),
    [
        (Account("root", 0, 0, "/root"), "root:0:0:/root", "root"),
        (Account("toor", 0, 0, "/root"), "toor:0:0:/root", "root"),
        (Account("ada", 501, 20, "/Users/ada"), "ada:501:20:/Users/ada", "ada"),
        (Account("ada", 100000, 100000, "/h"), "ada:100000:100000:/h", "ada"),
        (Account("ada", 4294967294, 4294967294, "/h"), "ada:4294967294:4294967294:/h", "ada"),
        (Account("ada", 1000, 5, "/h"), "ada:1000:5:/h", "tty"),
        (Account("ada", 1000, 0, "/h"), "ada:1000:0:/h", "root"),
        (Account("nobody", 65534, 65534, "/"), "nobody:65534:65534:/", "nogroup"),
        (Account("root", 1000, 1000, "/h"), "user:1000:1000:/h", "user"),
        (Account("nobody", 1000, 1000, "/h"), "user:1000:1000:/h", "user"),
        (Account("tty", 1000, 1000, "/h"), "tty:1000:1000:/h", "user"),
        (Account("dom\\ada", 1000, 1000, "/h"), "dom\\ada:1000:1000:/h", "dom\\ada"),
        (Account("é.ü$", 1000, 1000, "/h"), "é.ü$:1000:1000:/h", "é.ü$"),
        (Account("a b", 1000, 1000, "/h"), "user:1000:1000:/h", "user"),
        (Account("+ada", 1000, 1000, "/h"), "user:1000:1000:/h", "user"),
        (Account("-ada", 1000, 1000, "/h"), "user:1000:1000:/h", "user"),
        (Account("#ada", 1000, 1000, "/h"), "user:1000:1000:/h", "user"),
        (Account("0", 1000, 1000, "/h"), "user:1000:1000:/h", "user"),
        (Account("a:0:0", 1000, 1000, "/h"), "user:1000:1000:/h", "user"),
        (Account("a\nroot2:x:0:0::/:/bin/sh", 1000, 1000, "/h"), "user:1000:1000:/h", "user"),
        (Account("a,b", 1000, 1000, "/h"), "user:1000:1000:/h", "user"),
        (Account("a" * 33, 1000, 1000, "/h"), "user:1000:1000:/h", "user"),
        (Account("", 1000, 1000, "/h"), "user:1000:1000:/h", "user"),
        (Account("\udce9", 1000, 1000, "/h"), "user:1000:1000:/h", "user"),
        (Account("ada", 1000, 1000, "/h/it's a $(x)"), "ada:1000:1000:/h/it's a $(x)", "ada"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_who_it_is(account: Account, user: str, group: str) -> None:
    name, _, uid, gid, _, home, _ = _users(account)[0]
    assert f"{name}:{uid}:{gid}:{home}" == user
    assert next(each[0] for each in _groups(account) if each[2] == gid) == group


@pytest.mark.parametrize(
    ("account", "message"),
    [
        (Account("ada", -1, 1, "/h"), "uid -1 is no number of an account"),
        (Account("ada", 1, 4294967295, "/h"), "gid 4294967295 is no number of an account"),
        (Account("ada", 1, 1, "/h:x"), r"the home directory '/h:x' cannot stand in a passwd file"),
        (Account("ada", 1, 1, "/h\nroot"), r"cannot stand in a passwd file"),
        (Account("ada", 1, 1, "h"), r"the home directory 'h' cannot stand in a passwd file"),
    ],
)
def test_who_can_not_be(account: Account, message: str) -> None:
    for write in (passwd_file, group_file):
        with pytest.raises(RenderError, match=message):
            write(account)


IDS = st.integers(0, 4294967294) | st.sampled_from([0, 5, 20, 65534])
NAMES = st.text(max_size=40) | st.sampled_from(["root", "nobody", "tty", "nogroup", "user"])
HOMES = st.text(string.printable, max_size=20).map("/".__add__)


@given(NAMES, IDS, IDS, HOMES)
def test_no_name_adds_an_account(name: str, uid: int, gid: int, home: str) -> None:
    account = Account(name, uid, gid, home)
    try:
        users, groups = _users(account), _groups(account)
    except RenderError:
        assert any(character < " " or character in ":\x7f" for character in home)
        return
    assert [len(each) for each in users] == [7] * len(users)
    assert [len(each) for each in groups] == [4] * len(groups)
    assert users[0][2:4] == [str(uid), str(gid)]
    assert users[0][5] == home
    assert len({each[0] for each in users}) == len(users) <= 3
    assert len({each[0] for each in groups}) == len(groups) <= 4
    assert {each[0]: each[2] for each in users[1:]}.items() <= {"root": "0", "nobody": "65534"}.items()
    assert len({each[2] for each in groups}) == len(groups)
