"""What a person sees: progress bars and tables on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sandwright.progress import Progress, ProgressStep
from sandwright.visible import visible

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

PLAIN_WIDTH = 160
"""Columns of a table where no terminal has a width."""


@contextlib.contextmanager
def watching() -> Iterator[Progress]:
    """A `Progress` on standard error: bars on a terminal, elsewhere a line for each finished step."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415
    from rich.progress import Progress as Bars  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        yield _Drawn(bars)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str = "") -> None:
    """Print rows under headings on standard output. Cells are plain text."""
    from rich.box import SIMPLE  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH, highlight=False)
    grid = Table(*columns, box=SIMPLE, title=visible(title) or None, title_justify="left", pad_edge=False)
    for row in rows:
        grid.add_row(*(Text(visible(cell), style=_STYLES.get(cell.split(" ")[0], "")) for cell in row))
    console.print(grid)


def line(text: str) -> None:
    """Print one line on standard output."""
    print(visible(text))


def write(text: str) -> None:
    """Print a text that ends its own lines on standard output."""
    print(visible(text), end="")


def warn(text: str) -> None:
    """Print one line on standard error: a warning."""
    print(f"sandwright: {visible(text)}", file=sys.stderr, flush=True)


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


class _Lines:
    """For logs: a line when a step ends, so that a stuck one shows by its absence."""

    @contextlib.contextmanager
    def step(self, label: str, total: int | None = None, *, unit: str = "bytes") -> Iterator[ProgressStep]:
        started = time.monotonic()
        counter = _Counter()
        yield counter
        done = counter.done or total or 0
        amount = f" {size(done)}" if unit == "bytes" and done else f" {done} {unit}" if done else ""
        self.note(f"{label}:{amount} in {time.monotonic() - started:.1f} s")

    def note(self, text: str) -> None:
        print(visible(text), file=sys.stderr, flush=True)


class _Drawn:
    """For terminals: a bar for each step under way."""

    def __init__(self, bars: Bars) -> None:
        self._bars = bars

    @contextlib.contextmanager
    def step(self, label: str, total: int | None = None, *, unit: str = "bytes") -> Iterator[ProgressStep]:  # noqa: ARG002
        bar = self._bars.add_task(visible(label), total=total)
        try:
            yield _Bar(self._bars, bar)
        finally:
            self._bars.remove_task(bar)

    def note(self, text: str) -> None:
        self._bars.console.print(visible(text), markup=False, highlight=False)


class _Bar:
    def __init__(self, bars: Bars, bar: TaskID) -> None:
        self._bars = bars
        self._bar = bar

    def advance(self, amount: int) -> None:
        self._bars.advance(self._bar, amount)
