"""The account files of an image: `passwd`, `group`, and `shadow` and `gshadow` where there are any. Pure.

Formats: passwd(5), group(5), shadow(5), gshadow(5).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sandwright.errors import BuildError
from sandwright.image.sections import ImageGroup, ImageUser

PASSWD, GROUP, SHADOW, GSHADOW = b"etc/passwd", b"etc/group", b"etc/shadow", b"etc/gshadow"
FILES = (PASSWD, GROUP, SHADOW, GSHADOW)

_ID, _HIGHEST = re.compile(rb"[0-9]{1,10}"), 2**32 - 2
_LOCKED = "!"
"""A password field that no password matches."""


@dataclass(frozen=True)
class Names:
    """The numbers of the users and groups in an image's account files."""

    users: Mapping[str, int]
    groups: Mapping[str, int]

    def uid(self, owner: str | int) -> int:
        """The number of a user given by name or number. Raise BuildError for an unknown name."""
        return _resolve_owner(owner, self.users, "user", "etc/passwd")

    def gid(self, owner: str | int) -> int:
        """The number of a group given by name or number. Raise BuildError for an unknown name."""
        return _resolve_owner(owner, self.groups, "group", "etc/group")


def names(passwd: bytes, group: bytes) -> Names:
    """The accounts in passwd and group files; root is 0 even without a file.

    The first line of a name counts, as for the C library; malformed lines are skipped.
    """
    return Names({"root": 0, **_third_fields(passwd)}, {"root": 0, **_third_fields(group)})


def fresh(users: Iterable[ImageUser], groups: Iterable[ImageGroup]) -> dict[bytes, bytes]:
    """The account files for exactly these accounts: path → content. No account has a password."""
    return {
        PASSWD: b"".join(passwd_line(user) for user in users),
        GROUP: b"".join(group_line(group, group.members) for group in groups),
    }


def extended(
    files: Mapping[bytes, bytes], users: Sequence[ImageUser], groups: Sequence[ImageGroup]
) -> dict[bytes, bytes]:
    """Add accounts to the files in `files`; return the files that change, path → new content.

    An existing group with the same number only gains members. Raise BuildError when a name or number is
    taken.
    """
    before = {
        path: _terminated_lines(files.get(path, b""))
        for path in FILES
        if path in files or path in (PASSWD, GROUP)
    }
    added = {path: list(lines) for path, lines in before.items()}
    numbers = Names(_third_fields(files.get(PASSWD, b"")), _third_fields(files.get(GROUP, b"")))
    for user in users:
        _refuse_taken("user", user.name, user.uid, numbers.users)
        added[PASSWD].append(passwd_line(user))
        if SHADOW in added:
            added[SHADOW].append(f"{user.name}:{_LOCKED}::0:99999:7:::\n".encode())
    for group in groups:
        if numbers.groups.get(group.name) == group.gid:
            added[GROUP] = [_with_members(line, group) for line in added[GROUP]]
            continue
        _refuse_taken("group", group.name, group.gid, numbers.groups)
        added[GROUP].append(group_line(group, group.members))
        if GSHADOW in added:
            added[GSHADOW].append(f"{group.name}:{_LOCKED}::{','.join(group.members)}\n".encode())
    return {path: b"".join(lines) for path, lines in added.items() if lines != before[path]}


def _refuse_taken(kind: str, name: str, number: int, numbers: Mapping[str, int]) -> None:
    if name in numbers:
        raise BuildError(f"cannot add {kind} '{name}': the base has it, with number {numbers[name]}")
    holder = next((other for other, taken in numbers.items() if taken == number), None)
    if holder is not None:
        raise BuildError(f"cannot add {kind} '{name}': its number {number} is that of '{holder}' in the base")


def passwd_line(user: ImageUser) -> bytes:
    """The line of a user in `passwd`."""
    return f"{user.name}:x:{user.uid}:{user.gid}:{user.comment}:{user.home}:{user.shell}\n".encode()


def group_line(group: ImageGroup, members: Iterable[str]) -> bytes:
    """The line of a group in `group`."""
    return f"{group.name}:x:{group.gid}:{','.join(members)}\n".encode("utf-8", "surrogateescape")


def _with_members(line: bytes, group: ImageGroup) -> bytes:
    fields = line.rstrip(b"\n").split(b":")
    if len(fields) < 4 or fields[0] != group.name.encode():
        return line
    members = [member for member in fields[3].decode("utf-8", "surrogateescape").split(",") if member]
    return group_line(group, dict.fromkeys([*members, *group.members]))


def _terminated_lines(content: bytes) -> list[bytes]:
    return [line if line.endswith(b"\n") else line + b"\n" for line in content.splitlines(keepends=True)]


def _third_fields(content: bytes) -> dict[str, int]:
    found: dict[str, int] = {}
    for line in content.split(b"\n"):
        fields = line.split(b":")
        if len(fields) >= 4 and fields[0] and _ID.fullmatch(fields[2]) and int(fields[2]) <= _HIGHEST:
            found.setdefault(fields[0].decode("utf-8", "replace"), int(fields[2]))
    return found


def _resolve_owner(owner: str | int, numbers: Mapping[str, int], kind: str, file: str) -> int:
    if isinstance(owner, int):
        return owner
    if owner not in numbers:
        raise BuildError(f"{kind} '{owner}' is not in the image's {file}")
    return numbers[owner]
