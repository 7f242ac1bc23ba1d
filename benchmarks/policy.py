"""How long a policy takes: loading, resolving on a host, planning its mounts.

    python -m benchmarks.policy [--json FILE]

One process, processor time, after imports; rounds of all sizes take turns, the median and the best are shown.
A policy of N paths writes, reads and denies a third each, below N/100 directories that exist. `per path` is
the median of all three steps together, divided by N: it stays the same when the work is linear.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from benchmarks import harness

from sandwright.policy import HostFacts, Policy
from sandwright.policy.facts import Entry
from sandwright.render.mounts import mount_plan

T = TypeVar("T")
SIZES = (1, 100, 1_000, 10_000)
STEPS = ("load", "resolve", "plan")
ROUNDS = 5
RESULTS = harness.RESULTS / "policy.json"


def policy_text(size: int) -> str:
    """A policy of `size` paths."""
    lists = {
        kind: [f"/data/d{n // 100}/e{n}" for n in range(offset, size, 3)]
        for offset, kind in enumerate(("write", "read", "deny"))
    }
    lines = ["method: bwrap", "filesystem:"]
    for kind, paths in lists.items():
        lines += [f"  {kind}:{'' if paths else ' []'}", *(f"    - {path}" for path in paths)]
    return "\n".join(lines) + "\n"


def facts(size: int) -> HostFacts:
    """A host where all of them exist."""
    paths = [f"/data/d{n // 100}/e{n}" for n in range(size)]
    paths += [f"/data/d{n}" for n in range(size // 100 + 1)]
    entries = dict.fromkeys(["/", "/data", "/tmp", "/home/u", "/home/u/p", *paths], Entry("directory"))
    return HostFacts(os="linux", home="/home/u", project="/home/u/p", entries=entries)


def timed(step: Callable[[], T]) -> tuple[T, float]:
    """What a step gives, and the processor time it took, in seconds."""
    begin = time.process_time()
    result = step()
    return result, time.process_time() - begin


def measure(text: str, host: HostFacts) -> tuple[float, ...]:
    """Seconds of each step, once."""
    policy, load = timed(lambda: Policy.from_text(text))
    resolved, resolve = timed(lambda: policy.resolve(host))
    _, plan = timed(lambda: mount_plan(resolved, root="host"))
    return load, resolve, plan


def main() -> None:
    """Measure, show, write."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--json", type=Path, default=RESULTS)
    output = arguments.parse_args().json
    cases = {size: (policy_text(size), facts(size)) for size in SIZES}
    measure(*cases[SIZES[0]])  # presets are read once in a process
    rounds: dict[int, list[tuple[float, ...]]] = {size: [] for size in SIZES}
    for _ in range(ROUNDS):
        for size, case in cases.items():
            rounds[size].append(measure(*case))
    print(f"{'paths':>8}" + "".join(f"{step + ' ms':>20}" for step in STEPS) + f"{'per path us':>14}")
    for size in SIZES:
        columns = list(zip(*rounds[size], strict=True))
        cells = [f"{statistics.median(c) * 1e3:.2f} ({min(c) * 1e3:.2f})" for c in columns]
        total = sum(statistics.median(column) for column in columns)
        print(f"{size:>8}" + "".join(f"{cell:>20}" for cell in cells) + f"{total / size * 1e6:>14.1f}")
    harness.write(output, {"steps": STEPS, "seconds": {str(size): taken for size, taken in rounds.items()}})


if __name__ == "__main__":
    main()
