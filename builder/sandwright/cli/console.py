"""What a person sees: progress bars and tables on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from sandwright.progress import Progress, ProgressStep
from sandwright.visible import message, one_line, visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

PLAIN_WIDTH = 160
"""Columns of a table where no terminal has a width."""

INTERVAL = 30.0
"""Seconds after which a log is told how far a step is."""


@contextlib.contextmanager
def watching() -> Iterator[Progress]:
    """A `Progress` on standard error: on a terminal one line of what remains, elsewhere one for each step."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.live import Live  # noqa: PLC0415

    console = Console(stderr=True)
    drawn = _Drawn(console)
    with Live(console=console, transient=True, get_renderable=drawn.line, refresh_per_second=4):
        yield drawn


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str = "") -> None:
    """Print rows under headings on standard output. Cells are plain text."""
    from rich.box import SIMPLE  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH, highlight=False)
    grid = Table(*columns, box=SIMPLE, title=visible(title) or None, title_justify="left", pad_edge=False)
    for row in rows:
        grid.add_row(*(Text(one_line(cell), style=_STYLES.get(cell.split(" ")[0], "")) for cell in row))
    console.print(grid)


def line(text: str) -> None:
    """Print one line on standard output, whatever breaks are in it: CI obeys what begins a line."""
    print(one_line(text))


def lines(text: str) -> None:
    """Print a text of several lines on standard output, in which no stranger's has breaks."""
    print(visible(text))


def write(text: str) -> None:
    """Print a text that ends its own lines on standard output."""
    print(visible(text), end="")


def warn(text: str) -> None:
    """Print one line on standard error: a warning."""
    print(f"sandwright: {one_line(text)}", file=sys.stderr, flush=True)


def size(count: int) -> str:
    """A number of bytes as people read it: `1.2 MB`, powers of 1000."""
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            return f"{amount:.0f} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    raise AssertionError


_STYLES = {"pass": "green", "fail": "bold red", "inconclusive": "yellow", "skipped": "dim"}


class _Counter:
    def __init__(self) -> None:
        self.done = 0
        self._lock = threading.Lock()

    def advance(self, amount: int) -> None:
        with self._lock:
            self.done += amount


class _Told(_Counter):
    """Tells at most once in INTERVAL how far it is, when it gets further."""

    def __init__(self, label: str, total: int, unit: str, note: Callable[[str], None]) -> None:
        super().__init__()
        self._words, self._note = (label, total, unit), note
        self._started = self._told = time.monotonic()

    def advance(self, amount: int) -> None:
        super().advance(amount)
        label, total, unit = self._words
        now = time.monotonic()
        with self._lock:
            due = unit != "bytes" and self.done < total and now - self._told >= INTERVAL
            self._told = now if due else self._told
        if due:
            self._note(f"{label}: {self.done} of {total} {unit} after {now - self._started:.0f} s")


class _Lines:
    """For logs: a line when a step ends, and for one that takes long where it is."""

    @contextlib.contextmanager
    def step(self, label: str, total: int | None = None, *, unit: str = "bytes") -> Iterator[ProgressStep]:
        started = time.monotonic()
        counter = _Told(label, total or 0, unit, self.note)
        yield counter
        done = counter.done or total or 0
        amount = f" {size(done)}" if unit == "bytes" and done else f" {done} {unit}" if done else ""
        self.note(f"{label}:{amount} in {time.monotonic() - started:.1f} s")

    def note(self, text: str) -> None:
        print(message(text), file=sys.stderr, flush=True)


class _Drawn:
    """For terminals: one line. First what remains of the whole, if that is known; then what is under way."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started = time.monotonic()
        self._steps: dict[int, _Shown] = {}
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def step(self, label: str, total: int | None = None, *, unit: str = "bytes") -> Iterator[ProgressStep]:
        shown, number = _Shown(" ".join(visible(label).split()), total, unit), next(self._numbers)
        with self._lock:
            self._steps[number] = shown
        try:
            yield shown
        finally:
            with self._lock:
                del self._steps[number]

    def note(self, text: str) -> None:
        self._console.print(message(text), markup=False, highlight=False)

    def line(self) -> Text:
        """As wide as the terminal at most."""
        from rich.text import Text  # noqa: PLC0415

        with self._lock:
            steps = list(self._steps.values())
        steps.sort(key=lambda each: not each.is_whole)
        seconds = int(time.monotonic() - self._started)
        words = [f"{seconds // 60}:{seconds % 60:02}", *(each.describe() for each in steps)]
        return Text(" · ".join(words), no_wrap=True, overflow="ellipsis")


class _Shown(_Counter):
    """A step under way. It is the whole, or a part of it, where things are counted whose number is known."""

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
