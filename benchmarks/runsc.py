"""Start, files, calls and processes under releases of runsc, by platform and by who opens files.

    python benchmarks/runsc.py RUNSC [RUNSC ...]

Prints a table of medians of ten rounds in turn. A release that doesn't know a platform or option has no row.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

ROUNDS, LIMIT = 10, 120.0
OPTIONS = (
    ("--platform=ptrace",),
    ("--platform=ptrace", "--directfs=false"),
    ("--platform=systrap",),
    ("--platform=systrap", "--directfs=false"),
)
_TIMED = "import os, sys, time; began = time.perf_counter(); {}; print((time.perf_counter() - began) * 1000)"
_WALK = "[os.stat(os.path.join(d, n)) for d, _, f in os.walk(os.path.dirname(os.__file__)) for n in f]"
WORK = {
    "start of `true`, ms": ("true",),
    "stat of Python's library, ms": ("/usr/bin/python3", "-c", _TIMED.format(_WALK)),
    "20,000 getppid, ms": ("/usr/bin/python3", "-c", _TIMED.format("[os.getppid() for _ in range(20000)]")),
    "start and 100 processes, ms": ("sh", "-c", "i=0; while [ $i -lt 100 ]; do /bin/true; i=$((i+1)); done"),
}
"""Commands; what one prints is its time, otherwise that of the whole run is."""


def main() -> None:
    """Measure, and print."""
    rows = [(runsc, options) for runsc in sys.argv[1:] for options in OPTIONS if knows(runsc, options)]
    found: dict[tuple[int, str], list[float]] = {}
    for _ in range(ROUNDS):
        for index, (runsc, options) in enumerate(rows):
            for name, command in WORK.items():
                found.setdefault((index, name), []).append(taken(runsc, options, command))
    print(f"| runsc | options | {' | '.join(WORK)} |\n|{' --- |' * (len(WORK) + 2)}")
    for index, (runsc, options) in enumerate(rows):
        medians = (f"{statistics.median(found[index, name]):.0f}" for name in WORK)
        print(f"| {version(runsc)} | `{' '.join(options)}` | {' | '.join(medians)} |")


def taken(runsc: str, options: tuple[str, ...], command: tuple[str, ...]) -> float:
    """Milliseconds of one run, or what it says it took. Not with /dev/null, which runsc would give away."""
    argv = [runsc, *options, "--ignore-cgroups", "--network=none", "do", *command]
    began = time.perf_counter()
    said = subprocess.run(argv, input="", capture_output=True, text=True, check=True, timeout=LIMIT).stdout
    return float(said) if said else (time.perf_counter() - began) * 1000


def knows(runsc: str, options: tuple[str, ...]) -> bool:
    """Whether it starts with these options."""
    argv = [runsc, *options, "--ignore-cgroups", "--network=none", "do", "true"]
    return subprocess.run(argv, input=b"", capture_output=True, check=False, timeout=LIMIT).returncode == 0


def version(runsc: str) -> str:
    """As it says."""
    said = subprocess.run(
        [runsc, "--version"], capture_output=True, text=True, check=True, timeout=LIMIT
    ).stdout
    return said.splitlines()[0].removeprefix("runsc version ")


if __name__ == "__main__":
    main()
