"""Downloads packages from the mirrors in turn, several at a time, with patience."""

from __future__ import annotations

import hashlib
import urllib.parse
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import BinaryIO

from sandwright.errors import FetchError, IntegrityError
from sandwright.image.cache import Cache
from sandwright.image.lock import Package
from sandwright.image.mirrors import Mirrors, shown
from sandwright.image.transfer import Gone, Passing, Patience, Stopped, Transfer
from sandwright.progress import Step
from sandwright.registry.download import Credit


def download(
    packages: Sequence[Package],
    *,
    mirrors: Mirrors,
    cache: Cache,
    jobs: int,
    patience: Patience | None,
    step: Step,
) -> list[Package]:
    """Put packages into the cache; give those that no mirror has any more.

    At the first other failure, or Ctrl-C, the rest is stopped. Raise FetchError, IntegrityError, HostError.
    """
    errand = _Errand(mirrors, cache, patience or Patience(), step)
    with ThreadPoolExecutor(jobs, "fetch") as pool:
        found = {package: pool.submit(errand.bring, package) for package in packages}
        try:
            done, _ = wait(found.values(), return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
        except BaseException:
            errand.transfer.stop()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return [package for package, future in found.items() if not future.result()]


class _Errand:
    """What the downloads of one call share."""

    def __init__(self, mirrors: Mirrors, cache: Cache, patience: Patience, step: Step) -> None:
        self.transfer = Transfer(mirrors, patience)
        self._mirrors = mirrors
        self._cache = cache
        self._patience = patience
        self._step = step

    def bring(self, package: Package) -> bool:
        """Download one package, from the mirrors in turn; whether any has it."""
        try:
            with self._cache.adding(package.sha256) as file:
                self._fill(package, _Part(file, Credit(self._step)))
        except Gone:
            return False
        return True

    def _fill(self, package: Package, part: _Part) -> None:
        """Ask the mirrors until the package is whole. Raise Gone when none has it."""
        bases = list(self._mirrors.bases(package.archive))
        failures: dict[str, FetchError | IntegrityError] = {}
        for attempt in range(self._patience.attempts):
            wish = 0.0
            for base in tuple(bases):
                address = f"{base}/{urllib.parse.quote(package.path, safe='/~')}"  # `+` is a space to some
                try:
                    self._download(package, address, part)
                except Gone:
                    bases.remove(base)
                    failures.pop(base, None)
                except Passing as passing:
                    failures[base] = FetchError(_told(package, address, passing))
                    wish = max(wish, passing.after)
                except IntegrityError as error:  # perhaps damaged on its way
                    failures[base] = IntegrityError(_told(package, address, error))
                    part.restart()
                except FetchError as error:
                    failures[base] = FetchError(_told(package, address, error))
                    bases.remove(base)
                else:
                    return
            if not bases:
                break
            self._pause(attempt, wish)
        raise list(failures.values())[-1] if failures else Gone

    def _download(self, package: Package, address: str, part: _Part) -> None:
        """Read what is lacking of a package; what another mirror gave of it counts."""
        for at, chunk in self.transfer.read(address, size=package.size, start=part.count):
            part.take(at, chunk)
        if part.digest != package.sha256:
            raise IntegrityError(f"has SHA-256 {part.digest}, the lock says {package.sha256}")

    def _pause(self, attempt: int, wish: float) -> None:
        if attempt + 1 < self._patience.attempts:
            pause = max(wish, self._patience.pause * 2**attempt)
            if self.transfer.stopped.wait(min(pause, self._patience.longest)):
                raise Stopped


class _Part:
    """What has come of a package so far."""

    def __init__(self, file: BinaryIO, credit: Credit) -> None:
        """`file` is new; `credit` is told how far it has come."""
        self.count = 0
        self._file = file
        self._credit = credit
        self._hash = hashlib.sha256()

    @property
    def digest(self) -> str:
        """The SHA-256 of what is there."""
        return self._hash.hexdigest()

    def take(self, at: int, chunk: bytes) -> None:
        """Take the bytes at a place: the end, or the start, when all comes anew."""
        if at != self.count:
            self.restart()
        self._hash.update(chunk)
        self._file.write(chunk)
        self.count += len(chunk)
        self._credit.reach(self.count)

    def restart(self) -> None:
        """Forget what is there."""
        self.count = 0
        self._hash = hashlib.sha256()
        self._file.seek(0)
        self._file.truncate()


def _told(package: Package, address: str, error: Exception) -> str:
    return f"{package} from {shown(address)}: {error}"
