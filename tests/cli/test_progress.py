"""The display while a command works: one line on a terminal, otherwise plain lines.

Tests of progress.py.
"""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from sandwright.cli import console, drawing


@pytest.fixture
def drawn() -> drawing._Drawn:
    return drawing._Drawn(Console(file=io.StringIO(), force_terminal=True, width=200))


def test_a_line_says_what_remains_first(drawn: drawing._Drawn) -> None:
    """Of several steps in progress, the whole is the one that counts items, not bytes."""
    with drawn.step("94 packages", 32_100_000) as part, drawn.step("build", 3, unit="images") as whole:
        part.advance(3_200_000)
        whole.advance(1)
        with drawn.step("dev linux/amd64: packages configure themselves", None, unit="packages"):
            assert drawn.line().plain == (
                "0:00 · build: 2 of 3 images left · 94 packages 3.2 MB of 32.1 MB"
                " · dev linux/amd64: packages configure themselves"
            )
    assert drawn.line().plain == "0:00"


def test_it_is_one_line_however_narrow(drawn: drawing._Drawn) -> None:
    narrow = Console(file=io.StringIO(), width=30)
    with drawn.step("x" * 20, 1, unit="images"), drawn.step("[red]y\n" * 20):
        assert len(narrow.render_lines(drawn.line(), narrow.options)) == 1


def test_a_log_gets_a_line_for_each_step_and_nothing_that_moves(capsys: pytest.CaptureFixture[str]) -> None:
    with console.watching() as progress, progress.step("build", 3, unit="images") as whole:
        whole.advance(3)
    shown = capsys.readouterr().err
    assert shown.startswith("build: 3 images in 0.")
    assert "\x1b" not in shown
    assert "\r" not in shown


def test_a_log_is_told_how_far_a_long_step_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with console.watching() as progress, progress.step("work with vm", 3, unit="probes") as whole:
        whole.advance(1)
        monkeypatch.setattr(console, "INTERVAL", 0.0)
        whole.advance(1)
        whole.advance(1)
    shown = capsys.readouterr().err.splitlines()
    assert [line.partition(" after ")[0].partition(" in ")[0] for line in shown] == [
        "work with vm: 2 of 3 probes",
        "work with vm: 3 probes",
    ]
