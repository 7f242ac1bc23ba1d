"""An image's paths as functions of a POSIX shell. Pure.

`case` matches as a definition's globs do: `*` and `?` match `/` too, and a leading dot. To dash, which is
Debian's `sh`, `?` is a byte, where it is a character elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from sandwright.image.residue import DROPPED, ONLY_WITH_APT

_ORDINARY = re.compile(r"[A-Za-z0-9_./*?+,@%=:-]")


def wanted_function(exclude: Iterable[str], keep: Iterable[str]) -> str:
    """`wanted PATH`: whether a package's file, by its absolute path in the package, belongs to the image."""
    lines = ["wanted() {", "    case $1 in"]
    lines += _branches(keep, "return 0")
    lines += _branches(exclude, "return 1")
    return "\n".join([*lines, "    esac", "    return 0", "}", ""])


def residue_function(packages: Collection[str]) -> str:
    """`residue PATH KIND`: whether a path of a configured system is no part of an image.

    PATH is relative to the root, KIND a letter as `find -printf %y` gives it. `packages` are the names of
    those installed.
    """
    lines = ["residue() {", "    case $1 in"]
    if "apt" not in packages:
        lines += _branches(["etc/apt", "etc/apt/apt.conf.d", "etc/apt/apt.conf.d/70debconf"], "return 1")
        lines += _branches([glob for each in ONLY_WITH_APT for glob in (each, f"{each}/*")], "return 0")
    lines += ['        var/log/*) [ "$2" != d ]; return ;;']
    lines += _branches(["work", "work/*", *DROPPED], "return 0")
    return "\n".join([*lines, "    esac", "    return 1", "}", ""])


def pattern(glob: str) -> str:
    """A glob as a pattern of `case`, nothing in it meaning anything else to the shell.

    Brackets are Python's: `^` is no negation there, and a backslash means itself.
    """
    parts = []
    at = 0
    while at < len(glob):
        close = _closing(glob, at) if glob[at] == "[" else None
        if close is not None:
            parts.append(_bracket(glob[at + 1 : close]))
            at = close
        else:
            parts.append(_escape_character(glob[at]))
        at += 1
    return "".join(parts)


def _branches(globs: Iterable[str], what: str) -> list[str]:
    return [f"        {pattern(glob)}) {what} ;;" for glob in globs]


def _closing(glob: str, start: int) -> int | None:
    """The end of a bracket expression; None when it doesn't end, and `[` means itself."""
    first = start + 1
    if glob[first : first + 1] == "!":
        first += 1
    end = glob.find("]", first + 1)  # one that comes first is a member
    return None if end < 0 else end


def _bracket(inside: str) -> str:
    negated = inside.startswith("!")
    members = inside[1:] if negated else inside
    return "[" + ("!" if negated else "") + "".join(_bracket_member(each) for each in members) + "]"


def _bracket_member(character: str) -> str:
    return character if character == "-" or re.match(r"[A-Za-z0-9_./]", character) else f"\\{character}"


def _escape_character(character: str) -> str:
    return character if _ORDINARY.match(character) else f"\\{character}"
