"""The command that makes runtime bundles of images."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from sandwright.cli import console
from sandwright.cli.arguments import build_directory, image_path
from sandwright.errors import UsageError
from sandwright.host import collect_host
from sandwright.rootfs.bundles.bundle import Bundle, write_bundle
from sandwright.rootfs.bundles.convert import BundleOptions
from sandwright.rootfs.images.source import Image, open_image
from sandwright.rootfs.minimal.minimal import MinimalBundle, MinimalOptions, write_minimal_bundle
from sandwright.rootfs.minimal.trial import try_minimal

SHOWN = 20
"""The number of open questions that are printed; `why.json` has them all."""


def bundle(
    *,
    image: str,
    platform: str = "",
    ref: str = "",
    bundle: str = "",
    output: str = "",
    minimal: Sequence[str] | None = None,
    keep: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    trace: Sequence[str] | None = None,
    check: Sequence[str] | None = None,
    dependencies: bool = False,
    writable: bool = False,
    embed_root: bool = False,
    init: bool = False,
    words: Sequence[str],
) -> None:
    """Make an OCI runtime bundle of an image; `words` replace the image's command."""
    source = _open_named_image(image, platform, ref, build_directory(output))
    architecture = source.platform.architecture
    name = Path(image).name.removesuffix(".tar") + ("-minimal" if minimal else "")
    where = Path(bundle) if bundle else build_directory(output) / "bundles" / f"{name}-{architecture}"
    store = build_directory(output) / "rootfs"
    settings = BundleOptions(
        command=tuple(words) or None,
        writable=writable,
        embed_root=embed_root,
        capabilities="init" if init else "none",
    )
    with console.watching() as progress:
        if minimal:
            options = MinimalOptions(
                tuple(word for each in minimal for word in each.split()),
                keep=tuple(keep or ()),
                drop=tuple(drop or ()),
                trace=tuple(tuple(shlex.split(each)) for each in trace or ()),
                dependencies=dependencies,
            )
            made = write_minimal_bundle(
                source, where, options, store=store, settings=settings, progress=progress
            )
            _show_minimal(made, where)
            checks = [tuple(shlex.split(each)) for each in check or ()]
            for line in try_minimal(source, made, options, checks, settings):
                console.line(line)
            return
        if keep or drop or trace or dependencies or check:
            raise UsageError(
                "--keep, --drop, --trace, --check and --dependencies are for --minimal; give that too"
            )
        _print_bundle(write_bundle(source, where, store=store, settings=settings, progress=progress), where)


def _open_named_image(image: str, platform: str, ref: str, output: Path) -> Image:
    """A built image by its name, or an image by its path."""
    path = image_path(image, output)
    try:
        return open_image(path, platform=platform or None, ref=ref or None)
    except UsageError:
        if platform:
            raise
    return open_image(path, platform=collect_host().platform, ref=ref or None)


def _print_bundle(made: Bundle, where: Path) -> None:
    for change in made.rootfs.changes:
        console.line(" ".join(filter(None, (f"{change.path}: {change.action}", change.detail))))
    for note in made.notes:
        console.line(note)
    for label in made.stripped:
        console.line(f"label {label!r} was left out: it would steer the runtime")
    console.line(
        f"{where}: " + ("written" if made.changed else "nothing has changed") + f", root {made.rootfs.path}"
    )


def _show_minimal(made: MinimalBundle, where: Path) -> None:
    full, minimal = made.full, made.minimal
    console.line(
        f"kept {minimal.files} of {full.files} files,"
        f" {console.size(minimal.bytes)} of {console.size(full.bytes)}; why each: {where / 'why.json'}"
    )
    for question in made.selection.questions[:SHOWN]:
        raised = ", ".join(path.decode(errors="replace") for path in question.raised_by[:3])
        console.line(f"open: {question.about} ({raised})")
    for name in made.selection.missing:
        console.line(f"missing in the image: {name}")
    if len(made.selection.questions) > SHOWN:
        console.line(f"open: and {len(made.selection.questions) - SHOWN} more")
    _print_bundle(made.bundle, where)
