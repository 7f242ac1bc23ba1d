"""Fetches the packages of a lock from a package store, which has them when mirrors no longer do.

A store is a repository of a registry, or an OCI layout, with the packages as blobs; `publish` attaches one to
an image. Blobs have the digests of the lock, so fetching needs no index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

from sandwright.image.cache import Cache
from sandwright.image.layoutrepository import open_readable
from sandwright.image.lock import AnyLocked, LanguagePackage, LockedPackage
from sandwright.image.registrybase import CacheStore
from sandwright.progress import SILENT, Progress
from sandwright.registry.parallel import run_parallel
from sandwright.registry.pull import fetch_blobs
from sandwright.registry.repository import Repository
from sandwright.registry.settings import RegistrySettings
from sandwright.rootfs.descriptor import Descriptor

_MEDIA_TYPES = {
    "deb": "application/vnd.debian.binary-package",
    "apk": "application/vnd.sandwright.apk",  # none is registered for Alpine's
    "wheel": "application/zip",
    "npm": "application/gzip",
}


@dataclass(frozen=True)
class PackageStore:
    """A package store. `name` is for messages; `open` connects."""

    name: str
    open: Callable[[], AbstractContextManager[Repository]]

    def fetch(
        self, packages: Iterable[AnyLocked], cache: Cache, *, progress: Progress = SILENT
    ) -> list[AnyLocked]:
        """Fetch the packages that it has into the cache, each compared with its digest; return the rest.

        Raise RegistryError, and WrongContent for other bytes.
        """
        distinct = list({each.sha256: each for each in packages}.values())
        blobs = [package_descriptor(each) for each in distinct]
        with self.open() as repository:
            tasks = [partial(repository.has_blob, blob) for blob in blobs]
            there = run_parallel(tasks, stop=repository.client.transport.stop)
            found = [blob for blob, has in zip(blobs, there, strict=True) if has]
            fetch_blobs(repository, found, CacheStore(cache), progress=progress)
        return [package for package, has in zip(distinct, there, strict=True) if not has]


def named_store(name: str, settings: Callable[[], RegistrySettings]) -> PackageStore:
    """The store in an OCI layout, or in a repository (`HOST/REPOSITORY`)."""
    return PackageStore(name, lambda: open_readable(name, settings()))


def package_descriptor(package: LockedPackage | LanguagePackage) -> Descriptor:
    """The blob of a package."""
    return Descriptor(_MEDIA_TYPES[package.format], f"sha256:{package.sha256}", package.size)
