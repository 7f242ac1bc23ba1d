"""The cache of downloads, addressed by SHA-256.

A file in the cache is complete and verified, even after a crash and with concurrent runs: it is written under
a temporary name and renamed. Its writer holds its lock, so that a sweep can tell the leftovers of a
killed run from a download in progress.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from sandwright import user_dirs
from sandwright.errors import HostError
from sandwright.image.lock import LockedPackage
from sandwright.locking import exclusive


def default_cache(environment: Mapping[str, str]) -> Path:
    """The cache's directory: SANDWRIGHT_CACHE, else `sandwright` in XDG_CACHE_HOME, else in `~/.cache`."""
    return Path(user_dirs.downloads(environment))


class Cache:
    """Files addressed by their SHA-256: `sha256/ab/abcd…`, and `partial/` for downloads in progress."""

    def __init__(self, root: Path) -> None:
        """`root` is created with the first file."""
        self.root = root

    def path(self, sha256: str) -> Path:
        """The path of a file, whether it exists or not."""
        return self.root / "sha256" / sha256[:2] / sha256

    def has(self, package: LockedPackage, *, verify: bool = False) -> bool:
        """Whether the cache has the package, judged by its size; with `verify`, by its content."""
        return self.holds(package.sha256, package.size, verify=verify)

    def holds(self, sha256: str, size: int, *, verify: bool = False) -> bool:
        """Whether the cache has a file, judged by its size; with `verify`, by its content."""
        path = self.path(sha256)
        try:
            status = path.lstat()
            if not stat.S_ISREG(status.st_mode) or status.st_size != size:
                return False
            if not verify:
                return True
            with path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest() == sha256
        except FileNotFoundError:
            return False
        except OSError as error:
            raise HostError(f"cannot read {path} in the cache: {error.strerror}") from error

    def keep(self, file: BinaryIO, sha256: str, size: int) -> None:
        """Add a copy of a verified file, unless it is there. Raise HostError."""
        if not self.holds(sha256, size, verify=True):
            file.seek(0)
            with self.adding(sha256) as copy:
                shutil.copyfileobj(file, copy)

    def sweep(self) -> None:
        """Remove the leftovers of killed runs. Downloads in progress are locked, and stay."""
        with contextlib.suppress(FileNotFoundError):
            for path in (self.root / "partial").iterdir():
                with contextlib.suppress(OSError), exclusive(path, within=0) as held:
                    if held and path.lstat().st_uid == os.geteuid():
                        path.unlink()

    @contextlib.contextmanager
    def adding(self, sha256: str) -> Iterator[BinaryIO]:
        """A new file, added to the cache when the `with` ends without an error, else removed.

        The caller must have verified its content by then. Raise HostError when it can't be written.
        """
        target = self.path(sha256)
        partial = self.root / "partial" / f"{sha256}.{uuid.uuid4().hex}"
        try:
            partial.parent.mkdir(parents=True, exist_ok=True)
            target.parent.mkdir(parents=True, exist_ok=True)
            with exclusive(partial, within=0), partial.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
                partial.replace(target)
        except OSError as error:
            raise HostError(f"cannot write to the cache {self.root}: {error.strerror}") from error
        finally:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
