"""Writes an image's documents and puts its layout in place, with what of the old one still holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sandwright.image import documents
from sandwright.image.assemble import PlatformBuild
from sandwright.image.buildcontext import BuildContext
from sandwright.image.documents import ImageDescription, LayerHistory
from sandwright.image.existing import ImageLayout, read_layout
from sandwright.image.inherit import ImageSettings
from sandwright.image.layout import Blob, StagingArea
from sandwright.image.plan import PlannedImage, standing
from sandwright.rootfs.descriptor import OCI_CONFIG, canonical

Make = Callable[[PlatformBuild], list[LayerHistory]]
"""Makes the layers of an image for one platform, lowest first."""


@dataclass(frozen=True)
class ImageOrigin:
    """What an image is made from: `checksum` gives its checksum for some platforms, `epoch` is their time.

    `base` is the name and digest of the image that it is on top of.
    """

    epoch: int
    checksum: Callable[[Sequence[str]], str]
    base: tuple[str, str] | None = None


@dataclass(frozen=True)
class PlatformSplit:
    """The platforms of an image: those that stay as they are in its layout, and those to be made."""

    step: PlannedImage
    origin: ImageOrigin
    stays: tuple[str, ...]

    @classmethod
    def of(cls, step: PlannedImage, origin: ImageOrigin) -> PlatformSplit:
        """What of a planned image is there already, made from the same."""
        return cls(step, origin, standing(step.definition, step.existing, origin.checksum))

    @property
    def fresh(self) -> list[str]:
        """The platforms that are wanted and not there."""
        return [platform for platform in self.step.platforms if platform not in self.stays]

    @property
    def platforms(self) -> list[str]:
        """All that the image will have."""
        return [each for each in self.step.definition.platforms if each in {*self.stays, *self.fresh}]

    @property
    def dropped(self) -> list[str]:
        """The platforms that the layout has, which were made from something else and are not wanted now."""
        existing = self.step.existing
        return [each for each in (existing.images if existing else ()) if each not in self.platforms]


def publish(
    shop: BuildContext, share: PlatformSplit, settings: Mapping[str, ImageSettings], make: Make
) -> ImageLayout:
    """Make the image for the platforms that it lacks, write its documents, and put the layout in place.

    What is there already is left alone when nothing is lacking.
    """
    step, existing = share.step, share.step.existing
    if existing is not None and not share.fresh:
        return existing
    if share.dropped:
        names = ", ".join(share.dropped)
        shop.progress.note(f"{step.name}: {names} is dropped: it was made from something else")
    tasks = [PlatformBuild(step.definition, platform, share.origin.epoch) for platform in share.fresh]
    layers = shop.for_platforms([_later(make, task) for task in tasks])
    about = ImageDescription(step.name, step.definition.description, share.origin.epoch, share.origin.base)
    images = dict(_adopted(shop.staging, share))
    for task, steps in zip(tasks, layers, strict=True):
        written = _write_documents(shop.staging, about, task.platform, settings[task.platform], steps)
        images[task.platform] = (*written, *(each.blob for each in steps))
    return _put(shop.staging, share, about, images)


def _adopted(area: StagingArea, share: PlatformSplit) -> Iterator[tuple[str, tuple[Blob, ...]]]:
    """What stays, by platform: its blobs, the manifest first."""
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
    index = documents.layout_index(whole, manifests, share.origin.checksum(share.platforms))
    blobs = dict.fromkeys(blob for each in images.values() for blob in each)
    area.publish(index, [*blobs, whole], share.step.layout)
    return read_layout(share.step.layout)


def _later(make: Make, task: PlatformBuild) -> Callable[[], list[LayerHistory]]:
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
