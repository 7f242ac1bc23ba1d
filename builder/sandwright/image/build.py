"""Builds the images of a catalogue: plans, fetches what is missing, puts together, publishes."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sandwright.errors import LockError
from sandwright.image import assemble, documents
from sandwright.image.assemble import Task
from sandwright.image.cache import Cache
from sandwright.image.definition import ImageDefinition
from sandwright.image.documents import About, Step
from sandwright.image.existing import Existing, Held, read_layout
from sandwright.image.fetch import fetch
from sandwright.image.layout import CONFIG_TYPE, Blob, Staging, canonical, staging
from sandwright.image.lock import Lock, Package, PackageGone
from sandwright.image.mirrors import Mirrors
from sandwright.image.plan import Plan, Planned, inputs, plan_build
from sandwright.image.sections import Config
from sandwright.image.workshop import Workshop, open_workshop
from sandwright.progress import SILENT, Progress

if TYPE_CHECKING:
    from sandwright.host import HostFacts

Relock = Callable[[ImageDefinition], Lock]
"""Locks an image again, writes its lock file, and gives the new lock."""


@dataclass(frozen=True)
class Built:
    """An image that is there, whether this run made it or not.

    `digest` is that of the index for all platforms; `images` has what each platform's image consists of.
    `reason` says why it was planned to be built, and is empty when nothing had to be done. `changed` is
    whether its digest is new. `seconds` is how long it took.
    """

    name: str
    layout: Path
    digest: str
    images: Mapping[str, Held]
    changed: bool
    reason: str
    seconds: float


@dataclass(frozen=True)
class Supply:
    """Where packages come from. `mirrors` may be a function, called when something has to be downloaded.

    `relock` is asked when a lock is missing or stale, or when its packages are gone; None, as with
    `--frozen`, makes that an error.
    """

    cache: Cache
    mirrors: Mirrors | Callable[[], Mirrors]
    relock: Relock | None = None

    def fetch(self, packages: Sequence[Package], progress: Progress) -> dict[str, Path]:
        """The files of packages by SHA-256, each compared with its checksum even when the cache has it."""
        if all(self.cache.has(package, verify=True) for package in packages):
            return {package.sha256: self.cache.path(package.sha256) for package in packages}
        mirrors = self.mirrors() if callable(self.mirrors) else self.mirrors
        return fetch(packages, mirrors=mirrors, cache=self.cache, verify=True, progress=progress)


def build_images(
    catalogue: Mapping[str, ImageDefinition],
    names: Sequence[str] = (),
    *,
    output: Path,
    supply: Supply,
    platforms: Collection[str] | None = None,
    frozen: bool = False,
    epoch: int | None = None,
    verify: bool = False,
    jobs: int | None = None,
    facts: HostFacts | None = None,
    progress: Progress = SILENT,
) -> list[Built]:
    """Have the images `names`, none meaning all, and their bases, as OCI layouts in `output/images`.

    What is there and made from the same inputs is left as it is. `epoch` is the time that images are given,
    in seconds since 1970 (SOURCE_DATE_EPOCH), absent that of their lock. `jobs` bounds how many packages are
    read at a time. With `frozen`, only the locks as they are will do.

    Each image appears complete or not at all; one that fails leaves those built before it, and its own old
    state. Raise the errors of `plan_build`; LockError, FetchError, IntegrityError, ArchiveRefused,
    BuildError, HostError, ToolMissing or CommandFailed, naming the package, path or program.
    """
    output = output.absolute()  # programs that work for us have directories of their own

    def plan() -> Plan:
        return plan_build(
            catalogue, names, output=output, platforms=platforms, frozen=frozen, epoch=epoch, verify=verify
        )

    current = plan()
    if current.is_empty:
        return [_unchanged(step) for step in current.steps]
    supply = replace(supply, relock=None) if frozen else supply
    with staging(output / "images", progress=progress) as area:
        current = plan()  # another build may have done it while we waited for the directory
        with open_workshop(area, progress, jobs=jobs) as shop:
            return _Build(shop, supply, current.epoch, facts).run(current)


class _Build:
    """One run: the images of a plan, one after another."""

    def __init__(self, shop: Workshop, supply: Supply, epoch: int | None, facts: HostFacts | None) -> None:
        self._shop = shop
        self._supply = supply
        self._epoch = epoch
        self._facts = facts
        self._done: dict[str, Existing] = {}
        self._epochs: dict[str, int] = {}
        self._settings: dict[str, Config] = {}

    def run(self, plan: Plan) -> list[Built]:
        return [self._image(step) for step in plan.steps]

    def _image(self, step: Planned) -> Built:
        start = time.monotonic()
        parent = step.definition.parent
        base = self._settings.get(parent) if parent else None
        self._settings[step.name] = step.definition.config.over(base) if base else step.definition.config
        before = step.existing
        if step.reason:
            after = self._from_lock(step) if parent is None else self._on_base(step, self._done[parent])
        else:
            assert before is not None
            after = before
            self._epochs[step.name] = step.epoch
        self._done[step.name] = after
        changed = before is None or before.whole != after.whole
        return _built(step, after, changed=changed, seconds=time.monotonic() - start)

    def _from_lock(self, step: Planned) -> Existing:
        lock = step.lock or self._lock_again(step, step.reason)
        try:
            files = self._fetch(step, lock)
        except PackageGone as gone:
            lock = self._lock_again(step, str(gone), gone)
            files = self._fetch(step, lock)
        epoch = lock.epoch if self._epoch is None else self._epoch
        made_from = inputs(step.definition, lock, None, step.platforms, epoch)

        def make(task: Task) -> list[Step]:
            sources = assemble.sources(lock.packages(task.platform), files)
            if task.definition.configure == "scripts":
                return assemble.from_scripts(self._shop, task, sources, self._host())
            return assemble.from_packages(self._shop, task, sources)

        return self._publish(step, epoch, made_from, make, None)

    def _on_base(self, step: Planned, base: Existing) -> Existing:
        parent = step.definition.parent
        assert parent is not None
        epoch = self._epochs[parent]
        made_from = inputs(step.definition, None, base, step.platforms, epoch)
        if step.existing is not None and step.existing.inputs == made_from:
            self._epochs[step.name] = epoch
            return step.existing
        return self._publish(
            step,
            epoch,
            made_from,
            lambda task: assemble.from_base(self._shop, task, base),
            (parent, base.whole.digest),
        )

    def _publish(
        self,
        step: Planned,
        epoch: int,
        made_from: str,
        make: Callable[[Task], list[Step]],
        base: tuple[str, str] | None,
    ) -> Existing:
        """Make the image for each platform, write its documents, and put the layout in place."""
        self._epochs[step.name] = epoch
        tasks = [Task(step.definition, platform, epoch) for platform in step.platforms]
        layers = self._shop.for_platforms([_later(make, task) for task in tasks])
        about = About(step.name, step.definition.description, epoch, base)
        area = self._shop.staging
        blobs: list[Blob] = []
        manifests: dict[str, Blob] = {}
        for task, steps in zip(tasks, layers, strict=True):
            written = _write_documents(area, about, task.platform, self._settings[step.name], steps)
            manifests[task.platform] = written[-1]
            blobs += [*(each.blob for each in steps), *written]
        whole = area.add(canonical(documents.index(about, manifests)))
        index = documents.layout_index(whole, manifests, made_from)
        area.publish(index, dict.fromkeys([*blobs, whole]), step.layout)
        return read_layout(step.layout)

    def _fetch(self, step: Planned, lock: Lock) -> dict[str, Path]:
        packages = [package for platform in step.platforms for package in lock.packages(platform)]
        return self._supply.fetch(packages, self._shop.progress)

    def _lock_again(self, step: Planned, why: str, error: LockError | None = None) -> Lock:
        if self._supply.relock is None:
            raise error or LockError(f"image '{step.name}': {why}")
        self._shop.progress.note(f"{step.name}: {why}; locking it again")
        return self._supply.relock(step.definition)

    def _host(self) -> HostFacts:
        if self._facts is None:
            from sandwright.host import collect_host  # noqa: PLC0415 - only mmdebstrap depends on the machine

            self._facts = collect_host()
        return self._facts


def _write_documents(
    area: Staging, about: About, platform: str, settings: Config, steps: Sequence[Step]
) -> tuple[Blob, Blob]:
    """Write the config and the manifest of one platform's image."""
    config = area.add(canonical(documents.config(about, platform, settings, steps)))
    manifest = documents.manifest(about, config.descriptor(CONFIG_TYPE), steps)
    return config, area.add(canonical(manifest))


def _later(make: Callable[[Task], list[Step]], task: Task) -> Callable[[], list[Step]]:
    return lambda: make(task)


def _unchanged(step: Planned) -> Built:
    assert step.existing is not None
    return _built(step, step.existing, changed=False, seconds=0.0)


def _built(step: Planned, existing: Existing, *, changed: bool, seconds: float) -> Built:
    return Built(
        step.name, step.layout, existing.whole.digest, existing.images, changed, step.reason, seconds
    )
