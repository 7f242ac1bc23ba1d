"""The ways in which an image with `config.init` is started, and the expected user inside. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sandwright.errors import BuildError
from sandwright.rootfs.bundles.identity import AccountFiles, PasswdEntry

CALLER = (4242, 4243)
"""IDs of a caller that no image knows."""

HIGH = 100_000
"""Beyond the range of 16 bits, and beyond most ranges for user namespaces."""

NAMED = ("ada", "/home/ada")
"""The caller's name and home in files that are rendered outside."""


@dataclass(frozen=True)
class ExpectedUser:
    """The expected user: IDs, the name that they resolve to (None: none), the home directory.

    `group` is the name of the group, `at_home` whether files can be created in the home directory.
    """

    uid: int
    gid: int
    name: str | None
    group: str | None
    home: str
    at_home: bool = False


@dataclass(frozen=True)
class MappingCase:
    """One start of an image with `config.init`.

    `user` is the user that the engine starts it as, None for root; `requested_ids` is SANDWRIGHT_USER.
    `read_only`: its root is. `rendered`: account files with the caller are mounted over the image's.
    `expected` is the expected user, or the text of a refusal.
    """

    name: str
    expected: ExpectedUser | str
    requested_ids: tuple[int, int] | None = None
    user: tuple[int, int] | None = None
    read_only: bool = False
    rendered: bool = False


def mapping_cases(account: str, accounts: AccountFiles) -> tuple[MappingCase, ...]:
    """All cases for an image whose account files are `accounts`. Raise BuildError when it lacks `account`."""
    entry = accounts.account(account)
    if entry is None:
        raise BuildError(f"the image has no account {account}")
    return (
        *_writable_cases(entry, accounts),
        *_read_only_cases(entry, accounts),
        *_not_root(entry, accounts),
    )


def _writable_cases(entry: PasswdEntry, accounts: AccountFiles) -> Iterator[MappingCase]:
    def mapped(uid: int, gid: int, group: str | None) -> ExpectedUser:
        return ExpectedUser(uid, gid, entry.name, group, entry.home, at_home=True)

    yield MappingCase("the account as it is", mapped(entry.uid, entry.gid, _group_name(accounts, entry.gid)))
    yield MappingCase("a caller's numbers", mapped(*CALLER, entry.name), requested_ids=CALLER)
    other = _another(entry, accounts)
    if other is not None:
        numbers = (other.uid, CALLER[1])
        yield MappingCase(
            "a uid that another account has", mapped(*numbers, entry.name), requested_ids=numbers
        )
    taken = _taken(entry, accounts)
    if taken is not None:
        yield MappingCase(
            "a gid that another group has",
            mapped(CALLER[0], taken[1], taken[0]),
            requested_ids=(CALLER[0], taken[1]),
        )
    yield MappingCase("a high uid", mapped(HIGH, HIGH, entry.name), requested_ids=(HIGH, HIGH))
    root = accounts.account(0)
    if root is not None:
        yield MappingCase(
            "root, when it is asked for", _root_user(root, accounts, at_home=True), requested_ids=(0, 0)
        )


def _read_only_cases(entry: PasswdEntry, accounts: AccountFiles) -> Iterator[MappingCase]:
    itself = ExpectedUser(entry.uid, entry.gid, entry.name, _group_name(accounts, entry.gid), entry.home)
    caller = ExpectedUser(*CALLER, NAMED[0], NAMED[0], NAMED[1])
    yield MappingCase("read-only: the account as it is", itself, read_only=True)
    yield MappingCase(
        "read-only: unknown numbers",
        f"/etc/passwd has no entry for {CALLER[0]} and cannot be changed",
        requested_ids=CALLER,
        read_only=True,
    )
    yield MappingCase(
        "read-only: rendered accounts", caller, requested_ids=CALLER, read_only=True, rendered=True
    )
    yield MappingCase("rendered accounts", caller, requested_ids=CALLER, rendered=True)


def _not_root(entry: PasswdEntry, accounts: AccountFiles) -> Iterator[MappingCase]:
    itself = ExpectedUser(
        entry.uid, entry.gid, entry.name, _group_name(accounts, entry.gid), entry.home, at_home=True
    )
    yield MappingCase("started as the account", itself, user=(entry.uid, entry.gid))
    yield MappingCase("started as a number", ExpectedUser(*CALLER, None, None, "/"), user=CALLER)
    caller = ExpectedUser(*CALLER, NAMED[0], NAMED[0], NAMED[1])
    yield MappingCase(
        "started as a number, read-only, rendered accounts",
        caller,
        requested_ids=CALLER,
        user=CALLER,
        read_only=True,
        rendered=True,
    )
    yield MappingCase(
        "started as a number, and root asked for",
        f"started as {CALLER[0]}:{CALLER[1]}, which cannot change to 0:0",
        requested_ids=(0, 0),
        user=CALLER,
    )


def _root_user(root: PasswdEntry, accounts: AccountFiles, *, at_home: bool) -> ExpectedUser:
    return ExpectedUser(0, 0, root.name, _group_name(accounts, 0), root.home, at_home)


def _group_name(accounts: AccountFiles, gid: int) -> str | None:
    return next((name for name, number in _parse_groups(accounts) if number == gid), None)


def _parse_groups(accounts: AccountFiles) -> Iterator[tuple[str, int]]:
    for line in accounts.group.splitlines():
        fields = line.split(":")
        if len(fields) > 3 and fields[2].isdigit():
            yield fields[0], int(fields[2])


def _another(entry: PasswdEntry, accounts: AccountFiles) -> PasswdEntry | None:
    """An account with a uid that is neither root's nor its own."""
    for line in accounts.passwd.splitlines():
        found = accounts.account(line.partition(":")[0])
        if found is not None and found.uid not in (0, entry.uid):
            return found
    return None


def _taken(entry: PasswdEntry, accounts: AccountFiles) -> tuple[str, int] | None:
    """The ID of dialout, which is also the first group of users on macOS, or of another group."""
    others = [each for each in _parse_groups(accounts) if each[1] not in (0, entry.gid)]
    return next((each for each in others if each[1] == 20), others[0] if others else None)
