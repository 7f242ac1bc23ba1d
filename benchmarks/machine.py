"""The start of `true` in QEMU's machine that is restored, beside bubblewrap's sandbox and User-Mode Linux.

QEMU translates here (TCG), as KVM can't be had everywhere. All take turns in one run. Figures are the least
and the median, by the clock. `SANDWRIGHT_BENCH_ROUNDS` says how many turns.
"""

from __future__ import annotations

import dataclasses
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.harness import RESULTS, write
from benchmarks.launcher import Contestant

from sandwright.api import Policy
from sandwright.launcher.plan import parse_plan, plan_bytes
from sandwright.methods import registry
from sandwright.methods.shared.artifacts import write_artifacts
from sandwright.methods.vm.machine import MACHINE, machine
from sandwright.policy.collect import collect_facts
from sandwright.policy.load import layer

ROUNDS = int(os.environ.get("SANDWRIGHT_BENCH_ROUNDS", "8"))
MEMORY = 256


def main() -> None:
    """Run it; prints a table and writes `machine.json`."""
    with tempfile.TemporaryDirectory(prefix="sandwright-bench-") as folder:
        os.environ |= {"XDG_CACHE_HOME": f"{folder}/cache", "XDG_RUNTIME_DIR": folder}
        begun = time.monotonic()
        os.environ[MACHINE] = str(machine(MEMORY, "tcg"))
        figures: dict[str, Any] = {"first start": time.monotonic() - begun}
        pair = [_contestant(Path(folder), name) for name in ("bwrap", "vm", "vm-kvm")]
        for turn in range(ROUNDS + 1):
            for each in pair if turn % 2 else reversed(pair):
                each.run()
        for each in pair:
            figures[each.name] = {"least": min(each.wall[1:]), "median": statistics.median(each.wall[1:])}
    for name, figure in figures.items():
        print(name, figure)
    write(RESULTS / "machine.json", figures)


def _contestant(base: Path, name: str) -> Contestant:
    project, out = base / f"project-{name}", base / f"out-{name}"
    project.mkdir()
    method = name.partition("-")[0]
    text = f"schema: 1\nmethod: {method}\nresources: {{memory: {MEMORY}MiB}}\n"
    policy = Policy.from_layers([layer(text, file="a benchmark", methods=(method,))])
    resolved = policy.resolve(collect_facts(policy, project=project))
    write_artifacts(out, registry.artifacts(resolved, name))
    plan = out / "launch.plan"
    whole = parse_plan(plan.read_bytes())
    if whole.vm.accelerator:
        plan.chmod(0o600)
        machine = dataclasses.replace(whole.vm, accelerator="tcg")
        plan.write_bytes(plan_bytes(dataclasses.replace(whole, vm=machine)))
    return Contestant(name, (f"{out}/launch", "true"), dict(os.environ), str(project))


if __name__ == "__main__":
    main()
