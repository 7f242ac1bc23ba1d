"""Builds images with an engine: from the same definitions and locks, to images that it keeps by name."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from sandwright.engines.contract import Engine, EngineImage
from sandwright.errors import BuildError, LockError, UsageError
from sandwright.image.baselock import BaseLock, load_base_lock
from sandwright.image.build import SkippedImage, build_images
from sandwright.image.definition import ImageDefinition, base_definitions, load_catalogue
from sandwright.image.dockerfile.context import DockerfileContext
from sandwright.image.dockerfile.recipe import REPOSITORY, BaseReferences, fingerprint, make_context
from sandwright.image.documents import architecture
from sandwright.image.existing import BaseImage, ImageLayout, read_layout
from sandwright.image.export import write_image
from sandwright.image.fetcher import Fetcher
from sandwright.image.inherit import inherited
from sandwright.image.lock import Lock, check_lock, load_lock
from sandwright.image.lockfile import NotLocked
from sandwright.image.plan import plan_build
from sandwright.image.sections import Config
from sandwright.progress import SILENT, Progress
from sandwright.registry.failure import Unavailable, Unreachable
from sandwright.resources import data_path

BUILDER = "builder"
"""The definition, in `images/engine`, of the image that the first stages run on."""


@dataclass(frozen=True)
class EngineBuiltImage:
    """An image that an engine built for one platform. `references` are its names there."""

    name: str
    platform: str
    engine: str
    references: tuple[str, ...]
    image: EngineImage
    seconds: float


@dataclass(frozen=True)
class BuildRequest:
    """An image to build, with its inputs.

    `catalogue` has the definitions, `names` those wanted, none meaning all; a base that is not among them
    comes from the embedded builder. `builder` is another image for the first stages, pinned by digest, absent
    ours. `output` is where the embedded builder's images are. `repository` is the prefix of the results'
    names, `grounds` that of their bases' names. The rest is as for `build_images`.
    """

    catalogue: Mapping[str, ImageDefinition]
    names: Sequence[str]
    platforms: Sequence[str]
    output: Path
    supply: Fetcher
    repository: str = "sandwright"
    grounds: str = REPOSITORY
    builder: str = ""
    epoch: int | None = None
    frozen: bool = False


def build_in_engine(
    wish: BuildRequest,
    engine: Engine,
    *,
    host_platform: str,
    leave_out: Callable[[SkippedImage], object] | None = None,
    progress: Progress = SILENT,
) -> list[EngineBuiltImage]:
    """Have an engine build images, and keep them as `REPOSITORY/NAME:ARCHITECTURE`.

    `host_platform` is the platform of this machine, whose image is named `:latest` too. An image gets its
    names when it is complete; until then they stay with the previous image. `leave_out` receives each image
    without a base in the registry; if it is None, such an image is an error. Raise the exceptions of
    `build_images`, and HostError if the engine is not usable.
    """
    chosen = _chosen_definitions(wish)
    progress.note(f"{engine.name}: {engine.check()}")
    work = _EngineBuild(wish, engine, host_platform, progress)
    built: list[EngineBuiltImage] = []
    out: set[str] = set()
    for definition in chosen:
        try:
            if definition.parent in out:
                raise NotLocked(f"its base {definition.parent} is not built")
            built += [work.build(definition, platform) for platform in _chosen_platforms(wish, definition)]
        except (Unavailable, NotLocked) as error:
            if leave_out is None or definition.suite:
                raise
            out.add(definition.name)
            leave_out(SkippedImage(definition.name, _why(error), str(error)))
    return built


def describe_build(wish: BuildRequest, engine: str) -> list[str]:
    """The steps that `build_in_engine` would take, a line for each image and platform. Needs no engine."""
    chosen = _chosen_definitions(wish)
    names = {definition.name for definition in chosen}
    lines = []
    for definition in chosen:
        if definition.reference:
            made_of = f"on top of {definition.reference}, pinned by its lock"
        elif definition.parent in names:
            made_of = f"on top of the {definition.parent} that is built before"
        elif definition.parent:
            made_of = f"on top of {definition.parent}, which the embedded builder makes"
        else:
            made_of = "of the packages in its lock"
        where = ", ".join(_chosen_platforms(wish, definition))
        lines.append(f"{definition.name}: build for {where} with {engine}, {made_of}")
    return lines


def render_context(
    wish: BuildRequest, name: str, platform: str, *, progress: Progress = SILENT
) -> DockerfileContext:
    """The context of one image, with its packages. Builds nothing."""
    work = _EngineBuild(wish, None, platform, progress)
    return work.context(wish.catalogue[name], platform)


def render_text(wish: BuildRequest, name: str, platform: str) -> str:
    """The Dockerfile of one image. Fetches nothing."""
    work = _EngineBuild(wish, None, platform, SILENT)
    return work.context(wish.catalogue[name], platform, whole=False).dockerfile


class _EngineBuild:
    """One run, or one rendering, for which no engine is needed."""

    def __init__(
        self, wish: BuildRequest, engine: Engine | None, host_platform: str, progress: Progress
    ) -> None:
        self._wish = wish
        self._engine = engine
        self._own = host_platform
        self._progress = progress
        self._locks: dict[str, Lock | BaseLock] = {}
        self._embedded: dict[str, BaseImage] = {}
        self._in_engine: dict[tuple[str, str], str] = {}

    @property
    def _loaded(self) -> Engine:
        assert self._engine is not None
        return self._engine

    def build(self, definition: ImageDefinition, platform: str) -> EngineBuiltImage:
        """Build one image for one platform, and name it."""
        started = time.monotonic()
        engine, name = self._loaded, definition.name
        context = self.context(definition, platform)
        self._provide(definition, platform)
        label = f"{engine.name} build {name} {platform}"
        with self._progress.step(label, unit="instructions") as step:
            image = engine.build(context, platform, step)
        references = [f"{self._wish.repository}/{name}:{architecture(platform)}"]
        if platform == self._own:
            references.insert(0, f"{self._wish.repository}/{name}:latest")
        found = engine.inspect_image(image)
        if found is None or found.platform != platform:
            what = "is not there" if found is None else f"is for {found.platform}"
            raise BuildError(
                f"{engine.name} says that it has built {name} for {platform}, and the image {what}"
            )
        for reference in references:
            engine.tag(image, reference)
        self._in_engine[name, platform] = image
        return EngineBuiltImage(
            name, platform, engine.name, tuple(references), found, time.monotonic() - started
        )

    def context(self, definition: ImageDefinition, platform: str, *, whole: bool = True) -> DockerfileContext:
        """The context of an image; without its packages when it need not be whole."""
        lock = self._lock_of(definition)
        bases = base_definitions(self._wish.catalogue, definition.name)
        packages = lock.packages(platform) if isinstance(lock, Lock) and definition.suite else ()
        files = self._wish.supply.fetch(packages, self._progress) if packages and whole else None
        ground = BaseReferences(
            self._builder(platform),
            self._base_tag(definition, platform),
            self._base_config(definition, platform),
        )
        return make_context(
            definition,
            bases,
            platform,
            ground,
            epoch=lock.epoch if self._wish.epoch is None else self._wish.epoch,
            packages=packages,
            files=files,
        )

    def _lock_of(self, definition: ImageDefinition) -> Lock | BaseLock:
        """The lock of the image at the bottom."""
        root = [definition, *base_definitions(self._wish.catalogue, definition.name)][-1]
        if root.name not in self._locks:
            self._locks[root.name] = self._read_lock(root)
        return self._locks[root.name]

    def _read_lock(self, root: ImageDefinition) -> Lock | BaseLock:
        relock = None if self._wish.frozen else self._wish.supply.relock
        try:
            lock = load_lock(root.folder) if root.suite else load_base_lock(root.folder)
            check_lock(root, lock)
        except LockError as error:
            if relock is None:
                raise
            self._progress.note(f"{root.name}: {error}; locking it again")
            return relock(root)
        return lock

    def _fingerprint(self, definition: ImageDefinition, platform: str) -> str:
        parent = definition.parent
        if parent is None:
            return fingerprint(definition, self._lock_of(definition), platform)
        below = self._fingerprint(self._wish.catalogue[parent], platform)
        return fingerprint(definition, None, platform, base=below)

    def _builder(self, platform: str) -> str:
        if self._wish.builder:
            return self._wish.builder
        definition = _builder_catalogue()[BUILDER]
        lock = load_lock(definition.folder)
        return f"{self._wish.grounds}/{BUILDER}:{fingerprint(definition, lock, platform)}"

    def _base_tag(self, definition: ImageDefinition, platform: str) -> str | None:
        if definition.suite is not None:
            return None
        if definition.parent is not None:
            below = self._fingerprint(self._wish.catalogue[definition.parent], platform)
            return f"{self._wish.grounds}/{definition.parent}:{below}"
        lock = self._lock_of(definition)
        assert isinstance(lock, BaseLock)
        digest = lock.platforms[platform].digest.partition(":")[2]
        return f"{self._wish.grounds}/{definition.name}-base:{digest[:16]}"

    def _base_config(self, definition: ImageDefinition, platform: str) -> Config:
        """The default configuration of the image below. A registry is queried only if necessary."""
        below = Config()
        line = [definition, *base_definitions(self._wish.catalogue, definition.name)]
        if line[-1].reference is not None and any(each.config.init for each in line):
            lock = self._lock_of(definition)
            assert isinstance(lock, BaseLock)
            base = self._wish.supply.base(lock, [platform], self._progress)
            below = inherited(base.configs[platform].document, f"{base.name}: {platform}").config
        for each in reversed(line[1:]):
            below = each.config.over(below)
        return below

    def _provide(self, definition: ImageDefinition, platform: str) -> None:
        """Ensure that the engine has the base of the Dockerfile."""
        if not self._wish.builder:
            self._load(self._embed(_builder_catalogue(), BUILDER), platform, self._builder(platform))
        reference = self._base_tag(definition, platform)
        if reference is None:
            return
        parent = definition.parent
        if parent is not None and (parent, platform) in self._in_engine:
            self._loaded.tag(self._in_engine[parent, platform], reference)
        elif parent is not None:
            self._load(self._embed(self._wish.catalogue, parent), platform, reference)
        else:
            lock = self._lock_of(definition)
            assert isinstance(lock, BaseLock)
            base = self._wish.supply.base(lock, [platform], self._progress)
            self._load(base, platform, reference)

    def _load(self, source: BaseImage, platform: str, reference: str) -> None:
        """Load an image, unless the engine has one of that name and of those layers."""
        held = source.images[platform]
        found = self._loaded.inspect_image(reference)
        if found is not None and found.layers == held.diff_ids and found.platform == platform:
            return

        def write(sink: BinaryIO, name: str) -> None:
            write_image(source, platform, sink, reference=name)

        with self._progress.step(f"load {source.name} {platform} into {self._loaded.name}", held.size):
            self._loaded.load(write, reference)
        if self._loaded.inspect_image(reference) is None:
            raise BuildError(f"{self._loaded.name} has loaded {reference} and does not have it")

    def _embed(self, catalogue: Mapping[str, ImageDefinition], name: str) -> BaseImage:
        if name not in self._embedded:
            self._embedded.update(embedded(self._wish, catalogue, [name], progress=self._progress))
        return self._embedded[name]


def embedded(
    wish: BuildRequest,
    catalogue: Mapping[str, ImageDefinition],
    names: Sequence[str],
    *,
    progress: Progress = SILENT,
) -> dict[str, ImageLayout]:
    """Images and their bases, by the embedded builder, unless all of them exist.

    Images for all platforms are in that builder's output. A missing one is built in a second place, for the
    requested platforms, and the output stays unchanged.
    """
    fixed: dict[str, Any] = {"epoch": wish.epoch, "frozen": wish.frozen}
    whole = plan_build(catalogue, names, output=wish.output, **fixed)
    made = build_images(
        catalogue,
        names,
        output=wish.output if whole.is_empty else wish.output / "engines",
        platforms=None if whole.is_empty else wish.platforms,
        supply=wish.supply,
        progress=progress,
        **fixed,
    )
    return {each.name: read_layout(each.layout) for each in made}


def _chosen_definitions(wish: BuildRequest) -> list[ImageDefinition]:
    for name in wish.names:
        if name not in wish.catalogue:
            raise UsageError(f"there is no image '{name}'; there is {', '.join(wish.catalogue)}")
    if wish.builder and "@sha256:" not in wish.builder:
        raise UsageError(f"the builder '{wish.builder}' is not pinned: write name@sha256:…")
    return [definition for name, definition in wish.catalogue.items() if not wish.names or name in wish.names]


def _chosen_platforms(wish: BuildRequest, definition: ImageDefinition) -> Collection[str]:
    chosen = [each for each in definition.platforms if each in wish.platforms]
    if not chosen:
        requested, offered = ", ".join(wish.platforms), ", ".join(definition.platforms)
        raise UsageError(f"image '{definition.name}' is not made for {requested}, only for {offered}")
    return chosen


def _builder_catalogue() -> dict[str, ImageDefinition]:
    return load_catalogue(data_path("images", "engine"))


def _why(error: Exception) -> str:
    return "registry unreachable" if isinstance(error, Unreachable) else "not locked"
