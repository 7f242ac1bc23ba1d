"""The report: the reasons for a failure, and its forms. And the command, from end to end.

Tests of verify/junit.py.
Tests of verify/prove.py.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from sandwright import process
from sandwright.verify.outcome import ProbeOutcome
from sandwright.verify.probe import Family
from sandwright.verify.report import PolicyReport, encode_report, junit, summary
from sandwright.verify.verdict import Verdict
from support.standby import COMMAND

KEYS = {"probe", "method", "verdict", "expected", "observed", "evidence"}


def _outcome(
    verdict: Verdict, *, probe: str = "files/x", evidence: str = "create /x → ok (expected EROFS)"
) -> ProbeOutcome:
    return ProbeOutcome(probe, "bwrap", Family.FILES, verdict, "EROFS", "ok", evidence, about="about")


def _report(*outcomes: ProbeOutcome) -> PolicyReport:
    return PolicyReport(
        policy="sandbox.yaml",
        methods=tuple(dict.fromkeys(each.method for each in outcomes)),
        outcomes=outcomes,
        notes=("a <note>",),
        started="2026-01-01T00:00:00+00:00",
        seconds=1.0,
        host="host",
    )


PASS, FAIL = _outcome(Verdict.PASS), _outcome(Verdict.FAIL, probe="files/y")
UNDECIDED, SKIP = _outcome(Verdict.INCONCLUSIVE), _outcome(Verdict.SKIPPED, evidence="runsc is missing")


@pytest.mark.parametrize(
    ("outcomes", "named", "required", "red"),
    [
        pytest.param((PASS,), ("bwrap",), ("bwrap",), 0, id="all pass"),
        pytest.param((PASS, FAIL), (), (), 1, id="a fail"),
        pytest.param((PASS, UNDECIDED), (), (), 1, id="undecided"),
        pytest.param((PASS, SKIP), ("bwrap",), (), 0, id="a skip"),
        pytest.param((PASS, SKIP), (), ("bwrap",), 1, id="a skip of what is required"),
        pytest.param((SKIP,), (), (), 1, id="nothing tried of all there are"),
        pytest.param((SKIP,), ("bwrap",), (), 1, id="nothing tried of what was named"),
        pytest.param((PASS,), (), ("docker",), 1, id="what is required was not asked for"),
    ],
)
def test_what_makes_it_red(
    outcomes: tuple[ProbeOutcome, ...], named: tuple[str, ...], required: tuple[str, ...], red: int
) -> None:
    assert len(_report(*outcomes).faults(named=named, required=required)) == red


def test_it_is_proved_for_no_method_of_which_all_was_skipped() -> None:
    other = ProbeOutcome("files/x", "gvisor", Family.FILES, Verdict.SKIPPED, "", "", "runsc is missing")
    assert _report(PASS, SKIP, other).proved() == ["bwrap"]


def test_the_contract_of_the_json() -> None:
    data = json.loads(encode_report(_report(PASS, SKIP)))
    assert [set(each) >= KEYS for each in data] == [True, True]
    assert [each["verdict"] for each in data] == ["pass", "skipped"]


def test_junit_counts_each_kind() -> None:
    suite = ET.fromstring(junit(_report(PASS, FAIL, UNDECIDED, SKIP)))[0]
    counts = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "4", "failures": "1", "errors": "1", "skipped": "1"}


def test_junit_holds_what_xml_cannot() -> None:
    suite = ET.fromstring(junit(_report(_outcome(Verdict.FAIL, evidence="\x00\x1b[31m \ud800 <&"))))[0]
    assert "<&" in (suite[0][0].text or "")


def test_a_summary_counts() -> None:
    headings, rows = summary(_report(PASS, FAIL))
    assert headings == ["method", "files", "pass", "fail", "inconclusive", "skipped"]
    assert rows == [["bwrap", "1/2", "1", "1", "0", "0"]]


def _verify(project: Path, *words: str, task: str = "verify", **environment: str) -> process.Result:
    argv = (*COMMAND, task, *words)
    env = {**os.environ, "SANDWRIGHT_CACHE": str(project.parent / "cache"), **environment}
    return process.run(*argv, cwd=project, env=env, timeout=120, check=False)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory with a policy, beside a cache."""
    (tmp_path / "project").mkdir()
    policy = "schema: 1\nmethod: bwrap\nfilesystem: {write: [$PROJECT]}\n"
    (tmp_path / "project/sandbox.yaml").write_text(policy)
    return tmp_path / "project"


@pytest.mark.needs("bwrap")
def test_the_command(project: Path) -> None:
    files = ("--json", "out/verify.json", "--junit", "out/junit.xml", "--html", "out/verify.html")
    result = _verify(project, "--policy", "sandbox.yaml", "--method", "bwrap", *files, "--require", "bwrap")
    assert result.status == 0, result.stderr
    data = json.loads((project / "out/verify.json").read_text())
    assert {each["verdict"] for each in data} == {"pass"}
    assert {each["probe"].split("/")[0] for each in data} == {
        str(family) for family in Family if family not in (Family.WORK, Family.WORKSPACE)
    }
    assert len({each["probe"] for each in data}) == len(data)
    assert sorted(each.name for each in project.iterdir()) == ["out", "sandbox.yaml"]


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        pytest.param(("--method", "nothing"), 64, "no method 'nothing'", id="no such method"),
        pytest.param(("--method", ","), 64, "name a method", id="no method"),
        pytest.param(
            ("--policy", "missing.yaml"), 64, "cannot read the project policy missing.yaml", id="no policy"
        ),
    ],
)
def test_the_command_refuses(words: tuple[str, ...], status: int, said: str, project: Path) -> None:
    result = _verify(project, *words)
    assert (result.status, said in result.stderr) == (status, True), result.stderr


def test_a_method_that_can_not_run_here_proves_nothing(project: Path) -> None:
    result = _verify(project, "--method", "gvisor", PATH=str(project))
    assert result.status == 12
    assert "gvisor: nothing was proved" in result.text


@pytest.mark.needs("bwrap")
def test_a_preset_is_proved_and_its_report_is_in_the_build_output(project: Path) -> None:
    result = _verify(project, "--preset", "strict", "--method", "bwrap", task="verify-presets")
    assert result.status == 0, result.stderr
    folder = project / "build/verify/strict"
    assert sorted(each.name for each in folder.iterdir()) == ["junit.xml", "verify.html", "verify.json"]
    assert {each["verdict"] for each in json.loads((folder / "verify.json").read_text())} == {"pass"}
    assert "<title>proved: preset strict</title>" in (folder / "verify.html").read_text()
    assert "preset strict is proved for bwrap in " in result.text


def test_a_preset_that_there_is_not(project: Path) -> None:
    result = _verify(project, "--preset", "lax", task="verify-presets")
    assert (result.status, "there is no preset 'lax'" in result.stderr) == (64, True), result.stderr
