"""The report of a smoke run, which is written as JSON, as JUnit XML, and as rows of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sandwright.documents import strictjson
from sandwright.errors import HostError
from sandwright.host import MachineFacts
from sandwright.outputs import write_output
from sandwright.rootfs.unpacking.store import encode
from sandwright.verify.junit import JunitCase, JunitSuite, element_of, junit_xml
from sandwright.verify.verdict import ProbeFinding, Verdict, combine

_SCHEMA = 1


@dataclass(frozen=True)
class ImageRow:
    """One image for one platform under one runtime.

    `note` describes an unusual start of the runtime. `key` names all inputs of the outcome: a row with the
    same key need not be run again. `reused`: the row was not run, and this is its earlier outcome. `whole`:
    the findings also cover the parts that depend on the image alone, its programs and certificates.
    """

    image: str
    platform: str
    digest: str
    runtime: str
    findings: tuple[ProbeFinding, ...]
    seconds: float = 0.0
    note: str = ""
    key: str = ""
    reused: bool = False
    whole: bool = True

    @property
    def verdict(self) -> Verdict:
        """The worst of its findings."""
        return combine(finding.verdict for finding in self.findings)

    def reason(self) -> str:
        """The reason why the row is no pass: its findings of that verdict, in one line. Empty for a pass."""
        verdict = self.verdict
        if verdict is Verdict.PASS:
            return ""
        return "; ".join(f"{f.check}: {f.detail}" for f in self.findings if f.verdict is verdict)


@dataclass(frozen=True)
class ReportedImage:
    """One image for one platform: the first columns of the table.

    `size` is that of its packed layers, `built_by` its builder: `embedded`, or an engine.
    """

    image: str
    platform: str
    digest: str
    size: int
    layers: int
    built_by: str = "embedded"


@dataclass(frozen=True)
class ImageReport:
    """The results of a run: rows by image, platform, runtime. `started` is an ISO 8601 time."""

    subjects: tuple[ReportedImage, ...]
    runtimes: tuple[str, ...]
    rows: tuple[ImageRow, ...]
    started: str
    seconds: float
    host: Mapping[str, str]

    @property
    def green(self) -> bool:
        """Whether no row failed or is undecided, and every image passed as a whole under one runtime."""
        decided = all(row.verdict in {Verdict.PASS, Verdict.SKIPPED} for row in self.rows)
        proved = {(row.image, row.platform) for row in self.rows if row.whole and row.verdict is Verdict.PASS}
        return (
            decided
            and bool(self.subjects)
            and all((subject.image, subject.platform) in proved for subject in self.subjects)
        )

    @property
    def fresh(self) -> bool:
        """Whether anything was started for the report: not if all rows came from an earlier one."""
        return any(not row.reused and row.verdict is not Verdict.SKIPPED for row in self.rows)

    def row(self, image: str, platform: str, runtime: str) -> ImageRow | None:
        """The row of this image, platform and runtime, if there is one."""
        key = (image, platform, runtime)
        return next((row for row in self.rows if (row.image, row.platform, row.runtime) == key), None)

    def explain(self) -> list[str]:
        """A line for each result other than a pass. A reason that several images share is reported once."""
        explained: dict[tuple[str, str, str], list[str]] = {}
        for row in self.rows:
            if row.verdict is not Verdict.PASS:
                where = explained.setdefault((row.runtime, row.verdict, row.reason()), [])
                where.append(f"{row.image} {row.platform}")
        lines = [
            f"{verdict}: {runtime}, {', '.join(images)}: {reason}"
            for (runtime, verdict, reason), images in explained.items()
        ]
        notes = dict.fromkeys((row.runtime, row.note) for row in self.rows if row.note)
        return [*lines, *(f"note: {runtime} was started {note}" for runtime, note in notes)]

    def to_json(self) -> dict[str, Any]:
        """Plain data that `from_json` reads back."""
        rows = [
            {**asdict(row), "verdict": str(row.verdict), "findings": [asdict(f) for f in row.findings]}
            for row in self.rows
        ]
        return {"schema": _SCHEMA, **asdict(self), "green": self.green, "rows": rows}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ImageReport:
        """Decode the output of `to_json`. Raise HostError for anything else."""
        try:
            if data["schema"] != _SCHEMA:
                raise ValueError(f"schema {data['schema']}, not {_SCHEMA}")
            rows = [
                ImageRow(
                    **{
                        **_check_plain(_drop_key(row, "verdict")),
                        "findings": tuple(map(_decode_finding, row["findings"])),
                    }
                )
                for row in data["rows"]
            ]
            return cls(
                tuple(ReportedImage(**_check_plain(subject)) for subject in data["subjects"]),
                tuple(data["runtimes"]),
                tuple(rows),
                data["started"],
                data["seconds"],
                data["host"],
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise HostError(f"not a report of a smoke run: {error}") from error


def machine_of(host: MachineFacts) -> Mapping[str, str]:
    """The machine, as a report names it."""
    return {"kernel": host.kernel, "machine": host.machine, "distribution": host.distribution}


def columns(report: ImageReport) -> list[str]:
    """The headings of the final table."""
    return ["image", "platform", "digest", "size", "layers", *report.runtimes, "time"]


def table(report: ImageReport) -> list[list[str]]:
    """The rows of the final table, a cell for each heading. Sizes are in bytes, as digits; digests short."""
    lines = []
    for subject in report.subjects:
        rows = [report.row(subject.image, subject.platform, runtime) for runtime in report.runtimes]
        cells = ["" if row is None else str(row.verdict) for row in rows]
        seconds = sum(row.seconds for row in rows if row is not None and not row.reused)
        short = subject.digest.removeprefix("sha256:")[:12]
        what = [subject.image, subject.platform, short, str(subject.size), str(subject.layers)]
        lines.append([*what, *cells, f"{seconds:.1f} s"])
    return lines


def junit(report: ImageReport) -> bytes:
    """JUnit's XML: a suite for each row, a case for each finding."""
    return junit_xml(
        "sandwright smoke", (_junit_suite(row, report.started) for row in report.rows), seconds=report.seconds
    )


def _junit_suite(row: ImageRow, started: str) -> JunitSuite:
    name = f"{row.image} {row.platform} {row.runtime}"
    cases = [JunitCase(each.check, name, element_of(each.verdict), each.detail) for each in row.findings]
    return JunitSuite(name, cases, {"time": f"{row.seconds:.3f}", "timestamp": started})


def write_report(report: ImageReport, output: Path) -> None:
    """Write `report.json` and `junit.xml` into `output`, each whole or not at all."""
    write_output(f"{output}/report.json", encode(report.to_json()))
    write_output(f"{output}/junit.xml", junit(report))


def read_report(output: Path) -> ImageReport | None:
    """The report in `output`; None when there is none that can be read."""
    try:
        return ImageReport.from_json(strictjson.loads((output / "report.json").read_bytes()))
    except (OSError, ValueError, HostError):
        return None


def _decode_finding(data: Mapping[str, Any]) -> ProbeFinding:
    return ProbeFinding(data["check"], Verdict(data["verdict"]), data["detail"])


def _check_plain(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields, in which nothing but findings may hold more: they are compared and hashed."""
    for name, value in data.items():
        if name != "findings" and not isinstance(value, str | int | float):
            raise TypeError(f"{name} is {value!r:.60}")
    return data


def _drop_key(data: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name != key}
