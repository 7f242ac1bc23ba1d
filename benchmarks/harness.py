"""Compares programs that do the same work: interleaved in one run, by their medians.

Figures of one run can be compared with each other; those of another day, or of another machine, can't. A
contestant is a command line, with what must happen before and after each round and is not timed. What it
costs is what the kernel charged to it and to the children that it waited for: wall and processor time, and
the largest resident set of one process among them.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

MIB = 1 << 20
RESULTS = Path(__file__).resolve().parent.parent / "build" / "benchmarks"
"""Where a benchmark writes its figures when it is not told."""

_MEASURE = Path(__file__).with_name("runner") / "measure.py"


def _nothing() -> None:
    """Nothing is to be done."""


@dataclass(frozen=True)
class Contestant:
    """A program that takes part. `before` and `after` run around every round and are not timed."""

    name: str
    argv: tuple[str, ...]
    before: Callable[[], None] = _nothing
    after: Callable[[], None] = _nothing


@dataclass(frozen=True)
class Round:
    """What one run cost: seconds by the clock, seconds of processors, bytes of memory at the highest."""

    wall: float
    cpu: float
    memory: int


@dataclass(frozen=True)
class Result:
    """The rounds of one contestant."""

    name: str
    rounds: tuple[Round, ...]

    @property
    def wall(self) -> float:
        """The median, in seconds."""
        return statistics.median(one.wall for one in self.rounds)

    @property
    def cpu(self) -> float:
        """The median, in seconds."""
        return statistics.median(one.cpu for one in self.rounds)

    @property
    def memory(self) -> int:
        """The highest, in bytes."""
        return max(one.memory for one in self.rounds)


class BenchmarkError(Exception):
    """A contestant did not do its work; then the benchmark says nothing."""


def compare(contestants: Sequence[Contestant], *, rounds: int = 5, timeout: int = 600) -> list[Result]:
    """Run every contestant `rounds` times, taking turns, and give the results in the same order.

    Who begins changes from turn to turn. Raise BenchmarkError when a program exits with another status than
    0, or runs longer than `timeout` seconds.
    """
    taken: dict[str, list[Round]] = {one.name: [] for one in contestants}
    for turn in range(rounds):
        shift = turn % len(contestants)
        for one in [*contestants[shift:], *contestants[:shift]]:
            one.before()
            try:
                taken[one.name].append(measure(one.argv, timeout=timeout))
            finally:
                one.after()
    return [Result(one.name, tuple(taken[one.name])) for one in contestants]


def measure(argv: Sequence[str], *, timeout: int = 600) -> Round:
    """Run a program once. Raise BenchmarkError as `compare` does."""
    runner = [sys.executable, "-I", "-S", os.fspath(_MEASURE), str(timeout), *argv]
    done = subprocess.run(
        runner, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout + 30, check=False
    )
    told: dict[str, Any] = json.loads(done.stdout) if done.stdout else {"status": "not started"}
    if told["status"] != 0:
        said = done.stderr.decode(errors="replace")[-2000:]
        raise BenchmarkError(f"{' '.join(argv)}: status {told['status']}\n{said}")
    return Round(told["wall"], told["cpu"], told["memory"])


def table(title: str, results: Sequence[Result], *, reference: str) -> str:
    """The results as lines of text, each with its wall time as a share of the reference's."""
    base = next(result.wall for result in results if result.name == reference)
    lines = [title, f"  {'':28}{'wall s':>9}{'cpu s':>9}{'peak MiB':>10}{'ratio':>8}   rounds"]
    for result in results:
        rounds = " ".join(f"{one.wall:.2f}" for one in result.rounds)
        numbers = f"{result.wall:9.2f}{result.cpu:9.2f}{result.memory / MIB:10.1f}{result.wall / base:8.2f}"
        lines.append(f"  {result.name:28}{numbers}   {rounds}")
    return "\n".join(lines)


def record(results: Sequence[Result]) -> list[dict[str, Any]]:
    """The results for JSON, medians first."""
    return [
        {
            "name": one.name,
            "wall": one.wall,
            "cpu": one.cpu,
            "memory": one.memory,
            "rounds": asdict(one)["rounds"],
        }
        for one in results
    ]


def write(output: Path, results: dict[str, Any]) -> None:
    """Write the figures of a benchmark as JSON, with what they were taken on."""
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps({"machine": machine(), **results}, indent=2) + "\n", encoding="utf-8")


def machine() -> dict[str, Any]:
    """What the figures were taken on."""
    return {"python": platform.python_version(), "kernel": platform.release(), "processors": os.cpu_count()}
