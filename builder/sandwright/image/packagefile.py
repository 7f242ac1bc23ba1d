"""Opens the packages of a lock, of any format, and verifies them while they are read."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sandwright.errors import HostError, IntegrityError, SandwrightError
from sandwright.image.apk.package import ApkPackage
from sandwright.image.deb import DebPackage, PlainCopy
from sandwright.image.lock import PackageFormat
from sandwright.rootfs.tar.reader import Readable


@dataclass(frozen=True)
class ExpectedDigest:
    """Size and digest of a package in the lock. `label` names it in messages: `git 1:2.39.5-0 (amd64)`."""

    label: str
    size: int
    sha256: str
    format: PackageFormat = "deb"


@contextlib.contextmanager
def open_package(
    path: Path,
    promise: ExpectedDigest,
    *,
    advance: Callable[[int], object] = lambda _: None,
    copy: PlainCopy | None = None,
) -> Iterator[DebPackage | ApkPackage]:
    """A package in a file, for the length of a `with` that ends by reading and verifying the rest of it.

    `advance` is called with the number of bytes of each read; `copy` receives the package without
    compression. Raise IntegrityError when size or digest differ from the lock; this error takes precedence
    over any other that reading the package raised.
    """
    try:
        raw = path.open("rb")
    except OSError as error:
        raise HostError(f"package {promise.label}: cannot read {path}: {error.strerror}") from error
    with raw:
        hashing = _Hashing(raw, advance)
        try:
            package = _READERS[promise.format](hashing, promise.label, copy)
            yield package
            package.finish()
            if copy is not None:
                copy.close()
        except SandwrightError:
            hashing.check(promise)
            raise
        hashing.check(promise)


class _Hashing:
    """A stream that counts and hashes everything read from it."""

    def __init__(self, stream: Readable, advance: Callable[[int], object]) -> None:
        self._stream = stream
        self._advance = advance
        self._digest = hashlib.sha256()
        self._size = 0

    def read(self, size: int, /) -> bytes:
        data = self._stream.read(size)
        self._digest.update(data)
        self._size += len(data)
        self._advance(len(data))
        return data

    def check(self, promise: ExpectedDigest) -> None:
        """Read to the end. Raise IntegrityError for another size or digest."""
        while self.read(1 << 20):
            pass
        if self._size != promise.size:
            raise IntegrityError(f"package {promise.label}: {self._size} bytes, the lock says {promise.size}")
        found = self._digest.hexdigest()
        if found != promise.sha256:
            raise IntegrityError(
                f"package {promise.label}: its SHA-256 is {found}, the lock says {promise.sha256}"
            )


_READERS: Mapping[PackageFormat, Callable[[Readable, str, PlainCopy | None], DebPackage | ApkPackage]] = {
    "deb": lambda stream, label, copy: DebPackage(stream, label=label, copy=copy),
    "apk": lambda stream, label, _copy: ApkPackage(stream, label=label),
}
