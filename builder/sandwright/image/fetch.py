"""Fetches the packages of a lock, in parallel, into the cache."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from sandwright.image.cache import Cache, default_cache
from sandwright.image.lock import LockedPackage, PackageGone
from sandwright.image.mirrors import Mirrors, shown
from sandwright.progress import SILENT, Progress

if TYPE_CHECKING:
    from sandwright.registry.settings import RetryPolicy

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
    """Have these packages in the cache, and give their paths by SHA-256.

    What is there already is trusted by its name and size; with `verify` it is read and checked again. The
    rest is downloaded and verified, `jobs` at a time.
    Raise PackageGone with all packages that no mirror has any more, after the others were fetched; else, and
    at once, FetchError, IntegrityError, or HostError when the cache can't be written.
    """
    wanted = {package.sha256: package for package in packages}
    missing = [package for package in wanted.values() if not cache.has(package, verify=verify)]
    if missing:
        # Here, because these cost 100 ms, which a run that has everything should not pay.
        from sandwright.image.download import download  # noqa: PLC0415

        cache.sweep()
        total = sum(package.size for package in missing)
        with progress.step(f"{len(missing)} packages", total) as step:
            gone = download(missing, mirrors=mirrors, cache=cache, jobs=jobs, patience=patience, step=step)
        if gone:
            raise PackageGone(gone, _bases(gone, mirrors))
    return {sha256: cache.path(sha256) for sha256 in wanted}


def _bases(packages: Iterable[LockedPackage], mirrors: Mirrors) -> list[str]:
    archives = sorted({package.archive for package in packages})
    return [shown(base) for archive in archives for base in mirrors.bases(archive)]
