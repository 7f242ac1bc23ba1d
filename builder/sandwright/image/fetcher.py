"""Fetches the sources of images: packages, those of programming languages, and bases in registries.

The modules that download are imported only when something is missing: `requests` and the registry client
take a third of the import time of a build.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sandwright.image.baselock import BaseLock
from sandwright.image.cache import Cache
from sandwright.image.definition import ImageDefinition
from sandwright.image.lock import AnyLocked, Lock, LockedPackage
from sandwright.image.lockednpm import LockedNpm
from sandwright.image.lockedwheel import LockedWheel
from sandwright.image.mirrors import Mirrors
from sandwright.image.npm import fetch_npm
from sandwright.image.pip import PythonTarget, fetch_wheels
from sandwright.lazy import load
from sandwright.progress import Progress
from sandwright.registry.settings import RegistrySettings

if TYPE_CHECKING:
    from sandwright.image.packagestore import PackageStore
    from sandwright.image.registrybase import RegistryImage

Relock = Callable[[ImageDefinition], Lock | BaseLock]
"""Locks an image again, writes its lock file, and gives the new lock."""


@dataclass(frozen=True)
class Fetcher:
    """Fetches packages and bases. `mirrors` may be a function, called before the first download.

    `relock` is called when a lock is missing or stale, or when a locked package is gone; None, as with
    `--frozen`, makes that an error. `registry` returns the settings for registries, by default anonymous
    ones. Packages come from `store`, and only those that it lacks from a mirror.
    """

    cache: Cache
    mirrors: Mirrors | Callable[[], Mirrors]
    relock: Relock | None = None
    registry: Callable[[], RegistrySettings] | None = None
    store: PackageStore | None = None

    def fetch(self, packages: Sequence[LockedPackage], progress: Progress) -> dict[str, Path]:
        """The files of packages by SHA-256, each verified even when it is cached."""
        missing = self._missing(packages, progress)
        if not missing:
            return {package.sha256: self.cache.path(package.sha256) for package in packages}
        mirrors = self.mirrors() if callable(self.mirrors) else self.mirrors
        fetch = load("sandwright.image.fetch:fetch")
        found: dict[str, Path] = fetch(
            packages, mirrors=mirrors, cache=self.cache, verify=True, progress=progress
        )
        return found

    def wheels(
        self, wheels: Sequence[LockedWheel], target: PythonTarget, progress: Progress
    ) -> dict[str, Path]:
        """The files of wheels by SHA-256. pip downloads those that neither cache nor store has."""
        if missing := self._missing(wheels, progress):
            with progress.step(f"pip: {len(missing)} wheels", None):
                fetch_wheels(missing, target, self.cache)
        return {each.sha256: self.cache.path(each.sha256) for each in wheels}

    def npm(self, packages: Sequence[LockedNpm], progress: Progress) -> dict[str, Path]:
        """The archives of npm's packages by SHA-256. npm downloads those that neither cache nor store has."""
        if missing := self._missing(packages, progress):
            with progress.step(f"npm: {len(missing)} packages", None):
                fetch_npm(missing, self.cache)
        return {each.sha256: self.cache.path(each.sha256) for each in packages}

    def _missing(self, locked: Sequence[AnyLocked], progress: Progress) -> list[AnyLocked]:
        """The packages that neither the cache, verified file by file, nor the store has."""
        missing = [each for each in locked if not self.cache.holds(each.sha256, each.size, verify=True)]
        return self.store.fetch(missing, self.cache, progress=progress) if missing and self.store else missing

    def base(self, lock: BaseLock, platforms: Sequence[str], progress: Progress) -> RegistryImage:
        """The base that a lock pins, each blob verified even when it is cached."""
        settings = self.registry() if self.registry else RegistrySettings()
        fetch_base = load("sandwright.image.registrybase:fetch_base")
        found: RegistryImage = fetch_base(
            lock, platforms, settings=settings, cache=self.cache, progress=progress
        )
        return found
