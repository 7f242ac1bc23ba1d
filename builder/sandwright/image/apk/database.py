"""Writes apk's record of installed packages, so that `apk`, scanners and our SBOMs know an image's packages.

Format: apk's database of version 2: `installed` has the fields of an index, then for each directory and file
its mode, owner and checksum; `scripts.tar` and `triggers` hold the scripts that apk runs when a derived image
installs or removes packages.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Sequence

from sandwright.image.apk.package import INFO, parse_info
from sandwright.image.tree import FileNode, PackageContents
from sandwright.rootfs.tar.entry import EntryKind, TarEntry
from sandwright.rootfs.tar.writer import TarWriter

DIRECTORY = b"lib/apk/db/"

_FIELDS = (  # the letter in the database, and the name in .PKGINFO
    ("P", "pkgname"),
    ("V", "pkgver"),
    ("A", "arch"),
    ("I", "size"),
    ("T", "pkgdesc"),
    ("U", "url"),
    ("L", "license"),
    ("o", "origin"),
    ("m", "maintainer"),
    ("t", "builddate"),
    ("c", "commit"),
    ("D", "depend"),
    ("p", "provides"),
    ("r", "replaces"),
    ("q", "replaces_priority"),
    ("i", "install_if"),
    ("k", "provider_priority"),
)


def installed(packages: Sequence[PackageContents]) -> bytes:
    """The file `installed`."""
    return b"".join(b"".join(_database_paragraph(each)) + b"\n" for each in packages)


def triggers(packages: Sequence[PackageContents]) -> bytes:
    """The file `triggers`: the checksum of a package, and the directories whose changes start its trigger."""
    found = ((each.checksum, parse_info(_package_info(each)).get("triggers", [])) for each in packages)
    return "".join(f"{checksum} {' '.join(paths)}\n" for checksum, paths in found if paths).encode()


def scripts(packages: Sequence[PackageContents]) -> bytes:
    """The archive `scripts.tar`, in which names hold version and checksum of the package."""
    buffer = io.BytesIO()
    writer = TarWriter(buffer)
    for package in packages:
        info = parse_info(_package_info(package))
        digest = base64.b64decode(package.checksum[2:]).hex()
        stem = f"{info['pkgname'][0]}-{info['pkgver'][0]}.X1{digest}"
        for name, content in sorted(package.control.items()):
            if name != INFO:
                path = f"{stem}{name}".encode()
                time = int(info.get("builddate", ["0"])[0]) * 10**9
                entry = TarEntry(path, EntryKind.FILE, mode=0o755, mtime_ns=time, size=len(content))
                writer.add(entry, (content,))
    writer.close()
    return buffer.getvalue()


def _package_info(package: PackageContents) -> str:
    return package.control[INFO].decode("utf-8", "replace")


def _database_paragraph(package: PackageContents) -> Iterator[bytes]:
    info = parse_info(_package_info(package))
    yield f"C:{package.checksum}\n".encode()
    for letter, name in _FIELDS:
        if name in info:
            yield f"{letter}:{' '.join(info[name])}\n".encode()
    directory: bytes | None = None
    for path, node in sorted(package.nodes.items(), key=_by_directory):
        if node.kind is EntryKind.DIRECTORY:
            directory = path
            yield b"F:%b\n%b" % (path, _mode_line("M", node, 0o755))
            continue
        parent, _, file_name = path.rpartition(b"/")
        if parent != directory:
            directory = parent
            yield b"F:%b\n" % parent
        yield b"R:%b\n%b" % (file_name, _mode_line("a", node, 0o644))
        if digest := package.sums.get(path):
            yield f"Z:Q1{base64.b64encode(digest).decode()}\n".encode()


def _by_directory(item: tuple[bytes, FileNode]) -> tuple[bytes, bytes]:
    """A directory before its files, and those before the directories in it."""
    path, node = item
    return (path, b"") if node.kind is EntryKind.DIRECTORY else path.rpartition(b"/")[::2]


def _mode_line(letter: str, node: FileNode, usual: int) -> bytes:
    if (node.mode, node.uid, node.gid) == (usual, 0, 0):
        return b""
    return f"{letter}:{node.uid}:{node.gid}:{node.mode:o}\n".encode()
