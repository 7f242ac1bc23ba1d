"""Results of earlier runs stay in the report while they are valid."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from sandwright.verify.smoke.merge import in_layouts, merge_reports
from sandwright.verify.smoke.report import ImageReport, ImageRow, ReportedImage
from sandwright.verify.verdict import ProbeFinding, Verdict
from support.smallworld import World, small_world

HOST = {"kernel": "6.1"}
AMD, ARM = "linux/amd64", "linux/arm64"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    world = small_world(tmp_path_factory.mktemp("world"))
    world.build()
    return world


def report(world: World, *rows: str, verdict: Verdict = Verdict.PASS) -> ImageReport:
    """A report with rows of the form `image platform runtime`."""
    built = world.build()
    made, subjects = [], {}
    for words in rows:
        name, platform, runtime = words.split()
        digest = built[name].images[platform].manifest.digest
        subjects[name, platform] = ReportedImage(name, platform, digest, 7, 1)
        made.append(ImageRow(name, platform, digest, runtime, (ProbeFinding("starts", verdict, ""),), 2.0))
    runtimes = tuple(dict.fromkeys(row.runtime for row in made))
    return ImageReport(
        tuple(subjects.values()), runtimes, tuple(made), "2026-01-02T03:04:05+00:00", 1.0, HOST
    )


def told(report: ImageReport) -> list[str]:
    return [
        f"{row.image} {row.platform} {row.runtime} {row.verdict}{' before' if row.reused else ''}"
        for row in report.rows
    ]


def test_other_images_platforms_and_runtimes_stay(world: World) -> None:
    before = report(
        world,
        f"base {AMD} runc",
        f"base {AMD} bwrap",
        f"base {ARM} runc",
        f"app {AMD} runc",
        verdict=Verdict.FAIL,
    )
    now = report(world, f"base {AMD} crun", f"base {AMD} runc")
    whole = merge_reports(now, before, in_layouts(world.output / "images"))
    assert told(whole) == [
        f"base {AMD} runc pass",
        f"base {AMD} crun pass",
        f"base {AMD} bwrap fail before",
        f"base {ARM} runc fail before",
        f"app {AMD} runc fail before",
    ]
    assert whole.runtimes == ("runc", "crun", "bwrap")
    assert [f"{each.image} {each.platform}" for each in whole.subjects] == [
        f"base {AMD}",
        f"base {ARM}",
        f"app {AMD}",
    ]
    assert ImageReport.from_json(whole.to_json()) == whole
    assert now.green
    assert not whole.green


def test_what_does_not_hold_goes(world: World, tmp_path: Path) -> None:
    before = report(world, f"base {AMD} runc", f"app {AMD} runc", f"app {ARM} runc")
    now = report(world, f"base {AMD} crun")
    shutil.copytree(world.output, tmp_path / "build")
    other = [replace(row, digest="sha256:" + "0" * 64) if row.platform == ARM else row for row in before.rows]
    assert told(
        merge_reports(now, replace(before, rows=tuple(other)), in_layouts(world.output / "images"))
    ) == [
        f"base {AMD} runc pass before",
        f"base {AMD} crun pass",
        f"app {AMD} runc pass before",
    ]
    shutil.rmtree(tmp_path / "build/images/app")
    assert told(merge_reports(now, before, in_layouts(tmp_path / "build/images"))) == [
        f"base {AMD} runc pass before",
        f"base {AMD} crun pass",
    ]


def test_another_machine_saw_nothing_of_this_one(world: World) -> None:
    before, now = report(world, f"app {AMD} runc"), report(world, f"base {AMD} crun")
    assert (
        merge_reports(now, replace(before, host={"kernel": "5.10"}), in_layouts(world.output / "images"))
        == now
    )
    assert merge_reports(now, None, in_layouts(world.output / "images")) == now


def test_a_runtime_that_there_is_no_longer_goes(world: World) -> None:
    before, now = report(world, f"app {AMD} rkt"), report(world, f"base {AMD} crun")
    assert merge_reports(now, before, in_layouts(world.output / "images")) == now
