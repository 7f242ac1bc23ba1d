"""Whole smoke runs: images in layouts, definitions with commands, and a report of every pair.

Tests of verify/smoke/attempts.py.
Tests of verify/smoke/run.py.
Tests of verify/smoke/target.py.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sandwright import process
from sandwright.errors import UsageError
from sandwright.image.definition import ImageDefinition, load_definition
from sandwright.progress import ProgressStep
from sandwright.verify.smoke.report import ImageReport, ImageRow
from sandwright.verify.smoke.run import smoke_images
from sandwright.verify.smoke.target import SmokeTarget
from sandwright.verify.verdict import Verdict
from support.processtrees import naming
from support.small_image import PYTHON, SmallImage
from support.waiting import until

P, F, S = Verdict.PASS, Verdict.FAIL, Verdict.SKIPPED

DEFINITION = """
schema: 1
description: A small image.
base: {debian: bookworm}
configure: declared
packages: [python3]
config: {user: "65532"}
smoke:
  programs: [[PYTHON, --version]]
  checks:
    - {name: greets, run: [PYTHON, -c, "import os; print(os.environ['GREETING'])"], prints: hello}
"""


def _definition(folder: Path, text: str = DEFINITION) -> ImageDefinition:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "image.yaml").write_text(text.replace("PYTHON", PYTHON))
    return load_definition(folder)


@pytest.fixture
def target(small_image: SmallImage, tmp_path: Path) -> SmokeTarget:
    layout = tmp_path / "layout"
    digest = small_image.write_layout(layout)
    return SmokeTarget("small", small_image.platform, layout, digest, _definition(tmp_path / "images/small"))


class Watching:
    """Progress that records its steps."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    @contextlib.contextmanager
    def step(self, label: str, *_: object, **__: object) -> Iterator[ProgressStep]:
        self.steps.append(label)
        yield self

    def advance(self, amount: int) -> None:
        pass

    def note(self, text: str) -> None:
        pass


def _row(report: ImageReport, runtime: str) -> ImageRow:
    row = report.row("small", report.subjects[0].platform, runtime)
    assert row is not None
    return row


RUNTIME = "runc" if os.geteuid() == 0 else "runsc"
"""Without root, runc maps one id, and the image's user has another."""


@pytest.mark.needs(RUNTIME, "bwrap")
def test_an_image_under_two_runtimes(target: SmokeTarget, tmp_path: Path) -> None:
    watching = Watching()
    report = smoke_images(
        [target], output=tmp_path / "out", runtimes=["bwrap", RUNTIME], progress=watching, limit=120
    )
    assert report.explain()[:-1] == []
    assert report.green
    assert report.runtimes == (RUNTIME, "bwrap"), "in the order of tables"
    assert [(str(row.verdict), row.whole) for row in report.rows] == [("pass", True), ("pass", False)]
    checks = {name: [each.check for each in _row(report, name).findings] for name in (RUNTIME, "bwrap")}
    of_image = ["certificates", f"program: {PYTHON} --version", "program: greets"]
    assert checks[RUNTIME] == [*checks["bwrap"], *of_image], "what hangs on the image alone is tried once"
    assert sorted(s for s in watching.steps if s.startswith("smoke small")) == [
        f"smoke small {target.platform} under bwrap",
        f"smoke small {target.platform} under {RUNTIME}",
    ]
    subject = report.subjects[0]
    assert (subject.digest, subject.layers) == (target.digest, 1)
    assert subject.size > 5_000_000
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["rootfs"]


@pytest.mark.needs(RUNTIME)
def test_what_has_not_changed_is_not_started_again(target: SmokeTarget, tmp_path: Path) -> None:
    first = smoke_images([target], output=tmp_path / "out", runtimes=[RUNTIME], limit=120)
    watching = Watching()
    again = smoke_images(
        [target], output=tmp_path / "out", runtimes=[RUNTIME], previous=first, progress=watching
    )
    assert watching.steps == []
    assert again.green
    assert _row(again, RUNTIME).reused
    assert _row(again, RUNTIME).findings == _row(first, RUNTIME).findings


@pytest.mark.needs(RUNTIME, "bwrap")
def test_without_a_whole_row_nothing_of_an_image_is_taken_over(target: SmokeTarget, tmp_path: Path) -> None:
    """Otherwise no row would contain the facts of the image alone."""
    names = [RUNTIME, "bwrap"]
    first = smoke_images([target], output=tmp_path / "out", runtimes=names, limit=120)
    rest = replace(first, rows=(_row(first, "bwrap"),))
    assert not rest.green, "nobody has seen its programs"
    alone = smoke_images([target], output=tmp_path / "out", runtimes=["bwrap"], previous=rest, limit=120)
    assert alone.green
    assert (_row(alone, "bwrap").whole, _row(alone, "bwrap").reused) == (True, False)
    again = smoke_images([target], output=tmp_path / "out", runtimes=names, previous=alone, limit=120)
    assert [(row.whole, row.reused) for row in again.rows] == [(False, False), (True, True)]
    assert again.green


@pytest.mark.needs(RUNTIME)
def test_other_checks_are_another_run(target: SmokeTarget, tmp_path: Path) -> None:
    first = smoke_images([target], output=tmp_path / "out", runtimes=[RUNTIME], limit=120)
    changed = DEFINITION.replace("prints: hello", "prints: good-bye")
    other = SmokeTarget(
        "small", target.platform, target.layout, target.digest, _definition(tmp_path / "other/small", changed)
    )
    again = smoke_images([other], output=tmp_path / "out", runtimes=[RUNTIME], previous=first, limit=120)
    assert not _row(again, RUNTIME).reused
    assert not again.green
    assert "program: greets: its output does not hold 'good-bye'" in again.explain()[0]


