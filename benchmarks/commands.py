"""What whole commands cost, their start included, beside `python -c pass` in the same run.

    python -m benchmarks.commands [--json FILE]

Processor time of the process and its children. `--help` of every command has a limit of 100 ms, and rendering
a policy of 100 paths for bwrap one of 250 ms: the exit status is 1 when the median of one is above.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from benchmarks import harness
from benchmarks.policy import policy_text

from sandwright.cli.commands.table import COMMANDS

PYTHON = "python -c pass"
PROGRAM = (sys.executable, "-P", "-c", "from sandwright.cli import main; main()")
RESULTS = harness.RESULTS / "commands.json"
ROUNDS = 5
HELP_LIMIT, RENDER_LIMIT = 0.1, 0.25
"""Seconds of processor time."""


def helps() -> list[harness.Result]:
    """Python alone, and the help of the program and of each command."""
    commands = {PYTHON: (sys.executable, "-c", "pass"), "sandwright --help": (*PROGRAM, "--help")}
    commands |= {f"{each.name} --help": (*PROGRAM, each.name, "--help") for each in COMMANDS}
    return harness.compare([harness.Contestant(*each) for each in commands.items()], rounds=ROUNDS)


def policies() -> list[harness.Result]:
    """Python alone, and commands about a policy of 100 paths."""
    with tempfile.TemporaryDirectory(prefix="sandwright-bench-") as folder:
        policy = Path(folder, "sandbox.yaml")
        policy.write_text(policy_text(100))
        given = ("--policy", str(policy))
        commands = {
            PYTHON: (sys.executable, "-c", "pass"),
            "render": (*PROGRAM, "render", "--method", "bwrap", *given, "--out", f"{folder}/out"),
            "explain": (*PROGRAM, "explain", "read", "/etc/hosts", *given),
            "completion": (*PROGRAM, "completion", "bash"),
        }
        return harness.compare([harness.Contestant(*each) for each in commands.items()], rounds=ROUNDS)


def main() -> int:
    """Measure, show, write; give the exit status."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--json", type=Path, default=RESULTS)
    output = arguments.parse_args().json
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else every start compiles what has changed
    told, made = helps(), policies()
    print(harness.table("help", told, reference=PYTHON))
    print(harness.table("a policy of 100 paths", made, reference=PYTHON))
    harness.write(output, {"help": harness.record(told), "policy": harness.record(made)})
    limits = {each.name: (each.cpu, HELP_LIMIT) for each in told}
    limits |= {each.name: (each.cpu, RENDER_LIMIT) for each in made if each.name == "render"}
    above = [name for name, (cpu, limit) in limits.items() if cpu > limit]
    for name in above:
        print(f"{name}: {limits[name][0] * 1e3:.0f} ms, above {limits[name][1] * 1e3:.0f} ms")
    return bool(above)


if __name__ == "__main__":
    sys.exit(main())
