"""Which lines of a run's record may be of paths that were refused: the policy is needed for these alone.

`session.explained` judges them. What is left out here was refused by no rule: the rule for the path's
nearest listed place lets it be read, and nothing was to be changed, or lets it be written, and no protected
name is on the way. There are few imports, as most runs are refused nothing.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sandwright.documents import strictjson

_CHANGES = ("write", "create", "remove")
_MOST_LINES = 20_000
"""Paths that are looked at, of as many as a program inside may choose within the launcher's 64 MB."""


def candidate_denials(file: str, places: dict[str, Any]) -> tuple[list[str], int]:
    """The lines that may tell of a refusal, and how many calls with paths are unknown.

    `places` is of `session.denial_context`. Raise OSError, and ValueError, KeyError or TypeError for what is
    no record.
    """
    lines: list[str] = []
    unknown, whole = 0, False
    names = _by_component(places["names"])
    with Path(file).open("rb") as opened:
        for line in opened:
            data = strictjson.loads_record(line)
            if "path" in data:
                if not _is_suspect(data, places, names):
                    continue
                if len(lines) < _MOST_LINES:
                    lines.append(line.decode("ascii").rstrip("\n"))
                else:
                    unknown += 1
            elif "unresolved" in data:
                unknown += int(data["unresolved"])
            elif "end" in data:
                whole, unknown = True, unknown + int(data["dropped"])
    if not whole:
        raise ValueError("it has no end")
    return lines, unknown


def _by_component(names: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(name.partition("/")[0], []).append(name)
    return found


def _is_suspect(data: dict[str, Any], places: dict[str, Any], names: dict[str, list[str]]) -> bool:
    path = data.get("real", data["path"])
    if not path.isascii():
        path = os.fsdecode(path.encode("latin-1"))
    place = _nearest(path, places)
    if place in ("read", "write") and not any(each in _CHANGES for each in data["kinds"]):
        return False
    if place == "write":
        return any(f"/{each}/" in f"{path}/" for part in path.split("/") for each in names.get(part, ()))
    return place != "private"


def _nearest(path: str, places: dict[str, Any]) -> str:
    """What the policy's rules say at the nearest place at or above a path; empty where none says anything."""
    for table in (places["rules"], places["startup"]):
        at = path
        while at:
            if at in table:
                return str(table[at])
            at = at.rpartition("/")[0]
        if "/" in table:
            return str(table["/"])
    return ""
