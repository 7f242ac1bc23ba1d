"""Commands that build images in an engine: Dockerfiles, and builds with Docker, Podman or Buildah."""

from __future__ import annotations

import functools
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandwright import user_dirs
from sandwright.checked import Checked
from sandwright.cli import console
from sandwright.cli.arguments import source_date_epoch
from sandwright.cli.image_arguments import RegistrySettingsFactory, catalogue_of, fetcher, registry_settings
from sandwright.cli.locks import relock
from sandwright.engines.connect import connect_engine
from sandwright.engines.contract import Engine
from sandwright.errors import UsageError, VerdictError
from sandwright.host import MachineFacts, collect_host
from sandwright.image.build import SkippedImage
from sandwright.image.dockerfile.build import (
    BuildRequest,
    EngineBuiltImage,
    build_in_engine,
    describe_build,
    embedded,
    render_context,
    render_text,
)
from sandwright.image.dockerfile.trees import compare, explained, read_files, unexplained
from sandwright.image.documents import architecture
from sandwright.progress import Progress
from sandwright.rootfs.images.source import open_image
from sandwright.verify.smoke.engine_smoke import smoke_in_engine
from sandwright.verify.smoke.merge import merge_reports
from sandwright.verify.smoke.report import ImageReport, read_report, write_report


@dataclass(frozen=True)
class EngineBuildOptions:
    """The options of a build in an engine, and of the steps afterwards."""

    engine: str
    smoke: bool
    compare: bool
    strict: bool
    force: bool
    dry_run: bool

    def refuse(self, options: Mapping[str, object]) -> None:
        """Raise UsageError without an engine, and for options that mean nothing with one."""
        if not self.engine:
            raise UsageError("--builder and --compare need --engine")
        for option, value in options.items():
            if value:
                raise UsageError(
                    f"--{option} cannot be combined with --engine: an engine smoke-tests the images "
                    "that it builds"
                )


@dataclass(frozen=True)
class CliArguments:
    """The images to build, as the command line names them."""

    definitions: str
    names: Sequence[str]
    platforms: Sequence[str]
    mirror: str
    builder: str
    frozen: bool

    def request(
        self, host: MachineFacts, progress: Progress, *, output: Path, registry: RegistrySettingsFactory
    ) -> BuildRequest:
        """The same, resolved. No platform means this machine's."""
        return BuildRequest(
            catalogue_of(self.definitions, self.names),
            self.names,
            self.platforms or [host.platform],
            output.absolute(),
            fetcher(
                self.mirror,
                registry=registry,
                relock=functools.partial(relock, mirror=self.mirror, registry=registry, progress=progress),
            ),
            builder=self.builder,
            epoch=source_date_epoch(),
            frozen=self.frozen,
        )


def dockerfile(
    *,
    name: str,
    platform: str = "",
    to: str = "",
    images: str = "",
    builder: str = "",
    mirror: str = "",
    frozen: bool = False,
) -> None:
    """Render the Dockerfile of an image, and, with --to, everything that it needs for a build."""
    host = collect_host()
    chosen = platform or host.platform
    arguments = CliArguments(images, [name], [chosen], mirror, builder, frozen)
    registry = functools.partial(registry_settings, (), "", "")
    with console.watching() as progress:
        request = arguments.request(host, progress, output=Path("build"), registry=registry)
        if not to:
            console.write(render_text(request, name, chosen))
            return
        context = render_context(request, name, chosen, progress=progress)
    context.write_directory(Path(to))
    console.line(f"{to}: Dockerfile and {len(context.files) - 1} files for {name} {chosen}")


