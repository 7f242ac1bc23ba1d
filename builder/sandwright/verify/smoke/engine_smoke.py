"""Starts images in the engine that built them, from its own store, and reports the results.

The expected values are read from the image itself, which is saved and unpacked once for that. Every start is
the same as in the smoke runs of the embedded builder's images.
"""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandwright.engines.contract import Engine
from sandwright.errors import SandwrightError, ToolMissing
from sandwright.host import MachineFacts
from sandwright.image.definition import ImageDefinition, base_definitions
from sandwright.image.dockerfile.build import EngineBuiltImage
from sandwright.progress import SILENT, Progress
from sandwright.rootfs.images.source import open_image
from sandwright.runtime.contract import Session
from sandwright.runtime.engine import EngineSession
from sandwright.runtime.scratch import hidden_directory, scratch_directory
from sandwright.verify.canary import CanaryListener, canary_listener
from sandwright.verify.smoke.report import ImageReport, ImageRow, machine_of
from sandwright.verify.smoke.report import ReportedImage as Reported
from sandwright.verify.smoke.start import LIMIT, smoke_test
from sandwright.verify.smoke.target import SmokeTarget, prepare
from sandwright.verify.verdict import ProbeFinding, Verdict


def smoke_in_engine(
    built: Sequence[EngineBuiltImage],
    catalogue: Mapping[str, ImageDefinition],
    engine: Engine,
    *,
    host: MachineFacts,
    output: Path,
    limit: float = LIMIT,
    progress: Progress = SILENT,
) -> ImageReport:
    """Start each image where it was built. Root file systems are unpacked into `output`/rootfs to look into.

    Nothing is left in the engine but the images. Raise SandwrightError when the engine goes away.
    """
    begun, started = time.monotonic(), datetime.datetime.now(datetime.UTC)
    references = {(each.name, each.platform): each.references[0] for each in built}
    stop = threading.Event()
    with scratch_directory() as scratch, canary_listener() as listening:
        session = _engine_session(engine, references, hidden_directory(scratch), scratch.name, stop)
        work = _Work(engine, session, listening, catalogue, host, scratch, output / "rootfs", limit)
        try:
            rows = [work.row(each, progress) for each in built]
        finally:
            stop.set()
    return ImageReport(
        subjects=tuple(_reported(each) for each in built),
        runtimes=tuple(dict.fromkeys(row.runtime for row in rows)),
        rows=tuple(rows),
        started=started.isoformat(timespec="seconds"),
        seconds=time.monotonic() - begun,
        host=machine_of(host),
    )


def _engine_session(
    engine: Engine,
    references: Mapping[tuple[str, str], str],
    scratch: Path,
    run_name: str,
    stop: threading.Event,
) -> Session | str:
    """A session that starts images which the engine has, by name and platform; or why there is none."""
    try:
        return EngineSession(engine.runner(scratch), run_name, stop, references=references)
    except ToolMissing:
        return "podman, which starts what buildah builds, is not installed"


@dataclass(frozen=True)
class _Work:
    """The data that the rows of one run share."""

    engine: Engine
    session: Session | str
    canary: CanaryListener
    catalogue: Mapping[str, ImageDefinition]
    host: MachineFacts
    scratch: Path
    store: Path
    limit: float

    def row(self, built: EngineBuiltImage, progress: Progress) -> ImageRow:
        """Start one image."""
        runtime = "docker" if self.engine.name == "docker" else "podman"
        row = ImageRow(built.name, built.platform, built.image.id, runtime, ())
        label = f"smoke {built.name} {built.platform} in {self.engine.name}"
        with progress.step(label, unit="checks") as step:
            try:
                findings, seconds = self._start_image(built)
            except SandwrightError as error:
                findings, seconds = (ProbeFinding("starts", Verdict.FAIL, str(error)),), 0.0
            step.advance(len(findings))
        return ImageRow(row.image, row.platform, row.digest, runtime, findings, seconds)

    def _start_image(self, built: EngineBuiltImage) -> tuple[tuple[ProbeFinding, ...], float]:
        if isinstance(self.session, str):
            return (ProbeFinding("starts", Verdict.SKIPPED, self.session),), 0.0
        name = f"{built.name}-{built.platform.replace('/', '-')}"
        directory = hidden_directory(self.scratch, "bundles", name)
        archive = directory / "image.tar"
        self.engine.save(built.references[0], archive)
        digest = open_image(archive, platform=built.platform).digest
        bases = tuple(base_definitions(self.catalogue, built.name))
        target = SmokeTarget(built.name, built.platform, archive, digest, self.catalogue[built.name], bases)
        (directory / "bundle").mkdir()
        prepared = prepare(target, directory / "bundle", store=self.store, host=self.host)
        archive.unlink()
        judged = smoke_test(self.session, prepared, host=self.host, canary=self.canary, limit=self.limit)
        return judged.findings, judged.seconds


def _reported(built: EngineBuiltImage) -> Reported:
    image = built.image
    return Reported(built.name, built.platform, image.id, image.size, len(image.layers), built.engine)
