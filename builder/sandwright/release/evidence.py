"""Evidence about an image before it is published: its smoke run, and the matrix that proved it.

Evidence counts for its exact digest only, and only when it is green. The published part has
no times, so that the same evidence has the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from sandwright.digests import sha256
from sandwright.documents import strictjson
from sandwright.documents.fields import OURS
from sandwright.documents.strictjson import parse_json
from sandwright.errors import HostError, VerdictError
from sandwright.release.statement import resource
from sandwright.rootfs.descriptor import canonical, mapping, sequence
from sandwright.rootfs.unpacking.store import encode, explained, write_atomically
from sandwright.verify.smoke.report import ImageReport, ImageRow
from sandwright.verify.verdict import Verdict

SCHEMA = 1
MATRIX = "matrix.json"
SMOKE_TYPE = "application/vnd.sandwright.smoke.v1+json"
MATRIX_TYPE = "application/vnd.sandwright.matrix.v1+json"
_GOOD = (Verdict.PASS, Verdict.SKIPPED)


class NotProved(VerdictError):
    """An image may not be published: the missing evidence, one line for each part."""

    def __init__(self, image: str, lines: Sequence[str]) -> None:
        """`lines` has the failures, for each platform and runtime."""
        self.lines = tuple(lines)
        super().__init__(f"{image} is not published:\n  " + "\n  ".join(lines))


def smoke_evidence(
    image: str, manifests: Mapping[str, str], report: ImageReport | None, *, require: Sequence[str] = ()
) -> bytes:
    """The smoke run's rows about an image, `manifests` being platform → digest; of `require`d runtimes too.

    Raise NotProved unless each platform passed under a runtime, with its programs under one, and under each
    in `require`, and nothing about these digests failed or is undecided.
    """
    rows = [] if report is None else [row for row in report.rows if row.image == image]
    missing = [
        line for platform in manifests for line in _missing_rows(rows, platform, manifests[platform], require)
    ]
    if missing:
        raise NotProved(image, missing)
    return canonical(
        {
            "schema": SCHEMA,
            "image": image,
            "manifests": dict(manifests),
            "rows": [_smoke_row(row) for row in rows if manifests.get(row.platform) == row.digest],
            "host": {} if report is None else dict(report.host),
        }
    )


def _missing_rows(
    rows: Sequence[ImageRow], platform: str, digest: str, require: Sequence[str]
) -> Iterator[str]:
    """The gaps of the smoke run for one platform's image."""
    of_platform = [row for row in rows if row.platform == platform]
    about = [row for row in of_platform if row.digest == digest]
    if not about:
        of = sorted({row.digest for row in of_platform})
        other = f"; it was of {', '.join(of)}" if of else ""
        yield f"{platform}: there is no smoke run of {digest}{other}: sandwright build-images"
        return
    for row in about:
        if row.verdict not in _GOOD:
            yield f"{platform}: smoke run under {row.runtime}: {row.verdict}: {row.reason()}"
    passed = {row.runtime for row in about if row.verdict is Verdict.PASS}
    if not passed:
        skipped = "; ".join(f"{row.runtime}: {row.reason()}" for row in about)
        yield f"{platform}: it passed under no runtime: {skipped}"
    elif not any(row.whole and row.verdict is Verdict.PASS for row in about):
        yield f"{platform}: its programs were tried under no runtime: sandwright build-images"
    for runtime in require:
        if runtime not in passed:
            tried = [f"{row.verdict}: {row.reason()}" for row in about if row.runtime == runtime]
            how = tried[0] if tried else "was not tried"
            yield f"{platform}: smoke run under {runtime}, which is required: {how}"


def _smoke_row(row: ImageRow) -> dict[str, Any]:
    return {
        "platform": row.platform,
        "digest": row.digest,
        "runtime": row.runtime,
        "verdict": str(row.verdict),
        "note": row.note,
        "findings": [asdict(finding) for finding in row.findings],
    }


@dataclass(frozen=True)
class Matrix:
    """A proof of methods on an image, for one platform. `outcomes` are as `verify.json` has them.

    `policy` is the text of the policy that was proved.
    """

    image: str
    platform: str
    digest: str
    policy: str
    outcomes: tuple[Mapping[str, Any], ...]


def _matrix_document(matrix: Matrix) -> dict[str, Any]:
    """The matrix as it is written. `asdict` would copy every outcome."""
    named = {each.name: getattr(matrix, each.name) for each in fields(matrix)}
    return {"schema": SCHEMA, **named}


def write_matrix(matrix: Matrix, directory: Path) -> None:
    """Keep a matrix. Raise HostError when that fails."""
    document = _matrix_document(matrix)
    with explained(directory):
        directory.mkdir(parents=True, exist_ok=True)
        write_atomically(directory / MATRIX, encode(document))