def build_with_engine(
    arguments: CliArguments, options: EngineBuildOptions, *, output: Path, registry: RegistrySettingsFactory
) -> Checked | None:
    """Build, compare and smoke-test images, and show the outcome. Raise VerdictError unless all is green."""
    started = time.monotonic()
    host = collect_host()
    with console.watching() as progress:
        request = arguments.request(host, progress, output=output, registry=registry)
        if options.dry_run:
            for line in describe_build(request, options.engine):
                console.line(line)
            return None
        skipped: list[SkippedImage] = []
        where = output / "engines" / options.engine
        with connect_engine(options.engine, host, cache=not options.force) as engine:
            done = _build_in_engine(request, options, engine, host=host, skipped=skipped, progress=progress)
            if done.report is not None:
                _write_report(done.report, where, engine, request.repository)
    _print_builds(done, skipped, where, time.monotonic() - started)
    if done.different or (done.report is not None and not done.report.green):
        raise VerdictError("not every image passed; see the lines above")
    if missing := [each.name for each in skipped if each.name in arguments.names]:
        raise VerdictError(f"not built: {', '.join(missing)}; see the lines above")
    if options.compare and not done.built:
        raise VerdictError("build-images: --compare compared no image: none was built")
    return Checked(0 if done.report is None else len(done.built), why="no image was built")


@dataclass(frozen=True)
class _Done:
    """The outcome of a build. `different` has a line for each difference without a reason."""

    built: Sequence[EngineBuiltImage]
    different: Sequence[str]
    report: ImageReport | None


def _build_in_engine(
    request: BuildRequest,
    options: EngineBuildOptions,
    engine: Engine,
    *,
    host: MachineFacts,
    skipped: list[SkippedImage],
    progress: Progress,
) -> _Done:
    leave_out = None if options.strict else skipped.append
    built = build_in_engine(
        request, engine, host_platform=host.platform, leave_out=leave_out, progress=progress
    )
    different = _compare_with_embedded(request, engine, built, progress) if options.compare else []
    report = None
    if options.smoke and built:
        report = smoke_in_engine(
            built, request.catalogue, engine, host=host, output=request.output, progress=progress
        )
    return _Done(built, different, report)


def _write_report(report: ImageReport, where: Path, engine: Engine, repository: str) -> None:
    """Write the report, with earlier results of other images that the engine still has."""

    def digest_of(image: str, platform: str) -> str | None:
        found = engine.inspect_image(f"{repository}/{image}:{architecture(platform)}")
        return None if found is None else found.id

    write_report(merge_reports(report, read_report(where), digest_of), where)


def _compare_with_embedded(
    request: BuildRequest, engine: Engine, built: Sequence[EngineBuiltImage], progress: Progress
) -> list[str]:
    """A line for each unexplained difference from the image of the embedded builder."""
    names = list(dict.fromkeys(each.name for each in built))
    made = embedded(request, request.catalogue, names, progress=progress)
    lines = []
    for each in built:
        with tempfile.TemporaryDirectory(dir=user_dirs.scratch()) as scratch:
            archive = Path(scratch) / "image.tar"
            engine.save(each.references[0], archive)
            layout, ref = made[each.name].path, architecture(each.platform)
            ours = read_files(open_image(layout, platform=each.platform, ref=ref))
            found = compare(ours, read_files(open_image(archive)))
        allowed = ", ".join(f"{name}: {count}" for name, count in explained(found, engine.name).items())
        progress.note(
            f"{each.name} {each.platform}: {len(ours)} paths are as embedded, but for {allowed or 'none'}"
        )
        lines += [f"{each.name} {each.platform}: {one.describe()}" for one in unexplained(found, engine.name)]
    return lines


def _print_builds(done: _Done, skipped: Sequence[SkippedImage], where: Path, seconds: float) -> None:
    report = done.report
    rows = []
    for each in done.built:
        verdict = "" if report is None else _build_verdict(report, each)
        image = each.image.id.removeprefix("sha256:")[:12]
        rows.append([each.name, each.platform, each.references[0], image, f"{each.seconds:.1f} s", verdict])
    rows += [[each.name, "", "", "", "", f"skipped: {each.reason}"] for each in skipped]
    console.table(["image", "platform", "reference", "id", "time", "smoke"], rows)
    for out in skipped:
        console.lines(f"not built: {out.name}: {out.reason}: {out.detail}")
    for line in [*(report.explain() if report is not None else ()), *done.different]:
        console.line(line)
    end = "" if report is None else f"; details in {where / 'report.json'} and {where / 'junit.xml'}"
    console.line(f"{seconds:.1f} s{end}")


def _build_verdict(report: ImageReport, built: EngineBuiltImage) -> str:
    rows = [row for row in report.rows if (row.image, row.platform) == (built.name, built.platform)]
    return str(rows[0].verdict)
