"""The members of an archive, and the grammar of their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType

from sandwright.rootfs.tar.limits import DEFAULT, ArchiveLimits

NO_XATTRS: Mapping[bytes, bytes] = MappingProxyType({})
WHITEOUT = b".wh."
"""The prefix of whiteouts in a layer (image-spec layer.md, "Whiteouts")."""

COMPONENT = 255
"""The most bytes of a name in a directory (NAME_MAX of Linux)."""


class EntryKind(Enum):
    """The type of a member. The value is its name in messages."""

    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symbolic link"
    HARDLINK = "hard link"
    CHARACTER = "character device"
    BLOCK = "block device"
    FIFO = "fifo"


@dataclass(slots=True)
class TarEntry:
    """A member of an archive, decoded.

    `path` is relative and normalised: no empty, `.` or `..` component and no slash at its ends; `b""` is
    the root itself. `mode` holds the twelve permission bits. `size` is the length of the content, 0 for all
    but files. `link` is a symbolic link's target as written, or a hard link's target, normalised like
    `path`. `device` is (major, minor). `xattrs` maps whole names (`security.capability`) to values.
    """

    path: bytes
    kind: EntryKind
    mode: int = 0o644
    uid: int = 0
    gid: int = 0
    size: int = 0
    mtime_ns: int = 0
    link: bytes = b""
    device: tuple[int, int] = (0, 0)
    xattrs: Mapping[bytes, bytes] = field(default_factory=lambda: NO_XATTRS)


class EntryRefused(Exception):
    """The reason why a member is refused, as a clause. The reader of the archive adds its name."""


def show(path: bytes) -> str:
    """A member's name for messages: printable, quoted, and shortened."""
    text = path.decode("utf-8", "backslashreplace")
    text = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
    return f"'{text}'" if len(text) <= 200 else f"'{text[:150]}…{text[-45:]}'"


def normalise(raw: bytes, *, limits: ArchiveLimits = DEFAULT) -> bytes:
    """The path of a member's name inside the root; `b""` for the root.

    Leading slashes, empty and `.` components are removed. Raise ValueError, with the reason, for a name that
    is empty or too long, contains NUL, or has a `..` component. `..` is refused even where it stays inside:
    no writer of layers creates it, and readers differ on its meaning after a symbolic link.
    """
    if not raw:
        raise ValueError("its name is empty")
    if b"\0" in raw:
        raise ValueError("its name holds a NUL byte")
    if len(raw) > limits.path:
        raise ValueError(f"its name is longer than {limits.path} bytes")
    parts = [part for part in raw.split(b"/") if part not in (b"", b".")]
    if b".." in parts:
        raise ValueError("its name climbs with '..'")
    if len(parts) > limits.depth:
        raise ValueError(f"its name has more than {limits.depth} components")
    if any(len(part) > COMPONENT for part in parts):
        raise ValueError(f"its name has a component longer than {COMPONENT} bytes")
    return b"/".join(parts)
