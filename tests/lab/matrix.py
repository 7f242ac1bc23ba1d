"""The results on each platform of the lab: `doctor`, a run and `verify` of each method, as two users.

`invoke lab` writes `build/lab/PLATFORM/`: `result.json` with a list of cells (`Cell`), and the output. A
method that `doctor` reports as not ready is a cell `cannot`, with doctor's reason.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lab import table
from lab.machines import PLATFORMS, ROOT, USER, Machine, Platform, booted

METHODS = ("bwrap", "landlock", "user", "podman", "oci", "docker", "gvisor", "vm")
USERS = ("root", USER)
GAPS = (
    "filesystem.attributes",
    "filesystem.protect",
    "filesystem.absent",
    "process.kernel",
    "resources.pids",
)
"""The features that landlock cannot enforce, and that the policies accept for it."""
ACCEPTED = "accept_gaps:\n" + "".join(
    f"- {{feature: {each}, method: landlock, reason: the lab proves the rest}}\n" for each in GAPS
)
POLICY = f"schema: 1\nextends: [default]\n{ACCEPTED}"
LIMITED = f"{POLICY}resources: {{memory: 200MiB, cpus: 0.5, pids: 40}}\n"
INSTALL = (
    "python3 -m venv /opt/v && /opt/v/bin/pip install -q --no-index --find-links /opt/lab/wheels sandwright"
)
"""Once for both users, as it takes minutes."""
PREPARE = "mkdir -p ~/{0} && printf %s '{1}' >~/{0}/sandbox.yaml"
USE = "used = [bytearray(1 << 20) for _ in range({0})]; print(len(used))"
"""A program that needs this number of MiB."""
FITS, TOO_MUCH = 60, 600
VERIFY_TIMEOUT = 1500.0
KILLED = 137
"""Exit status of a program that was killed for its memory."""


@dataclass(frozen=True)
class Cell:
    """One method for one user on one platform. `verdict`: `pass`, `fail`, `cannot` or `not run`.

    `probes` are the numbers of probes by verdict. `limits` is `held` if `resources.memory` ended a program
    that exceeded it, and no other.
    """

    platform: str
    user: str
    method: str
    verdict: str
    reason: str = ""
    probes: dict[str, int] | None = None
    limits: str = ""
    seconds: float = 0.0


def cells(
    platform: Platform, machine: Machine, output: Path, methods: Collection[str] = ()
) -> Iterator[Cell]:
    """Prove each of METHODS, or the given ones, for both users, and keep the output in `output`."""
    machine.check(INSTALL, timeout=900)
    for user in USERS:
        machine.check(PREPARE.format("project", POLICY), user=user)
        found = machine.run(f"{_at('project')} doctor --json 2>/dev/null", user=user, timeout=900)
        (output / f"doctor-{user}.json").write_text(found.output)
        states = {each["method"]: each for each in json.loads(found.output)["methods"]}
        for method in METHODS:
            state = states[method]
            if methods and method not in methods:
                yield Cell(platform.name, user, method, "not run", "left out")
            elif state["code"] == "ready":
                yield _prove(platform, machine, user, method, output)
            else:
                yield Cell(platform.name, user, method, "cannot", state["message"].splitlines()[0])


def _at(directory: str) -> str:
    """The beginning of a command of sandwright in a directory of the user's home."""
    settings = "SANDWRIGHT_TRUST=1 SANDWRIGHT_BUILD=/opt/lab/build"
    return f"cd ~/{directory} && export {settings} && /opt/v/bin/sandwright"


