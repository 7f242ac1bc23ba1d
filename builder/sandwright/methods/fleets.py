"""The interface of a method that runs fleets: one command many times, on a system that counts the runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

MOST = 10_000
"""Runs of one fleet."""


@dataclass(frozen=True)
class FleetOrder:
    """The order for a fleet.

    `rows` has one entry for each run, by its index: the words behind `command`. At most `parallel` run at a
    time. A run that was killed from outside is started again, up to `retries` times.
    """

    name: str
    command: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    parallel: int
    retries: int


@dataclass(frozen=True)
class RunAttempt:
    """One start of a run's command.

    `name` is its name in that system, `number` counts from 1. `status` is its exit status, None if
    unknown. `reason` is that system's word for the end. `seconds` are whole ones.
    """

    index: int
    name: str
    number: int
    status: int | None
    reason: str
    seconds: int | None


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run: by the attempt that counts, of so many.

    `attempt` is None if the run ended unobserved. `output` is the output of the attempt from its beginning,
    None if it is lost; `truncated` says that it wrote more.
    """

    index: int
    attempt: RunAttempt | None
    attempts: int
    output: bytes | None
    truncated: bool = False
    note: str = ""


@dataclass(frozen=True)
class Counts:
    """The progress of a fleet: runs that are over, those that failed among them, and those that run now."""

    over: int
    failed: int
    running: int


class FleetWatcher(Protocol):
    """Receives a fleet's events, in their order."""

    def has(self, index: int) -> bool:
        """Whether the outcome of this run is known, as in a resumed fleet. It is not reported again."""
        ...

    def settled(self, outcome: Outcome) -> None:
        """A run has ended, and its outcome is final."""
        ...

    def attempted(self, attempt: RunAttempt) -> None:
        """An attempt has ended that does not count, because another one follows."""
        ...

    def counted(self, counts: Counts) -> None:
        """The progress of the fleet. Also called without a change, about once a second."""
        ...

    def noted(self, text: str) -> None:
        """A message for the user, in one line."""
        ...


class Fleet(Protocol):
    """A fleet that was started, whether its runs are over or not."""

    @property
    def id(self) -> str:
        """A name that no other fleet has."""
        ...

    @property
    def where(self) -> str:
        """The place where the fleet runs, for the user."""
        ...

    @property
    def count(self) -> int:
        """The number of its runs."""
        ...

    def follow(self, watcher: FleetWatcher) -> None:
        """Report events until every run has ended.

        The fleet continues if this is interrupted. Raise SandwrightError if it no longer exists, or is
        another one.
        """
        ...

    def remove(self) -> None:
        """Stop the fleet, wait until none of its processes runs, and forget it.

        Raise SandwrightError if it stays.
        """
        ...


@runtime_checkable
class FleetBackend(Protocol):
    """A backend that runs fleets."""

    def start_fleet(self, directory: Path, order: FleetOrder) -> Fleet:
        """Start one in the sandbox whose artifacts lie in `directory`.

        Raise SandwrightError when nothing was started.
        """
        ...

    def find_fleet(self, name: str) -> Fleet | None:
        """The fleet of this user that was started from this machine under a name."""
        ...
