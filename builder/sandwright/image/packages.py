"""Streams the files of packages into a layer, each where the image wants it.

One thread reads one package at a time, in one pass. It also collects the data that later steps need: the
tree, the contents of a few files, the ELF headers of libraries.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from sandwright.errors import BuildError
from sandwright.image.apk.package import ApkPackage
from sandwright.image.layer import LayerWriter
from sandwright.image.ldcache import is_library_name
from sandwright.image.packagefile import ExpectedDigest, open_package
from sandwright.image.tree import FileNode, PackageContents
from sandwright.rootfs.elf import Malformed, read_elf
from sandwright.rootfs.tar.entry import WHITEOUT, EntryKind, TarEntry, show
from sandwright.rootfs.tar.reader import TarReader

MERGED = (b"bin", b"sbin", b"lib", b"lib32", b"lib64", b"libx32")
"""The top directories that are links into /usr where /usr is merged (file-hierarchy of Debian 12)."""


def _nothing(_path: bytes) -> bool:
    return False


def _everything(_path: str) -> bool:
    return True


@dataclass(frozen=True)
class PackageRules:
    """The rules by which files of packages become files of the image.

    `wanted` decides by the absolute path in the package. With `merged_usr`, files below a top directory of
    `MERGED` move below `usr`. No file is newer than `epoch`, in seconds. `keep` picks files, by their path in
    the image, whose content later steps need.
    """

    epoch: int
    merged_usr: bool = False
    wanted: Callable[[str], bool] = _everything
    keep: Callable[[bytes], bool] = _nothing

    def image_path(self, path: bytes) -> bytes:
        """The path in the image for a package's path."""
        top = path.partition(b"/")[0]
        return b"usr/" + path if self.merged_usr and top in MERGED else path

    def wants(self, path: bytes) -> bool:
        """Whether a package's path belongs to the image."""
        return self.wanted("/" + path.decode("utf-8", "surrogateescape"))


@dataclass(frozen=True)
class PackageSource:
    """A package file, and its digest in the lock."""

    name: str
    path: Path
    promise: ExpectedDigest
    version: str = ""
    architecture: str = ""


@dataclass
class WrittenPackages:
    """The contents of a finished layer: those of each package, and the directories as the layer has them."""

    packages: list[PackageContents]
    directories: dict[bytes, FileNode]


def write_packages(
    sources: Iterable[PackageSource],
    rules: PackageRules,
    layer: LayerWriter,
    advance: Callable[[int], object] = lambda _: None,
) -> WrittenPackages:
    """Write the files of some packages into one layer, in that order.

    Each directory is written once, before its entries, with the metadata of the first package that has it.
    `advance` is called with each number of bytes read. Raise IntegrityError or ArchiveRefused for a package
    that is damaged or hostile, BuildError for one that can't be part of an image; all name the package.
    """
    directories: dict[bytes, FileNode] = {}
    packages = [_PackageWriter(source, rules, layer, directories).run(advance) for source in sources]
    return WrittenPackages(packages, directories)


