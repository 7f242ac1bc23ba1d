"""The account that a sandbox runs under, as the passwd(5) and group(5) files that lie over an image's.

An engine runs a process with any user ID, but the results of `id`, `$HOME` and getpwuid(3) come from the
image's files, which do not contain the user who started it. Written outside and mounted read-only, they hold
for a read-only root and for images without useradd, adduser or a shell.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sandwright.errors import RenderError
from sandwright.policy.resolved import ResolvedPolicy

FALLBACK = "user"
"""The name of a user whose own name can't stand in these files."""

_PLAIN = re.compile(r"(?![+#-])(?![0-9]+\Z)[^\x00-\x20:,/\x7f-\xa0\u2028\u2029\ud800-\udfff]{1,32}")
"""A line that begins with `+` or `-` is an order to look elsewhere (nsswitch.conf(5), compat); `#` begins a
comment in some libraries; a name of digits is taken for a number. useradd(8) takes 32 characters."""

_USERS = (("root", 0, 0, "/root"), ("nobody", 65534, 65534, "/nonexistent"))
_GROUPS = (("root", 0), ("tty", 5), ("nogroup", 65534))
"""The groups that programs expect, with the numbers that every distribution we know gives them."""

MOST = (1 << 32) - 2
"""The largest id: the one above it means none (setresuid(2))."""


@dataclass(frozen=True)
class Account:
    """The user in the sandbox: a name, the user and group IDs, and a home directory (an absolute path)."""

    name: str
    uid: int
    gid: int
    home: str

    @property
    def login(self) -> str:
        """The name that stands in the files: `name`, or another where it can't or belongs to another user."""
        taken = {name: uid for name, uid, _, _ in _USERS}
        possible = _PLAIN.fullmatch(self.name) and taken.get(self.name, self.uid) == self.uid
        return self.name if possible else FALLBACK


def account_of(policy: ResolvedPolicy, uid: int, gid: int) -> Account:
    """The user in a policy's sandbox with these numbers. UID 0 inside is `root`, for any user outside.

    The home is where the policy's `~` lies, so that paths mean the same inside and outside.
    """
    facts = policy.facts
    name = "root" if uid == 0 and facts.uid != 0 else facts.user
    return Account(name, uid, gid, policy.environment.set.get("HOME", facts.home))


def passwd_file(account: Account) -> bytes:
    """The passwd file: the account first, so that its number leads to it, then those that are always there.

    Raise RenderError for a number that is none of an account, or a home that can't stand in a line.
    """
    _check_account(account)
    lines = [_passwd_line(account.login, account.uid, account.gid, account.home, "/bin/sh")]
    for name, uid, gid, home in _USERS:
        if name != account.login:
            lines.append(_passwd_line(name, uid, gid, home, "/sbin/nologin"))
    return _encode_lines(lines)


def group_file(account: Account) -> bytes:
    """The group file. The account's group has the account's name, unless its number has a name already."""
    _check_account(account)
    names = {gid: name for name, gid in _GROUPS}
    lines = [f"{name}:x:{gid}:" for name, gid in _GROUPS]
    if account.gid not in names:
        free = account.login not in names.values()
        lines.insert(0, f"{account.login if free else FALLBACK}:x:{account.gid}:")
    return _encode_lines(lines)


def _check_account(account: Account) -> None:
    for kind, number in (("uid", account.uid), ("gid", account.gid)):
        if not 0 <= number <= MOST:
            raise RenderError(f"{kind} {number} is no number of an account")
    if not account.home.startswith("/") or re.search(r"[\x00-\x1f\x7f:]", account.home):
        raise RenderError(f"the home directory {account.home!r} cannot stand in a passwd file")


def _passwd_line(name: str, uid: int, gid: int, home: str, shell: str) -> str:
    return f"{name}:x:{uid}:{gid}::{home}:{shell}"


def _encode_lines(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")
