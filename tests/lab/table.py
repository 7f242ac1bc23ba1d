"""The tables of docs/platforms.md, from `results.json`, which `invoke lab --keep` writes.

A platform that is not in the file reads "Not run".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lab.machines import PLATFORMS
from sandwright.reference.markdown import code, table

RESULTS = Path(__file__).with_name("results.json")
"""By platform: `{"date": ISO 8601, "kernel": TEXT, "boot": SECONDS, "seconds": SECONDS, "cells": [CELL]}`."""


def texts() -> dict[str, str]:
    """The generated part `platforms` of the page."""
    results = json.loads(RESULTS.read_text())
    return {"platforms": "\n".join(_part(name, results.get(name)) for name in PLATFORMS)}


def keep(platform: str, result: dict[str, Any]) -> None:
    """Replace the result of a platform in `results.json`."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    results[platform] = result
    RESULTS.write_text(json.dumps(dict(sorted(results.items())), indent=1) + "\n")


def _part(name: str, result: dict[str, Any] | None) -> str:
    title = f"### {code(name)}\n\n{PLATFORMS[name].shows}.\n"
    if result is None:
        return f"{title}\nNot run.\n"
    times = f"{result['seconds']:.0f} s in all, of which {result['boot']:.0f} s to boot"
    seen = f"{result['date']}, {result['kernel']}, {times}."
    run = [each for each in result["cells"] if each["verdict"] != "not run"]
    return f"{title}{seen}\n\n{_table(run)}{''.join(_left_out(result['cells']))}"


def _left_out(cells: Sequence[dict[str, Any]]) -> Iterator[str]:
    """A line for each user with methods that were not run."""
    for user in dict.fromkeys(each["user"] for each in cells):
        names = [each["method"] for each in cells if (each["user"], each["verdict"]) == (user, "not run")]
        if names:
            yield f"\nNot run as {code(user)}: {', '.join(names)}.\n"


def _table(cells: Sequence[dict[str, Any]]) -> str:
    rows = [
        [each["method"], each["user"], each["verdict"], _probes(each), each["limits"], each["reason"]]
        for each in cells
    ]
    return table(("method", "user", "result", "probes", "memory limit", "reason"), rows)


def _probes(cell: dict[str, Any]) -> str:
    return ", ".join(f"{count} {verdict}" for verdict, count in (cell["probes"] or {}).items())