def _prove(platform: Platform, machine: Machine, user: str, method: str, output: Path) -> Cell:
    base = _at("project")
    if method == "user":
        machine.check(f"{base} account-setup --yes", user=user)
    ran = machine.run(f"{base} run --quiet --method {method} -- sh -c 'echo started'", user=user)
    if ran.status != 0 or "started" not in ran.output:
        return Cell(
            platform.name, user, method, "fail", _last_line(ran.output), seconds=round(ran.seconds, 1)
        )
    limits = _limits(machine, user, method)
    proved = machine.run(
        f"{base} verify --method {method} --json ~/{method}.json", user=user, timeout=VERIFY_TIMEOUT
    )
    (output / f"verify-{method}-{user}.txt").write_text(proved.output)
    results = machine.run(f"cat ~/{method}.json", user=user)
    probes = _counts(json.loads(results.output)) if results.status == 0 else None
    verdict = "pass" if proved.status == 0 and probes and probes.get("pass") else "fail"
    reason = "" if verdict == "pass" else _last_line(proved.output)
    return Cell(platform.name, user, method, verdict, reason, probes, limits, round(proved.seconds, 1))


def _limits(machine: Machine, user: str, method: str) -> str:
    """`held`, or the exit status and the last line of the output."""
    machine.check(PREPARE.format("limited", LIMITED), user=user)
    if method == "user":
        machine.check(f"{_at('limited')} account-setup --yes", user=user)
    run = f"{_at('limited')} run --quiet --method {method} -- python3 -c '{USE}'"
    control = machine.run(run.format(FITS), user=user)
    if control.status != 0 or str(FITS) not in control.output.splitlines():
        return f"{control.status}: {_last_line(control.output)}"
    ended = machine.run(run.format(TOO_MUCH), user=user)
    return "held" if ended.status == KILLED else f"{ended.status}: {_last_line(ended.output)}"


def _counts(results: Iterable[dict[str, str]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in results:
        found[each["verdict"]] = found.get(each["verdict"], 0) + 1
    return found


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["nothing was printed"])[-1]


def prove(platform: Platform, output: Path, methods: Collection[str] = ()) -> dict[str, Any]:
    """Boot a platform and prove it: the entry of `results.json`.

    It is written to `output` after each cell, so that a lab that was stopped leaves what it proved.
    """
    output.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    found: list[Cell] = []
    result: dict[str, Any] = {}
    with (
        tempfile.TemporaryDirectory(prefix="sandwright-lab-") as scratch,
        booted(platform, Path(scratch)) as machine,
    ):
        sys.stdout.write(f"{platform.name}: booted in {machine.boot:.1f} s\n")
        sys.stdout.flush()
        kernel = machine.check("uname -sr").strip()
        for cell in cells(platform, machine, output, methods):
            found.append(cell)
            sys.stdout.write(f"  {cell.user} {cell.method}: {cell.verdict} {cell.limits} {cell.reason}\n")
            sys.stdout.flush()
            result = {
                "date": datetime.now(UTC).date().isoformat(),
                "kernel": kernel,
                "boot": round(machine.boot, 1),
                "seconds": round(time.monotonic() - began),
                "cells": [asdict(each) for each in (*found, *_not_reached(platform, found))],
            }
            (output / "result.json").write_text(json.dumps(result, indent=1) + "\n")
    return result


def _not_reached(platform: Platform, found: Collection[Cell]) -> Iterator[Cell]:
    """The cells that are not proved yet."""
    proved = {(each.user, each.method) for each in found}
    for user in USERS:
        for method in METHODS:
            if (user, method) not in proved:
                yield Cell(platform.name, user, method, "not run", "not reached")


def main() -> None:
    """Prove the platforms that the arguments name, or all; exit with 1 where a cell is `fail`.

    `--methods=A,B` selects methods. With `--keep` the results go to `results.json`, from which `invoke docs`
    writes docs/platforms.md.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("platforms", nargs="*", metavar="PLATFORM")
    parser.add_argument("--methods", type=lambda text: text.split(","), default=())
    parser.add_argument("--keep", action="store_true")
    given = parser.parse_args()
    for names, there in ((given.platforms, PLATFORMS), (given.methods, METHODS)):
        if unknown := sorted(set(names) - set(there)):
            sys.exit(f"not in the lab: {', '.join(unknown)}; there are {', '.join(there)}")
    failed = 0
    for name in given.platforms or PLATFORMS:
        result = prove(PLATFORMS[name], ROOT / "build/lab" / name, given.methods)
        failed += sum(each["verdict"] == "fail" for each in result["cells"])
        if given.keep:
            table.keep(name, result)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
