"""Keeps what earlier runs saw of images, or under runtimes, that a run was not about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from sandwright.errors import IntegrityError
from sandwright.image.existing import read_layout
from sandwright.smoke.report import Report, Row, Subject
from sandwright.smoke.runtimes import RUNTIMES


def together(report: Report, earlier: Report | None, output: Path) -> Report:
    """A report with the rows of an earlier one that still hold and that it has none for.

    They hold on the same machine as long as the image in `output`/images has the digest that was started.
    """
    if earlier is None or earlier.host != report.host:
        return report
    kept = [
        row
        for row in earlier.rows
        if row.runtime in RUNTIMES and report.row(row.image, row.platform, row.runtime) is None
    ]
    digests = {name: dict(_digests(output / "images" / name)) for name in {row.image for row in kept}}
    rows = [row for row in kept if digests[row.image].get(row.platform) == row.digest]
    subjects = dict.fromkeys([*report.subjects, *_subjects(earlier, rows, report)])
    every = [*report.rows, *(replace(row, reused=True) for row in rows)]
    runtimes = [name for name in RUNTIMES if name in {*report.runtimes, *(row.runtime for row in rows)}]
    order = [(subject.image, subject.platform) for subject in subjects]
    every.sort(key=lambda row: (order.index((row.image, row.platform)), runtimes.index(row.runtime)))
    return replace(report, subjects=tuple(subjects), runtimes=tuple(runtimes), rows=tuple(every))


def _subjects(earlier: Report, rows: list[Row], report: Report) -> Iterator[Subject]:
    """What the earlier rows are about, as far as the report isn't."""
    there = {(subject.image, subject.platform) for subject in report.subjects}
    wanted = {(row.image, row.platform) for row in rows} - there
    return (subject for subject in earlier.subjects if (subject.image, subject.platform) in wanted)


def _digests(layout: Path) -> Iterator[tuple[str, str]]:
    """The digests of an image that is there, by platform."""
    try:
        images = read_layout(layout).images
    except IntegrityError:
        return
    for platform, held in images.items():
        yield platform, held.manifest.digest
