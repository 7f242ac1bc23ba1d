"""Changes are attempted in real sandboxes, and a witness can contradict the report.

Tests of change/stage.py.
Tests of change/witness.py.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, reject, settings

from sandwright import user_dirs
from sandwright.change import trial
from sandwright.change.compare import CaseChange, PolicyDifference, compare_policies
from sandwright.change.policies import PolicyPair, read_pair
from sandwright.change.questions import Case
from sandwright.change.trial import witnesses
from sandwright.change.witness import Witness, judged
from sandwright.errors import DocumentError, RenderError
from sandwright.methods import registry
from sandwright.policy.provenance import BUILT_IN
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.runtime.probe.protocol import ProbeAnswer
from support.policyedits import NAMES, ROOTS, base, changes, text
from support.thorough import THOROUGH

HERE = tuple(f"{root}/{name}" for root in ROOTS for name in NAMES)


@pytest.fixture
def home(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home with a project, in which no file may change."""
    made = place / "home"
    (made / "project").mkdir(parents=True)
    (made / ".ssh").mkdir()
    (made / ".ssh/id").write_text("the user's own key")
    monkeypatch.setenv("HOME", str(made))
    (made / ".local/state/sandwright/keys").mkdir(parents=True, mode=0o700)  # else made with the facts
    before = _contents(made)
    yield made
    assert _contents(made) == before


def _contents(root: Path) -> dict[str, str]:
    return {
        str(path): path.read_text() if path.is_file() else ""
        for path in root.rglob("*")
        if ".cache" not in path.parts and path.name not in ("old.yaml", "sandbox.yaml")
    }


def _pair(home: Path, old: str, new: str) -> PolicyPair:
    file = home / "project/sandbox.yaml"
    (home / "project/old.yaml").write_text(old)
    file.write_text(new)
    return read_pair(
        str(home / "project/old.yaml"), str(file), policy="", revisions=False, environ=dict(os.environ)
    )


def _seen(pair: PolicyPair) -> tuple[PolicyDifference, tuple[Witness, ...]]:
    real = pair.resolve()
    found = compare_policies(*real, ("bwrap",))
    return found, witnesses(pair, real, found, "bwrap")


def _edited(**sections: dict[str, Any]) -> str:
    data = copy.deepcopy(base())
    for name, values in sections.items():
        data.setdefault(name, {}).update(values)
    return text(data)


