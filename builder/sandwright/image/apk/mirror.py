"""Fetches indices and packages from mirrors of Alpine, and verifies them against signatures and indices."""

from __future__ import annotations

import hashlib
import io
import shutil
import tempfile
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO, TypeVar

from sandwright.errors import FetchError, IntegrityError
from sandwright.image.apk.index import FILE, IndexedPackage, read_index
from sandwright.image.apk.package import ApkPackage
from sandwright.image.apk.signing import verify_signature
from sandwright.image.cache import Cache
from sandwright.image.lock import LockedPackage
from sandwright.image.mirrors import Mirrors, redact_address
from sandwright.image.transfer import MIRROR_RETRIES, FileGone, Transfer, TransientError
from sandwright.registry.failure import Cancelled
from sandwright.registry.parallel import run_parallel

ARCHIVE = "alpine"
JOBS = 6
MAX_INDEX = 64 << 20

_Got = TypeVar("_Got")


@dataclass(frozen=True)
class FetchedIndex:
    """An index as it came, and the packages in it."""

    raw: bytes
    packages: Sequence[IndexedPackage]


class ApkMirror:
    """The mirrors of Alpine, the preferred first. `keys` are those whose signatures count, by file name."""

    def __init__(self, mirrors: Mirrors, keys: Mapping[str, bytes], cache: Cache) -> None:
        self._bases = mirrors.bases(ARCHIVE)
        self._keys = keys
        self._cache = cache
        self._transfer = Transfer(mirrors, MIRROR_RETRIES)

    def index(self, directory: str) -> FetchedIndex:
        """The index of a repository.

        Raise FetchError, or IntegrityError when it is not signed as it should be.
        """

        def read(file: BinaryIO) -> FetchedIndex:
            raw = file.read()
            return FetchedIndex(raw, read_index(io.BytesIO(raw), directory, self._keys))

        return self._fetch(f"{directory}/{FILE}", None, read)

    def lock(
        self, packages: Sequence[IndexedPackage], earlier: Mapping[tuple[str, int], LockedPackage]
    ) -> list[LockedPackage]:
        """The packages with their SHA-256, all of them in the cache.

        An index has no SHA-256 of whole packages, so each is read once. `earlier` are packages of an earlier
        lock, by path and size: of those that are in the cache nothing is fetched.
        """
        tasks = [partial(self._lock_one, each, earlier.get((each.path, each.size))) for each in packages]
        return run_parallel(tasks, stop=self._transfer.stop, jobs=JOBS, name="apk")

    def _lock_one(self, package: IndexedPackage, earlier: LockedPackage | None) -> LockedPackage:
        if earlier is not None and self._cache.has(earlier, verify=True):
            with self._cache.path(earlier.sha256).open("rb") as file:
                return self._verify(package, file)
        return self._fetch(package.path, package.size, partial(self._add_to_cache, package))

    def _add_to_cache(self, package: IndexedPackage, file: BinaryIO) -> LockedPackage:
        locked = self._verify(package, file)
        file.seek(0)
        with self._cache.adding(locked.sha256) as target:
            shutil.copyfileobj(file, target)
        return locked

    def _verify(self, package: IndexedPackage, file: BinaryIO) -> LockedPackage:
        """The lock's line of a package. Raise IntegrityError unless it is the index' one, and signed."""
        opened = ApkPackage(file, label=str(package))
        verify_signature(opened.signed, self._keys, f"package {package}")
        if opened.signed.checksum != package.checksum:
            found = f"its checksum is {opened.signed.checksum}, the index says {package.checksum}"
            raise IntegrityError(f"package {package}: {found}")
        opened.finish()
        file.seek(0)
        return LockedPackage(
            name=package.name,
            version=package.version,
            architecture=opened.fields().get("arch", ""),
            size=package.size,
            sha256=_hash_file(file),
            archive=ARCHIVE,
            path=package.path,
            source=package.fields.get("o", package.name),
            source_version=package.version,
            installed=int(package.fields.get("I", "0")) // 1024,
        )

    def _fetch(self, path: str, size: int | None, take: Callable[[BinaryIO], _Got]) -> _Got:
        """The result of `take` on a file of the first mirror that has it in a state that `take` accepts."""
        failures: list[FetchError | IntegrityError] = []
        for attempt in range(MIRROR_RETRIES.attempts):
            retry = False
            for base in self._bases:
                address = f"{base}/{urllib.parse.quote(path, safe='/~')}"
                try:
                    with tempfile.TemporaryFile() as file:
                        self._copy_from(address, size, file)
                        return take(file)
                except FileGone:
                    failures.append(FetchError(f"{redact_address(address)} does not exist"))
                except TransientError as passing:
                    retry = True
                    failures.append(FetchError(f"{redact_address(address)}: {passing}"))
                except (FetchError, IntegrityError) as error:
                    failures.append(type(error)(f"{redact_address(address)}: {error}"))
            if not retry:
                break
            if self._transfer.stopped.wait(MIRROR_RETRIES.backoff(attempt + 1, 0.0)):
                raise Cancelled
        raise failures[-1]

    def _copy_from(self, address: str, size: int | None, file: BinaryIO) -> None:
        for at, chunk in self._transfer.read(address, size=size):
            if at + len(chunk) > MAX_INDEX and size is None:
                raise IntegrityError(f"is longer than {MAX_INDEX} bytes")
            file.write(chunk)
        file.seek(0)


def _hash_file(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while chunk := file.read(1 << 20):
        digest.update(chunk)
    return digest.hexdigest()
