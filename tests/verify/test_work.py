"""Probes of usefulness: the causes of a failure, the form of the shipped ones, and some with real programs.

Tests of verify/work/project.py.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sandwright.errors import DocumentError
from sandwright.policy.collect import collect_facts
from sandwright.policy.load import layer, run_layer
from sandwright.policy.merged import MergedPolicy
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.session.request import RunRequest
from sandwright.verify.command import verify_policy
from sandwright.verify.outcome import ProbeOutcome
from sandwright.verify.probe import Family
from sandwright.verify.verdict import Verdict
from sandwright.verify.work import prove
from sandwright.verify.work.judge import ScriptEnd, WorkResult, judge_work
from sandwright.verify.work.probe import NearestDenial, WorkLimit, WorkProbe, read_family, work_probes
from sandwright.verify.work.prove import ResolveAt, prove_work
from support.thorough import representative

PROBE = WorkProbe(
    name="work/test/write",
    about="a file is written",
    script="echo new >new; cat new",
    done="^new$",
    after='test "$(cat new)" = new',
    denied=NearestDenial(script="echo x >kept/file"),
)
DONE, DENIED = ScriptEnd(0, "new\n"), ScriptEnd(2, "sh: kept/file: Read-only file system\n")
LIMITED = replace(PROBE, cannot={"bwrap": WorkLimit(reason="its reason", shows="EPERM")})


@pytest.mark.parametrize(
    ("probe", "result", "verdict", "evidence"),
    [
        pytest.param(PROBE, WorkResult(DONE, DENIED), Verdict.PASS, "the work → exit 0", id="done"),
        pytest.param(PROBE, WorkResult(ScriptEnd(1), DENIED), Verdict.FAIL, "work failed", id="failed"),
        pytest.param(
            PROBE, WorkResult(ScriptEnd(0, "old"), DENIED), Verdict.FAIL, "lacks '^new$'", id="another thing"
        ),
        pytest.param(
            PROBE, WorkResult(ScriptEnd(None), ScriptEnd(None)), Verdict.FAIL, "did not finish", id="too slow"
        ),
        pytest.param(
            PROBE, WorkResult(DONE, DENIED, ScriptEnd(1)), Verdict.FAIL, "host does not see", id="unseen"
        ),
        pytest.param(
            PROBE, WorkResult(DONE, ScriptEnd(0)), Verdict.FAIL, "succeeded", id="the denial was let do"
        ),
        pytest.param(
            PROBE, WorkResult(DONE, DENIED, kept="kept was changed"), Verdict.FAIL, "kept was", id="a change"
        ),
        pytest.param(
            PROBE, WorkResult(DONE, ScriptEnd(127, "not found")), Verdict.INCONCLUSIVE, "another reason",
            id="denied for another reason",
        ),
        pytest.param(
            PROBE, WorkResult(DONE, ScriptEnd(None)), Verdict.FAIL, "was not attempted", id="untried"
        ),
        pytest.param(
            PROBE, WorkResult(DONE, DENIED, missing="git"), Verdict.SKIPPED, "git is not there", id="missing"
        ),
        pytest.param(
            LIMITED, WorkResult(ScriptEnd(1, "EPERM"), DENIED), Verdict.SKIPPED, "bwrap cannot: its reason",
            id="what the method can't do",
        ),
        pytest.param(
            LIMITED, WorkResult(ScriptEnd(1, "ENOENT"), DENIED), Verdict.FAIL, "work failed", id="a fault"
        ),
        pytest.param(
            LIMITED, WorkResult(ScriptEnd(1, "EPERM"), ScriptEnd(0)), Verdict.FAIL, "succeeded",
            id="what it can't do hides no breach",
        ),
    ],
)  # fmt: skip
def test_the_verdict(probe: WorkProbe, result: WorkResult, verdict: Verdict, evidence: str) -> None:
    outcome = judge_work(probe, "bwrap", result)
    assert outcome.verdict is verdict
    assert evidence in outcome.evidence


def test_what_a_method_cannot_do_its_forms_cannot() -> None:
    failed = WorkResult(ScriptEnd(1, "EPERM"), DENIED)
    found = [judge_work(LIMITED, "bwrap-form", failed, own).verdict for own in ("bwrap", "other")]
    assert found == [Verdict.SKIPPED, Verdict.FAIL]


def test_the_shipped_probes_are_read() -> None:
    probes = work_probes()
    assert len({probe.name for probe in probes}) == len(probes)
    assert {probe.name.count("/") for probe in probes} == {2}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("probes: [{name: x}]", "about: is required"),
        (
            "probes: [{name: x, about: y, script: z, done: '(', denied: {script: z}}]",
            "is no regular expression",
        ),
        ("probes: [{name: x, about: y, script: z, done: '', denied: {script: z}, sript: z}]", "no such key"),
        (
            "probes: [{name: x, about: y, script: z, done: '', denied: {script: z, feature: walls}}]",
            "is no feature of a policy",
        ),
    ],
)
def test_a_faulty_family_is_refused(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "family.yaml"
    file.write_text(text)
    with pytest.raises(DocumentError, match=message):
        read_family(file)


def _at(method: str) -> ResolveAt:
    def resolve(project: Path, settings: Sequence[str]) -> ResolvedPolicy:
        own = layer(f"schema: 1\nmethod: {method}\n", file=str(project / "sandbox.yaml"))
        added = run_layer(settings)
        policy = MergedPolicy.from_layers([own, *([added] if added else [])])
        return policy.resolve(collect_facts(policy, project=project))

    return resolve


def _one(probe: WorkProbe) -> ProbeOutcome:
    (outcome,) = prove_work(_at("bwrap"), "bwrap", probes=[probe])
    return outcome


@pytest.mark.needs("bwrap", "cc")
@pytest.mark.parametrize(
    ("changes", "verdict", "evidence"),
    [
        pytest.param({}, Verdict.PASS, "Read-only file system", id="as it is"),
        pytest.param({"script": "echo new"}, Verdict.FAIL, "host does not see", id="does not do its thing"),
        pytest.param({"script": "sleep 9", "seconds": 1.0}, Verdict.FAIL, "after 1 s", id="too slow"),
        pytest.param(
            {"denied": NearestDenial(script="echo x >other")}, Verdict.FAIL, "succeeded", id="not denied"
        ),
        pytest.param(
            {"denied": NearestDenial(script="false")}, Verdict.INCONCLUSIVE, "another reason", id="no denial"
        ),
        pytest.param({"needs": ("sw-none",)}, Verdict.SKIPPED, "sw-none is not there", id="missing"),
        pytest.param({"needs": ("sh -c 'exit 1'",)}, Verdict.SKIPPED, "exit 1", id="missing part"),
        pytest.param({"before": "exit 3"}, Verdict.INCONCLUSIVE, "exit 3", id="no project"),
        pytest.param(
            {"before": "echo x >outside; echo x >../outside/file"}, Verdict.FAIL, "outside was changed",
            id="a change outside",
        ),
        pytest.param(
            {"policy": ('filesystem.write=["$PROJECT", "/opt"]', 'filesystem.deny=["/opt/sw-absent"]')},
            Verdict.SKIPPED, "cannot enforce",
            id="a policy that it can't enforce",
        ),
    ],
)  # fmt: skip
def test_what_turns_one_red(changes: dict[str, Any], verdict: Verdict, evidence: str) -> None:
    outcome = _one(replace(PROBE, **changes))
    assert (outcome.verdict, evidence in outcome.evidence) == (verdict, True), outcome.evidence


@pytest.mark.needs("bwrap", "cc")
def test_a_restriction_less_turns_it_red() -> None:
    def resolve(project: Path, settings: Sequence[str]) -> ResolvedPolicy:
        return _at("bwrap")(project, [each for each in settings if "readonly" not in each])

    (outcome,) = prove_work(resolve, "bwrap", probes=[PROBE])
    assert outcome.verdict is Verdict.FAIL
    assert "succeeded" in outcome.evidence
    assert "kept was changed" in outcome.evidence


LANDLOCK = """\
schema: 1
method: landlock
accept_gaps:
  - {feature: filesystem.protect, method: landlock, reason: a test}
  - {feature: filesystem.attributes, method: landlock, reason: a test}
  - {feature: process.kernel, method: landlock, reason: a test}
