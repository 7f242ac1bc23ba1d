"""The table of work in public projects reports the observed results, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from benchmarks.work import table
from benchmarks.work.table import STEPS, Seen


def _seen(verdicts: dict[str, str], *, date: str = "2026-02-02") -> list[Seen]:
    return [Seen("lua", "root", "bwrap", step, verdict, date) for step, verdict in verdicts.items()]


ALL = dict.fromkeys(STEPS, "ok")


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        ([], "not run"),
        (_seen(ALL), "all"),
        (_seen(ALL, date="2026-01-01"), "all °"),
        (_seen({**ALL, "test": "cannot", "serve": "cannot"}), "cannot: test, serve"),
        (_seen({"deps": "ok"}), "not run: build, test, commit, serve"),
        (_seen({**ALL, "test": "differs", "build": "failed"}), "**red**: build, test"),
        (_seen({**ALL, "test": "as outside"}), "fails outside, too: test"),
    ],
)
def test_a_cell(seen: list[Seen], said: str) -> None:
    assert table._cell(seen, "2026-02-02") == said


def test_later_results_take_the_place_of_earlier_ones(tmp_path: Path) -> None:
    """A run outside a sandbox has no cell, and no user's name is kept."""
    given = {"project": "lua", "user": "ada", "step": "test", "verdict": "failed", "seconds": 1.0}
    cells = [{**given, "method": "bwrap", "date": day} for day in ("2026-02-02", "2026-01-01")]
    file = tmp_path / "results.json"
    file.write_text(json.dumps({"cells": [*cells, {**given, "method": "outside", "date": "2026-02-02"}]}))
    before = [Seen("lua", "another", "bwrap", "test", "ok", "2026-01-15")]
    assert table.merged(before, file) == [Seen("lua", "another", "bwrap", "test", "failed", "2026-02-02")]
    later = [Seen("lua", "another", "bwrap", "test", "ok", "2026-03-03")]
    assert table.merged(later, file) == later


def test_what_cannot_be_done_has_its_reason() -> None:
    known = yaml.safe_load(table.PROJECTS.read_text())
    seen = table.read(table.SEEN)
    for each in seen:
        assert each.verdict in {"ok", "cannot", "as outside", *table.RED}
        if each.verdict == "cannot":
            reason = known[each.project]["cannot"][each.method][each.step]
            assert reason in table.texts()["projects"]
