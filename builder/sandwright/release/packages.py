"""Packages in an image, and the files of the image that are theirs, unaltered.

The packages of an image are read from dpkg's database, from `status.d` as distroless images have it, or
from apk's. If there is a lock, the package files take precedence: their SHA-256 and that of every file.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from sandwright.errors import BuildError
from sandwright.image import lock
from sandwright.image.tree import FileTree
from sandwright.release.contents import ImageContents
from sandwright.release.licences import UNKNOWN, Licence, copyright_licence, spdx_licence
from sandwright.release.packagefiles import PackageFiles
from sandwright.release.relations import (
    CONTROL_FIELDS,
    NO_RELATIONS,
    Relations,
    apk_relations,
    control_relations,
    debian_relations,
    resolve_dependencies,
    unmet_dependencies,
)
from sandwright.rootfs.controlfields import apk_paragraphs, control_paragraphs

STATUS = b"var/lib/dpkg/status"
STATUS_D = b"var/lib/dpkg/status.d/"
INFO = b"var/lib/dpkg/info/"
APK = (b"lib/apk/db/installed", b"usr/lib/apk/db/installed")
PYTHON = b"usr/local/lib/python3."
"""The start of the paths of Python packages that no package of the distribution brings."""
NPM = b"usr/local/lib/node_modules/"
"""The directory of npm's packages that no package of the distribution brings."""
LANGUAGES = ("pypi", "npm")
"""The kinds of packages that are not of a distribution."""
_DOC = b"usr/share/doc/"
_RELEASES = (b"etc/os-release", b"usr/lib/os-release")
_SOURCE = re.compile(r"(\S+)(?: \((\S+)\))?")


@dataclass(frozen=True, order=True)
class Package:
    """A package of an image. `files` are those of its files that are in the image as it brought them.

    `sha256` is that of the package itself, empty if unknown. `archive` is the address of the
    archive that it came from, empty for the distribution's. `needs` are packages of the image that it needs;
    `complete` is whether the image has all of these.
    """

    kind: lock.PackageFormat | Literal["pypi", "npm"]
    name: str
    version: str
    architecture: str
    sha256: str = ""
    source: str = ""
    source_version: str = ""
    archive: str = ""
    maintainer: str = field(default="", compare=False)
    needs: tuple[str, ...] = field(default=(), compare=False)
    complete: bool = field(default=True, compare=False)
    licence: Licence = field(default=UNKNOWN, compare=False)
    files: tuple[bytes, ...] = field(default=(), compare=False)


@dataclass
class _Claim:
    """A package's claims: `files` maps each claimed path to (algorithm, digest) or None."""

    kind: lock.PackageFormat
    name: str
    version: str
    architecture: str
    source: str = ""
    source_version: str = ""
    archive: str = ""
    maintainer: str = ""
    relations: Relations = NO_RELATIONS
    licence: str = ""
    files: dict[bytes, tuple[str, str] | None] = field(default_factory=dict)


def needs_content(path: bytes) -> bool:
    """Whether the content of a file is needed to find an image's packages."""
    if path in (STATUS, *APK, *_RELEASES):
        return True
    if path.startswith(_DOC):
        return path.endswith(b"/copyright") and path.count(b"/") == _DOC.count(b"/") + 1
    if path.startswith(PYTHON):
        return path.endswith((b".dist-info/METADATA", b".dist-info/RECORD"))
    if path.startswith(NPM):
        return path.endswith(b"/package.json")
    return path.startswith(STATUS_D) or (path.startswith(INFO) and path.endswith((b".list", b".md5sums")))


def algorithms(locked: Sequence[lock.LockedPackage]) -> tuple[str, ...]:
    """The digests that telling a package's files takes; SPDX wants SHA-1 of every file."""
    return ("sha256", "sha1") if locked else ("sha256", "sha1", "md5")


def distribution_of(tree: FileTree) -> tuple[str, str]:
    """The distribution and its version from os-release(5); empty if missing."""
    raw = next((each for path in _RELEASES if (each := tree.content(path)) is not None), b"")
    fields = dict(line.partition("=")[::2] for line in raw.decode("utf-8", "replace").splitlines())
    return fields.get("ID", "").strip("\"'"), fields.get("VERSION_ID", "").strip("\"'")


