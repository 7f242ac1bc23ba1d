"""The command `fleet`, and how a fleet looks: a table on a terminal, a line for each run elsewhere."""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from time import monotonic
from typing import TYPE_CHECKING

from sandwright.cli.running import request_of
from sandwright.errors import UsageError
from sandwright.methods.fleets import Counts, Outcome
from sandwright.session import fleet as session
from sandwright.session.fleet import RETRIES, FleetSize, FleetView, FollowedFleet
from sandwright.visible import say, visible

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

FAILED = 6
"""The exit status where a run's was not 0."""

_SHOWN = 10
_CELL = 60
_LINE = 500


def fleet(
    *,
    words: Sequence[str] = (),
    count: str = "",
    rows: str = "",
    parallel: str = "10",
    retries: str = str(RETRIES),
    name: str = "",
    results: str = "",
    resume: bool = False,
    remove: bool = False,
    policy: str = "",
    method: str = "",
    preset: Sequence[str] = (),
    set: Sequence[str] = (),  # noqa: A002 - the option's name
    time: str = "",
    trust_policy: bool = False,
) -> int:
    """Run a command many times; give 6 where a run ended with another status than 0."""
    if (resume or remove) and (not name or words or (resume and remove)):
        raise UsageError("give --name with --resume or --remove, and no command")
    if remove:
        session.find(name).remove()
        say(f"fleet {name} is removed")
        return 0
    numbers = {"parallel": _number(parallel, "parallel"), "retries": _number(retries, "retries")}
    size = FleetSize(_number(count or "0", "count"), rows, **numbers)
    if resume:
        return _follow(session.resume(name, results, size))
    request = request_of(
        words, policy=policy, method=method, preset=preset, set=set, time=time, trust_policy=trust_policy
    )
    followed = session.start(request, size, name=name, results=results, say=say)
    say(f"fleet {followed.name}: {followed.fleet.count} runs in {followed.fleet.where}")
    return _follow(followed)


def _follow(followed: FollowedFleet) -> int:
    """Show it to its end, and remove it then. It goes on when this is broken off, and we say so."""
    try:
        with _viewing(followed) as view:
            failed = followed.follow(view)
    except BaseException:
        again = f"sandwright fleet --name {followed.name}"
        say(
            f"fleet {followed.name} goes on without us: "
            f"`{again} --resume` follows it, `{again} --remove` ends it"
        )
        raise
    finally:
        followed.results.close()
    followed.fleet.remove()
    say(f"fleet {followed.name} is over: {failed} of {followed.fleet.count} runs failed")
    return FAILED if failed else 0


def _number(text: str, name: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 9):
        raise UsageError(f"--{name} is a number, not {text!r}")
    return int(text)


@contextlib.contextmanager
def _viewing(followed: FollowedFleet) -> Iterator[FleetView]:
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.live import Live  # noqa: PLC0415

    drawn = Console(stderr=True, highlight=False)
    with Live(console=drawn, auto_refresh=False, transient=True) as live:
        yield _Drawn(live, followed)


def ended(outcome: Outcome) -> str:
    """How a run ended, in a few words of ours and of the cluster's."""
    attempt = outcome.attempt
    if attempt is None:
        return f"unknown: {outcome.note}"
    status = "no exit status" if attempt.status is None else f"exit {attempt.status}"
    reason = f" ({attempt.reason})" if attempt.reason not in ("", "Completed", "Error") else ""
    took = "" if attempt.seconds is None else f" in {attempt.seconds} s"
    tries = f", attempt {outcome.attempts}" if outcome.attempts > 1 else ""
    return one_line(f"{status}{reason}{took}{tries}", _LINE)


def one_line(text: str, most: int) -> str:
    """What others wrote, in one line of at most so many characters that a terminal can show."""
    return visible(" ".join(text[: 4 * most].split()))[:most]


def last_line(output: bytes | None) -> str:
    """The last line of an output, to be shown."""
    tail = (output or b"")[-4096:].decode(errors="replace").splitlines()
    return next((one_line(line, _CELL) for line in reversed(tail) if line.strip()), "")


class _Lines:
    """For logs: a line for each run when it is over."""

    def settled(self, outcome: Outcome, words: tuple[str, ...]) -> None:
        row = one_line(" ".join(words), _CELL)
        say(f"run {outcome.index}{' ' * bool(row)}{row}: {ended(outcome)}")

    def counted(self, counts: Counts) -> None:
        pass

    def noted(self, text: str) -> None:
        say(one_line(text, _LINE))


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
        row = one_line(" ".join(words), _CELL)
        self._last.append((str(outcome.index), row, ended(outcome), last_line(outcome.output)))
        self._draw()

    def counted(self, counts: Counts) -> None:
        self._counts = counts
        self._draw()

    def noted(self, text: str) -> None:
        self._note = one_line(text, _LINE)
        self._draw()

    def _draw(self) -> None:
        self._live.update(self._table(), refresh=True)

    def _table(self) -> Table:
        from rich.box import SIMPLE  # noqa: PLC0415
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        counts, known = self._counts, self._followed.results.known
        failed = sum(status != 0 for status in known.values())
        seconds = int(monotonic() - self._began)
        title = (
            f"fleet {self._followed.name}: {len(known)} of {self._followed.fleet.count} over, "
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
