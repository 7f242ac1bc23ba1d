"""`verify` proves that `apply` holds changes back: its probes fail without a row, and without their controls.

Tests of verify/held_back.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sandwright.api import Policy
from sandwright.policy.collect import collect_facts
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.verify import held_back
from sandwright.verify.held_back import ABOUT, held_back_outcomes
from sandwright.workspace import withheld
from sandwright.workspace.links import FurtherPaths

POLICY = "schema: 1\nmethod: bwrap\nworkspace: review\nfilesystem: {{write: [{}]}}\n"


def _verdicts(folder: Path, *, write: str = "$PROJECT") -> dict[str, tuple[str, str]]:
    """The verdict by the probe, with its evidence."""

    def policy_at(root: Path) -> ResolvedPolicy:
        policy = Policy.from_text(POLICY.format(write))
        return policy.resolve(collect_facts(policy, project=root, environ={"HOME": str(folder)}))

    found = held_back_outcomes(policy_at, folder / "held", folder / "home", "bwrap")
    return {each.probe: (str(each.verdict), each.evidence) for each in found}


def test_each_is_proved(tmp_path: Path) -> None:
    found = _verdicts(tmp_path)
    assert {name: verdict for name, (verdict, _) in found.items()} == dict.fromkeys(ABOUT, "pass")
    assert int(found["workspace/held-tools"][1].partition(" ")[0]) > 150


FAULTS: dict[str, tuple[str, str, Callable[[pytest.MonkeyPatch], None]]] = {
    "a name of a tool": (
        "workspace/held-tools",
        ".envrc",
        lambda patch: patch.delitem(withheld._BY_LAST, ".envrc"),
    ),
    "a name that is new": (
        "workspace/held-tools",
        "conftest.py",
        lambda patch: patch.delitem(withheld._NEW, "conftest.py"),
    ),
    "Git": (
        "workspace/held-git",
        ".git/new",
        lambda patch: patch.setattr(withheld, "_git_reason", lambda *_: ""),
    ),
    "links that lead out": (
        "workspace/held-odd",
        "link",
        lambda patch: patch.setattr(withheld, "leads_out", lambda *_: False),
    ),
    "what is behind links": (
        "workspace/held-odd",
        "env/bin/python",
        lambda patch: patch.setattr(FurtherPaths, "of", lambda *_: []),
    ),
    "names without case": (
        "workspace/held-odd",
        "README",
        lambda patch: patch.setattr(withheld, "_differing_by_case", lambda *_: {}),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_row_that_is_not_held_fails(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    probe, path, plant = FAULTS[name]
    plant(monkeypatch)
    verdict, evidence = _verdicts(tmp_path)[probe]
    assert verdict == "fail"
    assert path in evidence.partition("applied: ")[2].partition("\n")[0]


def test_nothing_is_proved_where_nothing_could_be_applied(tmp_path: Path) -> None:
    """The policy grants another directory, and /tmp is private: ordinary files don't arrive either."""
    assert {verdict for verdict, _ in _verdicts(tmp_path, write="$PROJECT/other").values()} == {
        "inconclusive"
    }


def test_nothing_is_proved_where_what_is_asked_for_stays_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = withheld.sort_changes

    def refusing(*arguments: object) -> object:
        free, held = real(*arguments)  # type: ignore[arg-type]
        return free, [each for each in held if not os.fsdecode(each.change.path).endswith(".envrc")]

    monkeypatch.setattr(held_back, "sort_changes", refusing)
    verdict, evidence = _verdicts(tmp_path)["workspace/held-tools"]
    assert verdict == "inconclusive"
    assert ".envrc" in evidence.partition("missing: ")[2]
