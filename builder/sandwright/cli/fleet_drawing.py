"""The table of a fleet's runs on a terminal, drawn with rich."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator
from time import monotonic

from rich.box import SIMPLE
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from sandwright.cli.fleet import CELL, LINE, describe_outcome, last_line, one_line
from sandwright.methods.fleets import Counts, Outcome
from sandwright.session.fleet import FleetView, FollowedFleet

_SHOWN = 10


@contextlib.contextmanager
def viewing(followed: FollowedFleet) -> Iterator[FleetView]:
    """A view of a fleet that is redrawn on standard error."""
    drawn = Console(stderr=True, highlight=False)
    with Live(console=drawn, auto_refresh=False, transient=True) as live:
        yield _Drawn(live, followed)


class _Drawn:
    """For terminals: how far it is, and the last runs that ended."""

    def __init__(self, live: Live, followed: FollowedFleet) -> None:
        self._live = live
        self._followed = followed
        self._began = monotonic()
        self._last: deque[tuple[str, str, str, str]] = deque(maxlen=_SHOWN)
        self._counts = Counts(len(followed.results.known), 0, 0)
        self._note = ""

    def settled(self, outcome: Outcome, words: tuple[str, ...]) -> None:
        row = one_line(" ".join(words), CELL)
        self._last.append((str(outcome.index), row, describe_outcome(outcome), last_line(outcome.output)))
        self._draw()

    def counted(self, counts: Counts) -> None:
        self._counts = counts
        self._draw()

    def noted(self, text: str) -> None:
        self._note = one_line(text, LINE)
        self._draw()

    def _draw(self) -> None:
        self._live.update(self._fleet_table(), refresh=True)

    def _fleet_table(self) -> Table:
        counts, results = self._counts, self._followed.results.known
        failed = sum(status != 0 for status in results.values())
        seconds = int(monotonic() - self._began)
        title = (
            f"fleet {self._followed.name}: {len(results)} of {self._followed.fleet.count} over, "
            f"{failed} failed, "
            f"{counts.running} running, {seconds // 60}:{seconds % 60:02}"
        )
        grid = Table(
            *("run", "row", "end", "last line"),
            box=SIMPLE,
            title=Text(title),
            title_justify="left",
            caption=Text(self._note) if self._note else None,
            caption_justify="left",
            pad_edge=False,
        )
        for row in self._last:
            grid.add_row(*(Text(cell) for cell in row))
        return grid
