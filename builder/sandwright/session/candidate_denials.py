"""Selects the recorded accesses that may have been refused: the policy is resolved again for these only.

`session.explained` judges them. Calls left out here were refused by no rule: the rule for the path's
nearest listed ancestor lets it be read, and nothing was to be changed, or lets it be written, and no
protected name is on the way.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sandwright.session.access_log import CHANGES, Access, LogEnd, UnresolvedCalls, entries
from sandwright.session.denial_context import Grant, PathContext

_MOST = 20_000
"""The most paths that are judged; programs inside can choose as many as fit into the launcher's 64 MB."""


def candidate_denials(file: Path, context: PathContext) -> tuple[list[Access], int]:
    """The accesses that may have been refused, and how many calls with paths are unknown.

    Raise OSError, and ValueError, KeyError, TypeError or AttributeError for a malformed log.
    """
    found: list[Access] = []
    unknown, whole = 0, False
    names = _by_component(context.names)
    with file.open("rb") as opened:
        for each in entries(opened):
            if isinstance(each, Access) and _is_candidate(each, context, names):
                if len(found) < _MOST:
                    found.append(each)
                else:
                    unknown += 1
            elif isinstance(each, UnresolvedCalls):
                unknown += each.count
            elif isinstance(each, LogEnd):
                whole, unknown = True, unknown + each.dropped
    if not whole:
        raise ValueError("it has no end")
    return found, unknown


def _by_component(names: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(name.partition("/")[0], []).append(name)
    return found


def _is_candidate(access: Access, context: PathContext, names: dict[str, list[str]]) -> bool:
    path, grant = access.real, _nearest_grant(access.real, context)
    if grant in ("read", "write") and not access.kinds & CHANGES:
        return False
    if grant == "write":
        return any(f"/{each}/" in f"{path}/" for part in path.split("/") for each in names.get(part, ()))
    return grant != "private"


def _nearest_grant(path: str, context: PathContext) -> Grant:
    """The decision of the rules at or above a path; empty if no rule applies."""
    for table in (context.rules, context.startup):
        at = path
        while at:
            if at in table:
                return table[at]
            at = at.rpartition("/")[0]
        if "/" in table:
            return table["/"]
    return ""
