"""The summary of a workspace's changes, for a terminal: by directory, with those held back by `apply`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from sandwright.cli import console
from sandwright.workspace.below import parents
from sandwright.workspace.changes import Change
from sandwright.workspace.store import Workspace
from sandwright.workspace.withheld import Withheld

LETTERS = {"added": "A", "changed": "M", "deleted": "D", "mode": "m"}
_WORDS = {"added": "added", "changed": "changed", "deleted": "deleted", "mode": "with another mode"}
_SHOWN = 200
"""Changes that a summary lists; `--json` and `--diff` have all."""


def print_summary(copy: Workspace, found: Sequence[Change], held: Sequence[Withheld]) -> None:
    """Print the changes by directory; those in directories of Git are counted."""
    console.line(f"workspace {copy.name} of {copy.project}: {console.counted(len(found), 'change')}")
    listed = sorted(
        (each for each in found if not is_in_git(each)), key=lambda each: (listing_directory(each), each.path)
    )
    for folder, members in groupby(listed[:_SHOWN], key=listing_directory):
        group = [*members]
        console.line(f"{os.fsdecode(folder) or '.'}/: {counts_by_kind(group)}")
        for each in group:
            console.line(f"  {LETTERS[each.kind]} {os.fsdecode(each.path)}{change_detail(each)}")
    if len(listed) > _SHOWN:
        console.line(f"and {len(listed) - _SHOWN} more")
    for folder, members in groupby(filter(is_in_git, found), key=listing_directory):
        console.line(f"{os.fsdecode(folder)}/: {counts_by_kind(members)}, not listed here")
    print_withheld(held)


def is_in_git(change: Change) -> bool:
    """Whether a change is in a `.git` directory: the summary counts those, and does not list them."""
    return b"/.git/" in b"/" + change.path


def listing_directory(change: Change) -> bytes:
    """The directory that lists a change: for all in a directory of Git's, that one."""
    above, mark, _ = (b"/" + change.path).partition(b"/.git/")
    return (above + mark).strip(b"/") if mark else change.path.rpartition(b"/")[0]


def print_withheld(held: Sequence[Withheld]) -> None:
    """Print the changes that are held back or never applied, with the reasons."""
    for title, refused in (("held back by `apply`", False), ("never applied", True)):
        lines = [*withheld_lines([each for each in held if each.refused == refused])]
        if lines:
            console.line(f"{title}:")
            for line in lines[:_SHOWN]:
                console.line(line)
            if len(lines) > _SHOWN:
                console.line(f"  and {len(lines) - _SHOWN} more")


def withheld_lines(held: Sequence[Withheld]) -> Iterator[str]:
    """A line for each path, and one for a directory with all in it that is held for the same reason."""
    tops: dict[bytes, tuple[Withheld, int]] = {}
    for each in sorted(held, key=lambda each: each.change.path):
        path = each.change.path
        above = next(
            (top for top in parents(path) if top in tops and tops[top][0].reason == each.reason), path
        )
        tops[above] = (tops[above][0], tops[above][1] + 1) if above in tops else (each, 1)
    for path, (each, count) in tops.items():
        inside = f" ({console.counted(count, 'change')})" if count > 1 else ""
        yield f"  {os.fsdecode(path)}{inside}: {each.reason}"


def counts_by_kind(found: Iterable[Change]) -> str:
    """`2 added, 1 changed`."""
    numbers: dict[str, int] = dict.fromkeys(_WORDS, 0)
    for each in found:
        numbers[each.kind] += 1
    return ", ".join(f"{number} {_WORDS[kind]}" for kind, number in numbers.items() if number)


def change_detail(change: Change) -> str:
    """The details of a change, in parentheses: sizes or modes; for a link, its target."""
    old, new = change.old, change.new
    if new is None:
        return ""
    if new.kind == "symlink":
        return f" -> {os.fsdecode(new.link or b'')}"
    if change.kind == "mode" and old is not None:
        return f" ({old.mode & 0o7777:o} to {new.mode & 0o7777:o})"
    if new.kind != "file":
        return f" ({new.kind})"
    before = f"{console.size(old.size)} to " if old is not None and old.kind == "file" else ""
    return f" ({before}{console.size(new.size)})"