def find_packages(
    contents: ImageContents, locked: Sequence[lock.LockedPackage], debs: Mapping[str, PackageFiles]
) -> list[Package]:
    """The packages of an image, sorted. `locked` are those of its lock, `debs` the files of each of them.

    Raise BuildError when the image's own database has another version than the lock, or lacks a package.
    """
    claims = {claim.name: claim for claim in _installed_claims(contents.tree)}
    _check_against_lock(claims, locked)
    brought = {package.name: debs[package.sha256] for package in locked}
    claims |= {package.name: _locked_claim(package, brought[package.name]) for package in locked}
    sums = {package.name: package.sha256 for package in locked}
    resolve_path = _placing(contents.tree)
    relations = {name: claim.relations for name, claim in claims.items()}
    needs, unmet = resolve_dependencies(relations), unmet_dependencies(relations)
    packages = [
        Package(
            claim.kind,
            claim.name,
            claim.version,
            claim.architecture,
            sums.get(claim.name, ""),
            claim.source,
            claim.source_version,
            claim.archive,
            claim.maintainer,
            needs[claim.name],
            claim.name not in unmet,
            _package_licence(claim, contents, brought.get(claim.name)),
            tuple(_unaltered(_promised(claim, brought.get(claim.name)), contents, resolve_path)),
        )
        for claim in claims.values()
    ]
    return sorted(_with_shared_licences(packages))


def _with_shared_licences(packages: Sequence[Package]) -> Iterator[Package]:
    """The packages; one without a licence has that of the others of its source package, if those agree."""
    # Debian Policy 12.5: its documentation may be a link to that of another package of the same source
    stated: dict[tuple[str, str], dict[str, Licence]] = {}
    for each in packages:
        if each.licence.expression:
            shared = stated.setdefault((each.source, each.source_version), {})
            shared[each.licence.expression] = each.licence
    for each in packages:
        others = list(stated.get((each.source, each.source_version), {}).values())
        alone = each.licence.expression or not each.source or len(others) != 1
        yield each if alone else replace(each, licence=others[0])


def _locked_claim(package: lock.LockedPackage, brought: PackageFiles) -> _Claim:
    claim = _Claim(package.format, package.name, package.version, package.architecture)
    claim.source, claim.source_version = package.source, package.source_version
    claim.archive = foreign_archive(package)
    maintainer, *_ = CONTROL_FIELDS[package.format]
    claim.maintainer = brought.control.get(maintainer, "")
    claim.relations = control_relations(package.format, brought.control)
    return claim


def foreign_archive(package: lock.LockedPackage) -> str:
    """The address of the archive that a package came from; empty for Debian's own."""
    return "" if package.archive in lock.ARCHIVES else package.archive


def _check_against_lock(claims: Mapping[str, _Claim], locked: Sequence[lock.LockedPackage]) -> None:
    for package in locked if claims else ():
        claim = claims.get(package.name)
        if claim is None or claim.version != package.version:
            has = "lacks it" if claim is None else f"has {claim.version}"
            raise BuildError(f"package {package}: it is in the lock, and the image's own database {has}")


def _promised(claim: _Claim, brought: PackageFiles | None) -> Iterator[tuple[bytes, str, str]]:
    """A package's files, each with algorithm and digest; these are empty if unknown."""
    if brought is not None:
        yield from ((path, "sha256", digest) for path, digest in sorted(brought.files.items()))
    else:
        yield from ((path, *(promise or ("", ""))) for path, promise in sorted(claim.files.items()))


def _unaltered(
    promised: Iterator[tuple[bytes, str, str]],
    contents: ImageContents,
    resolve_path: Callable[[bytes], bytes],
) -> Iterator[bytes]:
    """The files of a package that the image has with the same content; if that is unknown, that it has."""
    for path, algorithm, digest in promised:
        where = resolve_path(path)
        file = contents.files.get(where)
        if file is not None and (not algorithm or file.digests.get(algorithm) == digest):
            yield where


def _placing(tree: FileTree) -> Callable[[bytes], bytes]:
    """A function for a package path's location in the image: `bin/sh` is `usr/bin/sh` if `bin` is a link."""
    parents: dict[bytes, bytes] = {}

    def real_path(path: bytes) -> bytes:
        parent, _, name = path.rpartition(b"/")
        if parent not in parents:
            real = tree.resolve(parent)
            parents[parent] = parent if real is None else real
        real = parents[parent]
        return real + b"/" + name if real else name

    return real_path


