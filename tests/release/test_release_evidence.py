"""The conditions for publishing: only passing evidence, for exactly this digest.

Tests of release/evidence.py.
Tests of release/subject.py: the obstacles to the publication of an image.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sandwright.errors import HostError, VerdictError
from sandwright.release.evidence import (
    Matrix,
    NotProved,
    check_published,
    matrix_evidence,
    read_matrix,
    smoke_evidence,
    write_matrix,
)
from sandwright.verify.smoke.report import ImageReport, ImageRow
from sandwright.verify.verdict import ProbeFinding, Verdict

AMD, ARM, OLD = (f"sha256:{letter * 64}" for letter in "abc")
MANIFESTS = {"linux/amd64": AMD, "linux/arm64": ARM}


def row(
    platform: str, digest: str, verdict: Verdict = Verdict.PASS, runtime: str = "runc", **more: Any
) -> ImageRow:
    return ImageRow("app", platform, digest, runtime, (ProbeFinding("starts", verdict, "why"),), **more)


def report(*rows: ImageRow) -> ImageReport:
    return ImageReport((), ("runc",), rows, "2026-01-01T00:00:00+00:00", 1.0, {"kernel": "6"})


GOOD = (row("linux/amd64", AMD), row("linux/arm64", ARM))
NO_RUN = "there is no smoke run of"


@pytest.mark.parametrize(
    ("rows", "require", "lines"),
    [
        (GOOD, [], []),
        ((*GOOD, row("linux/amd64", AMD, Verdict.SKIPPED, "runsc")), [], []),
        ((*GOOD, row("linux/amd64", OLD, Verdict.FAIL)), [], []),
        (GOOD, ["runc"], []),
        (None, [], [f"linux/amd64: {NO_RUN} {AMD}", f"linux/arm64: {NO_RUN} {ARM}"]),
        (GOOD[:1], [], [f"linux/arm64: {NO_RUN} {ARM}"]),
        ((GOOD[0], row("linux/arm64", OLD)), [], [f"linux/arm64: {NO_RUN} {ARM}; it was of {OLD}"]),
        (
            (*GOOD, row("linux/amd64", AMD, Verdict.FAIL, "crun")),
            [],
            ["linux/amd64: smoke run under crun: fail: starts: why"],
        ),
        (
            (*GOOD, row("linux/amd64", AMD, Verdict.INCONCLUSIVE, "crun")),
            [],
            ["linux/amd64: smoke run under crun: inconclusive: starts: why"],
        ),
        (
            (GOOD[0], row("linux/arm64", ARM, Verdict.SKIPPED)),
            [],
            ["linux/arm64: it passed under no runtime: runc: starts: why"],
        ),
        (
            (GOOD[0], row("linux/arm64", ARM, whole=False)),
            [],
            ["linux/arm64: its programs were tried under no runtime: sandwright build-images"],
        ),
        (
            GOOD,
            ["runsc"],
            [
                "linux/amd64: smoke run under runsc, which is required: was not tried",
                "linux/arm64: smoke run under runsc, which is required: was not tried",
            ],
        ),
        (
            (
                *GOOD,
                row("linux/amd64", AMD, runtime="runsc"),
                row("linux/arm64", ARM, Verdict.SKIPPED, "runsc"),
            ),
            ["runsc"],
            ["linux/arm64: smoke run under runsc, which is required: skipped: starts: why"],
        ),
    ],
)
def test_the_smoke_run(rows: tuple[ImageRow, ...] | None, require: list[str], lines: list[str]) -> None:
    seen = None if rows is None else report(*rows)
    if not lines:
        document = json.loads(smoke_evidence("app", MANIFESTS, seen, require=require))
        assert {each["digest"] for each in document["rows"]} == {AMD, ARM}
        return
    with pytest.raises(NotProved) as caught:
        smoke_evidence("app", MANIFESTS, seen, require=require)
    assert len(caught.value.lines) == len(lines)
    for line, start in zip(caught.value.lines, lines, strict=True):
        assert line.startswith(start)
    assert str(caught.value).startswith("app is not published:\n  ")


def test_another_image_s_rows_prove_nothing() -> None:
    with pytest.raises(NotProved):
        smoke_evidence("app", MANIFESTS, report(*(replace(each, image="other") for each in GOOD)))


def test_the_same_run_gives_the_same_bytes() -> None:
    again = tuple(replace(each, seconds=9.0, reused=True) for each in GOOD)
    assert smoke_evidence("app", MANIFESTS, report(*again)) == smoke_evidence("app", MANIFESTS, report(*GOOD))


NONE = "matrix: there is none: sandwright attest-image app; or --matrix none, if no sandbox runs on it"


def outcome(method: str = "oci", verdict: str = "pass") -> dict[str, Any]:
    return {"probe": "files/deny", "method": method, "verdict": verdict, "evidence": "seen"}


def matrix(*outcomes: dict[str, Any], digest: str = AMD) -> Matrix:
    return Matrix("app", "linux/amd64", digest, "schema: 1\n", outcomes)


@pytest.mark.parametrize(
    ("given", "require", "lines"),
    [
        (None, [], [NONE]),
        (
            matrix(outcome(), digest=OLD),
            [],
            [f"matrix: there is only one of {OLD}: sandwright attest-image app"],
        ),
        (matrix(), [], ["matrix: nothing was proved"]),
        (matrix(outcome(verdict="skipped")), [], ["matrix: nothing was proved"]),
        (matrix(outcome()), [], []),
        (matrix(outcome(), outcome("gvisor", "skipped")), ["oci"], []),
        (None, ["oci"], ["matrix of oci, which is required: there is none"]),
        (
            matrix(outcome(), digest=OLD),
            ["oci"],
            [f"matrix of oci, which is required: there is only one of {OLD}"],
        ),
        (
            matrix(outcome(), outcome("gvisor", "skipped")),
            ["gvisor"],
            ["matrix of gvisor, which is required: nothing"],
        ),
        (
            matrix(outcome(), outcome(verdict="fail")),
            [],
            ["matrix, linux/amd64: oci: files/deny: fail: seen"],
        ),
        (
            matrix(outcome(verdict="inconclusive")),
            [],
            ["matrix, linux/amd64: oci: files/deny: inconclusive: seen"],
        ),
    ],
)
def test_the_matrix(given: Matrix | None, require: list[str], lines: list[str]) -> None:
    if not lines:
        assert matrix_evidence("app", MANIFESTS, given, require=require) is not None
        return
    with pytest.raises(NotProved) as caught:
        matrix_evidence("app", MANIFESTS, given, require=require)
    for line, start in zip(caught.value.lines, lines, strict=True):
        assert line.startswith(start)


@pytest.mark.parametrize("given", [None, matrix(outcome(), digest=OLD)])
def test_no_matrix_is_needed_where_it_is_said(given: Matrix | None) -> None:
    """A failing matrix is still refused."""
    assert matrix_evidence("app", MANIFESTS, given, needed=False) is None
    with pytest.raises(NotProved):
        matrix_evidence("app", MANIFESTS, matrix(outcome(verdict="fail")), needed=False)


def test_a_matrix_is_kept(tmp_path: Path) -> None:
    assert read_matrix(tmp_path) is None
    kept = matrix(outcome())
    write_matrix(kept, tmp_path / "app")
    assert read_matrix(tmp_path / "app") == kept


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 1}', '{"schema": 1, "outcomes": [{}]}'])
def test_no_matrix(tmp_path: Path, text: str) -> None:
    (tmp_path / "matrix.json").write_text(text)
    with pytest.raises(HostError, match=r"matrix\.json: not a matrix"):
        read_matrix(tmp_path)


def test_what_was_published() -> None:
    subjects = {AMD: "linux/amd64", ARM: "linux/arm64"}
    smoke = smoke_evidence("app", MANIFESTS, report(*GOOD))
    proof = matrix_evidence("app", MANIFESTS, matrix(outcome(), outcome("gvisor", "skipped")))
    assert proof is not None
    assert check_published(smoke, subjects, "x") == "2 of 2 passed"
    assert check_published(proof, subjects, "x") == "1 of 2 passed"
    with pytest.raises(VerdictError, match=f"it is about {AMD}, which is no part of the image"):
        check_published(proof, {ARM: "linux/arm64"}, "x")
    with pytest.raises(VerdictError, match="x: not green: 0 of 0 rows, 0 passed"):
        check_published(b'{"rows": []}', subjects, "x")
