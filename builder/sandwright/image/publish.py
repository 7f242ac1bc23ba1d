"""Writes an image's documents and publishes its layout, keeping the platforms that are up to date."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sandwright.image import documents
from sandwright.image.assemble import PlatformBuild, PlatformLayers
from sandwright.image.buildcontext import BuildContext
from sandwright.image.documents import BaseReference, ImageDescription, LayerHistory
from sandwright.image.existing import ImageLayout, read_layout
from sandwright.image.inherit import ImageSettings
from sandwright.image.layout import Blob, StagingArea
from sandwright.image.plan import PlannedImage, compression_of, standing
from sandwright.image.variant import ImageVariant, identifying
from sandwright.rootfs.descriptor import OCI_CONFIG, canonical

Make = Callable[[PlatformBuild], PlatformLayers]
"""Builds the layers of an image for one platform."""


@dataclass(frozen=True)
class ImageOrigin:
    """The origin of an image: `checksum` computes the checksum of its inputs for some platforms.

    `epoch` is the image's time.
    """

    epoch: int
    checksum: Callable[[Sequence[str]], str]
    variant: ImageVariant
    base: BaseReference | None = None


@dataclass(frozen=True)
class PlatformSplit:
    """The platforms of an image: those that stay as they are in its layout, and those to build."""

    step: PlannedImage
    origin: ImageOrigin
    stays: tuple[str, ...]

    @classmethod
    def of(cls, step: PlannedImage, origin: ImageOrigin) -> PlatformSplit:
        """Split a planned image's platforms by whether the layout was built from the same inputs."""
        return cls(step, origin, standing(step.definition, step.existing, origin.checksum))

    @property
    def fresh(self) -> list[str]:
        """The wanted platforms that the layout lacks."""
        return [platform for platform in self.step.platforms if platform not in self.stays]

    @property
    def platforms(self) -> list[str]:
        """All platforms of the new layout."""
        return [each for each in self.step.definition.platforms if each in {*self.stays, *self.fresh}]

    @property
    def dropped(self) -> list[str]:
        """Platforms in the old layout that were built from other inputs and are not wanted now."""
        existing = self.step.existing
        return [each for each in (existing.images if existing else ()) if each not in self.platforms]


def publish(
    shop: BuildContext, share: PlatformSplit, settings: Mapping[str, ImageSettings], make: Make
) -> ImageLayout:
    """Build the platforms that the image lacks, write its documents, and publish the layout.

    Change nothing when no platform is lacking.
    """
    step, existing = share.step, share.step.existing
    if existing is not None and not share.fresh:
        return existing
    if share.dropped:
        names = ", ".join(share.dropped)
        shop.progress.note(f"{step.name}: {names} is dropped: it was made from something else")
    compression = compression_of(step.definition, share.origin.variant)
    tasks = [
        PlatformBuild(step.definition, platform, share.origin.epoch, compression) for platform in share.fresh
    ]
    built = shop.for_platforms([_later(make, task) for task in tasks])
    for note in dict.fromkeys(note for made in built for note in made.notes):
        shop.progress.note(f"{step.name}: {note}")
    about = _description(share)
    images = dict(_adopted(shop.staging, share))
    for task, made in zip(tasks, built, strict=True):
        numeric = settings[task.platform].with_user_id(made.names)
        written = _write_documents(shop.staging, about, task.platform, numeric, made.layers)
        images[task.platform] = (*written, *(each.blob for each in made.layers))
    return _put(shop.staging, share, about, images)


def _description(share: PlatformSplit) -> ImageDescription:
    definition, origin = share.step.definition, share.origin
    labels = {**identifying(definition.config.labels), **origin.variant.labels}
    codec = compression_of(definition, origin.variant).identity
    return ImageDescription(definition.name, definition.description, origin.epoch, codec, origin.base, labels)


def _adopted(area: StagingArea, share: PlatformSplit) -> Iterator[tuple[str, tuple[Blob, ...]]]:
    """The blobs of each platform that stays, the manifest first."""
    existing = share.step.existing
    for platform in share.stays:
        assert existing is not None
        held = existing.images[platform]
        for blob in held.blobs:
            area.adopt(blob, existing.file(blob))
        yield platform, held.blobs


def _put(
    area: StagingArea, share: PlatformSplit, about: ImageDescription, images: Mapping[str, tuple[Blob, ...]]
) -> ImageLayout:
    manifests = {platform: images[platform][0] for platform in share.platforms}
    whole = area.add(canonical(documents.index(about, manifests)))
    built = {documents.INPUTS: share.origin.checksum(share.platforms)}
    if share.origin.variant.document():
        built[documents.VARIANT] = share.origin.variant.encode()
    index = documents.layout_index(whole, manifests, built)
    blobs = dict.fromkeys(blob for each in images.values() for blob in each)
    area.publish(index, [*blobs, whole], share.step.layout)
    return read_layout(share.step.layout)


def _later(make: Make, task: PlatformBuild) -> Callable[[], PlatformLayers]:
    return lambda: make(task)


def _write_documents(
    area: StagingArea,
    about: ImageDescription,
    platform: str,
    settings: ImageSettings,
    steps: Sequence[LayerHistory],
) -> tuple[Blob, Blob]:
    """Write the manifest and the config of one platform's image."""
    document = documents.config(about, platform, settings.config, steps, settings.more)
    config = area.add(canonical(document))
    manifest = documents.manifest(about, config.descriptor(OCI_CONFIG), steps)
    return area.add(canonical(manifest)), config