"""


def _under_landlock(probe: WorkProbe, without: str = "none") -> ProbeOutcome:
    """Run the probe with a policy that omits each setting with the word `without`."""

    def resolve(project: Path, settings: Sequence[str]) -> ResolvedPolicy:
        own = layer(LANDLOCK, file=str(project / "sandbox.yaml"))
        kept = [each for each in settings if without not in each]
        policy = MergedPolicy.from_layers([own, *([added] if (added := run_layer(kept)) else [])])
        return policy.resolve(collect_facts(policy, project=project))

    (outcome,) = prove_work(resolve, "landlock", probes=[probe])
    return outcome


READ = replace(PROBE, denied=NearestDenial(script="cat secret/file"))


def _of_nothing(probe: WorkProbe, denied: NearestDenial) -> WorkProbe:
    """The probe with a denial that depends on no declared feature."""
    return replace(probe, denied=replace(denied, feature=""))


OTHERS = next(probe for probe in work_probes() if probe.name == "work/system/process-list")
HOOKS = NearestDenial(script="mkdir -p .git/hooks; echo x >.git/hooks/x", feature="filesystem.protect")


@pytest.mark.skipif(sys.platform != "linux", reason="Landlock is Linux'")
@pytest.mark.needs("cc")
def test_what_a_method_cannot_close_in_a_project_is_closed_beside_it() -> None:
    """Otherwise work under the method would be skipped instead of done and paired."""
    for probe in (PROBE, READ):
        outcome = _under_landlock(probe)
        assert outcome.verdict is Verdict.PASS, outcome.evidence
        assert "Permission denied" in outcome.evidence


@pytest.mark.skipif(sys.platform != "linux", reason="Landlock is Linux'")
@pytest.mark.needs("cc")
@pytest.mark.parametrize(
    ("probe", "without", "evidence"),
    [
        pytest.param(READ, "filesystem.deny", "succeeded", id="nothing is denied"),
        pytest.param(
            replace(PROBE, policy=('filesystem.write=["$BESIDE/closed/kept"]',)), "none",
            "kept was changed", id="all may be written",
        ),
        pytest.param(_of_nothing(PROBE, HOOKS), "none", "succeeded", id="the nearest denial itself"),
        pytest.param(_of_nothing(OTHERS, OTHERS.denied), "none", "succeeded", id="processes of others"),
    ],
)  # fmt: skip
def test_a_denial_beside_the_project_can_turn_red(probe: WorkProbe, without: str, evidence: str) -> None:
    outcome = _under_landlock(probe, without)
    assert outcome.verdict is Verdict.FAIL, outcome.evidence
    assert evidence in outcome.evidence


@pytest.mark.skipif(sys.platform != "linux", reason="Landlock is Linux'")
@pytest.mark.needs("cc")
def test_a_denial_that_a_method_cannot_make_has_another_in_its_place() -> None:
    outcome = _under_landlock(replace(PROBE, denied=HOOKS))
    assert outcome.verdict is Verdict.PASS, outcome.evidence
    assert "landlock cannot enforce filesystem.protect → exit 2" in outcome.evidence
    (held,) = prove_work(_at("bwrap"), "bwrap", probes=[replace(PROBE, denied=HOOKS)])
    assert "its nearest denial → exit" in held.evidence


SOME = ("work/git/clean", "work/git/commit", "work/git/stash-untracked", "work/python/pool")


@pytest.mark.parametrize(
    "method",
    representative(
        [
            pytest.param("bwrap", marks=pytest.mark.needs("bwrap", "cc", "git")),
            pytest.param("oci", marks=pytest.mark.needs("runc", "cc", "git")),
            pytest.param("vm", marks=pytest.mark.needs("bwrap", "linux.uml", "cc", "git")),
        ],
        *("bwrap", "vm"),
    ),
)
def test_real_programs_work(method: str) -> None:
    probes = [probe for probe in work_probes() if probe.name in SOME]
    assert len(probes) == len(SOME)
    red = {
        each.probe: each.evidence
        for each in prove_work(_at(method), method, probes=probes)
        if not _good(each)
    }
    assert red == {}


def _good(outcome: ProbeOutcome) -> bool:
    return outcome.verdict in (Verdict.PASS, Verdict.SKIPPED)


@pytest.mark.needs("bwrap", "cc")
def test_the_report_has_them_only_when_they_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = tmp_path / "project" / "sandbox.yaml"
    policy.parent.mkdir()
    policy.write_text("schema: 1\nmethod: bwrap\n")
    monkeypatch.setattr(prove, "work_probes", lambda: (PROBE,))
    found = {}
    for work in (False, True):
        report, _ = verify_policy(RunRequest([], policy=str(policy)), "bwrap", work=work)
        found[work] = {each.probe for each in report.outcomes if each.family is Family.WORK}
        assert report.faults() == []
    assert found == {False: set(), True: {PROBE.name}}
    assert [each.name for each in policy.parent.iterdir()] == ["sandbox.yaml"]
