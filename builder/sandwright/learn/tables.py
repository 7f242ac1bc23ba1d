"""Tables of file systems for `learn`: directories that are one unit, and those never granted whole."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RootKind:
    """A kind of directory that is granted as one thing. `names` are in each of its kind; `a|b` is either."""

    what: str
    names: tuple[str, ...]


ROOTS: tuple[RootKind, ...] = (
    RootKind("a virtual environment of Python", ("pyvenv.cfg",)),
    RootKind("a repository of Git", (".git",)),
    RootKind("a toolchain", ("bin", "lib|lib64|share|include|libexec|pkg")),
    RootKind("a project of Node", ("package.json", "node_modules")),
    RootKind("a crate or workspace of Cargo", ("Cargo.toml", "src|crates")),
    RootKind("a module of Go", ("go.mod",)),
)
"""The nearest directory above a path that is one of these is granted in its place."""

_SYSTEM = (
    "/ /boot /data /dev /dev/shm /etc /home /media /mnt /opt /proc /root /run /run/user /srv /sys /tmp /var "
    "/var/backups /var/cache /var/lib /var/log /var/mail /var/spool /var/tmp"
)
_HOME = (
    "~ ~/.cache ~/.cargo ~/.config ~/.local ~/.local/share ~/.local/state ~/go "
    "~/Desktop ~/Documents ~/Downloads ~/Music ~/Pictures ~/Videos"
)
NEVER_WHOLE: frozenset[str] = frozenset(f"{_SYSTEM} {_HOME}".split())
"""Directories that hold things of many kinds: never granted as a whole, however much in them is read.

Nor is the home of a user, which lies in `HOMES`.
"""

HOMES = "/home"

SIBLINGS = 4
"""From so many files of one directory on, the directory is granted."""

MOST_PATHS = 12
"""From more paths of one host on, the directory of all of them is granted, if the policy allows that."""

MOST_GRANTS = 200
"""A longer list is not readable: the rest is not granted, and the run under the proposal shows whether it is
needed."""
