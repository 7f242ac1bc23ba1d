"""Builds the images of a catalogue: plans, fetches, assembles, publishes."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sandwright.errors import LockError, SandwrightError, ToolMissing
from sandwright.host import MachineFacts, collect_host
from sandwright.image import assemble
from sandwright.image.assemble import LanguageSources, PlatformBuild, PlatformLayers
from sandwright.image.baselock import BaseGone, BaseLock
from sandwright.image.buildcontext import BuildContext, open_build_context
from sandwright.image.definition import ImageDefinition
from sandwright.image.documents import BaseReference
from sandwright.image.existing import ImageLayout, PlatformImage
from sandwright.image.fetcher import Fetcher
from sandwright.image.inherit import ImageSettings, inherited
from sandwright.image.layout import is_littered, staging
from sandwright.image.lock import Lock, PackageGone
from sandwright.image.lockfile import NotLocked
from sandwright.image.npmpackage import NpmPackages
from sandwright.image.pip import python_target
from sandwright.image.plan import BuildPlan, PlannedImage, input_checksum, plan_build
from sandwright.image.publish import ImageOrigin, Make, PlatformSplit, publish
from sandwright.image.variant import ImageVariant
from sandwright.image.wheel import PythonWheels
from sandwright.progress import SILENT, Progress
from sandwright.registry.failure import Unavailable, Unreachable

_NO_VARIANT = ImageVariant()


@dataclass(frozen=True)
class BuiltImage:
    """An image that is up to date, whether this run built it or not.

    `digest` is that of the index for all platforms; `images` holds the requested platforms. `reason` is the
    reason for the build, empty if the image was up to date. `changed` is whether its digest is new. `seconds`
    is the time it took.
    """

    name: str
    layout: Path
    digest: str
    images: Mapping[str, PlatformImage]
    changed: bool
    reason: str
    seconds: float


@dataclass(frozen=True)
class SkippedImage:
    """An image that was skipped because the registry of its base can't be reached.

    `reason` is a phrase, `detail` a sentence.
    """

    name: str
    reason: str
    detail: str


def build_images(
    catalogue: Mapping[str, ImageDefinition],
    names: Sequence[str] = (),
    *,
    output: Path,
    supply: Fetcher,
    platforms: Collection[str] | None = None,
    frozen: bool = False,
    epoch: int | None = None,
    variant: ImageVariant = _NO_VARIANT,
    verify: bool = False,
    jobs: int | None = None,
    facts: MachineFacts | None = None,
    leave_out: Callable[[SkippedImage], object] | None = None,
    progress: Progress = SILENT,
) -> list[BuiltImage]:
    """Build the images `names`, none meaning all, and their bases, as OCI layouts in `output/images`.

    Platforms that were built from the same inputs stay as they are, requested or not. `epoch` is the time of
    the images, in seconds since 1970 (SOURCE_DATE_EPOCH), by default that of their lock. `variant` is for all
    images, bases too. `jobs` bounds the packages read at a time. With `frozen`, locks are never renewed.

    When the registry of a base can't be reached and the base is not cached, or a program that only Alpine's
    packages need is missing, `leave_out` is called for the image and for every image on top of it, and the
    rest is built. Without `leave_out` that is an error.

    Each image appears complete or not at all. A failure keeps the images built before, and the old state of
    its own. Raise the errors of `plan_build`; LockError, FetchError, IntegrityError, ArchiveRefused,
    BuildError, HostError, ToolMissing or CommandFailed, naming the package, path or program.
    """
    output = output.absolute()  # subprocesses have other working directories

    def plan() -> BuildPlan:
        return plan_build(
            catalogue,
            names,
            output=output,
            platforms=platforms,
            frozen=frozen,
            epoch=epoch,
            variant=variant,
            verify=verify,
        )

    current = plan()
    if current.is_empty and not is_littered(output / "images"):
        return [_unchanged(step) for step in current.steps]
    supply = replace(supply, relock=None) if frozen else supply
    with staging(output / "images", progress=progress) as area:
        current = plan()  # another build may have finished while we waited for the lock
        with open_build_context(area, progress, jobs=jobs) as shop:
            return _Build(shop, supply, current, facts).run(leave_out)


class _BaseLeftOut(LockError):
    """The base of an image was skipped."""


class _Build:
    """Builds the images of a plan, one after another."""

    def __init__(
        self, shop: BuildContext, supply: Fetcher, plan: BuildPlan, facts: MachineFacts | None
    ) -> None:
        self._shop = shop
        self._supply = supply
        self._plan = plan
        self._epoch = plan.epoch
        self._facts = facts
        self._done: dict[str, ImageLayout] = {}
        self._epochs: dict[str, int] = {}
        self._settings: dict[str, Mapping[str, ImageSettings]] = {}
        self._foreign: set[str] = set()

    def run(self, leave_out: Callable[[SkippedImage], object] | None) -> list[BuiltImage]:
        """Build the images; call `leave_out` for each that is not Debian's and can't be built here."""
        made = []
        out: set[str] = set()
        steps = self._plan.steps
        with self._shop.progress.step("build", len(steps), unit="images") as whole:
            for step in steps:
                try:
                    if step.definition.parent in out:
                        raise _BaseLeftOut(f"its base {step.definition.parent} is not built")
                    made.append(self._image(step))
                except (Unavailable, NotLocked, ToolMissing, _BaseLeftOut) as error:
                    if leave_out is None or not _may_leave_out(step.definition, error):
                        raise
                    out.add(step.name)
                    leave_out(SkippedImage(step.name, _skip_reason(error), str(error)))
                whole.advance(1)
        return made

    def _image(self, step: PlannedImage) -> BuiltImage:
        start = time.monotonic()
        parent = step.definition.parent
        self._settings[step.name] = self._configured(step)
        before = step.existing
        if step.reason and step.definition.reference:
            after = self._on_registry(step)
        elif step.reason:
            after = self._from_lock(step) if parent is None else self._on_base(step, self._done[parent])
        else:
            assert before is not None
            after = before
            self._epochs[step.name] = step.epoch
        self._done[step.name] = after
        changed = before is None or before.whole != after.whole
        return _built(step, after, changed=changed, seconds=time.monotonic() - start)

    def _from_lock(self, step: PlannedImage) -> ImageLayout:
        lock = step.lock or self._lock_again(step, step.reason)
        try:
            return self._of_packages(step, lock)
        except PackageGone as gone:
            return self._of_packages(step, self._lock_again(step, str(gone), gone))

    def _of_packages(self, step: PlannedImage, lock: Lock | BaseLock) -> ImageLayout:
        assert isinstance(lock, Lock)
        definition, epoch = step.definition, lock.epoch if self._epoch is None else self._epoch
        origin = self._image_origin(definition, epoch, lock=lock)
        share = PlatformSplit.of(step, origin)
        packages = [package for platform in share.fresh for package in lock.packages(platform)]
        files = self._supply.fetch(packages, self._shop.progress)
        languages = {platform: self._languages(lock, platform) for platform in share.fresh}

        def make(task: PlatformBuild) -> PlatformLayers:
            sources = assemble.sources(lock.packages(task.platform), files)
            if definition.configure == "scripts":
                return assemble.from_scripts(
                    self._shop, task, sources, self._host(), languages[task.platform]
                )
            return assemble.from_packages(self._shop, task, sources, languages[task.platform])

        return self._publish(share, make)

    def _languages(self, lock: Lock, platform: str) -> LanguageSources:
        progress, python, npm = self._shop.progress, None, lock.npm.get(platform, ())
        if wheels := lock.wheels.get(platform):
            target = python_target(platform, lock.packages(platform))
            python = PythonWheels(target.python, wheels, self._supply.wheels(wheels, target, progress))
        return LanguageSources(python, NpmPackages(npm, self._supply.npm(npm, progress)))

    def _on_registry(self, step: PlannedImage) -> ImageLayout:
        if step.lock is None and self._supply.relock is None:
            raise NotLocked(f"image '{step.name}': {step.reason}")
        lock = step.lock or self._lock_again(step, step.reason)
        try:
            return self._on_pinned(step, lock)
        except BaseGone as gone:
            return self._on_pinned(step, self._lock_again(step, str(gone), gone))

    def _on_pinned(self, step: PlannedImage, lock: Lock | BaseLock) -> ImageLayout:
        assert isinstance(lock, BaseLock)
        definition, epoch = step.definition, lock.epoch if self._epoch is None else self._epoch
        base = self._supply.base(lock, step.platforms, self._shop.progress)
        self._settings[step.name] = {
            platform: inherited(config.document, f"{base.name}: {platform}").under(definition.config)
            for platform, config in base.configs.items()
        }
        origin = self._image_origin(
            definition, epoch, lock=lock, reference=BaseReference(base.whole.digest, base.name)
        )
        return self._publish(
            PlatformSplit.of(step, origin), lambda task: assemble.from_base(self._shop, task, base)
        )

    def _configured(self, step: PlannedImage) -> Mapping[str, ImageSettings]:
        """The settings of each platform: the definitions' own, on top of those of a registry's base."""
        config, parent = step.definition.config, step.definition.parent
        if step.definition.reference or parent in self._foreign:
            self._foreign.add(step.name)
        if parent in self._foreign and parent is not None:
            below = self._done[parent]
            return {
                platform: inherited(below.configs[platform].document, parent).under(config)
                for platform in step.platforms
            }
        if parent is not None:
            return {platform: self._settings[parent][platform].under(config) for platform in step.platforms}
        return {platform: ImageSettings(config) for platform in step.platforms}

    def _on_base(self, step: PlannedImage, base: ImageLayout) -> ImageLayout:
        parent = step.definition.parent
        assert parent is not None
        epoch = self._epochs[parent]
        origin = self._image_origin(
            step.definition, epoch, base=base, reference=BaseReference(base.whole.digest)
        )
        return self._publish(
            PlatformSplit.of(step, origin), lambda task: assemble.from_base(self._shop, task, base)
        )

    def _image_origin(
        self,
        definition: ImageDefinition,
        epoch: int,
        *,
        lock: Lock | BaseLock | None = None,
        base: ImageLayout | None = None,
        reference: BaseReference | None = None,
    ) -> ImageOrigin:
        variant = self._plan.variant
        return ImageOrigin(
            epoch,
            lambda some: input_checksum(definition, lock, base, some, epoch=epoch, variant=variant),
            variant,
            reference,
        )

    def _publish(self, share: PlatformSplit, make: Make) -> ImageLayout:
        self._epochs[share.step.name] = share.origin.epoch
        return publish(self._shop, share, self._settings[share.step.name], make)

    def _lock_again(self, step: PlannedImage, why: str, error: LockError | None = None) -> Lock | BaseLock:
        if self._supply.relock is None:
            raise error or LockError(f"image '{step.name}': {why}")
        self._shop.progress.note(f"{step.name}: {why}; locking it again")
        return self._supply.relock(step.definition)

    def _host(self) -> MachineFacts:
        if self._facts is None:
            self._facts = collect_host()
        return self._facts


def _may_leave_out(definition: ImageDefinition, error: SandwrightError) -> bool:
    """Whether the other images are built although its base, or a tool for apk packages, is missing."""
    if isinstance(error, ToolMissing):
        return definition.distribution == "alpine"
    return definition.distribution is None


def _skip_reason(error: SandwrightError) -> str:
    match error:
        case Unreachable():
            return "registry unreachable"
        case Unavailable():
            return "registry unavailable"
        case NotLocked():
            return "not locked"
        case ToolMissing():
            return f"{error.program} is missing"
        case _:
            return "its base is not built"


def _unchanged(step: PlannedImage) -> BuiltImage:
    assert step.existing is not None
    return _built(step, step.existing, changed=False, seconds=0.0)


def _built(step: PlannedImage, existing: ImageLayout, *, changed: bool, seconds: float) -> BuiltImage:
    images = {platform: existing.images[platform] for platform in step.platforms}
    return BuiltImage(step.name, step.layout, existing.whole.digest, images, changed, step.reason, seconds)
