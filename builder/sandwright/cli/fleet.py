"""The command `fleet`, and how a fleet looks: a table on a terminal, a line for each run elsewhere."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence

from sandwright.cli.running import request_of
from sandwright.errors import UsageError
from sandwright.lazy import load
from sandwright.methods.fleets import Counts, Outcome
from sandwright.session import fleet as session
from sandwright.session.fleet import RETRIES, FleetSize, FleetView, FollowedFleet
from sandwright.visible import notify, visible

FAILED = 6
"""The exit status where a run's was not 0."""

CELL = 60
LINE = 500


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
        session.fleet_named(name).remove()
        notify(f"fleet {name} is removed")
        return 0
    numbers = {"parallel": _parse_count(parallel, "parallel"), "retries": _parse_count(retries, "retries")}
    size = FleetSize(_parse_count(count or "0", "count"), rows, **numbers)
    if resume:
        return _follow_to_end(session.resume(name, results, size))
    request = request_of(
        words, policy=policy, method=method, preset=preset, set=set, time=time, trust_policy=trust_policy
    )
    followed = session.start(request, size, name=name, results=results, notify=notify)
    notify(f"fleet {followed.name}: {followed.fleet.count} runs in {followed.fleet.where}")
    return _follow_to_end(followed)


def _follow_to_end(followed: FollowedFleet) -> int:
    """Show it until it ends, then remove it. After an interrupt it continues, and a line says so."""
    try:
        with _viewing(followed) as view:
            failed = followed.follow(view)
    except BaseException:
        again = f"sandwright fleet --name {followed.name}"
        notify(
            f"fleet {followed.name} continues without this command: "
            f"`{again} --resume` follows it, `{again} --remove` ends it"
        )
        raise
    finally:
        followed.results.close()
    followed.fleet.remove()
    notify(f"fleet {followed.name} is over: {failed} of {followed.fleet.count} runs failed")
    return FAILED if failed else 0


def _parse_count(text: str, name: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 9):
        raise UsageError(f"--{name} is a number, not {text!r}")
    return int(text)


@contextlib.contextmanager
def _viewing(followed: FollowedFleet) -> Iterator[FleetView]:
    if not sys.stderr.isatty():
        yield _Lines()
        return
    with load("sandwright.cli.fleet_drawing:viewing")(followed) as view:
        yield view


def describe_outcome(outcome: Outcome) -> str:
    """The end of a run, in a few words of ours and of the cluster's."""
    attempt = outcome.attempt
    if attempt is None:
        return f"unknown: {outcome.note}"
    status = "no exit status" if attempt.status is None else f"exit {attempt.status}"
    reason = f" ({attempt.reason})" if attempt.reason not in ("", "Completed", "Error") else ""
    took = "" if attempt.seconds is None else f" in {attempt.seconds} s"
    tries = f", attempt {outcome.attempts}" if outcome.attempts > 1 else ""
    return one_line(f"{status}{reason}{took}{tries}", LINE)


def one_line(text: str, most: int) -> str:
    """Text by others as one line of at most `most` characters that a terminal can show."""
    return visible(" ".join(text[: 4 * most].split()))[:most]


def last_line(output: bytes | None) -> str:
    """The last line of an output, to be shown."""
    tail = (output or b"")[-4096:].decode(errors="replace").splitlines()
    return next((one_line(line, CELL) for line in reversed(tail) if line.strip()), "")


class _Lines:
    """For logs: a line for each run when it is over."""

    def settled(self, outcome: Outcome, words: tuple[str, ...]) -> None:
        row = one_line(" ".join(words), CELL)
        notify(f"run {outcome.index}{' ' * bool(row)}{row}: {describe_outcome(outcome)}")

    def counted(self, counts: Counts) -> None:
        pass

    def noted(self, text: str) -> None:
        notify(one_line(text, LINE))