def _package_licence(claim: _Claim, contents: ImageContents, brought: PackageFiles | None) -> Licence:
    """The licence in the image's copyright file; if that is the package's own, it was read before."""
    if claim.kind == "apk":
        return brought.licence if brought is not None else spdx_licence(claim.licence)
    path = _DOC + claim.name.encode() + b"/copyright"
    if brought is not None:
        file = contents.files.get(contents.tree.resolve(path) or b"")
        if file is None or file.digests["sha256"] == brought.files.get(path):
            return brought.licence
    raw = contents.tree.content(path)
    return UNKNOWN if raw is None else copyright_licence(raw.decode("utf-8", "replace"))


def _installed_claims(tree: FileTree) -> Iterator[_Claim]:
    """The installed packages by the databases in an image, whichever it has."""
    for path in sorted(tree.kept):
        if path.startswith(STATUS_D) and not path.endswith(b".md5sums"):
            sums = tree.kept.get(path + b".md5sums", b"")
            yield from _dpkg_claims(tree.kept[path], lambda _name, _arch, sums=sums: _md5sums(sums))  # type: ignore[misc]
    if STATUS in tree.kept:
        yield from _dpkg_claims(tree.kept[STATUS], lambda name, arch: _info(tree, name, arch))
    for path in APK:
        if path in tree.kept:
            yield from _apk_claims(tree.kept[path].decode("utf-8", "replace"))


_Files = Mapping[bytes, tuple[str, str] | None]


def _dpkg_claims(raw: bytes, files: Callable[[str, str], _Files]) -> Iterator[_Claim]:
    for fields in control_paragraphs(raw.decode("utf-8", "replace")):
        state = fields.get("Status", "install ok installed")
        if "Package" not in fields or not state.endswith(" installed"):
            continue
        name, architecture = fields["Package"], fields.get("Architecture", "")
        source = _SOURCE.match(fields.get("Source", "")) or _SOURCE.match(name)
        assert source is not None
        claim = _Claim("deb", name, fields.get("Version", ""), architecture)
        claim.source, claim.source_version = source[1], source[2] or claim.version
        claim.maintainer, claim.relations = fields.get("Maintainer", ""), debian_relations(fields)
        claim.files.update(files(name, architecture))
        claim.files.update(_conffiles(fields.get("Conffiles", "")))
        yield claim


def _info(tree: FileTree, name: str, architecture: str) -> dict[bytes, tuple[str, str] | None]:
    """The files of a package by dpkg's own lists; with several architectures, their names have it too."""
    stems = [INFO + each.encode() for each in (name, f"{name}:{architecture}")]
    found: dict[bytes, tuple[str, str] | None] = {}
    for stem in stems:
        listed = [line.strip(b"/") for line in tree.kept.get(stem + b".list", b"").splitlines()]
        above = {
            path.rpartition(b"/")[0] for path in listed
        }  # directories of the package, perhaps links here
        found |= dict.fromkeys(path for path in listed if path not in above)
        found |= _md5sums(tree.kept.get(stem + b".md5sums", b""))
    return found


def _md5sums(raw: bytes) -> dict[bytes, tuple[str, str] | None]:
    pairs = (line.partition(b"  ")[::2] for line in raw.splitlines())
    return {path.strip(b"/"): ("md5", total.decode("ascii", "replace")) for total, path in pairs if path}


def _conffiles(text: str) -> Iterator[tuple[bytes, tuple[str, str]]]:
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 2:
            yield words[0].strip("/").encode(), ("md5", words[1])


def _apk_claims(text: str) -> Iterator[_Claim]:
    """Paragraphs of lines `X:value` (apk's database, version 2): F a folder, R a file in it, Z its sum."""
    for lines in apk_paragraphs(text):
        fields = {key: value for key, value in reversed(lines) if key not in "FRZaM"}
        if "P" not in fields:
            continue
        claim = _Claim("apk", fields["P"], fields.get("V", ""), fields.get("A", ""))
        claim.source, claim.source_version = fields.get("o", claim.name), claim.version
        claim.licence, claim.maintainer = fields.get("L", ""), fields.get("m", "")
        claim.relations = apk_relations(fields.get("D", ""), fields.get("p", ""))
        claim.files.update(_apk_files(lines))
        yield claim


def _apk_files(lines: Sequence[tuple[str, str]]) -> dict[bytes, tuple[str, str] | None]:
    found: dict[bytes, tuple[str, str] | None] = {}
    folder, path = "", b""
    for key, value in lines:
        if key == "F":
            folder = value
        elif key == "R":
            path = f"{folder}/{value}".strip("/").encode()
            found[path] = None
        elif key == "Z" and value.startswith("Q1"):
            try:
                found[path] = ("sha1", base64.b64decode(value[2:], validate=True).hex())
            except binascii.Error:
                continue
    return found
