"""How long a policy takes: loading, resolving on a host, planning its mounts, rendering for each method.

    python -m benchmarks.policy [--json FILE]

One process, processor time, after imports; rounds of all sizes take turns, the median and the best are shown.
A policy of N paths writes, reads and denies a third each, below N/100 directories that exist. Each method is
rendered of a policy that was just resolved, so that none profits of another; `all` is
one policy rendered for each of them in turn. `per path` is the median of loading, resolving and rendering for
all, divided by N: it stays the same when the work is linear. `first` is what the first rendering in a process
costs besides: shipped profiles are read and templates compiled.
`benchmarks.commands` measures whole programs, start included.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from benchmarks import harness

from sandwright import HostFacts, Policy, ResolvedPolicy
from sandwright.methods import METHODS, registry
from sandwright.policy.facts import HostEntry
from sandwright.render.mounts import mount_plan

T = TypeVar("T")
SIZES = (1, 100, 1_000, 10_000)
STEPS = ("load", "resolve", "plan", *METHODS, "all")
ROUNDS = 3
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
    entries = dict.fromkeys(["/", "/data", "/tmp", "/home/u", "/home/u/p", *paths], HostEntry("directory"))
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
    alone = [rendered(policy.resolve(host), (method,)) for method in METHODS]
    return load, resolve, plan, *alone, rendered(policy.resolve(host), METHODS)


def rendered(policy: ResolvedPolicy, methods: Iterable[str]) -> float:
    """Seconds in which a policy is rendered for some methods, one after the other."""
    return timed(lambda: [registry.artifacts(policy, method) for method in methods])[1]


def first(text: str, host: HostFacts) -> dict[str, float]:
    """Seconds of the first rendering for each method in this process, imports included."""
    resolved = Policy.from_text(text).resolve(host)
    return {method: rendered(resolved, (method,)) for method in METHODS}


def main() -> None:
    """Measure, show, write."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--json", type=Path, default=RESULTS)
    output = arguments.parse_args().json
    cases = {size: (policy_text(size), facts(size)) for size in SIZES}
    opening = first(*cases[100])
    rounds: dict[int, list[tuple[float, ...]]] = {size: [] for size in SIZES}
    for _ in range(ROUNDS):
        for size, case in cases.items():
            rounds[size].append(measure(*case))
    print(f"{'ms':>12}" + "".join(f"{size:>18}" for size in SIZES) + f"{'first':>10}")
    columns = {size: list(zip(*taken, strict=True)) for size, taken in rounds.items()}
    for index, step in enumerate(STEPS):
        cells = (columns[size][index] for size in SIZES)
        row = "".join(f"{statistics.median(c) * 1e3:>9.2f} ({min(c) * 1e3:.2f})".rjust(18) for c in cells)
        once = f"{opening[step] * 1e3:>10.1f}" if step in opening else ""
        print(f"{step:>12}{row}{once}")
    totals = {size: sum(statistics.median(columns[size][STEPS.index(s)]) for s in WHOLE) for size in SIZES}
    print(f"{'per path us':>12}" + "".join(f"{totals[size] / size * 1e6:>18.1f}" for size in SIZES))
    taken = {str(size): each for size, each in rounds.items()}
    figures = {"steps": STEPS, "seconds": taken, "first": opening}
    harness.write(output, figures)


WHOLE = ("load", "resolve", "all")


if __name__ == "__main__":
    main()
