"""Versions of runtimes with known escapes from their containers (CVEs), by the output of `--version`."""

from __future__ import annotations

import re
from dataclasses import dataclass

_VERSION = re.compile(r"(?P<name>\w+) version (?P<text>(\d+)\.(\d+)\.(\d+)(?:-rc\.?(\d+))?[^\s]*)")
_FINAL = 1 << 30


@dataclass(frozen=True)
class _Escape:
    """`mended` are the first versions without it: of each branch that got one, and of all later branches."""

    program: str
    names: tuple[str, ...]
    mended: tuple[str, ...]


KNOWN = (
    # Races with masked paths, /dev/console, and writes to /proc
    _Escape("runc", ("CVE-2025-31133", "CVE-2025-52565", "CVE-2025-52881"), ("1.2.8", "1.3.3", "1.4.0-rc.3")),
)


def escapes(output: str) -> tuple[str, str] | None:
    """The known escape of a runtime's version, and its remedy; None without one.

    A distribution can fix its package under the same version, so the warning may be wrong.
    """
    found = _VERSION.search(output)
    if found is None:
        return None
    version = _parsed(found)
    for escape in KNOWN:
        if escape.program == found["name"] and not _is_mended(version, escape.mended):
            message = f"{found['name']} {found['text']} has known escapes: {', '.join(escape.names)}"
            last = ", ".join(escape.mended[:-1])
            return message, (
                f"{last} and {escape.mended[-1]} fix them; a distribution may have fixed its own package: "
                "see its changelog"
            )
    return None


def _parsed(found: re.Match[str]) -> tuple[int, int, int, int]:
    major, minor, patch, candidate = found.groups()[2:]
    return int(major), int(minor), int(patch), int(candidate) if candidate else _FINAL


def _is_mended(version: tuple[int, int, int, int], mended: tuple[str, ...]) -> bool:
    first = []
    for text in mended:
        found = _VERSION.search(f"x version {text}")
        assert found is not None
        first.append(_parsed(found))
    same = [each for each in first if each[:2] == version[:2]]
    return version >= same[0] if same else version >= max(first)
