"""What a call through the bridge costs: time beside a direct call, a hundred at once, and a GiB of output.

    python -m benchmarks.bridge [--rounds N]

The programs are `true` and `cat`; the workspace is a temporary directory. Targets: 10 ms more for a call, all
of a hundred calls at once, 200 MB/s with flat memory.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from benchmarks import harness

from sandwright.api import Policy
from sandwright.bridge.directory import Bridge
from sandwright.bridge.start import serve
from sandwright.policy.collect import collect_facts

CALLS = 50
GIB = 1 << 30
POLICY = """\
schema: 1
method: bwrap
credentials: {shims: {"true": {allow: ["*"]}, cat: {secrets: {CAT_TOKEN: "${CAT_TOKEN}"}, allow: ["*"]}}}
"""


def main() -> None:
    """Measure, print the tables, and write the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path, default=harness.RESULTS / "bridge.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sw-bench-") as name:
        root = Path(name).resolve()
        project = root / "p"
        project.mkdir()
        with (project / "big").open("wb") as file:
            file.truncate(GIB)
        policy = Policy.from_text(POLICY)
        environment = {"HOME": name, "PATH": os.environ["PATH"], "CAT_TOKEN": "a-token-that-is-looked-for"}
        resolved = policy.resolve(collect_facts(policy, project=project, environ=environment))
        with serve(
            resolved, directory=root / "b", audit=root / "audit.jsonl", environment=environment
        ) as bridge:
            _measure(bridge, project, options.rounds, options.output)


def _measure(bridge: Bridge, project: Path, rounds: int, output: Path) -> None:
    shim = bridge.bin
    one = harness.compare(
        [
            _script("direct", project, f"for i in $(seq {CALLS}); do /bin/true; done"),
            _script("through the bridge", project, f"for i in $(seq {CALLS}); do {shim}/true; done"),
        ],
        rounds=rounds,
    )
    added = (one[1].wall - one[0].wall) / CALLS * 1000
    many = harness.compare(
        [
            _script("direct", project, "for i in $(seq 100); do /bin/true & done; wait"),
            _script("through the bridge", project, f"for i in $(seq 100); do {shim}/true & done; wait"),
        ],
        rounds=rounds,
    )
    before = _memory(bridge.pid, "VmRSS")
    much = harness.compare(
        [
            _script("through a pipe", project, "cat big | cat >/dev/null"),
            _script("through the bridge", project, f"{shim}/cat big >/dev/null"),
        ],
        rounds=min(rounds, 3),
    )
    peak = _memory(bridge.pid, "VmHWM")
    rate = GIB / 1e6 / much[1].wall
    print(harness.table(f"{CALLS} calls of true, one after another", one, reference="direct"))
    print(f"  {added:.2f} ms more for a call")
    print(harness.table("100 calls of true at once", many, reference="direct"))
    print(harness.table("1 GiB of output, a secret being looked for", much, reference="through a pipe"))
    print(f"  {rate:.0f} MB/s; the bridge had {before / 1e6:.0f} MB before and {peak / 1e6:.0f} MB at most")
    figures = {"added_ms": added, "megabytes_per_second": rate, "memory_before": before, "memory_peak": peak}
    results = {"calls": harness.record(one), "at_once": harness.record(many), "output": harness.record(much)}
    harness.write(output, {**figures, **results})


def _script(name: str, project: Path, text: str) -> harness.Contestant:
    return harness.Contestant(name, ("sh", "-c", f"cd {project} && {text}"))


def _memory(pid: int, field: str) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(status.split(f"{field}:")[1].split()[0]) * 1024


if __name__ == "__main__":
    main()
