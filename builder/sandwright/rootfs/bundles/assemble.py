"""Makes a bundle from the path of an image, in one call, with a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from sandwright.errors import UsageError
from sandwright.progress import SILENT, Progress
from sandwright.rootfs.bundles.bundle import Bundle, write_bundle
from sandwright.rootfs.bundles.convert import PLAIN, BundleOptions
from sandwright.rootfs.bundles.mountpoints import RootfsChange
from sandwright.rootfs.images.source import Image, open_image
from sandwright.rootfs.minimal.minimal import MinimalBundle, MinimalOptions, RootfsSize, write_minimal_bundle
from sandwright.rootfs.minimal.selection import Question


@dataclass(frozen=True)
class BundleReport:
    """The report about a bundle: its image, and all deviations from that image.

    `changes` were made to the root file system for mount points; `stripped` are labels that did not become
    annotations; `notes` are lines for a person. `changed` is false if everything existed already. For a
    minimal bundle, `sizes` are those of the full root and the minimal one, `loaded_late` libraries that are
    loaded at run time, `missing` names that kept files use and the image lacks, and `questions` open points
    that files do not answer.
    """

    bundle: Path
    rootfs: Path
    image: str
    platform: str
    command: tuple[str, ...]
    changed: bool
    changes: tuple[RootfsChange, ...]
    stripped: tuple[str, ...]
    notes: tuple[str, ...]
    sizes: tuple[RootfsSize, RootfsSize] | None = None
    kept: int = 0
    loaded_late: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    questions: tuple[Question, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """The report as JSON can hold it."""
        whole = asdict(self)
        whole |= {"bundle": str(self.bundle), "rootfs": str(self.rootfs)}
        whole["questions"] = [
            {
                "about": each.about,
                "raised_by": [path.decode(errors="backslashreplace") for path in each.raised_by],
            }
            for each in self.questions
        ]
        return whole


def bundle(
    image_path: Path,
    bundle_dir: Path,
    *,
    store: Path,
    platform: str | None = None,
    ref: str | None = None,
    command: Sequence[str] | None = None,
    settings: BundleOptions = PLAIN,
    minimal: Sequence[str] = (),
    keep: Sequence[str] = (),
    drop: Sequence[str] = (),
    trace: Sequence[Sequence[str]] = (),
    dependencies: bool = False,
    rootless: bool | None = None,
    progress: Progress = SILENT,
) -> BundleReport:
    """Make a bundle of the image at `image_path`: an OCI layout, an OCI archive or a Docker archive.

    `platform` and `ref` choose one where there are several. With `minimal`, the programs to keep, the
    root holds only what they need; `keep`, `drop`, `trace` and `dependencies` are those of
    `minimal.Wanted`. `source.open_image`, `bundle.write_bundle` and `minimal.write_minimal_bundle`
    list the exceptions.
    """
    if not minimal and (keep or drop or trace or dependencies):
        raise UsageError(
            "paths to keep or drop, and commands to trace, go with the programs of a minimal bundle"
        )
    settings = settings if command is None else replace(settings, command=tuple(command))
    image = open_image(image_path, platform=platform, ref=ref)
    if not minimal:
        made = write_bundle(
            image, bundle_dir, store=store, settings=settings, rootless=rootless, progress=progress
        )
        return _report(image, made)
    minimal_options = MinimalOptions(
        tuple(minimal), tuple(keep), tuple(drop), tuple(map(tuple, trace)), dependencies
    )
    chosen = write_minimal_bundle(
        image,
        bundle_dir,
        minimal_options,
        store=store,
        settings=settings,
        rootless=rootless,
        progress=progress,
    )
    return _minimal_report(image, chosen)


def _report(image: Image, made: Bundle) -> BundleReport:
    return BundleReport(
        bundle=made.path,
        rootfs=made.rootfs.path,
        image=image.digest,
        platform=str(image.platform),
        command=tuple(made.config["process"]["args"]),
        changed=made.changed,
        changes=made.rootfs.changes,
        stripped=made.stripped,
        notes=made.notes,
    )


def _minimal_report(image: Image, chosen: MinimalBundle) -> BundleReport:
    selection = chosen.selection
    return replace(
        _report(image, chosen.bundle),
        sizes=(chosen.full, chosen.minimal),
        kept=len(selection.kept),
        loaded_late=tuple(path.decode(errors="backslashreplace") for path in selection.loaded_late),
        missing=selection.missing,
        questions=selection.questions,
    )
