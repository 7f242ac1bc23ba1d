"""Reads an Alpine package of format version 2 as a stream.

It has three gzip members with a tar archive each: signature, control, data. Format: the manual apk-v2(5).
The signature is of the control member; the control file `.PKGINFO` has the SHA-256 of the data member.
Reading to the end checks that; `signing.py` checks signatures.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass

from sandwright.errors import IntegrityError
from sandwright.image.apk.gzipmembers import GzipMember, GzipMembers
from sandwright.rootfs.tar.entry import EntryKind
from sandwright.rootfs.tar.limits import ArchiveLimits
from sandwright.rootfs.tar.reader import Readable, TarReader

CONTROL_LIMITS = ArchiveLimits(bytes=16 << 20, entries=1000, ratio_floor=16 << 20)
INFO = ".PKGINFO"
SIGNATURE = re.compile(r"\.SIGN\.(RSA|RSA256)\.(.+)")
"""The name of a signature's file: algorithm, then the file name of the key."""

_VERSION_3 = (b"ADB.", b"ADBd", b"ADBc")


@dataclass(frozen=True)
class Signature:
    """A signature of a gzip member. `key` is the file name of the key that made it."""

    algorithm: str
    key: str
    value: bytes


@dataclass(frozen=True)
class SignedMember:
    """The digests of a gzip member's compressed bytes, and the signatures of them."""

    sha1: bytes
    sha256: bytes
    signatures: tuple[Signature, ...]

    @property
    def checksum(self) -> str:
        """The checksum as an index and the database of installed packages write it."""
        return f"Q1{base64.b64encode(self.sha1).decode()}"


class ApkPackage:
    """An open package. `control` holds the files of its control archive; `data` can be read once."""

    def __init__(self, stream: Readable, *, label: str) -> None:
        """Read up to the data archive. Raise IntegrityError for an invalid or damaged package."""
        self.label = label
        self._members = GzipMembers(stream, f"package {label}")
        self.control, self.signed = read_signed(self._members)
        if INFO not in self.control:
            raise IntegrityError(f"package {label}: its control archive has no file '{INFO}'")
        self._info = parse_info(self.control[INFO].decode("utf-8", "replace"))
        data = self._members.next(ArchiveLimits())
        if data is None:
            raise IntegrityError(f"package {label}: it has no data archive")
        self._data = data
        self.data = TarReader(data, name=f"package {label}, its data")

    def fields(self) -> dict[str, str]:
        """The fields of `.PKGINFO`, repeated ones joined by spaces."""
        return {name: " ".join(values) for name, values in self._info.items()}

    def identity(self) -> dict[str, str | None]:
        """Name, version and architecture, in this order, under the names of their fields."""
        fields = self.fields()
        return {name: fields.get(name) for name in ("pkgname", "pkgver", "arch")}

    def finish(self) -> None:
        """Read the rest.

        Raise IntegrityError unless the data archive is the one that the control file names.
        """
        for _ in self.data:
            pass
        self._data.finish()
        if self._members.next(CONTROL_LIMITS) is not None:
            raise IntegrityError(f"package {self.label}: something follows its data archive")
        found, stated = self._data.digest("sha256").hex(), self.fields().get("datahash", "")
        if found != stated:
            raise IntegrityError(
                f"package {self.label}: its data has SHA-256 {found}, its {INFO} says {stated!r}"
            )


def read_signed(members: GzipMembers) -> tuple[dict[str, bytes], SignedMember]:
    """The files of a signed member, with its digests and the signatures before it. Raise IntegrityError."""
    signatures: list[Signature] = []
    while True:
        first = members.peek(4)
        if first in _VERSION_3:
            raise IntegrityError(f"{members.name}: its format is version 3 of apk; only version 2 is read")
        member = members.next(CONTROL_LIMITS)
        if member is None:
            raise IntegrityError(f"{members.name}: it ends before its control archive")
        files = _small_files(member, members.name)
        made = [_parse_signature(name, content) for name, content in files.items()]
        if not files or None in made:
            digests = (member.digest("sha1"), member.digest("sha256"))
            return files, SignedMember(*digests, tuple(signatures))
        signatures += [each for each in made if each is not None]


def parse_info(text: str) -> dict[str, list[str]]:
    """The fields of a `.PKGINFO`, a line `name = value` each; a name may be repeated."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        name, equals, value = line.partition(" = ")
        if equals and not line.startswith("#"):
            found.setdefault(name.strip(), []).append(value.strip())
    return found


def _small_files(member: GzipMember, name: str) -> dict[str, bytes]:
    files = {}
    reader = TarReader(member, limits=CONTROL_LIMITS, name=name)
    for entry in reader:
        if entry.kind is EntryKind.FILE and b"/" not in entry.path:
            files[entry.path.decode("utf-8", "replace")] = b"".join(reader.chunks())
    member.finish()
    return files


def _parse_signature(name: str, content: bytes) -> Signature | None:
    match = SIGNATURE.fullmatch(name)
    return None if match is None else Signature(match[1], match[2], content)
