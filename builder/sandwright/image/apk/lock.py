"""Locks an image of Alpine's packages: indices from a mirror, resolved by apk, each package verified."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from sandwright import process, user_dirs
from sandwright.errors import LockError
from sandwright.host import collect_host
from sandwright.image.apk.index import IndexedPackage
from sandwright.image.apk.mirror import ApkMirror, FetchedIndex
from sandwright.image.apk.resolver import STATIC_PACKAGE, PrivateApk, extract_static
from sandwright.image.apk.signing import SUFFIX, read_keys
from sandwright.image.cache import Cache
from sandwright.image.definition import ImageDefinition, package_name
from sandwright.image.lock import Lock, LockedPackage, checksum
from sandwright.image.lockfile import APK_ARCHITECTURES, naming_errors
from sandwright.image.mirrors import Mirrors
from sandwright.image.sections import AlpineBase
from sandwright.progress import SILENT, Progress
from sandwright.resources import data_path

_PROGRAM = "apk"


def lock_apk_image(
    definition: ImageDefinition,
    *,
    mirrors: Mirrors,
    cache: Path,
    previous: Lock | None = None,
    progress: Progress = SILENT,
) -> Lock:
    """Resolve the packages of an image with an Alpine base, for each of its platforms.

    The packages come into `cache`. The lock's epoch is the newest build time of a package. Raise LockError
    when the packages can't be resolved, FetchError when the mirror can't be reached, IntegrityError when
    something is not signed as it should be.
    """
    platforms: dict[str, tuple[LockedPackage, ...]] = {}
    epoch = 0
    with tempfile.TemporaryDirectory(prefix="apk-", dir=user_dirs.scratch()) as scratch:
        for platform in definition.platforms:
            with naming_errors(f"image '{definition.name}', {platform}"):
                resolver = _ApkLocker(definition, platform, mirrors, cache, Path(scratch))
                with progress.step(f"{definition.name} {platform}: indices and packages"):
                    chosen, locked = resolver.lock(previous)
            platforms[platform] = tuple(sorted(locked))
            epoch = max(epoch, *(int(each.fields.get("t", "0")) for each in chosen))
    assert definition.suite is not None
    return Lock(checksum(definition), definition.suite, epoch, platforms)


class _ApkLocker:
    """Locks the packages of one platform. `scratch` is a directory for the time of it."""

    def __init__(
        self, definition: ImageDefinition, platform: str, mirrors: Mirrors, cache: Path, scratch: Path
    ) -> None:
        assert isinstance(definition.base, AlpineBase)
        self._definition = definition
        self._base = definition.base
        self._platform = platform
        self._mirrors = mirrors
        self._cache = Cache(cache)
        self._scratch = scratch

    def lock(self, previous: Lock | None) -> tuple[list[IndexedPackage], list[LockedPackage]]:
        """The chosen packages as the indices have them, and as the lock does."""
        architecture = APK_ARCHITECTURES[self._platform]
        keys = self._trusted_keys(architecture)
        mirror = ApkMirror(self._mirrors, keys, self._cache)
        indices = {
            name: mirror.index(self._repository_directory(name, architecture))
            for name in self._base.repositories
        }
        apk = PrivateApk(self._apk_program(), self._scratch / architecture, architecture)
        apk.prepare({name: each.raw for name, each in indices.items()}, keys)
        offered = _offered_packages(indices)
        resolved = apk.resolve(self._definition.packages, without=self._assumed(offered))
        chosen = [offered[each] for each in resolved if each in offered]
        self._check_chosen(resolved, chosen)
        earlier = previous.platforms.get(self._platform, ()) if previous else ()
        return chosen, mirror.lock(chosen, {(each.path, each.size): each for each in earlier})

    def _apk_program(self) -> str:
        """Apk of this machine, else the static one of the repository for this machine's architecture."""
        if found := process.find(_PROGRAM):
            return found
        target = self._scratch / "apk.static"
        if not target.exists():
            architecture = APK_ARCHITECTURES[collect_host().platform]
            mirror = ApkMirror(self._mirrors, self._trusted_keys(architecture), self._cache)
            packages = mirror.index(self._repository_directory("main", architecture)).packages
            wanted = [each for each in packages if each.name == STATIC_PACKAGE]
            if not wanted:
                raise LockError(f"this machine has no apk, and the repository no package {STATIC_PACKAGE}")
            locked = mirror.lock(wanted[:1], {})[0]
            extract_static(self._cache.path(locked.sha256), target)
        return str(target)

    def _trusted_keys(self, architecture: str) -> dict[str, bytes]:
        if self._base.keys:
            return read_keys([self._definition.real / each for each in self._base.keys])
        return read_keys(sorted(data_path("images", "keys", "alpine", architecture).glob(f"*{SUFFIX}")))

    def _repository_directory(self, repository: str, architecture: str) -> str:
        return f"{self._definition.suite}/{repository}/{architecture}"

    def _assumed(self, offered: Mapping[tuple[str, str], IndexedPackage]) -> list[Mapping[str, str]]:
        fields = {name: package.fields for (name, _), package in offered.items()}
        if unknown := sorted(self._definition.without.keys() - fields.keys()):
            raise LockError(f"the repository has no package {', '.join(unknown)}, which 'without' names")
        return [fields[name] for name in sorted(self._definition.without)]

    def _check_chosen(self, resolved: Sequence[tuple[str, str]], chosen: Sequence[IndexedPackage]) -> None:
        absent = {*map(package_name, self._definition.packages)} - {each.name for each in chosen}
        if len(chosen) != len(resolved) or absent:
            names = ", ".join(sorted(absent)) or "something"
            raise LockError(f"apk chose other packages than the indices have: {names} is missing")


def _offered_packages(indices: Mapping[str, FetchedIndex]) -> dict[tuple[str, str], IndexedPackage]:
    """The packages by name and version; of those in several repositories, the first one's."""
    found: dict[tuple[str, str], IndexedPackage] = {}
    for index in indices.values():
        for package in index.packages:
            found.setdefault((package.name, package.version), package)
    return found
