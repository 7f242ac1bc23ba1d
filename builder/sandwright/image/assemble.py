"""Builds the layers of an image for one platform, from packages, scripts or a base; decides their order."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from sandwright.host import MachineFacts
from sandwright.image import additions, declared, init
from sandwright.image.accounts import Names
from sandwright.image.buildcontext import BuildContext
from sandwright.image.compress import Compression
from sandwright.image.configured import DebianSystem, write_system
from sandwright.image.definition import ImageDefinition
from sandwright.image.derived import read_tree
from sandwright.image.documents import INIT, LayerHistory, architecture, timestamp
from sandwright.image.existing import BaseImage
from sandwright.image.layer import WrittenLayer
from sandwright.image.lock import LockedPackage
from sandwright.image.npmpackage import NpmPackages, install_npm
from sandwright.image.overlay import Overlay
from sandwright.image.packagefile import ExpectedDigest
from sandwright.image.packages import PackageRules, PackageSource, WrittenPackages, write_packages
from sandwright.image.tree import FileTree, merge, unsettled
from sandwright.image.wheel import PythonWheels, install_wheels


@dataclass(frozen=True)
class PlatformBuild:
    """One image for one platform. `epoch` is the time of additions; no file may be newer."""

    definition: ImageDefinition
    platform: str
    epoch: int
    compression: Compression

    @property
    def architecture(self) -> str:
        """The architecture's name, which Debian and Go share for our platforms."""
        return architecture(self.platform)

    @property
    def label(self) -> str:
        """The name in progress and messages."""
        return f"{self.definition.name} {self.platform}"


@dataclass(frozen=True)
class PlatformLayers:
    """The layers of an image for one platform, the lowest first, and the accounts in them.

    `notes` are for the user.
    """

    layers: list[LayerHistory]
    names: Names
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class LanguageSources:
    """Packages of programming languages, for one platform."""

    python: PythonWheels | None
    npm: NpmPackages

    def install(self, overlay: Overlay, scratch: BinaryIO) -> tuple[str, ...]:
        """Add them to an image; notes for the user. `scratch` is an empty file that outlasts the overlay."""
        if self.python is not None:
            install_wheels(overlay, self.python)
        scripted = install_npm(overlay, self.npm, scratch)
        return (f"not run: install scripts of npm's {', '.join(scripted)}",) if scripted else ()


def sources(packages: Sequence[LockedPackage], files: Mapping[str, Path]) -> list[PackageSource]:
    """The packages of a lock with their files, found by SHA-256."""
    return [
        PackageSource(
            each.name,
            files[each.sha256],
            ExpectedDigest(str(each), each.size, each.sha256, each.format),
            each.version,
            each.architecture,
        )
        for each in packages
    ]


def share_out(packages: Sequence[PackageSource], budget: int) -> list[list[PackageSource]]:
    """Split packages into at most `budget` layers, in a fixed order: small ones together, big ones alone."""
    by_size = sorted(packages, key=lambda each: (-each.promise.size, each.name))
    alone = by_size if len(by_size) <= budget else by_size[: budget - 1]
    rest = sorted(by_size[len(alone) :], key=lambda each: each.name)
    singles = [[each] for each in sorted(alone, key=lambda each: each.name)]
    return [rest, *singles] if rest else singles


def from_packages(
    shop: BuildContext,
    task: PlatformBuild,
    packages: Sequence[PackageSource],
    languages: LanguageSources | None = None,
) -> PlatformLayers:
    """Layers of the packages' files, and one layer with the declarations that replace their scripts."""
    definition = task.definition
    rules = PackageRules(
        task.epoch,
        merged_usr="merged-usr" in definition.declare,
        wanted=definition.wanted(),
        keep=declared.keeps,
    )
    groups = share_out(packages, definition.layers.budget)
    weights = [sum(each.promise.size for each in group) for group in groups]
    with shop.progress.step(task.label, sum(weights)) as step:
        tasks = [_package_layer(shop, task.compression, group, rules, step.advance) for group in groups]
        made = shop.for_layers(tasks, weights=weights)
    brought = [contents for written, _ in made for contents in written.packages]
    tree = merge(sorted(brought, key=lambda each: each.owner))
    overlay = Overlay(tree, epoch=task.epoch)
    for path in unsettled(tree, [written.directories for written, _ in made]):
        overlay.again(path)
    facts = declared.Declared(
        task.architecture,
        brought,
        rules.wanted,
        definition.accounts.users,
        definition.accounts.groups,
        definition.packages,
    )
    declared.mount_points(overlay)
    for name in declared.ORDER:
        if name in definition.declare:
            declared.declare(name, overlay, facts)
    steps = [
        _history_entry(layer, _package_names(group), task)
        for (_, layer), group in zip(made, groups, strict=True)
    ]
    made_layers = _with_last_layer(shop, task, overlay, steps, languages)
    skipped = declared.skipped_scripts(brought, definition.declare)
    return replace(made_layers, notes=(*skipped, *made_layers.notes))


