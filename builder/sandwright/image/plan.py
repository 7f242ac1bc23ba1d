"""Decides which images are built again, and why, before anything changes.

An image is up to date if its layout records the checksum that `input_checksum` computes now.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sandwright import __version__
from sandwright.documents.model import plain
from sandwright.errors import IntegrityError, LockError, UsageError
from sandwright.image import additions, init
from sandwright.image.baselock import BaseLock, load_base_lock
from sandwright.image.compress import DEFAULT, Compression, parse_compression
from sandwright.image.definition import ImageDefinition
from sandwright.image.existing import ImageLayout, read_layout
from sandwright.image.lock import Lock, check_lock, load_lock
from sandwright.image.lockfile import NotLocked
from sandwright.image.variant import ImageVariant
from sandwright.rootfs.descriptor import canonical

_NO_PART = {"smoke"}
"""Sections of a definition that do not change the image."""


@dataclass(frozen=True)
class PlannedImage:
    """One image of a plan. `reason` says why it is built; empty when it is up to date.

    `lock` is None for an image on top of another, and for one without a valid lock.
    """

    definition: ImageDefinition
    layout: Path
    platforms: tuple[str, ...]
    epoch: int
    lock: Lock | BaseLock | None
    existing: ImageLayout | None
    reason: str

    @property
    def name(self) -> str:
        """The image's name."""
        return self.definition.name

    def describe(self) -> str:
        """The planned action, in one line."""
        if not self.reason:
            return f"{self.name}: nothing to do"
        made_of = f"on top of {self.definition.parent}" if self.definition.parent else self._packages()
        return f"{self.name}: build for {', '.join(self.platforms)} {made_of}, because {self.reason}"

    def _packages(self) -> str:
        if self.lock is None:
            return "once it is locked"
        if isinstance(self.lock, BaseLock):
            return f"on top of {self.lock.pinned}"
        packages = {each.sha256: each for platform in self.platforms for each in self.lock.packages(platform)}
        megabytes = sum(each.size for each in packages.values()) / 1e6
        how = (
            "configured by their scripts"
            if self.definition.configure == "scripts"
            else "configured by declaration"
        )
        return f"of {len(packages)} packages ({megabytes:.1f} MB), {how}"


_NO_VARIANT = ImageVariant()


@dataclass(frozen=True)
class BuildPlan:
    """The actions of a build, bases first. `epoch` is the caller's, None for that of the locks."""

    steps: tuple[PlannedImage, ...]
    epoch: int | None
    variant: ImageVariant = _NO_VARIANT

    def describe(self) -> list[str]:
        """The plan, one line an image."""
        return [step.describe() for step in self.steps]

    @property
    def is_empty(self) -> bool:
        """Whether every image is up to date."""
        return not any(step.reason for step in self.steps)


def plan_build(
    catalogue: Mapping[str, ImageDefinition],
    names: Sequence[str],
    *,
    output: Path,
    platforms: Collection[str] | None = None,
    frozen: bool = False,
    epoch: int | None = None,
    variant: ImageVariant = _NO_VARIANT,
    verify: bool = False,
) -> BuildPlan:
    """Plan the build of the images `names`, none meaning all, and their bases, in `output/images`.

    Existing layouts are checked: documents by digest, other blobs by size, with `verify` by digest too. Raise
    UsageError for an unknown image or a platform that none of them has, DocumentError for a lock that is not
    one; with `frozen`, LockError for a lock that is missing or stale. An image whose base in a registry was
    never locked is planned, and skipped later when the registry can't be reached.
    """
    steps: dict[str, PlannedImage] = {}
    for definition in _with_bases(catalogue, names):
        chosen = tuple(each for each in definition.platforms if platforms is None or each in platforms)
        if not chosen:
            requested = ", ".join(platforms or ())
            offered = ", ".join(definition.platforms)
            raise UsageError(f"image '{definition.name}' is not made for {requested}, only for {offered}")
        base = steps[definition.parent] if definition.parent else None
        layout = output / "images" / definition.name
        steps[definition.name] = _examine(
            definition, layout, chosen, base, epoch=epoch, variant=variant, frozen=frozen, verify=verify
        )
    return BuildPlan(tuple(steps.values()), epoch, variant)


def input_checksum(
    definition: ImageDefinition,
    lock: Lock | BaseLock | None,
    base: ImageLayout | None,
    platforms: Sequence[str],
    *,
    epoch: int,
    variant: ImageVariant,
) -> str:
    """The checksum of all inputs of an image: equal inputs give an equal image."""
    document = {
        "name": definition.name,
        "definition": {name: value for name, value in plain(definition).items() if name not in _NO_PART},
        "files": additions.checksums(definition),
        **({} if definition.config.init is None else {"init": init.checksum()}),
        "packages": {
            platform: [each.sha256 for each in lock.packages(platform)]
            for platform in platforms
            if isinstance(lock, Lock)
        },
        **_language_digests(lock, platforms),
        "base": None if base is None else base.whole.digest,
        **(_pins(lock, platforms) if isinstance(lock, BaseLock) else {}),
        "platforms": list(platforms),
        "epoch": epoch,
        **variant.document(),
        "codec": compression_of(definition, variant).identity,
        "builder": builder_checksum(),
    }
    return f"sha256:{hashlib.sha256(canonical(document)).hexdigest()}"


