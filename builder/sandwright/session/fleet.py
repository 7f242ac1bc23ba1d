"""Runs a fleet: one command many times, each in a new sandbox, with a method that supports it."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sandwright.errors import UsageError
from sandwright.methods import registry
from sandwright.methods.fleets import MOST, Counts, Fleet, FleetBackend, FleetOrder, Outcome, RunAttempt
from sandwright.session import absent_guard, fleet_results
from sandwright.session.fleet_results import Results
from sandwright.session.fleet_rows import read_rows
from sandwright.session.request import RunRequest
from sandwright.session.run import prepare_or_cached, report_start, sweep_records

RETRIES = 2
"""The number of restarts of a run that was killed from outside."""

_NAME = re.compile("[a-z0-9]([a-z0-9-]{0,28}[a-z0-9])?")


class FleetView(Protocol):
    """Shows the progress of a fleet to a person."""

    def settled(self, outcome: Outcome, words: tuple[str, ...]) -> None:
        """A run has ended."""
        ...

    def counted(self, counts: Counts) -> None:
        """Report how many runs have ended."""
        ...

    def noted(self, text: str) -> None:
        """A message for the person."""
        ...


@dataclass(frozen=True)
class FleetSize:
    """The size of a fleet: `count` runs, or a file with a row for each; and the number at a time."""

    count: int = 0
    rows: str = ""
    parallel: int = 10
    retries: int = RETRIES


@dataclass
class FollowedFleet:
    """A fleet, its results, and the words of each run, as far as they are known here."""

    name: str
    fleet: Fleet
    results: Results
    rows: tuple[tuple[str, ...], ...]

    def follow(self, view: FleetView) -> int:
        """Write every result, and show it. Give the number of runs that did not end with 0.

        Raise SandwrightError; the fleet goes on then.
        """
        if len(self.results.known) < self.fleet.count:
            self.fleet.follow(_Watcher(self, view))
        return sum(status != 0 for status in self.results.known.values())

    def words(self, index: int) -> tuple[str, ...]:
        """The row of a run."""
        return self.rows[index] if index < len(self.rows) else ()


def start(
    request: RunRequest, size: FleetSize, *, name: str, results: str, notify: Callable[[str], None]
) -> FollowedFleet:
    """Start a fleet. `notify` gets messages for the user. Raise SandwrightError when nothing started."""
    if not request.argv:
        raise UsageError("give a command to run, behind --")
    name = _check_fleet_name(name) if name else secrets.token_hex(4)
    rows = _rows(size)
    order = FleetOrder(
        name, tuple(request.argv), rows, _within(size.parallel, "parallel", 1, MOST), size.retries
    )
    _within(size.retries, "retries", 0, 100)
    absent_guard.check_absent_names(request.policy)
    prepared = prepare_or_cached(request)
    backend = registry.backend(prepared.method)
    if not isinstance(backend, FleetBackend):
        able = [each for each in registry.names() if isinstance(registry.backend(each), FleetBackend)]
        raise UsageError(f"{prepared.method} has no fleets; {', '.join(able)} has")
    report_start(prepared, notify, word=request.trusted)
    sweep_records(notify)
    path = results or default_results(name)
    descriptor = 1 if path == "-" else fleet_results.open_new(path, name)
    try:
        fleet = backend.start_fleet(Path(prepared.record.directory), order)
    except BaseException:
        if descriptor != 1:
            os.close(descriptor)
            os.unlink(path)  # noqa: PTH108 - it is new and empty
        raise
    return FollowedFleet(name, fleet, Results(name, fleet.id, descriptor, {}), rows)


def resume(name: str, results: str, size: FleetSize) -> FollowedFleet:
    """Resume a fleet that was started before. Raise UsageError if there is none of that name."""
    fleet = fleet_named(name)
    path = results or default_results(name)
    earlier = (
        Results(name, fleet.id, 1, {}) if path == "-" else fleet_results.open_known(path, name, fleet.id)
    )
    rows = read_rows(size.rows) if size.rows else ()
    return FollowedFleet(name, fleet, earlier, rows)


def fleet_named(name: str) -> Fleet:
    """The fleet of a name. Raise UsageError."""
    _check_fleet_name(name)
    for each in registry.names():
        backend = registry.backend(each)
        found = backend.find_fleet(name) if isinstance(backend, FleetBackend) else None
        if found is not None:
            return found
    raise UsageError(f"you have started no fleet {name} here that is still there")


def default_results(name: str) -> str:
    """The file that a fleet's results go to where no other is named."""
    return f"fleet-{name}.jsonl"


def _rows(size: FleetSize) -> tuple[tuple[str, ...], ...]:
    if bool(size.count) == bool(size.rows):
        raise UsageError("give --count, or --rows with a file that has a row for each run")
    if size.rows:
        return read_rows(size.rows)
    return ((),) * _within(size.count, "count", 1, MOST)


def _within(value: int, name: str, least: int, most: int) -> int:
    if not least <= value <= most:
        raise UsageError(f"--{name} is between {least} and {most}, not {value}")
    return value


def _check_fleet_name(name: str) -> str:
    if _NAME.fullmatch(name) is None:
        raise UsageError(
            f"{name!r} is no name of a fleet: at most 30 lower-case letters, digits and hyphens between them"
        )
    return name


@dataclass
class _Watcher:
    followed: FollowedFleet
    view: FleetView

    def has(self, index: int) -> bool:
        return index in self.followed.results.known

    def settled(self, outcome: Outcome) -> None:
        words = self.followed.words(outcome.index)
        self.followed.results.settled(outcome, words)
        self.view.settled(outcome, words)

    def attempted(self, attempt: RunAttempt) -> None:
        self.followed.results.attempted(attempt)

    def counted(self, counts: Counts) -> None:
        self.view.counted(counts)

    def noted(self, text: str) -> None:
        self.view.noted(text)
