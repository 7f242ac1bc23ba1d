"""Commands about the locks of images: writing them, and showing the changes of new ones."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from sandwright.checked import Checked, require_checked
from sandwright.cli import console
from sandwright.cli.image_arguments import RegistrySettingsFactory, catalogue_of, registry_settings
from sandwright.errors import LockError, VerdictError
from sandwright.image.apk.lock import lock_apk_image
from sandwright.image.apt import lock_image
from sandwright.image.baselock import BaseLock, base_lock_changes, load_base_lock, write_base_lock
from sandwright.image.cache import Cache, default_cache
from sandwright.image.definition import ImageDefinition
from sandwright.image.lock import Lock, check_lock, load_lock, lock_changes, write_lock
from sandwright.image.lockdiff import lock_differences, markdown
from sandwright.image.lockfile import NotLocked
from sandwright.image.mirrors import Mirrors, find_mirrors
from sandwright.image.npm import with_npm
from sandwright.image.pip import with_wheels
from sandwright.image.registrybase import lock_base
from sandwright.progress import Progress
from sandwright.registry.failure import Unavailable, Unreachable
from sandwright.resources import data_path

MOST_CHANGES = 5
"""Changes that are listed in the line of an image."""


def lock_images(
    *,
    name: Sequence[str] | None = None,
    images: str = "",
    mirror: str = "",
    check: bool = False,
    outdated: bool = False,
    strict: bool = False,
    insecure: Sequence[str] | None = None,
    ca_file: str = "",
    authfile: str = "",
) -> Checked:
    """Resolve the packages of images with apt, and the references of bases; write the lock files."""
    catalogue = catalogue_of(images, name or (), mirror=None if check or outdated else mirror)
    root = Path(images or data_path("images")).resolve()
    chosen = [
        definition
        for definition in catalogue.values()
        if (definition.name in name if name else root in definition.folder.resolve().parents)
        and definition.parent is None
    ]
    checked = Checked(why=_why_none(catalogue, name or ()))
    registry = functools.partial(registry_settings, insecure or (), ca_file, authfile)
    newer: dict[str, list[str]] = {}
    with console.watching() as progress:
        locker = _Locker(mirror, registry, progress)
        for definition in chosen:
            try:
                if check or outdated:
                    _check_lock(definition, quiet=outdated)
                    checked.add()
                if outdated:
                    newer[definition.name] = locker.resolve(definition)[1]
                elif not check:
                    locker.lock(definition)
            except (Unavailable, NotLocked) as error:
                if strict or definition.suite or (check and definition.name in (name or ())):
                    raise
                how = "registry unreachable: " if isinstance(error, Unreachable) else ""
                console.lines(f"{definition.name}: not locked: {how}{error}")
    if outdated:
        require_checked(checked, "lock", "lock-images")
        _report_newer({each: changes for each, changes in newer.items() if changes})
    return checked


def _report_newer(newer: Mapping[str, list[str]]) -> None:
    """Print the changes of new locks, as Markdown. Raise VerdictError if there are any."""
    if not newer:
        console.line("there are no newer versions")
    else:
        console.write(markdown(newer))
        raise VerdictError(
            f"newer versions exist for {', '.join(newer)}; lock again with 'sandwright lock-images'"
        )


def _why_none(catalogue: Mapping[str, ImageDefinition], names: Sequence[str]) -> str:
    """The reason why no lock is checked, where that is allowed."""
    parents = [f"{name} has the lock of {catalogue[name].parent}" for name in names if catalogue[name].parent]
    return "; ".join(parents) or ("" if catalogue else "there is no image in the directory")


def lock_diff(*, before: str, images: str = "images") -> None:
    """Print the changes of images' locks, package by package, in Markdown."""
    console.write(markdown(lock_differences(Path(before), Path(images))))


def relock(
    definition: ImageDefinition, *, mirror: str, registry: RegistrySettingsFactory, progress: Progress
) -> Lock | BaseLock:
    """Lock an image, write its lock file, and note the changes."""
    return _Locker(mirror, registry, progress).lock(definition)


def _check_lock(definition: ImageDefinition, *, quiet: bool) -> None:
    folder = definition.folder
    check_lock(definition, load_lock(folder) if definition.suite else load_base_lock(folder))
    if not quiet:
        console.line(f"{definition.name}: the lock fits")


@dataclass(frozen=True)
class _Locker:
    """Resolves definitions, by the options of the command line.

    `fresh` holds the apt directories whose indices this command has fetched.
    """

    mirror: str
    registry: RegistrySettingsFactory
    progress: Progress
    fresh: set[Path] = field(default_factory=set)

    @functools.cached_property
    def mirrors(self) -> Mirrors:
        """The mirrors; apt is queried once for all of them."""
        return find_mirrors(self.mirror or None, os.environ)

    def lock(self, definition: ImageDefinition) -> Lock | BaseLock:
        """Write the lock file of an image, and note the changes in a line."""
        lock, changes = self.resolve(definition)
        if isinstance(lock, BaseLock):
            write_base_lock(definition.folder, lock)
        else:
            write_lock(definition.folder, lock)
        self.progress.note(f"{definition.name}: {_change_summary(changes)}")
        return lock

    def resolve(self, definition: ImageDefinition) -> tuple[Lock | BaseLock, list[str]]:
        """A new lock, and its changes."""
        if definition.reference:
            pins = lock_base(
                definition,
                settings=self.registry(),
                cache=Cache(default_cache(os.environ)),
                progress=self.progress,
            )
            return pins, base_lock_changes(_previous_lock(definition, load_base_lock), pins)
        previous = _previous_lock(definition, load_lock)
        lock_packages = (
            lock_apk_image
            if definition.distribution == "alpine"
            else functools.partial(lock_image, fresh=self.fresh)
        )
        lock = lock_packages(
            definition,
            mirrors=self.mirrors,
            cache=default_cache(os.environ),
            previous=previous,
            progress=self.progress,
        )
        if definition.languages.pip:
            lock = with_wheels(definition, lock, Cache(default_cache(os.environ)))
        if definition.languages.npm:
            lock = with_npm(definition, lock, Cache(default_cache(os.environ)))
        return lock, lock_changes(previous, lock)


_Lock = TypeVar("_Lock")


def _previous_lock(definition: ImageDefinition, load: Callable[[Path], _Lock]) -> _Lock | None:
    try:
        return load(definition.folder)
    except LockError:
        return None


def _change_summary(changes: Sequence[str]) -> str:
    """The changes of a lock in one line, by number if they are many; `lock-diff` lists them."""
    if len(changes) <= MOST_CHANGES:
        return "; ".join(change.strip() for change in changes) or "nothing has changed"
    count = {sign: sum(change.startswith(sign) for change in changes) for sign in "+-"}
    other = len(changes) - count["+"] - count["-"]
    return f"{count['+']} added, {count['-']} removed, {other} changed"
