"""Draws with rich: tables, and the progress line on a terminal."""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
import time
from collections.abc import Iterator, Sequence

from rich.box import SIMPLE
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from sandwright.cli.console import PLAIN_WIDTH, Counter, size
from sandwright.progress import Progress, ProgressStep
from sandwright.visible import message, one_line, visible


@contextlib.contextmanager
def watching() -> Iterator[Progress]:
    """A `Progress` on standard error: one line of the open steps."""
    console = Console(stderr=True)
    drawn = _Drawn(console)
    with Live(console=console, transient=True, get_renderable=drawn.line, refresh_per_second=4):
        yield drawn


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str = "") -> None:
    """Print rows under headings on standard output. Cells are plain text."""
    console = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH, highlight=False)
    grid = Table(*columns, box=SIMPLE, title=visible(title) or None, title_justify="left", pad_edge=False)
    for row in rows:
        grid.add_row(*(Text(one_line(cell), style=_STYLES.get(cell.split(" ")[0], "")) for cell in row))
    console.print(grid)


_STYLES = {"pass": "green", "fail": "bold red", "inconclusive": "yellow", "skipped": "dim"}


class _Drawn:
    """For terminals: one line. First the remainder of the whole, if known; then the current steps."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started = time.monotonic()
        self._steps: dict[int, _Shown] = {}
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def step(self, label: str, total: int | None = None, *, unit: str = "bytes") -> Iterator[ProgressStep]:
        progress_line, number = _Shown(" ".join(visible(label).split()), total, unit), next(self._numbers)
        with self._lock:
            self._steps[number] = progress_line
        try:
            yield progress_line
        finally:
            with self._lock:
                del self._steps[number]

    def note(self, text: str) -> None:
        self._console.print(message(text), markup=False, highlight=False)

    def line(self) -> Text:
        """As wide as the terminal at most."""
        with self._lock:
            steps = list(self._steps.values())
        steps.sort(key=lambda each: not each.is_whole)
        seconds = int(time.monotonic() - self._started)
        words = [f"{seconds // 60}:{seconds % 60:02}", *(each.describe() for each in steps)]
        return Text(" · ".join(words), no_wrap=True, overflow="ellipsis")


class _Shown(Counter):
    """A step in progress: the whole, or a part of it, in items of a known total."""

    def __init__(self, label: str, total: int | None, unit: str) -> None:
        super().__init__()
        self._label, self._total, self._unit = label, total, unit

    @property
    def is_whole(self) -> bool:
        return self._unit != "bytes" and self._total is not None

    def describe(self) -> str:
        if self._unit == "bytes":
            return f"{self._label} {size(self.done)} of {size(self._total)}" if self._total else self._label
        if self._total is None:
            return self._label
        return f"{self._label}: {self._total - self.done} of {self._total} {self._unit} left"
