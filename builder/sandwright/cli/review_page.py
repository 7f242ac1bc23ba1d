"""Renders the changes of a workspace as one self-contained page: held-back changes, and each diff.

Its text was written by programs in a sandbox: the template escapes it, and the page has no script.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

from sandwright.cli import console
from sandwright.cli.review_summary import change_detail, counts_by_kind, listing_directory
from sandwright.render.templates import render_page
from sandwright.verify.page import inline_style
from sandwright.visible import one_line
from sandwright.workspace.changes import Change
from sandwright.workspace.diff import diff_change, without_objects
from sandwright.workspace.store import Workspace
from sandwright.workspace.withheld import Withheld

MOST_LINES = 1000
"""Lines of one diff that the page has."""

MOST_BYTES = 8_000_000
"""Bytes of all diffs together. Of further changes, it has no diff."""

_FOLDER = Path(__file__).parent
_MARKS = {"+": "added", "-": "deleted", "@": "place"}


@dataclass(frozen=True)
class _ShownChange:
    """One change. `status` says why it is not simply applied; empty where it is."""

    path: str
    kind: str
    detail: str
    status: str
    reason: str
    lines: Sequence[tuple[str, str]]
    """Lines of the diff, each with its kind."""


@dataclass(frozen=True)
class _Directory:
    name: str
    counts: str
    changes: Sequence[_ShownChange]


def review_page(copy: Workspace, found: Sequence[Change], held: Sequence[Withheld]) -> bytes:
    """HTML, of the changes of a locked workspace and those of them that `apply` does not take by itself."""
    printed, objects = without_objects(found)
    html = render_page(
        _FOLDER,
        "review_page.html.j2",
        verdict=console.counted(len(found), "change"),
        badge="inconclusive" if held else "pass",
        project=copy.project,
        statements=[*_hold_statements(found, held)],
        facts=[*_review_facts(copy, found, objects)],
        directories=[*_Showing(copy, held).directories(printed)],
        **inline_style((_FOLDER / "review_page.css").read_text(encoding="utf-8")),
    )
    return html.encode("utf-8", "backslashreplace")


def _hold_statements(found: Sequence[Change], held: Sequence[Withheld]) -> Iterator[tuple[str, str]]:
    """The statements that a reader must see first, each with its colour."""
    refused = sum(each.refused for each in held)
    if refused:
        yield "fail", f"{console.counted(refused, 'change')} never applied"
    if len(held) > refused:
        back = console.counted(len(held) - refused, "change")
        yield "inconclusive", f"{back} held back by `apply`, each for the reason below"
    if len(found) > len(held):
        yield "pass", f"{console.counted(len(found) - len(held), 'change')} taken by `apply`"


def _review_facts(
    copy: Workspace, found: Sequence[Change], objects: Mapping[bytes, Sequence[Change]]
) -> Iterator[tuple[str, str]]:
    yield "Project", copy.project
    yield "Workspace", copy.name
    yield "Changes", counts_by_kind(found) or "none"
    for folder, members in objects.items():
        yield "Objects of Git", f"{os.fsdecode(folder)}: {counts_by_kind(members)}, not shown"
    yield "Made", f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"


class _Showing:
    """The shown part of the changes, as long as there is room for their diffs."""

    def __init__(self, copy: Workspace, held: Sequence[Withheld]) -> None:
        self._copy = copy
        self._held = {each.change.path: each for each in held}
        self._left = MOST_BYTES

    def directories(self, found: Sequence[Change]) -> Iterator[_Directory]:
        """The directories that list changes, those of the project's top first."""
        ordered = sorted(found, key=lambda each: (listing_directory(each), each.path))
        for folder, members in groupby(ordered, key=listing_directory):
            group = [*members]
            name = f"{os.fsdecode(folder) or '.'}/"
            yield _Directory(name, counts_by_kind(group), [self._shown_change(each) for each in group])

    def _shown_change(self, change: Change) -> _ShownChange:
        held = self._held.get(change.path)
        status = "" if held is None else "never applied" if held.refused else "held back"
        return _ShownChange(
            one_line(os.fsdecode(change.path)),
            change.kind,
            one_line(change_detail(change)).strip(),
            status,
            "" if held is None else one_line(held.reason),
            [*self._diff_lines(change)],
        )

    def _diff_lines(self, change: Change) -> Iterator[tuple[str, str]]:
        """The lines of a diff, without those that name the file."""
        if self._left <= 0:
            yield "place", "the page is full: `sandwright changes --diff` shows the diff"
            return
        lines = _without_names(diff_change(self._copy, change))
        for line in lines[:MOST_LINES]:
            self._left -= len(line)
            text = line.decode("utf-8", "backslashreplace").removesuffix("\n")
            yield _MARKS.get(text[:1], ""), one_line(text)
        if len(lines) > MOST_LINES:
            yield "place", f"and {len(lines) - MOST_LINES} more lines"


def _without_names(lines: Sequence[bytes]) -> list[bytes]:
    """A diff without the lines that name the file; in its hunks, such lines are a file's own."""
    start = next((at for at, line in enumerate(lines) if line.startswith(b"@@ ")), len(lines))
    header = [line for line in lines[:start] if not line.startswith((b"diff a/", b"--- ", b"+++ "))]
    return [*header, *lines[start:]]
