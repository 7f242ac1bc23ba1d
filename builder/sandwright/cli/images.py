"""Commands about images: set-up, builds, smoke tests, archives."""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sandwright.checked import Checked
from sandwright.cli import console, engines
from sandwright.cli.arguments import build_directory, source_date_epoch
from sandwright.cli.image_arguments import catalogue_of, chosen_compression, fetcher, registry_settings
from sandwright.cli.locks import relock
from sandwright.errors import VerdictError
from sandwright.host import collect_host
from sandwright.image.build import BuiltImage, SkippedImage
from sandwright.image.build import build_images as build
from sandwright.image.definition import ImageDefinition, base_definitions
from sandwright.image.export import save_archive
from sandwright.image.plan import plan_build
from sandwright.image.variant import ImageVariant, parse_labels
from sandwright.progress import Progress
from sandwright.setup.plan import plan_setup
from sandwright.verify.smoke.merge import in_layouts, merge_reports
from sandwright.verify.smoke.report import ImageReport, columns, read_report, table, write_report
from sandwright.verify.smoke.run import smoke_images
from sandwright.verify.smoke.target import SmokeTarget


def setup(*, group: Sequence[str] | None = None, dry_run: bool = False) -> None:
    """List the packages of the distribution that are needed, and install them. Needs root or sudo."""
    plan = plan_setup(group or ("build", "smoke"), collect_host())
    for line in plan.describe():
        console.line(f"setup: {line}")
    if dry_run:
        return
    with console.watching() as progress:
        for note in plan.execute(progress):
            console.line(f"setup: {note}")


def build_images(
    *,
    name: Sequence[str] | None = None,
    platform: Sequence[str] | None = None,
    images: str = "",
    output: str = "",
    mirror: str = "",
    frozen: bool = False,
    verify: bool = False,
    smoke: bool = True,
    runtime: Sequence[str] | None = None,
    require: Sequence[str] | None = None,
    force: bool = False,
    strict: bool = False,
    dry_run: bool = False,
    engine: str = "",
    builder: str = "",
    compare: bool = False,
    label: Sequence[str] | None = None,
    compression: str = "",
    packages: str = "",
    insecure: Sequence[str] | None = None,
    ca_file: str = "",
    authfile: str = "",
) -> Checked | None:
    """Build images for all their platforms, unpack them, and smoke-test them under every runtime."""
    registry = functools.partial(registry_settings, insecure or (), ca_file, authfile)
    if engine or builder or compare:
        used = {
            "runtime": runtime,
            "require": require,
            "verify": verify,
            "label": label,
            "compression": compression,
            "packages": packages,
        }
        options = engines.EngineBuildOptions(
            engine, smoke=smoke, compare=compare, strict=strict, force=force, dry_run=dry_run
        )
        options.refuse(used)
        arguments = engines.CliArguments(images, name or (), platform or (), mirror, builder, frozen)
        return engines.build_with_engine(
            arguments, options, output=build_directory(output), registry=registry
        )
    started = time.monotonic()
    catalogue = catalogue_of(images, name or (), mirror=None if frozen else mirror)
    where = build_directory(output)
    settings: dict[str, Any] = {
        "platforms": list(platform or ()) or None,
        "frozen": frozen,
        "epoch": source_date_epoch(),
        "variant": ImageVariant(parse_labels(label or ()), chosen_compression(compression)),
        "verify": verify,
    }
    if dry_run:
        for line in plan_build(catalogue, name or (), output=where, **settings).describe():
            console.line(line)
        return None
    left_out: list[SkippedImage] = []
    with console.watching() as progress:
        built = build(
            catalogue,
            name or (),
            output=where,
            supply=fetcher(
                mirror,
                registry=registry,
                relock=functools.partial(relock, mirror=mirror, registry=registry, progress=progress),
                packages=packages,
            ),
            leave_out=None if strict else left_out.append,
            progress=progress,
            **settings,
        )
        report = (
            _smoke(
                catalogue,
                built,
                where,
                runtimes=runtime or (),
                require=require or (),
                force=force,
                progress=progress,
            )
            if smoke
            else None
        )
    _print_images(built, left_out, report, where, time.monotonic() - started)
    _require_named(left_out, name or ())
    return Checked(0 if report is None else len(built), why="there is no image to build")