def compression_of(definition: ImageDefinition, variant: ImageVariant) -> Compression:
    """The compression of an image's own layers."""
    chosen = DEFAULT if definition.compression is None else parse_compression(definition.compression)
    return variant.compression or chosen


def standing(
    definition: ImageDefinition, existing: ImageLayout | None, checksum: Callable[[Sequence[str]], str]
) -> tuple[str, ...]:
    """The platforms of a layout that was built from the same inputs; else none."""
    if existing is None:
        return ()
    there = tuple(platform for platform in definition.platforms if platform in existing.images)
    return there if existing.input_checksum == checksum(there) else ()


@functools.cache
def builder_checksum() -> str:
    """The checksum of the code that builds, since the version stays the same during development.

    It covers every module of `image` and `rootfs`. It is in `input_checksum` and in the provenance, never in
    an image: a changed builder builds again, and content that stays the same keeps its digest.
    """
    digest = hashlib.sha256(__version__.encode())
    package = Path(__file__).resolve().parents[1]
    for path in (module for room in ("image", "rootfs") for module in sorted((package / room).rglob("*.py"))):
        name = path.relative_to(package).as_posix()
        digest.update(name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _with_bases(catalogue: Mapping[str, ImageDefinition], names: Sequence[str]) -> Iterable[ImageDefinition]:
    unknown = [name for name in names if name not in catalogue]
    if unknown:
        raise UsageError(f"there is no image '{unknown[0]}'; there is {', '.join(catalogue)}")
    selected = set(names or catalogue)
    for name in reversed(
        list(catalogue)
    ):  # a catalogue lists bases first, so derived images are met before them
        parent = catalogue[name].parent
        if name in selected and parent is not None:
            selected.add(parent)
    return [definition for name, definition in catalogue.items() if name in selected]


def _examine(
    definition: ImageDefinition,
    layout: Path,
    platforms: tuple[str, ...],
    base: PlannedImage | None,
    *,
    epoch: int | None,
    variant: ImageVariant,
    frozen: bool,
    verify: bool,
) -> PlannedImage:
    lock, trouble = (None, "") if base else _load_current_lock(definition, frozen=frozen)
    time = epoch if epoch is not None else base.epoch if base else lock.epoch if lock else 0
    existing, damage = _existing(layout, verify=verify)
    planned = PlannedImage(definition, layout, platforms, time, lock, existing, trouble or damage)
    if planned.reason:
        return planned
    assert existing is not None
    if base and base.reason:
        return replace(planned, reason=f"its base {base.name} is built")
    below = base.existing if base else None
    there = standing(
        definition,
        existing,
        lambda some: input_checksum(definition, lock, below, some, epoch=time, variant=variant),
    )
    if not there:
        return replace(planned, reason="it was made from something else")
    lacking = [platform for platform in platforms if platform not in there]
    return replace(planned, reason=f"it is not there for {', '.join(lacking)}") if lacking else planned


def _language_digests(lock: Lock | BaseLock | None, platforms: Sequence[str]) -> dict[str, object]:
    """The packages of programming languages; empty without any, so that checksums of other images stay."""
    if not isinstance(lock, Lock):
        return {}
    listed: dict[str, dict[str, list[Any]]] = {
        "wheels": {each: [one.sha256 for one in lock.wheels.get(each, ())] for each in platforms},
        "npm": {each: list(map(asdict, lock.npm.get(each, ()))) for each in platforms},
    }
    return {key: value for key, value in listed.items() if any(value.values())}


def _pins(lock: BaseLock, platforms: Sequence[str]) -> dict[str, object]:
    pins = {platform: pin.digest for platform, pin in lock.platforms.items() if platform in platforms}
    return {"registry": [lock.reference, lock.base.digest, pins]}


def _load_current_lock(definition: ImageDefinition, *, frozen: bool) -> tuple[Lock | BaseLock | None, str]:
    lock: Lock | BaseLock
    try:
        lock = load_lock(definition.folder) if definition.suite else load_base_lock(definition.folder)
        check_lock(definition, lock)
    except LockError as error:
        if frozen and not (definition.reference and isinstance(error, NotLocked)):
            raise
        return None, f"it has to be locked: {error}"
    return lock, ""


def _existing(layout: Path, *, verify: bool) -> tuple[ImageLayout | None, str]:
    if not layout.exists():
        return None, "it is not there"
    try:
        return read_layout(layout, verify=verify), ""
    except IntegrityError as error:
        return None, f"it is damaged: {error}"
