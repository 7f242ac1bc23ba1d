"""Reads launchers back: which variables they pass on, and what must not exist when they start.

They are shell scripts of ours, so it is enough to find the few lines whose form `oci/launchers` gives.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from sandwright.errors import DocumentError, Problem
from sandwright.evaluate.explain.enclosure import Passing
from sandwright.evaluate.explain.verdict import ArtifactPosition

_CASE = re.compile(r"^[ \t]+case \$sw_name in$(?=\n[ \t]+'' \| \[0-9\]\*)", re.MULTILINE)
_ABSENT = re.compile(r"^for sw_path in \\\n(.*?)^; do\n    if \[ -e ", re.MULTILINE | re.DOTALL)


def passing(text: str, *, file: str = "launch") -> Passing:
    """The patterns of variables in a launcher. Raise DocumentError when they are not where we look."""
    found = _CASE.search(text)
    if found is None:
        raise DocumentError(file, [Problem(0, 0, "", "does not say which variables it passes on")])
    never: dict[str, ArtifactPosition] = {}
    passed: dict[str, ArtifactPosition] = {}
    line = text.count("\n", 0, found.end()) + 1
    for number, row in enumerate(text[found.end() :].lstrip("\n").splitlines(), start=line + 1):
        patterns, paren, rest = row.strip().partition(")")
        if not paren or patterns == "*":
            break
        into = never if rest.strip() == "continue ;;" else passed
        for pattern in patterns.split(" | "):
            if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*\*?", pattern):
                into[pattern] = ArtifactPosition(file, row.strip(), number, len(row) - len(row.lstrip()) + 1)
    return Passing(passed, never)


def absent(text: str, *, file: str = "launch") -> Iterator[tuple[str, ArtifactPosition]]:
    """The paths that must not exist, each with its line."""
    found = _ABSENT.search(text)
    if found is None:
        return
    first = text.count("\n", 0, found.start(1)) + 1
    # A word may span lines, so that the lines are counted where words begin.
    position = 0
    block = found[1]
    for word in shlex.split(block.replace("\\\n", "\n")):
        position = max(block.find(shlex.quote(word), position), position)
        yield word, ArtifactPosition(file, shlex.quote(word), first + block.count("\n", 0, position), 5)