def export_image(
    *,
    name: str,
    to: str = "",
    platform: str = "",
    reference: str = "",
    output: str = "",
) -> None:
    """Write a built image as one archive that `docker load` and `podman load` take."""
    platform = platform or collect_host().platform
    target = Path(to or f"{name}-{platform.rpartition('/')[2]}.tar")
    reference = reference or f"sandwright/{name}:latest"
    built = build_directory(output)
    save_archive(built / "images" / name, platform, target, reference=reference)
    console.line(f"{target}: {reference}, {console.size(target.stat().st_size)}")


def _smoke(
    catalogue: Mapping[str, ImageDefinition],
    built: Sequence[BuiltImage],
    output: Path,
    *,
    runtimes: Sequence[str],
    require: Sequence[str],
    force: bool,
    progress: Progress,
) -> ImageReport:
    targets = [
        SmokeTarget(
            image.name,
            platform,
            image.layout,
            held.manifest.digest,
            catalogue[image.name],
            tuple(base_definitions(catalogue, image.name)),
        )
        for image in built
        for platform, held in image.images.items()
    ]
    before = read_report(output)
    report = smoke_images(
        targets,
        output=output.absolute(),
        runtimes=list(runtimes) or None,
        require=require,
        previous=None if force else before,
        progress=progress,
    )
    write_report(merge_reports(report, before, in_layouts(output / "images")), output)
    return report


def _print_images(
    built: Sequence[BuiltImage],
    left_out: Sequence[SkippedImage],
    report: ImageReport | None,
    output: Path,
    seconds: float,
) -> None:
    """Print the final table and its notes. Raise VerdictError unless all is green."""
    if report is None:
        rows = [
            [
                image.name,
                platform,
                _short_digest(held.manifest.digest),
                console.size(sum(layer.size for layer in held.layers)),
                str(len(held.layers)),
                f"{image.seconds:.1f} s",
            ]
            for image in built
            for platform, held in image.images.items()
        ]
        heads = ["image", "platform", "digest", "size", "layers", "time"]
    else:
        rows = [[*row[:3], console.size(int(row[3])), *row[4:]] for row in table(report)]
        heads = columns(report)
    console.table(heads, [*rows, *_skipped_rows(left_out, len(heads))])
    for each in left_out:
        console.lines(f"not built: {each.name}: {each.reason}: {each.detail}")
    if report is not None:
        for line in report.explain():
            console.line(line)
    fresh = [image.name for image in built if image.reason]
    rerun = report is not None and report.fresh
    console.line("")
    if fresh:
        console.line(f"built {', '.join(fresh)} in {output / 'images'}")
    else:
        console.line(
            "nothing has changed: no image was built"
            + ("" if rerun or report is None else ", none started again")
        )
    console.line(
        f"{seconds:.1f} s"
        + ("" if report is None else f"; details in {output / 'report.json'} and {output / 'junit.xml'}")
    )
    if report is not None and not report.green:
        raise VerdictError("not every image passed; see the lines above")


def _require_named(left_out: Sequence[SkippedImage], names: Sequence[str]) -> None:
    """Raise VerdictError for named images that were not built."""
    if missing := [each.name for each in left_out if each.name in names]:
        raise VerdictError(f"not built: {', '.join(missing)}; see the lines above")


def _skipped_rows(left_out: Sequence[SkippedImage], columns: int) -> list[list[str]]:
    """Rows of the final table for images that were not built; the reasons follow below it."""
    return [[each.name, "", f"not built: {each.reason}", *[""] * (columns - 3)] for each in left_out]


def _short_digest(digest: str) -> str:
    return digest.removeprefix("sha256:")[:12]
