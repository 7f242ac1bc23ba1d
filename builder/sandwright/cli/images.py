"""Tasks about images: set-up, locks, builds, smoke runs, archives."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sandwright.cli import console, registries
from sandwright.errors import LockError, UsageError, VerdictError
from sandwright.progress import Progress

if TYPE_CHECKING:
    from sandwright.image.baselock import BaseLock
    from sandwright.image.build import BuiltImage, Fetcher, SkippedImage
    from sandwright.image.definition import ImageDefinition
    from sandwright.image.lock import Lock
    from sandwright.registry.settings import RegistrySettings
    from sandwright.verify.smoke.report import Report

Speak = Callable[[], "RegistrySettings"]
"""Gives how registries are spoken to."""


def setup(*, group: Sequence[str] | None = None, dry_run: bool = False) -> None:
    """Install what comes from the distribution, saying first what that is. Needs root or sudo."""
    from sandwright.host import collect_host  # noqa: PLC0415
    from sandwright.setup import plan_setup  # noqa: PLC0415

    plan = plan_setup(group or ("build", "smoke"), collect_host())
    for line in plan.describe():
        console.line(f"setup: {line}")
    if dry_run:
        return
    with console.watching() as progress:
        for note in plan.execute(progress):
            console.line(f"setup: {note}")


def lock_images(
    *,
    name: Sequence[str] | None = None,
    images: str = "",
    mirror: str = "",
    check: bool = False,
    strict: bool = False,
    insecure: Sequence[str] | None = None,
    authorities: str = "",
    logins: str = "",
) -> None:
    """Resolve the packages of images with apt, and the references of bases; write the lock files."""
    from sandwright.image.lock import NotLocked  # noqa: PLC0415
    from sandwright.registry.failure import Unavailable, Unreachable  # noqa: PLC0415

    catalogue = catalogue_of(images)
    chosen = [d for d in _named(catalogue, name or ()) if d.parent is None]
    speak = functools.partial(registries.settings, insecure or (), authorities, logins)
    with console.watching() as progress:
        for definition in chosen:
            try:
                if check:
                    _check_lock(definition)
                else:
                    _lock(definition, mirror=mirror, speak=speak, progress=progress)
            except (Unavailable, NotLocked) as error:
                if strict or definition.suite:
                    raise
                how = "registry unreachable: " if isinstance(error, Unreachable) else ""
                console.line(f"{definition.name}: not locked: {how}{error}")


def build_images(
    *,
    name: Sequence[str] | None = None,
    platform: Sequence[str] | None = None,
    images: str = "",
    output: str = "build",
    mirror: str = "",
    frozen: bool = False,
    verify: bool = False,
    smoke: bool = True,
    runtime: Sequence[str] | None = None,
    require: Sequence[str] | None = None,
    again: bool = False,
    strict: bool = False,
    dry_run: bool = False,
    engine: str = "",
    builder: str = "",
    compare: bool = False,
    insecure: Sequence[str] | None = None,
    authorities: str = "",
    logins: str = "",
) -> None:
    """Build images for all their platforms, unpack them, and start them under every runtime there is."""
    from sandwright.image.build import build_images as build  # noqa: PLC0415
    from sandwright.image.plan import plan_build  # noqa: PLC0415

    speak = functools.partial(registries.settings, insecure or (), authorities, logins)
    if engine or builder or compare:
        from sandwright.cli import engines  # noqa: PLC0415

        given = {"runtime": runtime, "require": require, "verify": verify}
        asked = engines.Asked(
            engine, smoke=smoke, compare=compare, strict=strict, again=again, dry_run=dry_run
        )
        asked.refuse(given)
        words = engines.Words(images, name or (), platform or (), mirror, builder, frozen)
        engines.build_with_engine(words, asked, output=Path(output), speak=speak)
        return
    started = time.monotonic()
    catalogue = catalogue_of(images)
    where = Path(output)
    options = {
        "platforms": list(platform or ()) or None,
        "frozen": frozen,
        "epoch": epoch_asked(),
        "verify": verify,
    }
    if dry_run:
        for line in plan_build(catalogue, name or (), output=where, **options).describe():  # type: ignore[arg-type]
            console.line(line)
        return
    left_out: list[SkippedImage] = []
    with console.watching() as progress:
        built = build(
            catalogue,
            name or (),
            output=where,
            supply=supply_of(mirror, speak, progress),
            leave_out=None if strict else left_out.append,
            progress=progress,
            **options,  # type: ignore[arg-type]
        )
        report = (
            _smoke(
                catalogue,
                built,
                where,
                runtimes=runtime or (),
                require=require or (),
                again=again,
                progress=progress,
            )
            if smoke
            else None
        )
    _show(built, left_out, report, where, time.monotonic() - started)


def export_image(
    *,
    name: str,
    to: str = "",
    platform: str = "",
    reference: str = "",
    output: str = "build",
) -> None:
    """Write a built image as one archive that `docker load` and `podman load` take."""
    from sandwright.host import collect_host  # noqa: PLC0415
    from sandwright.image.export import save_archive  # noqa: PLC0415

    platform = platform or collect_host().platform
    target = Path(to or f"{name}-{platform.rpartition('/')[2]}.tar")
    reference = reference or f"sandwright/{name}:latest"
    save_archive(Path(output) / "images" / name, platform, target, reference=reference)
    console.line(f"{target}: {reference}, {console.size(target.stat().st_size)}")


def catalogue_of(images: str) -> dict[str, ImageDefinition]:
    """The definitions below a directory; empty: those that ship."""
    from sandwright.image.definition import load_catalogue  # noqa: PLC0415
    from sandwright.resources import data_path  # noqa: PLC0415

    return load_catalogue(Path(images) if images else data_path("images"))


def _named(catalogue: Mapping[str, ImageDefinition], names: Sequence[str]) -> list[ImageDefinition]:
    for name in names:
        if name not in catalogue:
            raise UsageError(f"there is no image '{name}'; there is {', '.join(catalogue)}")
    return [definition for name, definition in catalogue.items() if not names or name in names]


def epoch_asked() -> int | None:
    """SOURCE_DATE_EPOCH, as reproducible-builds.org specifies it."""
    text = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not text:
        return None
    if not text.isdecimal():
        raise UsageError(f"SOURCE_DATE_EPOCH is {text!r}, not a whole number of seconds")
    return int(text)


def supply_of(mirror: str, speak: Speak, progress: Progress) -> Fetcher:
    """Where packages and bases come from, in the words of a command line."""
    from sandwright.image.build import Fetcher  # noqa: PLC0415
    from sandwright.image.cache import Cache, default_cache  # noqa: PLC0415
    from sandwright.image.mirrors import find_mirrors  # noqa: PLC0415

    return Fetcher(
        Cache(default_cache(os.environ)),
        lambda: find_mirrors(mirror or None, os.environ),
        functools.partial(_lock, mirror=mirror, speak=speak, progress=progress),
        speak,
    )


def _check_lock(definition: ImageDefinition) -> None:
    from sandwright.image.baselock import load_base_lock  # noqa: PLC0415
    from sandwright.image.lock import check_lock, load_lock  # noqa: PLC0415

    folder = definition.folder
    check_lock(definition, load_lock(folder) if definition.suite else load_base_lock(folder))
    console.line(f"{definition.name}: the lock fits")


def _lock(
    definition: ImageDefinition, *, mirror: str, speak: Callable[[], RegistrySettings], progress: Progress
) -> Lock | BaseLock:
    """Lock one image, write its lock file, and tell what is different."""
    if definition.reference:
        return _lock_base(definition, speak(), progress)
    return _lock_packages(definition, mirror, progress)


def _lock_base(definition: ImageDefinition, settings: RegistrySettings, progress: Progress) -> BaseLock:
    from sandwright.image.baselock import base_lock_changes, load_base_lock, write_base_lock  # noqa: PLC0415
    from sandwright.image.cache import Cache, default_cache  # noqa: PLC0415
    from sandwright.image.registrybase import lock_base  # noqa: PLC0415

    try:
        previous = load_base_lock(definition.folder)
    except LockError:
        previous = None
    cache = Cache(default_cache(os.environ))
    lock = lock_base(definition, settings=settings, cache=cache, progress=progress)
    write_base_lock(definition.folder, lock)
    for change in base_lock_changes(previous, lock) or ["nothing has changed"]:
        progress.note(f"{definition.name}: {change}")
    return lock


def _lock_packages(definition: ImageDefinition, mirror: str, progress: Progress) -> Lock:
    from sandwright.image.apt import lock_image  # noqa: PLC0415
    from sandwright.image.cache import default_cache  # noqa: PLC0415
    from sandwright.image.lock import load_lock, lock_changes, write_lock  # noqa: PLC0415
    from sandwright.image.mirrors import find_mirrors  # noqa: PLC0415

    try:
        previous = load_lock(definition.folder)
    except LockError:
        previous = None
    lock = lock_image(
        definition,
        mirrors=find_mirrors(mirror or None, os.environ),
        cache=default_cache(os.environ),
        previous=previous,
        progress=progress,
    )
    write_lock(definition.folder, lock)
    changes = lock_changes(previous, lock)
    for change in changes or ["nothing has changed"]:
        progress.note(f"{definition.name}: {change}")
    return lock


def _smoke(
    catalogue: Mapping[str, ImageDefinition],
    built: Sequence[BuiltImage],
    output: Path,
    *,
    runtimes: Sequence[str],
    require: Sequence[str],
    again: bool,
    progress: Progress,
) -> Report:
    from sandwright.verify.smoke.merge import in_layouts, together  # noqa: PLC0415
    from sandwright.verify.smoke.report import read_report, write_report  # noqa: PLC0415
    from sandwright.verify.smoke.run import smoke_images  # noqa: PLC0415
    from sandwright.verify.smoke.target import Target  # noqa: PLC0415

    targets = [
        Target(
            image.name,
            platform,
            image.layout,
            held.manifest.digest,
            catalogue[image.name],
            _bases(catalogue, image.name),
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
        previous=None if again else before,
        progress=progress,
    )
    write_report(together(report, before, in_layouts(output / "images")), output)
    return report


def _bases(catalogue: Mapping[str, ImageDefinition], name: str) -> tuple[ImageDefinition, ...]:
    parent = catalogue[name].parent
    return () if parent is None else (catalogue[parent], *_bases(catalogue, parent))


def _show(
    built: Sequence[BuiltImage],
    left_out: Sequence[SkippedImage],
    report: Report | None,
    output: Path,
    seconds: float,
) -> None:
    """Print the final table and what is to be known beside it. Raise VerdictError unless all is green."""
    from sandwright.verify.smoke.report import columns, table  # noqa: PLC0415

    if report is None:
        rows = [
            [
                image.name,
                platform,
                _short(held.manifest.digest),
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
    console.table(heads, [*rows, *_missing(left_out, len(heads))])
    for each in left_out:
        console.line(f"not built: {each.name}: {each.reason}: {each.detail}")
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


def _missing(left_out: Sequence[SkippedImage], columns: int) -> list[list[str]]:
    """Rows of the final table for the images that are not there; the reason follows below it."""
    return [[each.name, "", f"not built: {each.reason}", *[""] * (columns - 3)] for each in left_out]


def _short(digest: str) -> str:
    return digest.removeprefix("sha256:")[:12]
