"""Adds packages of npm to an image: unpacks their archives as npm does, without running anything.

The tree of package-lock.json goes below /usr/local/lib. Links to programs are those that npm makes: in `.bin`
of each node_modules, and in /usr/local/bin for packages that the project needs itself. The same packages give
the same files.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

from sandwright.documents import strictjson
from sandwright.errors import BuildError, IntegrityError, SandwrightError
from sandwright.image.fields import check_path
from sandwright.image.lockednpm import LockedNpm
from sandwright.image.overlay import Overlay
from sandwright.rootfs.tar.codec import Codec, decompressed
from sandwright.rootfs.tar.entry import EntryKind
from sandwright.rootfs.tar.limits import ArchiveLimits
from sandwright.rootfs.tar.reader import TarReader

ROOT = "usr/local/lib"
_PROGRAMS = "usr/local/bin"
_CHUNK = 1 << 20
_LARGEST_TEXT = 4 << 20
_LIMITS = ArchiveLimits(bytes=4 << 30, entries=200_000)
_CODECS: tuple[Codec, ...] = ("gzip",)
_LINKS = (EntryKind.SYMLINK, EntryKind.HARDLINK)
_SCRIPTS = {"preinstall", "install", "postinstall"}
_PROGRAM = re.compile(r"[A-Za-z0-9_@+-][A-Za-z0-9_.@+-]*")


@dataclass(frozen=True)
class NpmPackages:
    """Packages of npm. `files` has their archives by SHA-256."""

    packages: Sequence[LockedNpm]
    files: Mapping[str, Path]


@dataclass(frozen=True)
class _File:
    """A file of a package, `size` bytes from `start` in the scratch file."""

    start: int
    size: int
    runs: bool


def install_npm(overlay: Overlay, found: NpmPackages, scratch: BinaryIO) -> list[str]:
    """Verify and add packages to an image; `scratch` is an empty file, kept until the image is written.

    Return the names of packages with scripts that npm would run to install them. Raise IntegrityError for an
    archive with another digest, BuildError for one that can't be installed, or has a path that is taken.
    """
    linked: set[str] = set()
    scripted: set[str] = set()
    for package in sorted(found.packages):
        path = found.files[package.sha256]
        with path.open("rb") as file:
            if (digest := hashlib.file_digest(file, "sha256").hexdigest()) != package.sha256:
                raise IntegrityError(f"{package}: its SHA-256 is {digest}, the lock says {package.sha256}")
            file.seek(0)
            try:
                if _install_package(overlay, package, file, scratch, linked):
                    scripted.add(package.name)
            except (ValueError, SandwrightError) as error:
                raise BuildError(f"{package}: not a package that can be installed: {error}") from error
    return sorted(scripted)


def _install_package(
    overlay: Overlay, package: LockedNpm, archive: BinaryIO, scratch: BinaryIO, linked: set[str]
) -> bool:
    """Whether the package has scripts that npm would run. `linked` are the links of all packages."""
    files = _spool_files(package, archive, scratch)
    document = _package_document(files["package.json"], scratch)
    programs = dict(_stated_programs(package, document, files))
    for name, file in sorted(files.items()):
        target = f"{ROOT}/{package.path}/{name}".encode()
        if not overlay.missing(target):
            raise ValueError(f"/{target.decode()} is in the image already")
        mode = 0o755 if file.runs or name in programs.values() else 0o644
        overlay.file(target, partial(_spooled, scratch, file), size=file.size, mode=mode)
    above = package.path[: package.path.rindex("node_modules/") + len("node_modules")]
    for name, program in programs.items():
        if package.direct:
            _link_for_path(overlay, name, f"../lib/{package.path}/{program}")
        link = f"{ROOT}/{above}/.bin/{name}"
        if link in linked:
            continue  # npm, too, keeps one of those with the same name
        linked.add(link)
        overlay.link(link.encode(), posixpath.relpath(f"{package.path}/{program}", f"{above}/.bin").encode())
    scripts = document.get("scripts")
    return "binding.gyp" in files or (isinstance(scripts, dict) and not _SCRIPTS.isdisjoint(scripts))


def _link_for_path(overlay: Overlay, name: str, target: str) -> None:
    path = f"{_PROGRAMS}/{name}".encode()
    if not overlay.missing(path):
        raise ValueError(f"/{path.decode()} is in the image already")
    overlay.link(path, target.encode())


def _spool_files(package: LockedNpm, archive: BinaryIO, scratch: BinaryIO) -> dict[str, _File]:
    """The files of a package by path, their content in the scratch file. As npm does, ignore links."""
    stream = decompressed(archive, name=str(package), allow=_CODECS, limits=_LIMITS)
    reader = TarReader(stream, name=str(package), limits=_LIMITS)
    files: dict[str, _File] = {}
    for entry in reader:
        name = entry.path.partition(b"/")[2].decode()
        if entry.kind is EntryKind.DIRECTORY or entry.kind in _LINKS or not name:
            continue
        if entry.kind is not EntryKind.FILE:
            raise ValueError(f"{name} is a {entry.kind.value}")
        check_path(f"/{name}")
        if name.rpartition("/")[2] == ".gitignore":  # npm renames it, or drops it where there is the other
            name = f"{name.removesuffix('.gitignore')}.npmignore"
            if name in files:
                continue
        start = scratch.seek(0, 2)
        for chunk in reader.chunks():
            scratch.write(chunk)
        files[name] = _File(start, entry.size, bool(entry.mode & 0o111))
    if "package.json" not in files:
        raise ValueError("it has no package.json")
    return files


def _package_document(file: _File, scratch: BinaryIO) -> Mapping[str, object]:
    """The content of a package.json."""
    if file.size > _LARGEST_TEXT:
        raise ValueError(f"its package.json has {file.size} bytes")
    document = strictjson.loads_lenient(b"".join(_spooled(scratch, file)).decode("utf-8-sig"))
    if not isinstance(document, dict):
        raise ValueError("its package.json is not an object")
    return document


def _stated_programs(
    package: LockedNpm, document: Mapping[str, object], files: Mapping[str, _File]
) -> Iterator[tuple[str, str]]:
    """The programs that a package states, sorted: names and files."""
    stated = document.get("bin")
    if isinstance(stated, str):
        stated = {package.name.rpartition("/")[2]: stated}
    for name, path in sorted(stated.items()) if isinstance(stated, dict) else ():
        program = posixpath.normpath(f"/{path}").lstrip("/")
        if not _PROGRAM.fullmatch(name):
            raise ValueError(f"package.json: bin: {name!r} is not the name of a program")
        if program in files:
            yield name, program


def _spooled(scratch: BinaryIO, file: _File) -> Iterator[bytes]:
    at, end = file.start, file.start + file.size
    while at < end:
        scratch.seek(at)
        chunk = scratch.read(min(_CHUNK, end - at))
        at += len(chunk)
        yield chunk
