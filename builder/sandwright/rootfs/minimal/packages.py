"""Owners of files in a root file system, by the package database in it.

Debian's (`/var/lib/dpkg/info/*.list` with `status`; or `status.d` with md5sums, as distroless images have
it) and Alpine's (`/lib/apk/db/installed`). The database is the image's own word about itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from sandwright.errors import ArchiveRefused
from sandwright.rootfs.controlfields import control_paragraphs
from sandwright.rootfs.securejoin import Root
from sandwright.rootfs.tar.entry import EntryRefused, show
from sandwright.rootfs.tar.limits import NAMED
from sandwright.rootfs.tar.memory_budget import MemoryBudget

INFO = b"/var/lib/dpkg/info"
STATUS = b"/var/lib/dpkg/status"
STATUS_D = b"/var/lib/dpkg/status.d"
APK = b"/lib/apk/db/installed"
_LARGEST = 64 << 20


@dataclass
class InstalledPackage:
    """A package: its files, as absolute paths without links on the way, and its dependencies by name."""

    name: str
    files: list[bytes] = field(default_factory=list)
    depends: list[str] = field(default_factory=list)
    provides: list[str] = field(default_factory=list)


class PackageDatabase:
    """The packages of one root file system. `exists` is false where it has no database."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._folders: dict[bytes, bytes] = {}
        self._packages: dict[str, InstalledPackage] = {}
        self._owners: dict[bytes, str] = {}
        self._shared: set[bytes] = set()
        self._providers: dict[str, list[str]] = {}
        self._held = MemoryBudget()
        for package in self._read_packages():
            self._add_package(package)

    def _add_package(self, package: InstalledPackage) -> None:
        package.files = sorted({self._real(path) for path in package.files})
        self._packages[package.name] = package
        for name in package.provides:
            self._providers.setdefault(name, []).append(package.name)
        for path in package.files:
            if self._owners.setdefault(path, package.name) != package.name:
                self._shared.add(path)

    @property
    def exists(self) -> bool:
        """Whether there is a database at all."""
        return bool(self._packages)

    def owner(self, path: bytes) -> str | None:
        """The package that a path, free of links but for its last component, belongs to."""
        return self._owners.get(path)

    def files(self, package: str) -> list[bytes]:
        """The paths that belong to a package and to no other, directories too, sorted."""
        files = self._packages[package].files if package in self._packages else []
        return [path for path in files if path not in self._shared]

    def with_dependencies(self, package: str) -> list[str]:
        """The package and all its dependencies, sorted. Of alternatives, those that are installed."""
        found: set[str] = set()
        ahead = [package]
        while ahead:
            name = ahead.pop()
            if name not in self._packages:
                ahead += [each for each in self._providers.get(name, []) if each not in found]
            elif name not in found:
                found.add(name)
                ahead += self._packages[name].depends
        return sorted(found)

    def _real(self, path: bytes) -> bytes:
        """A path with links in its directory part resolved: databases list /bin/sh even if /bin is a link."""
        folder, _, name = path.rpartition(b"/")
        if folder not in self._folders:
            self._folders[folder] = self._root.locate(folder).path.rstrip(b"/")
        return self._folders[folder] + b"/" + name

    def _read_packages(self) -> Iterator[InstalledPackage]:
        if self._root.locate(INFO).is_directory and self._root.locate(STATUS).is_file:
            yield from self._dpkg()
        elif self._root.locate(STATUS_D).is_directory:
            yield from self._status_d()
        elif self._root.locate(APK).is_file:
            yield from _apk(self._database_file(APK))

    def _dpkg(self) -> Iterator[InstalledPackage]:
        found: dict[str, list[bytes]] = {}
        for file in self._root.names(INFO):
            if file.endswith(b".list"):  # name.list, or name:architecture.list
                name = file[:-5].decode(errors="replace").partition(":")[0]
                lines = self._database_file(INFO + b"/" + file).split(b"\n")
                found.setdefault(name, []).extend(line for line in lines if re.match(rb"/[^.]", line))
        for stanza in self._stanzas(STATUS):
            name = stanza.get("Package", "")
            yield InstalledPackage(name, found.pop(name, []), *_relations(stanza))
        for name, files in found.items():
            yield InstalledPackage(name, files)

    def _status_d(self) -> Iterator[InstalledPackage]:
        names = self._root.names(STATUS_D)
        for file in names:
            if file.endswith(b".md5sums"):
                continue
            sums = (
                self._database_file(STATUS_D + b"/" + file + b".md5sums")
                if file + b".md5sums" in names
                else b""
            )
            files = [
                b"/" + line.partition(b"  ")[2].lstrip(b"/") for line in sums.split(b"\n") if b"  " in line
            ]
            for stanza in self._stanzas(STATUS_D + b"/" + file):
                yield InstalledPackage(
                    stanza.get("Package", file.decode(errors="replace")), files, *_relations(stanza)
                )

    def _stanzas(self, path: bytes) -> Iterator[dict[str, str]]:
        return control_paragraphs(self._database_file(path).decode(errors="replace"))

    def _database_file(self, path: bytes) -> bytes:
        """A file of the database. Raise ArchiveRefused when all of them are too much to be kept."""
        content = self._root.read(path, limit=_LARGEST)
        try:
            self._held.take(len(content) + NAMED * content.count(b"\n"))
        except EntryRefused as refusal:
            raise ArchiveRefused(f"{show(path)} in {self._root.name}: {refusal}") from None
        return content


def _relations(stanza: dict[str, str]) -> tuple[list[str], list[str]]:
    """The names that a package depends on, alternatives too, and those that it provides."""
    depends = f"{stanza.get('Pre-Depends', '')},{stanza.get('Depends', '')}"
    return _relation_names(depends), _relation_names(stanza.get("Provides", ""))


def _relation_names(relation: str) -> list[str]:
    names = (re.match(r"[a-z0-9][a-z0-9+.-]*", part.strip()) for part in re.split(r"[,|]", relation))
    return [name[0] for name in names if name]


def _apk(text: bytes) -> Iterator[InstalledPackage]:
    """The packages of Alpine's database: P names one, F begins a directory, R names a file in it."""
    for paragraph in text.split(b"\n\n"):
        package, folder = InstalledPackage(""), b""
        for line in paragraph.split(b"\n"):
            key, value = line[:2], line[2:]
            if key == b"P:":
                package.name = value.decode(errors="replace")
            elif key == b"F:":
                folder = value
            elif key == b"R:":
                package.files.append(b"/".join((b"", folder, value)).replace(b"//", b"/"))
            elif key == b"D:":
                package.depends += [
                    re.split(r"[<>=~]", name)[0] for name in value.decode(errors="replace").split()
                ]
        if package.name:
            yield package
