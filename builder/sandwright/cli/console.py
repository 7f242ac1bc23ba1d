"""Output for a person: progress bars and tables on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from sandwright.lazy import load
from sandwright.progress import Progress, ProgressStep
from sandwright.visible import message, one_line, visible

_RICH = "sandwright.cli.drawing"
"""Imported for tables and terminals only: importing rich takes longer than most commands."""

PLAIN_WIDTH = 160
"""Columns of a table where no terminal has a width."""

INTERVAL = 30.0
"""Seconds between two progress lines in a log."""


@contextlib.contextmanager
def watching() -> Iterator[Progress]:
    """A `Progress` on standard error: on a terminal one line of the open steps, elsewhere one per step."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    with load(f"{_RICH}:watching")() as drawn:
        yield drawn


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str = "") -> None:
    """Print rows under headings on standard output. Cells are plain text."""
    load(f"{_RICH}:table")(columns, rows, title=title)


def line(text: str) -> None:
    """Print one line, without line breaks in it: CI systems obey commands at the start of a line."""
    print(one_line(text))


def lines(text: str) -> None:
    """Print a text of several lines on standard output. Untrusted parts of it contain no line breaks."""
    print(visible(text))


def write(text: str) -> None:
    """Print a text that contains its own line breaks on standard output."""
    print(visible(text), end="")


def warn(text: str) -> None:
    """Print one line on standard error: a warning."""
    print(f"sandwright: {one_line(text)}", file=sys.stderr, flush=True)


def counted(number: int, noun: str) -> str:
    """`1 run`, `2 runs`, `2 directories`."""
    plural = f"{noun.removesuffix('y')}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"


def size(count: int) -> str:
    """A number of bytes as people read it: `1.2 MB`, powers of 1000."""
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            return f"{amount:.0f} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    raise AssertionError


class Counter:
    """The progress of a step; threads advance it."""

    def __init__(self) -> None:
        self.done = 0
        self._lock = threading.Lock()

    def advance(self, amount: int) -> None:
        """Count completed work."""
        with self._lock:
            self.done += amount


class _Told(Counter):
    """Reports progress, at most once per INTERVAL."""

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
