"""The archive of a definition's additions to its base or packages: directories, links, files.

An engine unpacks it in the image (`ADD`), so it follows the base's links and leaves other
paths alone. Owners are numbers there. An owner outside the definitions' accounts must be one that
every Debian has.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sandwright.errors import BuildError
from sandwright.image.additions import source_of
from sandwright.image.definition import ImageDefinition
from sandwright.image.documents import INIT
from sandwright.image.overlay import Content
from sandwright.rootfs.tar.entry import EntryKind, TarEntry
from sandwright.rootfs.tar.writer import TarWriter, Writable

ARCHIVE = "additions.tar"

USERS: Mapping[str, int] = {
    "root": 0,
    "daemon": 1,
    "bin": 2,
    "sys": 3,
    "sync": 4,
    "games": 5,
    "man": 6,
    "lp": 7,
    "mail": 8,
    "news": 9,
    "uucp": 10,
    "proxy": 13,
    "www-data": 33,
    "backup": 34,
    "list": 38,
    "irc": 39,
    "nobody": 65534,
}
GROUPS: Mapping[str, int] = {
    "root": 0,
    "daemon": 1,
    "bin": 2,
    "sys": 3,
    "adm": 4,
    "tty": 5,
    "disk": 6,
    "lp": 7,
    "mail": 8,
    "news": 9,
    "uucp": 10,
    "man": 12,
    "proxy": 13,
    "kmem": 15,
    "dialout": 20,
    "fax": 21,
    "voice": 22,
    "cdrom": 24,
    "floppy": 25,
    "tape": 26,
    "sudo": 27,
    "audio": 29,
    "dip": 30,
    "www-data": 33,
    "backup": 34,
    "operator": 37,
    "list": 38,
    "irc": 39,
    "src": 40,
    "shadow": 42,
    "utmp": 43,
    "video": 44,
    "sasl": 45,
    "plugdev": 46,
    "staff": 50,
    "games": 60,
    "users": 100,
    "nogroup": 65534,
}
"""Numbers that Debian gives out globally and never changes (Policy 9.2.2; base-passwd's master files)."""


@dataclass(frozen=True)
class Addition:
    """A member of the archive."""

    entry: TarEntry
    content: Content

    def describe(self) -> str:
        """Type, mode, owner and path, as `ls -l` shows them."""
        types = {EntryKind.DIRECTORY: stat.S_IFDIR, EntryKind.SYMLINK: stat.S_IFLNK}
        mode_text = stat.filemode(types.get(self.entry.kind, stat.S_IFREG) | self.entry.mode)
        target = f" -> {_decode_lossy(self.entry.link)}" if self.entry.kind is EntryKind.SYMLINK else ""
        return f"{mode_text} {self.entry.uid}:{self.entry.gid} /{_decode_lossy(self.entry.path)}{target}"


def additions(
    definition: ImageDefinition, bases: Sequence[ImageDefinition], epoch: int, *, init: bytes | None = None
) -> list[Addition]:
    """The files that a definition adds, in the embedded builder's order: later ones may lie in earlier ones.

    `bases` are the definitions below it, nearest first; `epoch` is the time of every file, in seconds; `init`
    is the program of `config.init`. Raise BuildError for an owner whose number isn't known.
    """
    users, groups = _known_accounts(definition, bases)

    def entry(path: str, kind: EntryKind, mode: int, user: str | int, group: str | int) -> TarEntry:
        uid = _owner_number(definition, path, "user", user, users)
        gid = _owner_number(definition, path, "group", group, groups)
        return TarEntry(path.lstrip("/").encode(), kind, mode, uid, gid, mtime_ns=epoch * 10**9)

    found = [
        Addition(entry(each.path, EntryKind.DIRECTORY, each.mode, each.user, each.group), tuple)
        for each in sorted(definition.directories, key=lambda each: each.path.encode())
    ]
    for link in definition.links:
        made = entry(link.path, EntryKind.SYMLINK, 0o777, 0, 0)
        made.link = link.target.encode()
        found.append(Addition(made, tuple))
    for file in definition.files:
        made = entry(file.path, EntryKind.FILE, file.mode, file.user, file.group)
        if file.content is not None:
            data = file.content.encode()
            made.size = len(data)
            found.append(Addition(made, _whole(data)))
        elif file.source is not None:
            content, made.size = source_of(definition, file.source)
            found.append(Addition(made, content))
    if init is not None and definition.config.init is not None:
        if _owner_number(definition, "config.init", "user", definition.config.init, users) == 0:
            raise BuildError(
                f"config.init: '{definition.config.init}' has the uid 0, and commands are not to run as root"
            )
        made = entry(INIT, EntryKind.FILE, 0o755, 0, 0)
        made.size = len(init)
        found.append(Addition(made, _whole(init)))
    return found


def user_id(definition: ImageDefinition, bases: Sequence[ImageDefinition]) -> str | None:
    """The user that the definition sets, as numbers where they are known before the image is built."""
    if definition.config.user is None:
        return None
    users, groups = _known_accounts(definition, bases)
    user, colon, group = definition.config.user.partition(":")
    return f"{users.get(user, user)}{colon}{groups.get(group, group)}"


def write_archive(found: Iterable[Addition], sink: Writable) -> None:
    """Write the archive. The same additions give the same bytes."""
    archive = TarWriter(sink)
    for each in found:
        archive.add(each.entry, each.content())
    archive.close()


def _whole(data: bytes) -> Content:
    return lambda: (data,) if data else ()


def _known_accounts(
    definition: ImageDefinition, bases: Sequence[ImageDefinition]
) -> tuple[dict[str, int], dict[str, int]]:
    """The numbers of users and of groups that are known before the image is built."""
    line = [definition, *bases]
    return (
        _account_numbers(
            line, USERS, ((user.name, user.uid) for each in line for user in each.accounts.users)
        ),
        _account_numbers(
            line, GROUPS, ((group.name, group.gid) for each in line for group in each.accounts.groups)
        ),
    )


def _account_numbers(
    line: Sequence[ImageDefinition], listed_numbers: Mapping[str, int], listed: Iterator[tuple[str, int]]
) -> dict[str, int]:
    """The nearest definition's word counts; Debian's where the lowest has the accounts of a whole system."""
    debian = line[-1].configure == "scripts"
    found = dict(listed_numbers) if debian else {"root": 0}
    assigned: dict[str, int] = {}
    for name, number in listed:
        assigned.setdefault(name, number)
    return {**found, **assigned}


def _owner_number(
    definition: ImageDefinition, path: str, kind: str, owner: str | int, numbers: Mapping[str, int]
) -> int:
    if isinstance(owner, int):
        return owner
    if owner not in numbers:
        raise BuildError(
            f"image '{definition.name}': {path}: which number {kind} '{owner}' has is known only once the "
            f"image is built, and a Dockerfile has to say it: write the number"
        )
    return numbers[owner]


def _decode_lossy(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
