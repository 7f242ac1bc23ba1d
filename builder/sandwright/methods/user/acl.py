"""Access control lists of files as Linux keeps them: the rights of other users and groups.

The two attributes `system.posix_acl_access` and `system.posix_acl_default` hold a version, 2, and entries of
a tag, permissions and an id (include/uapi/linux/posix_acl_xattr.h), all little-endian. The mask works as in
acl(5): it bounds every entry except the owner's and the others', and permissions that it withheld stay
withheld.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
"""The attributes: the list of a file itself, and the list that files in a directory begin with."""

READ, WRITE, EXECUTE = 4, 2, 1

_VERSION = 2
_NOBODY = 0xFFFFFFFF
_OWNER, _USER, _OWN_GROUP, _GROUP, _MASK, _OTHERS = 1, 2, 4, 8, 16, 32
_ENTRY = struct.Struct("<HHI")


@dataclass(frozen=True)
class AccessList:
    """Permissions of a file: of its owner, its group, others, and users and groups by number.

    `mask` is None where no other user is named, as in a file's mode.
    """

    owner: int
    group: int
    others: int
    mask: int | None = None
    users: Mapping[int, int] = field(default_factory=dict)
    groups: Mapping[int, int] = field(default_factory=dict)

    def granting(self, uid: int, permissions: int) -> AccessList:
        """The list with `permissions` for a user. The mask restricts other entries as before."""
        bound = 7 if self.mask is None else self.mask
        users = {each: entry_permissions & bound for each, entry_permissions in self.users.items()} | {
            uid: permissions
        }
        groups = {each: entry_permissions & bound for each, entry_permissions in self.groups.items()}
        group = self.group & bound
        mask = permissions
        for entry_permissions in (group, *users.values(), *groups.values()):
            mask |= entry_permissions
        return replace(self, group=group, mask=mask, users=users, groups=groups)

    def without(self, uid: int) -> AccessList:
        """The list without a user. The rights of other users stay."""
        users = {each: entry_permissions for each, entry_permissions in self.users.items() if each != uid}
        if not users and not self.groups and self.mask is not None:
            return replace(self, group=self.group & self.mask, mask=None, users={})
        return replace(self, users=users)

    def permissions(self, uid: int) -> int | None:
        """The effective permissions of a user's entry; None without one."""
        entry_permissions = self.users.get(uid)
        return (
            None if entry_permissions is None else entry_permissions & (7 if self.mask is None else self.mask)
        )


def of_mode(mode: int) -> AccessList:
    """The access list that a file's mode stands for."""
    return AccessList(owner=mode >> 6 & 7, group=mode >> 3 & 7, others=mode & 7)


def decode_acl(value: bytes) -> AccessList:
    """The list in an attribute's value. Raise ValueError if it is malformed."""
    if len(value) < 4 or (len(value) - 4) % _ENTRY.size or int.from_bytes(value[:4], "little") != _VERSION:
        raise ValueError("this is no access control list of version 2")
    single: dict[int, int] = {}
    users: dict[int, int] = {}
    groups: dict[int, int] = {}
    for tag, permissions, number in _ENTRY.iter_unpack(value[4:]):
        if tag == _USER:
            users[number] = permissions
        elif tag == _GROUP:
            groups[number] = permissions
        else:
            single[tag] = permissions
    if not {_OWNER, _OWN_GROUP, _OTHERS} <= single.keys() <= {_OWNER, _OWN_GROUP, _OTHERS, _MASK}:
        raise ValueError("an access control list lacks an entry, or has one of an unknown kind")
    return AccessList(
        single[_OWNER], single[_OWN_GROUP], single[_OTHERS], single.get(_MASK), users=users, groups=groups
    )


def encode_acl(entry_permissions: AccessList) -> bytes:
    """The attribute's value of a list, in the order that the kernel wants."""
    entries: Iterable[tuple[int, int, int]] = (
        (_OWNER, entry_permissions.owner, _NOBODY),
        *((_USER, permissions, uid) for uid, permissions in sorted(entry_permissions.users.items())),
        (_OWN_GROUP, entry_permissions.group, _NOBODY),
        *((_GROUP, permissions, gid) for gid, permissions in sorted(entry_permissions.groups.items())),
        *(((_MASK, entry_permissions.mask, _NOBODY),) if entry_permissions.mask is not None else ()),
        (_OTHERS, entry_permissions.others, _NOBODY),
    )
    return _VERSION.to_bytes(4, "little") + b"".join(_ENTRY.pack(*entry) for entry in entries)
