"""Writes a Debian repository of exactly the packages that a lock names, for apt to install from.

Format: deb-src-control fields of `Packages` and `Release`, as in Debian's RepositoryFormat. It is unsigned:
it lives for one build, and every package in it has just been compared with the lock.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from sandwright.image.deb import open_package
from sandwright.image.packages import Source

COMPONENT = "main"


def write_repository(
    directory: Path,
    sources: Sequence[Source],
    *,
    suite: str,
    architecture: str,
    advance: Callable[[int], object] = lambda _: None,
) -> None:
    """Make `directory` a repository that offers `sources` as `suite` for `architecture`.

    Packages are linked into it, or copied where links don't reach. Raise IntegrityError for a package that
    isn't what the lock promises.
    """
    pool = directory / "pool"
    lists = directory / "dists" / suite / COMPONENT / f"binary-{architecture}"
    for made in (pool, lists):
        made.mkdir(parents=True)
    paragraphs = []
    for source in sources:
        name = f"{source.name}_{source.architecture}.deb"
        _link(source.path, pool / name)
        paragraphs.append(_paragraph(source, name, advance))
    (lists / "Packages").write_bytes(b"\n".join(paragraphs))
    release = f"Suite: {suite}\nCodename: {suite}\nArchitectures: {architecture}\nComponents: {COMPONENT}\n"
    (directory / "dists" / suite / "Release").write_text(release, encoding="utf-8")


def _paragraph(source: Source, name: str, advance: Callable[[int], object]) -> bytes:
    with open_package(source.path, source.promise, advance=advance) as package:
        control = package.control["control"].strip(b"\n")
    promise = source.promise
    located = f"Filename: pool/{name}\nSize: {promise.size}\nSHA256: {promise.sha256}\n"
    return control + b"\n" + located.encode()


def _link(source: Path, target: Path) -> None:
    """Everyone may read the package: apt may run under another user id."""
    if source.stat().st_mode & 0o004:
        with contextlib.suppress(OSError):
            os.link(source, target)
            return
    shutil.copyfile(source, target)
    target.chmod(0o644)