def from_scripts(
    shop: BuildContext,
    task: PlatformBuild,
    packages: Sequence[PackageSource],
    facts: MachineFacts,
    languages: LanguageSources | None = None,
) -> PlatformLayers:
    """A layer of the system that the packages' own scripts configure, and one of additions."""
    definition = task.definition
    assert definition.suite is not None
    system = DebianSystem(
        definition.suite, task.architecture, packages, task.epoch, definition.exclude, definition.keep
    )
    with (
        shop.progress.step(f"{task.label}: packages configure themselves", None, unit="packages"),
        shop.layer(task.compression) as writer,
    ):
        found = write_system(
            system,
            writer,
            facts=facts,
            scratch=shop.staging.path,
            cancelled=shop.cancelled,
            keep=additions.keeps,
            together=shop.for_layers,
        )
    tree = FileTree(found.nodes)
    tree.kept = found.contents
    overlay = Overlay(tree, epoch=task.epoch)
    declared.mount_points(overlay)
    created_by = f"mmdebstrap {definition.suite}: {_package_names(packages)}"
    return _with_last_layer(shop, task, overlay, [_history_entry(writer.layer, created_by, task)], languages)


def from_base(shop: BuildContext, task: PlatformBuild, base: BaseImage) -> PlatformLayers:
    """The layers of the base, unchanged, and one of the definition's additions."""
    image = base.images[task.platform]
    with shop.progress.step(f"{task.label}: look into {base.name}", image.size) as step:
        tree = read_tree(base, image, additions.keeps, shop.cancelled, step.advance)
    steps = []
    parts = zip(image.layers, image.diff_ids, image.history, image.types, strict=True)
    for blob, diff_id, history, media_type in parts:
        shop.staging.adopt(blob, base.file(blob))
        steps.append(
            LayerHistory(blob, diff_id, str(history["created_by"]), str(history["created"]), media_type)
        )
    return _with_last_layer(shop, task, Overlay(tree, epoch=task.epoch), steps)


def _package_layer(
    shop: BuildContext,
    compression: Compression,
    group: Sequence[PackageSource],
    rules: PackageRules,
    advance: Callable[[int], object],
) -> Callable[[], tuple[WrittenPackages, WrittenLayer]]:
    def write() -> tuple[WrittenPackages, WrittenLayer]:
        with shop.layer(compression) as writer:
            written = write_packages(group, rules, writer, advance)
        return written, writer.layer

    return write


def _with_last_layer(
    shop: BuildContext,
    task: PlatformBuild,
    overlay: Overlay,
    below: list[LayerHistory],
    languages: LanguageSources | None = None,
) -> PlatformLayers:
    """The layers with one more on top: packages of languages, and the additions of the definition."""
    with tempfile.TemporaryFile(dir=shop.staging.path) as scratch:
        notes = () if languages is None else languages.install(overlay, scratch)
        additions.add(task.definition, overlay)
        if task.definition.config.init is not None:
            overlay.file(INIT.lstrip("/").encode(), init.program(task.platform), mode=0o755)
        with shop.layer(task.compression) as writer:
            overlay.write(writer)
    last = _history_entry(writer.layer, f"sandwright: {task.definition.name}", task)
    return PlatformLayers([*below, last], additions.account_names(overlay), notes)


def _package_names(packages: Sequence[PackageSource]) -> str:
    # As files of packages are named. Scanners of secrets take `passwd=1:4.13` for a password.
    return " ".join(f"{each.name}_{each.version}" for each in packages)


def _history_entry(layer: WrittenLayer, created_by: str, task: PlatformBuild) -> LayerHistory:
    return LayerHistory(layer.blob, layer.diff_id, created_by, timestamp(task.epoch), layer.media_type)
