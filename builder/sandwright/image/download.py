"""Downloads packages from mirrors, several at a time, with retries, and verifies each against its SHA-256."""

from __future__ import annotations

import hashlib
import urllib.parse
from collections.abc import Sequence
from functools import partial
from typing import BinaryIO

from sandwright.errors import FetchError, IntegrityError
from sandwright.image.cache import Cache
from sandwright.image.lock import LockedPackage
from sandwright.image.mirrors import Mirrors, shown
from sandwright.image.transfer import MIRROR_RETRIES, FileGone, Transfer, TransientError
from sandwright.progress import ProgressStep
from sandwright.registry.download import ByteProgress
from sandwright.registry.failure import Cancelled
from sandwright.registry.parallel import run_parallel
from sandwright.registry.retries import RetryPolicy


def download(
    packages: Sequence[LockedPackage],
    *,
    mirrors: Mirrors,
    cache: Cache,
    jobs: int,
    patience: RetryPolicy | None,
    step: ProgressStep,
) -> list[LockedPackage]:
    """Download packages into the cache; return those that no mirror has any more.

    The first other failure, or Ctrl-C, stops the rest. Raise FetchError, IntegrityError, HostError.
    """
    downloads = _Downloads(mirrors, cache, patience or MIRROR_RETRIES, step)
    tasks = [partial(downloads.fetch, package) for package in packages]
    found = run_parallel(tasks, stop=downloads.transfer.stop, jobs=jobs, name="fetch")
    return [package for package, there in zip(packages, found, strict=True) if not there]


class _Downloads:
    """The downloads of one call."""

    def __init__(self, mirrors: Mirrors, cache: Cache, patience: RetryPolicy, step: ProgressStep) -> None:
        self.transfer = Transfer(mirrors, patience)
        self._mirrors = mirrors
        self._cache = cache
        self._patience = patience
        self._step = step

    def fetch(self, package: LockedPackage) -> bool:
        """Download one package, trying the mirrors in turn; return whether any has it."""
        try:
            with self._cache.adding(package.sha256) as file:
                self._try_mirrors(package, _Part(file, ByteProgress(self._step)))
        except FileGone:
            return False
        return True

    def _try_mirrors(self, package: LockedPackage, part: _Part) -> None:
        """Try the mirrors until the package is complete. Raise FileGone when none has it."""
        bases = list(self._mirrors.bases(package.archive))
        failures: dict[str, FetchError | IntegrityError] = {}
        for attempt in range(self._patience.attempts):
            wish = 0.0
            for base in tuple(bases):
                address = f"{base}/{urllib.parse.quote(package.path, safe='/~')}"  # `+` is a space to some
                try:
                    self._download(package, address, part)
                except FileGone:
                    bases.remove(base)
                    failures.pop(base, None)
                except TransientError as passing:
                    failures[base] = FetchError(_describe_failure(package, address, passing))
                    wish = max(wish, passing.after)
                except IntegrityError as error:  # perhaps damaged on its way
                    failures[base] = IntegrityError(_describe_failure(package, address, error))
                    part.restart()
                except FetchError as error:
                    failures[base] = FetchError(_describe_failure(package, address, error))
                    bases.remove(base)
                else:
                    return
            if not bases:
                break
            self._pause(attempt, wish)
        raise list(failures.values())[-1] if failures else FileGone

    def _download(self, package: LockedPackage, address: str, part: _Part) -> None:
        """Read the missing rest of a package; bytes from another mirror count."""
        for at, chunk in self.transfer.read(address, size=package.size, start=part.count):
            part.take(at, chunk)
        if part.digest != package.sha256:
            raise IntegrityError(f"has SHA-256 {part.digest}, the lock says {package.sha256}")

    def _pause(self, attempt: int, wish: float) -> None:
        last = attempt + 1 == self._patience.attempts
        if not last and self.transfer.stopped.wait(self._patience.backoff(attempt + 1, wish)):
            raise Cancelled


class _Part:
    """The bytes of a package so far."""

    def __init__(self, file: BinaryIO, credit: ByteProgress) -> None:
        """`file` is empty; `credit` reports progress."""
        self.count = 0
        self._file = file
        self._credit = credit
        self._hash = hashlib.sha256()

    @property
    def digest(self) -> str:
        """The SHA-256 of the bytes so far."""
        return self._hash.hexdigest()

    def take(self, at: int, chunk: bytes) -> None:
        """Append a chunk; a chunk at another offset restarts the download."""
        if at != self.count:
            self.restart()
        self._hash.update(chunk)
        self._file.write(chunk)
        self.count += len(chunk)
        self._credit.reach(self.count)

    def restart(self) -> None:
        """Discard all bytes."""
        self.count = 0
        self._hash = hashlib.sha256()
        self._file.seek(0)
        self._file.truncate()


def _describe_failure(package: LockedPackage, address: str, error: Exception) -> str:
    return f"{package} from {shown(address)}: {error}"