class _PackageWriter:
    """Writes one package into a layer."""

    def __init__(
        self,
        source: PackageSource,
        rules: PackageRules,
        layer: LayerWriter,
        directories: dict[bytes, FileNode],
    ) -> None:
        self._source = source
        self._rules = rules
        self._layer = layer
        self._directories = directories
        self._latest = rules.epoch * 10**9
        self._found = PackageContents(source.name)
        self._unwanted: dict[bytes, TarEntry] = {}
        self._originals: dict[bytes, bytes] = {}
        self._heirs: dict[bytes, bytes] = {}

    def run(self, advance: Callable[[int], object]) -> PackageContents:
        with open_package(self._source.path, self._source.promise, advance=advance) as package:
            self._check_identity(package.identity())
            if isinstance(package, ApkPackage):
                self._found.checksum = package.signed.checksum
            for entry in package.data:
                self._copy_entry(entry, package.data)
            self._found.control = package.control
        return self._found

    @property
    def _label(self) -> str:
        return self._source.promise.label

    def _check_identity(self, identity: Mapping[str, str | None]) -> None:
        source = self._source
        expected = (source.name, source.version, source.architecture)
        for (key, found), value in zip(identity.items(), expected, strict=True):
            if value and found != value:
                raise BuildError(f"package {self._label}: its {key} is {found!r}, the lock says {value!r}")

    def _copy_entry(self, entry: TarEntry, reader: TarReader) -> None:
        path = entry.path
        if WHITEOUT in path and any(part.startswith(WHITEOUT) for part in path.split(b"/")):
            raise BuildError(f"package {self._label}: {show(path)} would hide a file of the image")
        target = self._rules.image_path(path)
        if not path or (target != path and path in MERGED):
            self._check_top(entry)
            return
        entry.path, entry.mtime_ns = target, min(entry.mtime_ns, self._latest)
        if not self._rules.wants(path):
            self._unwanted[target] = entry
            self._originals[target] = path
        elif entry.kind is EntryKind.DIRECTORY:
            self._copy_directory(entry)
        else:
            self._other(entry, reader)

    def _check_top(self, entry: TarEntry) -> None:
        """A package may contain the root, and `/bin` as a directory or as the link of a merged /usr."""
        merged = entry.kind is EntryKind.SYMLINK and entry.link.strip(b"/") == b"usr/" + entry.path
        if entry.kind is not EntryKind.DIRECTORY and not merged:
            raise BuildError(
                f"package {self._label}: {show(entry.path)} is neither a directory nor a link into usr"
            )

    def _copy_directory(self, entry: TarEntry) -> None:
        before = self._found.nodes.get(entry.path)
        if before is not None and not before.implied:
            if before.kind is not EntryKind.DIRECTORY:
                self._refuse_second(entry.path)
            return
        self._parents(entry)
        self._found.nodes[entry.path] = node = FileNode.of(entry, self._source.name)
        self._write_directory(entry, node)

    def _parents(self, entry: TarEntry) -> None:
        """Create the parent directories that the package has not contained before."""
        parent = entry.path.rpartition(b"/")[0]
        if not parent or parent in self._found.nodes:
            return
        unwanted = self._unwanted.get(parent)
        if unwanted is not None and unwanted.kind is EntryKind.DIRECTORY:
            self._copy_directory(unwanted)
            return
        made = TarEntry(parent, EntryKind.DIRECTORY, mode=0o755, mtime_ns=entry.mtime_ns)
        self._parents(made)
        self._found.nodes[parent] = node = FileNode.of(made, self._source.name)
        node.implied = True
        self._write_directory(made, node)

    def _write_directory(self, entry: TarEntry, node: FileNode) -> None:
        if entry.path not in self._directories:
            self._directories[entry.path] = node
            self._layer.add(entry)

    def _other(self, entry: TarEntry, reader: TarReader) -> None:
        if entry.path in self._found.nodes:
            self._refuse_second(entry.path)
        self._parents(entry)
        content: Iterable[bytes] = self._watched(entry.path, reader) if entry.size else ()
        if entry.kind is EntryKind.HARDLINK:
            entry, content = self._hard_link(entry)
        if self._found.checksum:
            content = self._hash_content(entry, content)
        self._found.nodes[entry.path] = FileNode.of(entry, self._source.name)
        self._layer.add(entry, content)

    def _hard_link(self, entry: TarEntry) -> tuple[TarEntry, Iterable[bytes]]:
        """The hard link to its target in the image, or the file itself when the target is unwanted."""
        target = self._rules.image_path(entry.link)
        while target in self._unwanted and self._unwanted[target].kind is EntryKind.HARDLINK:
            target = self._rules.image_path(self._unwanted[target].link)
        target = self._heirs.get(target, target)
        if target in self._found.nodes:
            return replace(entry, link=target), ()
        file = self._unwanted.get(target)
        if file is None or file.kind is not EntryKind.FILE:
            what = f"{show(entry.path)} is a hard link to {show(entry.link)}"
            raise BuildError(f"package {self._label}: {what}, which is no file before it")
        self._heirs[target] = entry.path
        return replace(file, path=entry.path), self._content_again(self._originals[target])

    def _refuse_second(self, path: bytes) -> None:
        raise BuildError(f"package {self._label}: has {show(path)} twice")

    def _watched(self, path: bytes, reader: TarReader) -> Iterator[bytes]:
        """Yield a file's content. Keep it if the rules require that; read a library's ELF headers."""
        content: list[bytes] | None = [] if self._rules.keep(path) else None
        with tempfile.TemporaryFile() if is_library_name(path.rpartition(b"/")[2]) else nullcontext() as copy:
            for chunk in reader.chunks():
                if copy is not None:
                    copy.write(chunk)
                if content is not None:
                    content.append(chunk)
                yield chunk
            if copy is not None:
                copy.flush()
                self._read_elf(path, copy.fileno())
        if content is not None:
            self._found.contents[path] = b"".join(content)

    def _hash_content(self, entry: TarEntry, content: Iterable[bytes]) -> Iterator[bytes]:
        """Yield a file's content, and note its SHA-1 for apk's database."""
        if entry.kind is EntryKind.HARDLINK:
            self._found.sums[entry.path] = self._found.sums[entry.link]
            return
        digest = hashlib.sha1(entry.link if entry.kind is EntryKind.SYMLINK else b"", usedforsecurity=False)
        for chunk in content:
            digest.update(chunk)
            yield chunk
        self._found.sums[entry.path] = digest.digest()

    def _read_elf(self, path: bytes, fd: int) -> None:
        with suppress(Malformed):
            elf = read_elf(fd, symbols=False)
            if elf is not None:
                self._found.elves[path] = elf

    def _content_again(self, original: bytes) -> Iterator[bytes]:
        with open_package(self._source.path, self._source.promise) as package:
            for entry in package.data:
                if entry.path == original and entry.kind is EntryKind.FILE:
                    yield from package.data.chunks()
