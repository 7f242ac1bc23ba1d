"""Reads the signed index of an Alpine repository, with a paragraph for each package (apk-index(5))."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sandwright.errors import IntegrityError
from sandwright.image.apk.gzipmembers import GzipMembers
from sandwright.image.apk.package import read_signed
from sandwright.image.apk.signing import verify_signature
from sandwright.rootfs.controlfields import apk_paragraphs
from sandwright.rootfs.tar.reader import Readable

FILE = "APKINDEX.tar.gz"
_NAME = "APKINDEX"


@dataclass(frozen=True)
class IndexedPackage:
    """A package of an index. `checksum` is that of its control archive, which names the SHA-256 of its data.

    `directory` is that of the repository in its archive, such as `v3.22/main/x86_64`. `fields` are those of
    the index.
    """

    name: str
    version: str
    size: int
    checksum: str
    directory: str
    fields: Mapping[str, str]

    @property
    def path(self) -> str:
        """The package's path in the archive."""
        return f"{self.directory}/{self.name}-{self.version}.apk"

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


def read_index(stream: Readable, directory: str, keys: Mapping[str, bytes]) -> list[IndexedPackage]:
    """The packages of an index. Raise IntegrityError when none of the keys signed it, or it is damaged."""
    where = f"the index of {directory}"
    files, signed = read_signed(GzipMembers(stream, where))
    verify_signature(signed, keys, where)
    if _NAME not in files:
        raise IntegrityError(f"{where}: it has no file {_NAME}")
    paragraphs = apk_paragraphs(files[_NAME].decode("utf-8", "replace"))
    return [_package(dict(fields), directory, where) for fields in paragraphs if fields]


def _package(fields: Mapping[str, str], directory: str, where: str) -> IndexedPackage:
    try:
        name, version, checksum = fields["P"], fields["V"], fields["C"]
        return IndexedPackage(name, version, int(fields["S"]), checksum, directory, fields)
    except (KeyError, ValueError) as error:
        raise IntegrityError(f"{where}: {fields.get('P', 'a package')}: {error!r}") from None
