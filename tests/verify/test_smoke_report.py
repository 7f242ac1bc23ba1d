"""Reports: passing results, and their form in JSON, JUnit and the table.

Tests of verify/smoke/report.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandwright.errors import HostError
from sandwright.verify.smoke.report import (
    ImageReport,
    ImageRow,
    ReportedImage,
    columns,
    junit,
    read_report,
    table,
    write_report,
)
from sandwright.verify.verdict import ProbeFinding, Verdict

P, F, U, S = Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.SKIPPED
DIGEST = "sha256:" + "ab" * 32


def _row(runtime: str, *verdicts: Verdict, image: str = "debian", **more: Any) -> ImageRow:
    findings = tuple(ProbeFinding(f"check {n}", verdict, f"detail {n}") for n, verdict in enumerate(verdicts))
    return ImageRow(image, "linux/amd64", DIGEST, runtime, findings, **more)


def _report(*rows: ImageRow, images: tuple[str, ...] = ("debian",)) -> ImageReport:
    subjects = tuple(ReportedImage(image, "linux/amd64", DIGEST, 1234, 3) for image in images)
    runtimes = tuple(dict.fromkeys(row.runtime for row in rows))
    return ImageReport(subjects, runtimes, rows, "2026-01-02T03:04:05+00:00", 1.5, {"kernel": "6.1"})


@pytest.mark.parametrize(
    ("rows", "green"),
    [
        pytest.param([_row("runc", P, P)], True, id="all-pass"),
        pytest.param([_row("runc", P), _row("runsc", S)], True, id="one-runtime-missing"),
        pytest.param([_row("runc", P), _row("crun", F)], False, id="one-fails"),
        pytest.param([_row("runc", P), _row("crun", U)], False, id="one-undecided"),
        pytest.param([_row("runc", P, F)], False, id="one-check-fails"),
        pytest.param([_row("runc", S), _row("crun", S)], False, id="all-skipped-is-no-pass"),
        pytest.param([], False, id="nothing-was-run"),
    ],
)
def test_green(rows: list[ImageRow], green: bool) -> None:
    assert _report(*rows).green is green


def test_every_image_must_have_passed_somewhere() -> None:
    rows = (_row("runc", P), _row("runc", S, image="distroless"))
    assert not _report(*rows, images=("debian", "distroless")).green


def test_a_report_of_no_image_is_not_green() -> None:
    assert not _report(images=()).green


def test_json_round_trip(tmp_path: Path) -> None:
    report = _report(_row("runc", P, F, note="in a way", key="k"), _row("runsc", S, reused=True))
    write_report(report, tmp_path / "build")
    assert read_report(tmp_path / "build") == report
    data = json.loads((tmp_path / "build/report.json").read_text())
    assert (data["schema"], data["green"]) == (1, False)
    assert [row["verdict"] for row in data["rows"]] == ["fail", "skipped"]
    assert data["rows"][0]["findings"][1] == {"check": "check 1", "verdict": "fail", "detail": "detail 1"}
    assert sorted(path.name for path in (tmp_path / "build").iterdir()) == ["junit.xml", "report.json"]


@pytest.mark.parametrize("text", ["", "{}", "[]", "7", '{"schema": 1}', '{"schema": 2}', "{", "\x00"])
def test_what_is_no_report_is_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text(text)
    assert read_report(tmp_path) is None


@pytest.mark.parametrize("field", ["image", "platform", "digest", "runtime", "note", "key"])
@pytest.mark.parametrize("part", ["rows", "subjects"])
def test_a_field_that_is_no_text_is_no_report(part: str, field: str) -> None:
    data = json.loads(json.dumps(_report(_row("runc", P)).to_json()))
    data[part][0][field] = ["x"]
    with pytest.raises(HostError, match="not a report of a smoke run: "):
        ImageReport.from_json(data)


def test_from_json_says_what_is_wrong() -> None:
    with pytest.raises(HostError, match=r"^not a report of a smoke run: schema 2, not 1$"):
        ImageReport.from_json({"schema": 2})


def test_junit() -> None:
    xml = ET.fromstring(junit(_report(_row("runc", P, F, U, S, seconds=2.0))))
    suite = xml[0]
    assert (suite.get("name"), suite.get("tests")) == ("debian linux/amd64 runc", "4")
    assert [suite.get(kind) for kind in ("failures", "errors", "skipped")] == ["1", "1", "1"]
    children = [[(child.tag, child.get("message")) for child in case] for case in suite]
    assert children == [[], [("failure", "detail 1")], [("error", "detail 2")], [("skipped", "detail 3")]]


@given(st.text(max_size=50))
def test_junit_holds_any_text(text: str) -> None:
    row = ImageRow("i", "linux/amd64", DIGEST, "runc", (ProbeFinding("check", F, text),))
    ET.fromstring(junit(_report(row, images=("i",))))


def test_table() -> None:
    report = _report(
        _row("runc", P, seconds=1.25), _row("runsc", S), _row("crun", P, seconds=9.0, reused=True)
    )
    assert columns(report) == [
        "image",
        "platform",
        "digest",
        "size",
        "layers",
        "runc",
        "runsc",
        "crun",
        "time",
    ]
    cells = ["debian", "linux/amd64", "abababababab", "1234", "3", "pass", "skipped", "pass", "1.2 s"]
    assert table(report) == [cells]


def test_the_same_reason_is_told_once() -> None:
    rows = (
        _row("runsc", S),
        _row("runsc", S, image="distroless"),
        _row("runc", F),
        _row("crun", P, note="oddly"),
    )
    assert _report(*rows, images=("debian", "distroless")).explain() == [
        "skipped: runsc, debian linux/amd64, distroless linux/amd64: check 0: detail 0",
        "fail: runc, debian linux/amd64: check 0: detail 0",
        "note: crun was started oddly",
    ]