@pytest.mark.needs(RUNTIME)
def test_what_failed_is_started_again(target: SmokeTarget, tmp_path: Path) -> None:
    broken = DEFINITION.replace("prints: hello", "prints: good-bye")
    bad = SmokeTarget(
        "small", target.platform, target.layout, target.digest, _definition(tmp_path / "b/small", broken)
    )
    first = smoke_images([bad], output=tmp_path / "out", runtimes=[RUNTIME], limit=120)
    again = smoke_images([bad], output=tmp_path / "out", runtimes=[RUNTIME], previous=first, limit=120)
    assert not _row(again, RUNTIME).reused
    assert _row(again, RUNTIME).verdict is F


def test_a_runtime_that_is_not_there_is_skipped_and_nothing_passes(
    target: SmokeTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandwright.process.find", lambda _: None)
    report = smoke_images([target], output=tmp_path / "out", runtimes=["crun"])
    assert _row(report, "crun").verdict is S
    assert "crun is not installed" in report.explain()[0]
    assert not report.green, "nobody has seen the image start"


def test_a_required_runtime_that_is_not_there_fails(
    target: SmokeTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandwright.process.find", lambda _: None)
    report = smoke_images([target], output=tmp_path / "out", runtimes=[], require=["crun"])
    assert _row(report, "crun").verdict is F
    assert "required, and: crun is not installed" in report.explain()[0]


@pytest.mark.skipif(os.geteuid() == 0, reason="as root, runc starts the images of all users")
@pytest.mark.needs("runc")
def test_a_required_runtime_that_can_t_be_the_image_s_user_fails(target: SmokeTarget, tmp_path: Path) -> None:
    report = smoke_images([target], output=tmp_path / "out", runtimes=[], require=["runc"])
    reason = "started without root, with one id mapped it cannot be the image's user, 65532"
    assert (_row(report, "runc").verdict, report.green) == (F, False)
    assert f"required, and: {reason}" in report.explain()[0]
    assert _row(smoke_images([target], output=tmp_path / "out", runtimes=["runc"]), "runc").verdict is S


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("runcc", "there are runc, crun, runsc, bwrap, docker, podman; did you mean 'runc'?"),
        ("kata", "there are runc, crun, runsc, bwrap, docker, podman"),
    ],
)
def test_a_runtime_that_there_is_not(name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        smoke_images([], output=tmp_path, runtimes=[name])
    assert str(error.value) == f"no runtime '{name}'; {message}"


@pytest.mark.needs("runc")
def test_another_image_than_promised_fails(target: SmokeTarget, tmp_path: Path) -> None:
    wrong = SmokeTarget("small", target.platform, target.layout, "sha256:" + "0" * 64, target.definition)
    report = smoke_images([wrong], output=tmp_path / "out", runtimes=["runc"])
    assert _row(report, "runc").verdict is F
    assert "not sha256:0000" in report.explain()[0]


@pytest.mark.needs("runc")
def test_an_image_that_can_not_be_unpacked_fails_under_every_runtime(
    target: SmokeTarget, tmp_path: Path
) -> None:
    for blob in (target.layout / "blobs/sha256").iterdir():
        if blob.stat().st_size > 1_000_000:
            with blob.open("r+b") as file:
                file.seek(700_000)
                file.write(b"\xff" * 64)
    report = smoke_images([target], output=tmp_path / "out", runtimes=["runc", "bwrap"])
    assert {row.verdict for row in report.rows} == {F}
    assert not report.green
    assert list((tmp_path / "out/rootfs").glob("sha256-*")) == []


HANGING = """
import sys
from pathlib import Path
from sandwright.image.definition import load_definition
from sandwright.verify.smoke.run import smoke_images
from sandwright.verify.smoke.target import SmokeTarget
folder, layout, digest, platform, output = sys.argv[1:]
target = SmokeTarget("small", platform, Path(layout), digest, load_definition(Path(folder)))
smoke_images([target], output=Path(output), runtimes=["runc", "bwrap"], limit=600)
"""


@pytest.mark.needs("runc", "bwrap")
@pytest.mark.parametrize("number", [signal.SIGINT], ids=["ctrl-c"])
def test_an_interrupted_run_leaves_nothing(
    target: SmokeTarget, tmp_path: Path, number: signal.Signals
) -> None:
    mark = f"hangs-{os.getpid()}-{time.monotonic_ns()}"
    text = DEFINITION.replace("--version]]", f"-c, 'import time; time.sleep(600)  # {mark}']]")
    folder = tmp_path / "images/hanging"
    _definition(folder, text)
    scratch = tmp_path / "scratch"
    scratch.mkdir(mode=0o755)
    words = [
        sys.executable,
        "-c",
        HANGING,
        folder,
        target.layout,
        target.digest,
        target.platform,
        tmp_path / "out",
    ]
    environment = {**os.environ, "TMPDIR": str(scratch), "PYTHONPATH": os.pathsep.join(sys.path)}
    with process.start(*map(str, words), env=environment) as running:
        until(lambda: naming(mark))
        running.send_signal(number)
        running.wait(60)
        assert running.stderr is not None
        assert b"KeyboardInterrupt" in running.stderr.read()
    until(lambda: not naming(mark))
    assert list(scratch.iterdir()) == []
    assert not [
        line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(scratch) in line
    ]
