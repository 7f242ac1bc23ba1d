"""The package store of a release: an OCI artifact with the packages of its lock, attached to the image."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO

from sandwright.errors import IntegrityError
from sandwright.image.fetcher import Fetcher
from sandwright.image.lock import LanguagePackage, Lock, LockedPackage
from sandwright.image.packagestore import package_descriptor
from sandwright.image.pip import python_target
from sandwright.image.remote import PushSource
from sandwright.progress import Progress
from sandwright.registry.graph import ImageGraph, read_node
from sandwright.registry.parallel import run_parallel
from sandwright.registry.referrer import EMPTY, EMPTY_CONFIG, TITLE, artifact_manifest
from sandwright.registry.repository import Repository
from sandwright.rootfs.descriptor import Descriptor

STORE_TYPE = "application/vnd.sandwright.packages.v1"
"""The artifact type of a package store. Its layers are the packages."""


def package_store(
    subject: Descriptor, lock: Lock, platforms: Sequence[str], supply: Fetcher, progress: Progress
) -> PushSource:
    """The store of a lock's packages, which refers to the index `subject`. Raise the errors of fetching."""
    packages = _distinct_files(lock, platforms)
    files = supply.fetch([each for each in packages if isinstance(each, LockedPackage)], progress)
    for platform, wheels in lock.wheels.items():
        if platform in platforms:
            files |= supply.wheels(wheels, python_target(platform, lock.packages(platform)), progress)
    npm = [each for platform in platforms for each in lock.npm.get(platform, ())]
    files |= supply.npm(npm, progress)
    layers = [
        package_descriptor(each).document(annotations={TITLE: _artifact_name(each)}) for each in packages
    ]
    document = artifact_manifest(subject, STORE_TYPE, layers, {TITLE: "packages"})
    node = read_node(document.descriptor, document.content, "packages")
    return PushSource(ImageGraph((node,)), partial(_open_blob, files))


def check_store(repository: Repository, digest: str, lock: Lock, platforms: Sequence[str], where: str) -> int:
    """Check that a published store has every package of a lock, by size; their number.

    A rebuild compares their digests. Raise IntegrityError for a missing one, and RegistryError.
    """
    found = repository.manifest(digest)
    node = read_node(found.descriptor, found.content, f"{where}: packages {digest}")
    packages = _distinct_files(lock, platforms)
    listed = {(each.digest, each.size) for each in node.blobs}
    tasks = [partial(repository.has_blob, package_descriptor(each)) for each in packages]
    there = run_parallel(tasks, stop=repository.client.transport.stop)
    for package, has in zip(packages, there, strict=True):
        if not has or (f"sha256:{package.sha256}", package.size) not in listed:
            raise IntegrityError(f"{where}: {package} is not in the package store {digest}")
    return len(packages)


def _distinct_files(lock: Lock, platforms: Sequence[str]) -> list[LockedPackage | LanguagePackage]:
    """All packages of some platforms, each file once."""
    found = {each.sha256: each for platform in platforms for each in lock.everything(platform)}
    return sorted(found.values(), key=lambda each: (each.format, _artifact_name(each)))


def _artifact_name(package: LockedPackage | LanguagePackage) -> str:
    """The package's file name in `oras pull`. Alpine's names are the same for every architecture."""
    if not isinstance(package, LockedPackage):
        return package.file
    name = package.path.rpartition("/")[2]
    return name if package.format == "deb" else f"{package.architecture}/{name}"


def _open_blob(files: Mapping[str, Path], blob: Descriptor) -> BinaryIO:
    if blob == EMPTY_CONFIG:
        return io.BytesIO(EMPTY)
    return files[blob.digest.removeprefix("sha256:")].open("rb")
