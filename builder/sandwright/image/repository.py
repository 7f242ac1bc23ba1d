"""Writes a Debian repository of exactly the locked packages, for apt to install from.

Format: the fields of `Packages` and `Release` in Debian's RepositoryFormat. The repository is unsigned: it
exists for one build, and every package in it has just been verified against the lock.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from sandwright.image.deb import PlainCopy
from sandwright.image.packagefile import open_package
from sandwright.image.packages import PackageSource
from sandwright.outputs import disk_errors

COMPONENT = "main"

Together = Callable[[Sequence[Callable[[], bytes]]], list[bytes]]
"""Runs tasks in parallel and returns their results in order."""


def one_by_one(tasks: Sequence[Callable[[], bytes]]) -> list[bytes]:
    """Run tasks one after another."""
    return [task() for task in tasks]


def write_repository(
    directory: Path,
    sources: Sequence[PackageSource],
    *,
    suite: str,
    architecture: str,
    together: Together = one_by_one,
) -> None:
    """Make `directory` a repository that offers `sources` as `suite` for `architecture`.

    Packages are rewritten without compression, and readable by everyone: apt may run as another user. Raise
    IntegrityError for a package that differs from the lock.
    """
    pool = directory / "pool"
    lists = directory / "dists" / suite / COMPONENT / f"binary-{architecture}"
    with disk_errors(directory):
        for made in (pool, lists):
            made.mkdir(parents=True)
        paragraphs = together([_offer(source, pool) for source in sources])
        (lists / "Packages").write_bytes(b"\n".join(paragraphs))
        release = (
            f"Suite: {suite}\nCodename: {suite}\nArchitectures: {architecture}\nComponents: {COMPONENT}\n"
        )
        (directory / "dists" / suite / "Release").write_text(release, encoding="utf-8")
        for path in [directory, *directory.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)


def _offer(source: PackageSource, pool: Path) -> Callable[[], bytes]:
    def offer() -> bytes:
        path = pool / f"{source.name}.deb"
        with path.open("w+b") as file:
            with open_package(source.path, source.promise, copy=PlainCopy(file)) as package:
                control = package.control["control"].strip(b"\n")
            size = file.tell()
            file.seek(0)
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return control + f"\nFilename: pool/{path.name}\nSize: {size}\nSHA256: {digest}\n".encode()

    return offer
