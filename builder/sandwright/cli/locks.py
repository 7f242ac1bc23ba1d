"""Commands about the locks of images: writing them, and showing what new ones change."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from sandwright.checked import Checked
from sandwright.cli import console
from sandwright.cli.image_arguments import RegistrySettingsFactory, catalogue_of, registry_settings
from sandwright.errors import LockError
from sandwright.image.apt import lock_image
from sandwright.image.baselock import BaseLock, base_lock_changes, load_base_lock, write_base_lock
from sandwright.image.cache import Cache, default_cache
from sandwright.image.definition import ImageDefinition
from sandwright.image.lock import Lock, check_lock, load_lock, lock_changes, write_lock
from sandwright.image.lockdiff import lock_differences, markdown
from sandwright.image.lockfile import NotLocked
from sandwright.image.mirrors import find_mirrors
from sandwright.image.registrybase import lock_base
from sandwright.progress import Progress
from sandwright.registry.failure import Unavailable, Unreachable
from sandwright.resources import data_path


def lock_images(
    *,
    name: Sequence[str] | None = None,
    images: str = "",
    mirror: str = "",
    check: bool = False,
    strict: bool = False,
    insecure: Sequence[str] | None = None,
    ca_file: str = "",
    authfile: str = "",
) -> Checked:
    """Resolve the packages of images with apt, and the references of bases; write the lock files."""
    catalogue = catalogue_of(images, name or ())
    root = Path(images or data_path("images")).resolve()
    chosen = [
        definition
        for definition in catalogue.values()
        if (definition.name in name if name else root in definition.folder.resolve().parents)
        and definition.parent is None
    ]
    checked = Checked(why=_why_none(catalogue, name or ()))
    registry = functools.partial(registry_settings, insecure or (), ca_file, authfile)
    with console.watching() as progress:
        for definition in chosen:
            try:
                if check:
                    _check_lock(definition)
                    checked.add()
                else:
                    relock(definition, mirror=mirror, registry=registry, progress=progress)
            except (Unavailable, NotLocked) as error:
                if strict or definition.suite or (check and definition.name in (name or ())):
                    raise
                how = "registry unreachable: " if isinstance(error, Unreachable) else ""
                console.lines(f"{definition.name}: not locked: {how}{error}")
    return checked


def _why_none(catalogue: Mapping[str, ImageDefinition], names: Sequence[str]) -> str:
    """Why no lock is checked, where that may be."""
    parents = [f"{name} has the lock of {catalogue[name].parent}" for name in names if catalogue[name].parent]
    return "; ".join(parents) or ("" if catalogue else "there is no image in the directory")


def lock_diff(*, before: str, images: str = "images") -> None:
    """Print what the locks of images change, package by package, in Markdown."""
    console.write(markdown(lock_differences(Path(before), Path(images))))


def relock(
    definition: ImageDefinition, *, mirror: str, registry: RegistrySettingsFactory, progress: Progress
) -> Lock | BaseLock:
    """Lock an image, write its lock file, and note what has changed."""
    if definition.reference:
        return _lock_base(definition, registry, progress)
    return _lock_packages(definition, mirror, progress)


def _check_lock(definition: ImageDefinition) -> None:
    folder = definition.folder
    check_lock(definition, load_lock(folder) if definition.suite else load_base_lock(folder))
    console.line(f"{definition.name}: the lock fits")


def _lock_base(
    definition: ImageDefinition, registry: RegistrySettingsFactory, progress: Progress
) -> BaseLock:
    try:
        previous = load_base_lock(definition.folder)
    except LockError:
        previous = None
    cache = Cache(default_cache(os.environ))
    lock = lock_base(definition, settings=registry(), cache=cache, progress=progress)
    write_base_lock(definition.folder, lock)
    _note(definition, base_lock_changes(previous, lock), progress)
    return lock


def _lock_packages(definition: ImageDefinition, mirror: str, progress: Progress) -> Lock:
    try:
        previous = load_lock(definition.folder)
    except LockError:
        previous = None
    lock = lock_image(
        definition,
        mirrors=find_mirrors(mirror or None, os.environ),
        cache=default_cache(os.environ),
        previous=previous,
        progress=progress,
    )
    write_lock(definition.folder, lock)
    _note(definition, lock_changes(previous, lock), progress)
    return lock


def _note(definition: ImageDefinition, changes: Sequence[str], progress: Progress) -> None:
    for change in changes or ["nothing has changed"]:
        progress.note(f"{definition.name}: {change}")