def read_matrix(directory: Path) -> Matrix | None:
    """Read a kept matrix; None if there is none. Raise HostError for an invalid file."""
    path = directory / MATRIX
    try:
        data = strictjson.loads(path.read_bytes())
        outcomes = tuple(data["outcomes"])
        words = [data[name] for name in ("image", "platform", "digest", "policy")]
        if data["schema"] != SCHEMA or not all(isinstance(each, str) for each in words):
            raise ValueError("another version")
        if not all(isinstance(each["method"], str) and each["verdict"] for each in outcomes):
            raise ValueError("outcomes without method and verdict")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise HostError(f"{path}: not a matrix: {error}") from error
    return Matrix(words[0], words[1], words[2], words[3], outcomes)


def matrix_evidence(
    image: str,
    manifests: Mapping[str, str],
    matrix: Matrix | None,
    *,
    require: Sequence[str] = (),
    needed: bool = True,
) -> bytes | None:
    """The matrix about an image; None where there is none for it and it is not `needed`.

    One of another digest counts as none. Raise NotProved where there is none, when it is not green, or a
    method in `require` is not in it or passed nothing.
    """
    about = matrix if matrix is not None and matrix.digest in manifests.values() else None
    if about is None:
        lines = list(_no_matrix(image, matrix, require)) if needed or require else []
    else:
        lines = list(_matrix_faults(about, require))
    if lines:
        raise NotProved(image, lines)
    if about is None:
        return None
    return canonical(_matrix_document(about))


def _no_matrix(image: str, other: Matrix | None, require: Sequence[str]) -> Iterator[str]:
    how = "there is none" if other is None else f"there is only one of {other.digest}"
    for method in require:
        command = f"sandwright attest-image {image} --method {method}"
        yield f"matrix of {method}, which is required: {how}: {command}"
    if not require:
        yield f"matrix: {how}: sandwright attest-image {image}; or --matrix none, if no sandbox runs on it"


def _matrix_faults(matrix: Matrix, require: Sequence[str]) -> Iterator[str]:
    for each in matrix.outcomes:
        if each["verdict"] not in _GOOD:
            what = f"{each['method']}: {each.get('probe')}"
            yield f"matrix, {matrix.platform}: {what}: {each['verdict']}: {each.get('evidence', '')}"[:300]
    passed = {str(each["method"]) for each in matrix.outcomes if each["verdict"] == Verdict.PASS}
    if not passed and all(each["verdict"] in _GOOD for each in matrix.outcomes):
        yield "matrix: nothing was proved"
    for method in require:
        if method not in passed:
            yield f"matrix of {method}, which is required: nothing was proved"


def test_result(reports: Mapping[str, bytes]) -> dict[str, Any]:
    """The predicate of in-toto (spec/predicates/test-result.md) about reports, name → content.

    They are green, or `smoke_evidence` and `matrix_evidence` had refused them.
    """
    passed = []
    for name, raw in reports.items():
        document = parse_json(raw, name, OURS)
        rows = document.get("rows") or document["outcomes"]
        passed += [_test_name(name, document, row) for row in rows if row["verdict"] == Verdict.PASS]
    return {
        "result": "PASSED",
        "configuration": [resource(name, f"sha256:{sha256(raw)}") for name, raw in reports.items()],
        "passedTests": passed,
    }


def _test_name(report: str, document: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """`smoke run: linux/amd64 under runc`, `matrix: linux/amd64 under oci: read-only`."""
    platform = row.get("platform", document.get("platform"))
    probe = f": {row['probe']}" if "probe" in row else ""
    return f"{report}: {platform} under {row.get('runtime', row.get('method'))}{probe}"


def check_published(raw: bytes, subjects: Mapping[str, str], where: str) -> str:
    """Check that published evidence is green and about the image; return a summary of it.

    `subjects` are the digests that it may be about. Raise VerdictError for evidence that is not.
    """
    document = parse_json(raw, where, OURS)
    rows = [
        mapping(each, where) for each in sequence(document.get("rows") or document.get("outcomes"), where)
    ]
    bad = [each for each in rows if each.get("verdict") not in _GOOD]
    passed = sum(each.get("verdict") == Verdict.PASS for each in rows)
    named = {str(each.get("digest", document.get("digest"))) for each in rows}
    if bad or not passed:
        raise VerdictError(f"{where}: not green: {len(bad)} of {len(rows)} rows, {passed} passed")
    if foreign := sorted(named - subjects.keys()):
        raise VerdictError(f"{where}: it is about {foreign[0]}, which is no part of the image")
    return f"{passed} of {len(rows)} passed"
