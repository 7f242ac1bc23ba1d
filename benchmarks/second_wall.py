"""What the second wall costs: the start of `true`, and opening files inside, with Landlock and without.

Both have the same policy and the same launcher; one has a plan without the wall. They take turns in one run.
Figures are the least and the median, by the clock and of processors, all that was started charged.
`SANDWRIGHT_BENCH_ROUNDS` says how many turns.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.harness import RESULTS, write
from benchmarks.launcher import Contestant
from benchmarks.session import SANDWRIGHT

from sandwright.launcher.plan import BackstopPlan, parse_plan, plan_bytes

ROUNDS = int(os.environ.get("SANDWRIGHT_BENCH_ROUNDS", "200"))
FILES = """\
import os, sys, time
names = [os.path.join(at, name) for at, _, found in os.walk(os.path.dirname(os.__file__)) for name in found]
names = [name for name in names if name.endswith(".py") and not os.path.islink(name)][:1000]
for name in names:
    os.close(os.open(name, os.O_RDONLY))
least = []
for _ in range(20):
    began = time.perf_counter()
    for name in names:
        os.close(os.open(name, os.O_RDONLY))
    least.append((time.perf_counter() - began) / len(names))
sys.stderr.write(f"{min(least) * 1e9:.0f}")
"""
POLICIES = {
    "the preset": "filesystem: {write: [$PROJECT]}",
    "a list": "extends: [strict]\nfilesystem: {write: [$PROJECT]}",
}


def main() -> None:
    """Run it; prints a table and writes `second_wall.json`."""
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="sandwright-bench-", dir="/dev/shm") as folder:
        base = Path(folder)
        os.environ |= {"HOME": str(base / "home"), "XDG_RUNTIME_DIR": folder, "SANDWRIGHT_TRUST": "1"}
        with _root(base) as root:
            os.environ["SANDWRIGHT_ROOTFS"] = str(root)
            for method in ("bwrap", "oci"):
                for name, rules in POLICIES.items():
                    pair = _pair(base, method, name, rules)
                    figures[f"{method}, {name}"] = _compare(pair)
                    _tell(f"{method}, {name}", pair)
        for name, rules in POLICIES.items():
            figures[f"open, {name}"] = _opening(_pair(base, "bwrap", f"{name} to open", rules))
            print(f"open and close of a file, {name}: ns", figures[f"open, {name}"])
        os.chdir("/")
    write(RESULTS / "second_wall.json", figures)


@contextlib.contextmanager
def _root(base: Path) -> Iterator[Path]:
    root = base / "rootfs"
    for name in ("bin", "dev", "etc", "proc", "run", "sys", "tmp", "usr", "var"):
        (root / name).mkdir(parents=True)
    for name in ("busybox", "true"):
        shutil.copy(str(shutil.which("busybox")), root / "bin" / name)
    yield root


def _pair(base: Path, method: str, name: str, rules: str) -> list[Contestant]:
    """A launcher with the wall, and the same without."""
    project = base / "home" / f"{method}-{name.replace(' ', '-')}"
    project.mkdir(parents=True)
    image = "image: small\n" if method == "oci" else ""
    head = f"schema: 1\nmethod: {method}\n{image}environment: {{set: {{PATH: '/bin:/usr/bin'}}}}\n"
    (project / "sandbox.yaml").write_text(f"{head}{rules}\n")
    found = []
    for kind in ("with", "without"):
        out = f"{project}-{kind}"
        words = (*SANDWRIGHT, "render", "--out", out)
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, cwd=project, timeout=120)
        plan = Path(out, method, "launch.plan")
        if kind == "without":
            whole = dataclasses.replace(parse_plan(plan.read_bytes()), backstop=BackstopPlan())
            plan.chmod(0o600)
            plan.write_bytes(plan_bytes(whole))
        found.append(Contestant(kind, (f"{out}/{method}/launch", "true"), dict(os.environ), str(project)))
    return found


def _compare(pair: list[Contestant]) -> dict[str, dict[str, float]]:
    for each in pair:
        each.run()
        each.wall.clear()
        each.cpu.clear()
    for turn in range(ROUNDS):
        for each in pair if turn % 2 else reversed(pair):
            each.run()
    return {
        each.name: {
            f"{what} {how}": function(values)
            for what, values in (("wall", each.wall), ("cpu", each.cpu))
            for how, function in (("least", min), ("median", statistics.median))
        }
        for each in pair
    }


def _tell(name: str, pair: list[Contestant]) -> None:
    print(f"{name}: {ROUNDS} rounds, ms" + " " * 10 + "wall: least  median   cpu: least  median")
    for each in pair:
        numbers = [
            function(values) * 1e3
            for values in (each.wall, each.cpu)
            for function in (min, statistics.median)
        ]
        print(f"  {each.name:30}" + "".join(f"{number:9.2f}" for number in numbers), flush=True)


def _opening(pair: list[Contestant]) -> dict[str, float]:
    """Nanoseconds for a file, in turns: the least."""
    found: dict[str, list[float]] = {each.name: [] for each in pair}
    for _ in range(10):
        for each in pair:
            words = (each.argv[0], "/usr/bin/python3", "-IS", "-c", FILES)
            ended = subprocess.run(words, check=True, capture_output=True, timeout=300, cwd=each.cwd)
            found[each.name].append(float(ended.stderr.split()[-1]))
    return {name: min(values) for name, values in found.items()}


if __name__ == "__main__":
    main()