@pytest.mark.needs("bwrap")
def test_each_widening_and_each_narrowing_is_seen(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = _edited(network={"mode": "none", "allow": []})
    new = _edited(
        network={"mode": "host", "allow": []},
        filesystem={"deny": ["$PROJECT/a"], "write": ["$PROJECT", "$HOME/b"], "read": ["/", "$HOME/.ssh"]},
        environment={"pass": ["BAR_*"]},
        process={"seccomp": "build"},
    )
    (scratch := home / ".cache/scratch").mkdir(parents=True)
    monkeypatch.setattr(user_dirs, "visible_scratch", lambda: str(scratch))
    found, seen = _seen(_pair(home, old, new))
    assert [each.change for each in seen] == list(found.cases)
    shown = {str(each.change.case): each for each in seen if each.verdict == "seen"}
    for case in (
        f"read {home}/project/a",
        f"write {home}/project/a",
        f"write {home}/b",
        "env BAR_SANDWRIGHT",
        "env FOO",
        "syscall ptrace",
        "syscall chroot",
    ):
        assert case in shown, [str(each) for each in seen if str(each.change.case) == case]
    assert any(each.change.case.question == "connect" for each in shown.values())
    assert {each.change.widened for each in shown.values()} == {True, False}
    assert [str(each) for each in seen if each.verdict == "contradicted"] == []
    assert list(scratch.iterdir()) == []


@pytest.mark.needs("bwrap")
def test_a_sandbox_that_does_otherwise_contradicts(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both sandboxes are rendered from the old policy, so every statement about the new one is false."""
    pair = _pair(home, _edited(), _edited(filesystem={"write": ["$PROJECT", "$HOME/b"]}))
    first: list[ResolvedPolicy] = []

    def render(policy: ResolvedPolicy, method: str) -> object:
        first.append(policy)
        return registry.render(first[0], method)

    monkeypatch.setattr(trial, "registry", SimpleNamespace(render=render))
    _, seen = _seen(pair)
    written = [each for each in seen if str(each.change.case) == f"write {home}/b"]
    assert [each.verdict for each in written] == ["contradicted"], [str(each) for each in written]
    assert "EROFS, now EROFS" in str(written[0])


def test_nobodys_files_are_touched_outside_of_home_and_project(home: Path) -> None:
    change = CaseChange(
        Case("write", "/srv"), widened=True, methods=("bwrap",), before="", after="", source=BUILT_IN
    )
    pair = _pair(home, _edited(), _edited(filesystem={"write": ["$PROJECT", "/srv"]}))
    found = PolicyDifference(("bwrap",), (change,), (), 1)
    (seen,) = witnesses(pair, pair.resolve(), found, "bwrap")
    assert (seen.verdict, "no file is touched" in seen.reason) == ("not seen", True)


OK, NO = ProbeAnswer("ok"), ProbeAnswer("errno", "EROFS")
FILTER, KERNEL = ProbeAnswer("errno", "EPERM"), ProbeAnswer("errno", "EFAULT")
LATE = ProbeAnswer("late")
WORD = ProbeAnswer("ok", value=b"word")
DENIED = ProbeAnswer("ok", value=b"HTTP/1.1 403 Forbidden\r\nVia: x")
PASSED = ProbeAnswer("ok", value=b"HTTP/1.1 503 Service Unavailable\r\n")


@pytest.mark.parametrize(
    ("case", "answers", "verdict"),
    [
        pytest.param(Case("write", "/x"), (NO, OK), "seen", id="as it was said"),
        pytest.param(Case("write", "/x"), (OK, NO), "contradicted", id="the other way round"),
        pytest.param(Case("write", "/x"), (OK, OK), "contradicted", id="allowed before too"),
        pytest.param(Case("write", "/x"), (NO, NO), "contradicted", id="denied still"),
        pytest.param(Case("write", "/x"), (NO, LATE), "not seen", id="no answer"),
        pytest.param(Case("read", "/x"), (OK, WORD), "seen", id="an empty directory in its place"),
        pytest.param(Case("read", "/x"), (OK, OK), "contradicted", id="and still"),
        pytest.param(Case("connect", "a:443"), (DENIED, PASSED), "seen", id="the proxy"),
        pytest.param(Case("connect", "a:443"), (DENIED, DENIED), "contradicted", id="the proxy still"),
        pytest.param(Case("syscall", "x"), (FILTER, KERNEL), "seen", id="a call"),
        pytest.param(Case("syscall", "x"), (KERNEL, FILTER), "contradicted", id="a call the other way"),
        pytest.param(Case("syscall", "x"), (FILTER, FILTER), "not seen", id="a call the kernel denies too"),
        pytest.param(Case("syscall", "x"), (FILTER, ProbeAnswer("none")), "not seen", id="the end of it"),
    ],
)
def test_what_answers_show(case: Case, answers: tuple[ProbeAnswer, ProbeAnswer], verdict: str) -> None:
    change = CaseChange(case, widened=True, methods=("bwrap",), before="", after="", source=BUILT_IN)
    assert judged(Witness(change, "bwrap", "seen"), case, answers, "word").verdict == verdict


def test_what_is_read_is_in_no_witness() -> None:
    case = Case("read", "/x")
    change = CaseChange(case, widened=True, methods=("bwrap",), before="", after="", source=BUILT_IN)
    secret = ProbeAnswer("ok", value=b"hunter2 word")
    made = judged(Witness(change, "bwrap", "seen"), case, (NO, secret), "word")
    assert "hunter2" not in str(made) + repr(made.as_data())


@pytest.mark.needs("bwrap")
@settings(
    max_examples=100 if THOROUGH else 2,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(change=changes(HERE))
def test_no_witness_contradicts(home: Path, change: tuple[str, str]) -> None:
    try:
        pair = _pair(home, *change)
        _, seen = _seen(pair)
    except (DocumentError, RenderError):
        reject()
    assert [str(each) for each in seen if each.verdict == "contradicted"] == []


@pytest.mark.needs("bwrap")
def test_a_rule_for_a_file_of_the_project(home: Path) -> None:
    """Nothing can be planted below the path of a file."""
    file = home / "project/Makefile"
    file.write_text("all:\n")
    _, seen = _seen(_pair(home, _edited(), _edited(filesystem={"readonly": ["$PROJECT/Makefile"]})))
    assert [each.verdict for each in seen if str(each.change.case) == f"write {home}/project/Makefile"] == [
        "seen"
    ]
    file.unlink()


@pytest.mark.needs("bwrap")
def test_a_policy_for_servers_of_mcp(home: Path) -> None:
    """Its launcher starts only for someone who reads the messages."""
    old, new = (_edited(mcp={"tools": []}, environment={"pass": names}) for names in ([], ["NEW"]))
    assert "seen" in {each.verdict for each in _seen(_pair(home, old, new))[1]}
