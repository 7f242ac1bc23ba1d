"""Resolves `USER` of an image's config in the image's own passwd and group files.

The files are not trusted. They are read through `rootfs.securejoin` (CVE-2024-9676), never by libc, whose NSS
would load libraries by the image's configuration (CVE-2019-14271). A number is a number: one out of range is
an error and is not looked up as a name (CVE-2024-40635, CVE-2026-46680).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from sandwright.errors import ArchiveRefused, BuildError
from sandwright.rootfs.securejoin import Root

PASSWD = b"/etc/passwd"
GROUP = b"/etc/group"
LONGEST_FILE = 8 << 20
HIGHEST_ID = (1 << 31) - 1
"""The highest id that every runtime reads as the same number: Go's reference parsers stop at int32."""

_NUMBER = re.compile(r"[0-9]+", re.ASCII)
_LIKE_A_NUMBER = re.compile(r"[+-]?(?:0[xXoObB][0-9A-Fa-f]*|[0-9][0-9_.,]*(?:[eE][+-]?[0-9]+)?)", re.ASCII)
_NAME = re.compile(r"[^\s:/\x00-\x1f\x7f]+")


@dataclass(frozen=True)
class ExecUser:
    """The identity of a process. `groups` are the supplementary ones, sorted; `home` is absolute."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    home: str = "/"


@dataclass(frozen=True)
class PasswdEntry:
    """A line of passwd."""

    name: str
    uid: int
    gid: int
    home: str


@dataclass(frozen=True)
class GroupEntry:
    """A line of group."""

    name: str
    gid: int
    members: tuple[str, ...]


@dataclass(frozen=True)
class AccountFiles:
    """The passwd and group files of an image, as text."""

    passwd: str = ""
    group: str = ""

    def account(self, user: int | str) -> PasswdEntry | None:
        """The first line for a name or an id, as libc takes it.

        Raise BuildError when the line of a name is malformed. One that is malformed is no line for an id.
        """
        for number, fields in _numbered_fields(self.passwd):
            if isinstance(user, str) and fields[0] == user:
                return _account(fields, f"/etc/passwd:{number}")
            if isinstance(user, int) and len(fields) > 3 and fields[2] == str(user):
                with contextlib.suppress(BuildError):
                    return _account(fields, f"/etc/passwd:{number}")
        return None

    def find_group(self, group: str) -> GroupEntry | None:
        """The first line for a group's name. Raise BuildError when that line is malformed."""
        for number, fields in _numbered_fields(self.group):
            if fields[0] == group:
                return _group(fields, f"/etc/group:{number}")
        return None

    def memberships(self, user: str) -> tuple[int, ...]:
        """The ids of the groups that list `user`, sorted. Lines that don't list it may be malformed."""
        found = set()
        for number, fields in _numbered_fields(self.group):
            if len(fields) > 3 and user in fields[3].split(","):
                found.add(_group(fields, f"/etc/group:{number}").gid)
        return tuple(sorted(found))


def read_accounts(root: Root) -> AccountFiles:
    """The passwd and group files of a root file system; a missing one is empty.

    Raise ArchiveRefused when one is no regular file or is longer than `LONGEST_FILE` bytes.
    """
    return AccountFiles(_read_account_file(root, PASSWD), _read_account_file(root, GROUP))


def resolve_user(user: str, accounts: AccountFiles) -> ExecUser:
    """The identity that `USER` means: `user`, `uid`, and either with `:group` or `:gid`. Empty is root.

    Numbers are taken as they are, whether or not the image knows them. Without a group, a user has the group
    that passwd gives it, else 0, and the supplementary groups of its name in passwd (image-spec, config.md).
    Raise BuildError for a name that the image does not know, and for a number out of range.
    """
    first, colon, second = user.partition(":")
    if colon and not second:
        raise BuildError(f"user {user!r}: the group after ':' is missing")
    user_or_id = _user_or_id(first or "0", f"user {user!r}")
    account = accounts.account(user_or_id)
    if account is None and isinstance(user_or_id, str):
        raise BuildError(f"user {user!r}: the image's /etc/passwd has no user {user_or_id!r}")
    uid = user_or_id if isinstance(user_or_id, int) else account.uid if account else 0
    gid = account.gid if account else 0
    groups: tuple[int, ...] = ()
    if second:
        gid = _resolve_group(second, accounts, f"user {user!r}")
    elif account is not None:
        groups = tuple(found for found in accounts.memberships(account.name) if found != gid)
    return ExecUser(uid, gid, groups, _home(account))


def _resolve_group(text: str, accounts: AccountFiles, where: str) -> int:
    group_or_id = _user_or_id(text, where)
    if isinstance(group_or_id, int):
        return group_or_id
    group = accounts.find_group(group_or_id)
    if group is None:
        raise BuildError(f"{where}: the image's /etc/group has no group {group_or_id!r}")
    return group.gid


def _user_or_id(text: str, where: str) -> int | str:
    if _NUMBER.fullmatch(text):
        return _id(text, where)
    if _LIKE_A_NUMBER.fullmatch(text):
        raise BuildError(f"{where}: {text!r} is neither a decimal id nor a name")
    if not _NAME.fullmatch(text):
        raise BuildError(f"{where}: {text!r} is not a name")
    return text


def _id(text: str, where: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise BuildError(f"{where}: {text[:40]!r} is not a decimal id")
    value = int(text) if len(text) <= 20 else HIGHEST_ID + 1
    if value > HIGHEST_ID:
        raise BuildError(f"{where}: id {text[:40]} is out of range, the highest is {HIGHEST_ID}")
    return value


def _account(fields: list[str], where: str) -> PasswdEntry:
    if len(fields) < 4:
        raise BuildError(f"{where}: the line of user {fields[0]!r} has fewer than four fields")
    home = fields[5] if len(fields) > 5 else ""
    return PasswdEntry(fields[0], _id(fields[2], where), _id(fields[3], where), home)


def _group(fields: list[str], where: str) -> GroupEntry:
    if len(fields) < 3:
        raise BuildError(f"{where}: the line of group {fields[0]!r} has fewer than three fields")
    members = fields[3].split(",") if len(fields) > 3 else []
    return GroupEntry(fields[0], _id(fields[2], where), tuple(filter(None, members)))


def _home(account: PasswdEntry | None) -> str:
    return account.home if account and account.home.startswith("/") else "/"


def _numbered_fields(text: str) -> Iterator[tuple[int, list[str]]]:
    """The numbered lines, in fields. Comments, blank lines and NIS lines (`+`, `-`) are passed over."""
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip()  # noqa: PLW2901 - libc passes over blanks before a name; CRLF files end in \r
        if line and line[0] not in "#+-":
            yield number, line.split(":")


def _read_account_file(root: Root, path: bytes) -> str:
    try:
        content = root.read(path, limit=LONGEST_FILE)
    except FileNotFoundError:
        return ""
    if b"\0" in content:
        raise ArchiveRefused(f"{path.decode()} in {root.name} holds NUL bytes")
    return content.decode("utf-8", "surrogateescape")
