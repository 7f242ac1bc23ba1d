"""Makes a published image again, from its published sources alone, and compares it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from sandwright.documents.fields import INDEX
from sandwright.documents.strictjson import parse_json
from sandwright.errors import IntegrityError, SandwrightError
from sandwright.image.build import build_images
from sandwright.image.definition import ImageDefinition, load_catalogue
from sandwright.image.fetcher import Fetcher
from sandwright.image.plan import builder_checksum, compression_of
from sandwright.progress import SILENT, Progress
from sandwright.release import sources
from sandwright.release.attestations import without_attestations
from sandwright.release.difference import first_difference, of_values
from sandwright.release.provenance import Provenance, sha256_digest
from sandwright.release.sources import Sources


def rebuild(
    made: Provenance,
    written: Sources,
    published: Path,
    scratch: Path,
    supply: Fetcher,
    *,
    platforms: Sequence[str] = (),
    progress: Progress = SILENT,
) -> str:
    """Build an image in a directory below `scratch`; its digest: the published one, but for attestations.

    `published` is a layout with the published image. With `platforms`, only those are made and compared.
    Raise IntegrityError with the first difference, and the exceptions of building.
    """
    if absent := [each for each in platforms if each not in made.parameters.platforms]:
        made_for = ", ".join(made.parameters.platforms)
        raise IntegrityError(f"it was not made for {', '.join(absent)}, only for {made_for}")
    chosen = [each for each in made.parameters.platforms if not platforms or each in platforms]
    with tempfile.TemporaryDirectory(prefix="sandwright-rebuild-", dir=scratch) as directory:
        images, output = Path(directory, "images"), Path(directory, "build")
        sources.write_sources(written, images)
        catalogue = load_catalogue(images)
        (built,) = (
            each
            for each in build_images(
                catalogue,
                [made.parameters.image],
                output=output,
                supply=supply,
                platforms=chosen,
                frozen=True,
                epoch=made.parameters.epoch,
                variant=made.parameters.variant,
                progress=progress,
            )
            if each.name == made.parameters.image
        )
        for platform in chosen:
            found = first_difference(published, built.layout, platform)
            if found:
                raise IntegrityError(
                    f"made again, it is another image: {found}{_builder_differences(made, catalogue)}"
                )
        if len(chosen) < len(made.parameters.platforms):
            return ", ".join(built.images[platform].manifest.digest for platform in chosen)
        if built.digest != sha256_digest(_published_index(made, published)):
            raise IntegrityError(
                f"made again, it is another image: {_indexes(made, published, built.layout)}"
            )
    return built.digest


def _builder_differences(made: Provenance, catalogue: Mapping[str, ImageDefinition]) -> str:
    """The differences of the builder, if there are any."""
    codec = compression_of(catalogue[made.parameters.image], made.parameters.variant).identity
    found = [
        f"{what} {theirs}, here {ours}"
        for what, theirs, ours in (
            ("code", made.code, builder_checksum()),
            ("compressor", made.codec, codec),
        )
        if theirs != ours
    ]
    return f" (it was built by another sandwright: {'; '.join(found)})" if found else ""


def _indexes(made: Provenance, published: Path, built: Path) -> str:
    """The difference of the indexes, when the manifests have none."""
    try:
        one = parse_json(_published_index(made, published), str(published), INDEX)
        other = parse_json(_layout_blob(built, _root(built)), str(built), INDEX)
    except (OSError, SandwrightError):
        return f"{made.digest} published, {_root(built)} made"
    return of_values(one, other, "index") or f"{made.digest} published, {_root(built)} made"


def _published_index(made: Provenance, published: Path) -> bytes:
    """The published index as it was built: attestations are added when it is published."""
    return without_attestations(_layout_blob(published, made.digest), str(published))


def _layout_blob(layout: Path, digest: str) -> bytes:
    return (layout / "blobs/sha256" / digest.removeprefix("sha256:")).read_bytes()


def _root(layout: Path) -> str:
    listed = parse_json((layout / "index.json").read_bytes(), str(layout), INDEX)["manifests"]
    return str(listed[0]["digest"])
