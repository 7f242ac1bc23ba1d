"""Keeps earlier results for images, or under runtimes, that a run did not cover."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from sandwright.errors import IntegrityError
from sandwright.image.existing import read_layout
from sandwright.runtime.registry import RUNTIMES
from sandwright.verify.smoke.report import ImageReport, ImageRow, ReportedImage

DigestOf = Callable[[str, str], str | None]
"""The digest of the current image, by its name and a platform; None when it isn't there."""


def merge_reports(report: ImageReport, earlier: ImageReport | None, digest_of: DigestOf) -> ImageReport:
    """A report with additional rows of an earlier one that are still valid.

    A row is valid on the same machine as long as the image has the digest that was started.
    """
    if earlier is None or earlier.host != report.host:
        return report
    rows_before = [
        row
        for row in earlier.rows
        if row.runtime in RUNTIMES and report.row(row.image, row.platform, row.runtime) is None
    ]
    subjects_before = {(row.image, row.platform) for row in rows_before}
    digests = {(image, platform): digest_of(image, platform) for image, platform in subjects_before}
    rows = [row for row in rows_before if digests[row.image, row.platform] == row.digest]
    subjects = dict.fromkeys([*report.subjects, *_subjects(earlier, rows, report)])
    every = [*report.rows, *(replace(row, reused=True) for row in rows)]
    runtimes = [name for name in RUNTIMES if name in {*report.runtimes, *(row.runtime for row in rows)}]
    order = [(subject.image, subject.platform) for subject in subjects]
    every.sort(key=lambda row: (order.index((row.image, row.platform)), runtimes.index(row.runtime)))
    return replace(report, subjects=tuple(subjects), runtimes=tuple(runtimes), rows=tuple(every))


def in_layouts(directory: Path) -> DigestOf:
    """A function that reads digests from the layouts in a directory."""

    @functools.cache
    def digests(name: str) -> dict[str, str]:
        try:
            images = read_layout(directory / name).images
        except IntegrityError:
            return {}
        return {platform: held.manifest.digest for platform, held in images.items()}

    return lambda image, platform: digests(image).get(platform)


def _subjects(earlier: ImageReport, rows: list[ImageRow], report: ImageReport) -> Iterator[ReportedImage]:
    """The images of the earlier rows that are missing in the report."""
    there = {(subject.image, subject.platform) for subject in report.subjects}
    missing = {(row.image, row.platform) for row in rows} - there
    return (subject for subject in earlier.subjects if (subject.image, subject.platform) in missing)
