"""`verify` with a review workspace: its probes, and their failure without the copy.

Tests of verify/workspace.py: a run that changes the project itself is a failure.
"""

from __future__ import annotations

import json

import pytest

from sandwright.cli.program import main
from sandwright.launcher import run_document
from sandwright.verify import workspace
from session.conftest import Project

pytestmark = pytest.mark.needs("bwrap")

POLICY = "schema: 1\nmethod: bwrap\nworkspace: review\n"


def _outcomes(project: Project, *options: str) -> dict[str, dict[str, str]]:
    report = project.home / "report.json"
    project.sandwright("verify", "--json", str(report), *options)
    return {each["probe"]: each for each in json.loads(report.read_text())}


def test_all_are_proved(project: Project) -> None:
    project.policy.write_text(POLICY)
    found = _outcomes(project)
    assert {found[name]["verdict"] for name in workspace.NAMES} == {"pass"}
    assert {each["verdict"] for each in found.values()} <= {"pass", "skipped"}


OK, REFUSED, ABSENT = "status 0\nword 1 json", "status 126", "status 127"


@pytest.mark.parametrize(
    ("inside", "live", "verdict"),
    [
        ([OK, REFUSED], [ABSENT, ABSENT], "pass"),
        ([OK, "status 0\nword 2 --workspace"], [ABSENT, ABSENT], "fail"),
        ([OK, REFUSED], [OK, REFUSED], "fail"),
        ([ABSENT, REFUSED], [ABSENT, ABSENT], "inconclusive"),
        ([ABSENT, ABSENT], [ABSENT, ABSENT], "fail"),
    ],
)
def test_a_listing_that_takes_more_fails(inside: list[str], live: list[str], verdict: str) -> None:
    assert workspace._listed_outcome("bwrap", inside, live, "word").verdict == verdict


def test_a_live_policy_has_none(project: Project) -> None:
    assert not set(workspace.NAMES) & _outcomes(project).keys()


def test_what_changes_the_project_fails(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: the copy that the run sees is the project itself."""
    project.policy.write_text(POLICY)
    real = run_document.workspace_words

    def itself(copies: dict[str, str]) -> tuple[str, ...]:
        return real(copies)[:2] * 2

    monkeypatch.setattr(workspace, "workspace_words", itself)
    monkeypatch.setenv("HOME", str(project.home))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(project.runtime))
    monkeypatch.chdir(project.root)
    report = project.home / "report.json"
    assert main(["verify", "--json", str(report)]) == 12
    found = {each["probe"]: each["verdict"] for each in json.loads(report.read_text())}
    assert [found[name] for name in workspace.NAMES[:2]] == ["fail", "fail"]
