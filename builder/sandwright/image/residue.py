"""Files that configuring a system leaves behind and that do not belong in an image. Pure.

The list began with the strip list that dangerzone publishes for its image; each line was then checked in the
output of mmdebstrap 1.3 for Debian 12. Found there to be the same in every run, and so kept: Python's byte
code (with SOURCE_DATE_EPOCH it is tied to the source's hash, PEP 552), the linker's cache, debconf's
database.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Mapping
from dataclasses import replace

from sandwright.rootfs.tar.entry import EntryKind, TarEntry

DROPPED = {
    "dev/*": "devices: a runtime mounts its own /dev, and making them needs root",
    "run/*": "of the moment",
    "tmp/*": "of the moment",
    "var/tmp/*": "of the moment",
    "var/log/*": "names, times and versions of the building machine",
    "etc/group-": "as it was before the last change",
    "etc/gshadow-": "as it was before the last change",
    "etc/passwd-": "as it was before the last change",
    "etc/shadow-": "as it was before the last change",
    "etc/subgid-": "as it was before the last change",
    "etc/subuid-": "as it was before the last change",
    "etc/.pwd.lock": "a lock",
    "etc/apt/apt.conf.d/99mmdebstrap": "options of this build",
    "etc/apt/sources.list": "names a directory of the building machine",
    "etc/apt/sources.list.d/*": "names a directory of the building machine",
    "etc/dpkg/dpkg.cfg.d/99mmdebstrap": "options of this build",
    "var/cache/apt/*": "caches, and a directory owned by a user id of the building machine",
    "var/cache/debconf/*-old": "a state before the last",
    "var/cache/ldconfig/*": "inode numbers",
    "var/lib/apt/lists/*": "what the mirror had, and a directory owned by a user id of the building machine",
    "var/lib/dbus/machine-id": "has to be of the machine it runs on",
    "var/lib/dpkg/available-old": "a state before the last",
    "var/lib/dpkg/diversions-old": "a state before the last",
    "var/lib/dpkg/statoverride-old": "a state before the last",
    "var/lib/dpkg/status-old": "a state before the last",
    "var/lib/dpkg/lock": "a lock",
    "var/lib/dpkg/lock-frontend": "a lock",
    "var/lib/dpkg/triggers/Lock": "a lock",
}
"""Globs of removed files, each with the reason. `*` matches `/` too."""

ONLY_WITH_APT = ("etc/apt", "var/cache/apt", "var/lib/apt")
"""Directories that are removed when apt is not installed."""

_EMPTIED = (b"etc/machine-id",)
_HOST_XATTRS = (
    b"security.selinux",
    b"security.ima",
    b"security.evm",
    b"system.",
    b"trusted.",
    b"user.overlay.",
)

_PATTERN = re.compile("|".join(fnmatch.translate(glob) for glob in DROPPED))


def is_residue(entry: TarEntry, packages: Collection[str]) -> bool:
    """Whether an image with these packages leaves an entry out."""
    path = entry.path.decode("utf-8", "surrogateescape")
    if "apt" not in packages and any(f"{path}/".startswith(f"{each}/") for each in ONLY_WITH_APT):
        return not _belongs_to_debconf(path)
    if entry.kind is EntryKind.DIRECTORY and path.startswith("var/log/"):
        return False
    return _PATTERN.match(path) is not None


def _belongs_to_debconf(path: str) -> bool:
    """Debconf installs a file for apt, whether apt is installed or not."""
    return "etc/apt/apt.conf.d/70debconf".startswith(path)


def is_emptied(path: bytes) -> bool:
    """Whether a file stays, but empty."""
    return path in _EMPTIED


def normal(entry: TarEntry, epoch: int) -> TarEntry:
    """The entry without traces of the build host: no time after `epoch` (seconds), no labels."""
    xattrs: Mapping[bytes, bytes] = {
        key: value for key, value in entry.xattrs.items() if not key.startswith(_HOST_XATTRS)
    }
    size = 0 if is_emptied(entry.path) else entry.size
    return replace(entry, size=size, mtime_ns=min(entry.mtime_ns, epoch * 10**9), xattrs=xattrs)
