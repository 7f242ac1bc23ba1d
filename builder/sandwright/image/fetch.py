"""Downloads the packages of a lock into the cache, in parallel."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sandwright.image.cache import Cache, default_cache
from sandwright.image.download import download
from sandwright.image.lock import LockedPackage, PackageGone
from sandwright.image.mirrors import Mirrors, redact_address
from sandwright.progress import SILENT, Progress
from sandwright.registry.retries import RetryPolicy

__all__ = ["JOBS", "Cache", "default_cache", "fetch"]

JOBS = 6
"""Downloads at a time: more is not faster from one mirror, and is rude."""


def fetch(
    packages: Iterable[LockedPackage],
    *,
    mirrors: Mirrors,
    cache: Cache,
    jobs: int = JOBS,
    verify: bool = False,
    patience: RetryPolicy | None = None,
    progress: Progress = SILENT,
) -> dict[str, Path]:
    """Download the packages that the cache lacks; return the paths of all by SHA-256.

    A cached file counts by its name and size; with `verify`, its content is hashed again. Downloads are
    verified, `jobs` run at a time. Raise PackageGone with all packages that no mirror has any more, after the
    others were fetched. Raise FetchError, IntegrityError, or HostError for the cache, at once.
    """
    by_digest = {package.sha256: package for package in packages}
    missing = [package for package in by_digest.values() if not cache.has(package, verify=verify)]
    if missing:
        cache.sweep()
        total = sum(package.size for package in missing)
        with progress.step(f"{len(missing)} packages", total) as step:
            gone = download(missing, mirrors=mirrors, cache=cache, jobs=jobs, patience=patience, step=step)
        if gone:
            raise PackageGone(gone, _bases(gone, mirrors))
    return {sha256: cache.path(sha256) for sha256 in by_digest}


def _bases(packages: Iterable[LockedPackage], mirrors: Mirrors) -> list[str]:
    archives = sorted({package.archive for package in packages})
    return [redact_address(base) for archive in archives for base in mirrors.bases(archive)]
