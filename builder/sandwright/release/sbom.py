"""The contents of an image as a value: every package, and every file that belongs to no package.

`cyclonedx` and `spdx` write it down, each with all files, so that an SBOM can be compared with an image file
by file without any other input.
"""

from __future__ import annotations

import urllib.parse
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sandwright.image import lock
from sandwright.image.lockednpm import npm_url
from sandwright.image.lockedwheel import python_url
from sandwright.image.variant import PREFIX
from sandwright.release.contents import ImageContents, LayeredFile, read_contents
from sandwright.release.npmpackages import find_npm_packages
from sandwright.release.packagefiles import PackageFiles
from sandwright.release.packages import Package, algorithms, distribution_of, find_packages, needs_content
from sandwright.release.pythonpackages import find_python_packages
from sandwright.rootfs.images.source import Image
from sandwright.rootfs.tar.entry import EntryKind

Format = Literal["cyclonedx", "spdx"]
FORMATS: tuple[Format, ...] = ("cyclonedx", "spdx")
_SPACE = uuid.UUID("5f4a3c0e-6a0d-5c6b-9d59-3b0f7e9a2b11")
"""The name space of serial numbers, which are made of digests (RFC 9562, version 5)."""


@dataclass(frozen=True)
class Inventory:
    """The contents of an image for one platform.

    `digest` is that of its manifest, `created` its time as its config says it. `files` are all of its files;
    `unowned` those that no package brought as they are. `system` is the distribution and its version.
    `vendor` is the distributor of the image, and `authors` are the people responsible for it, from its
    labels; empty without them.
    """

    name: str
    platform: str
    digest: str
    created: str
    system: tuple[str, str]
    packages: tuple[Package, ...]
    files: Mapping[bytes, LayeredFile]
    unowned: tuple[bytes, ...]
    vendor: str = ""
    authors: str = ""

    @property
    def serial(self) -> uuid.UUID:
        """The serial number, which is equal for equal images.

        A list of packages without files has another one.
        """
        return uuid.uuid5(_SPACE, self.digest if self.files else f"{self.digest} packages")

    def without_files(self) -> Inventory:
        """The packages alone, which policy engines can read: a list of all files can have 50 MB."""
        packages = tuple(replace(each, files=()) for each in self.packages)
        return replace(self, packages=packages, files={}, unowned=())

    @property
    def purl(self) -> str:
        """The package URL of the image."""
        return image_url(self.name, self.digest, self.platform)


def image_url(name: str, digest: str, platform: str) -> str:
    """The package URL of an image for a platform (the type `oci` of the purl specification)."""
    return f"pkg:oci/{name}@{urllib.parse.quote(digest, safe='')}?arch={platform.partition('/')[2]}"


def take_inventory(
    name: str,
    image: Image,
    locked: Sequence[lock.LockedPackage] = (),
    debs: Mapping[str, PackageFiles] | None = None,
    languages: Sequence[lock.LanguagePackage] = (),
) -> Inventory:
    """Read an image's contents. `locked` and `languages` are those of its lock, `debs` the files of packages.

    Raise IntegrityError, ArchiveRefused for invalid layers, BuildError when image
    and lock disagree.
    """
    contents = read_contents(image, algorithms=algorithms(locked), keep=needs_content)
    return inventory_of(name, image, contents, locked, debs or {}, languages=languages)


def inventory_of(
    name: str,
    image: Image,
    contents: ImageContents,
    locked: Sequence[lock.LockedPackage],
    debs: Mapping[str, PackageFiles],
    *,
    languages: Sequence[lock.LanguagePackage] = (),
) -> Inventory:
    """The inventory of an image whose contents were read already."""
    packages = _deduplicate_files(
        [
            *find_packages(contents, locked, debs),
            *find_python_packages(contents, languages),
            *find_npm_packages(contents, languages),
        ]
    )
    owned = {path for package in packages for path in package.files}
    return Inventory(
        name,
        f"{image.platform.os}/{image.platform.architecture}",
        image.digest,
        str(image.config.get("created") or "1970-01-01T00:00:00Z"),
        distribution_of(contents.tree),
        tuple(packages),
        contents.files,
        tuple(path for path in contents.files if path not in owned),
        _image_label(image, "vendor"),
        _image_label(image, "authors"),
    )


def _image_label(image: Image, name: str) -> str:
    running = image.config.get("config")
    labels = running.get("Labels") if isinstance(running, Mapping) else None
    return str(labels.get(f"{PREFIX}{name}", "")) if isinstance(labels, Mapping) else ""


def _deduplicate_files(packages: Sequence[Package]) -> list[Package]:
    """The packages, no file of which belongs to two: where several bring the same, it is the first's."""
    seen: set[bytes] = set()
    found = []
    for package in packages:
        own_files = tuple(path for path in package.files if path not in seen)
        seen.update(own_files)
        found.append(replace(package, files=own_files))
    return found


def package_url(package: Package, system: tuple[str, str]) -> str:
    """The package URL of a package of a distribution (types `deb` and `apk` of the purl specification).

    Scanners match vulnerabilities by distribution and source package. A package of another archive is not the
    distribution's: its namespace is the archive's host, and it has no `distro`.
    """
    if package.kind == "pypi":
        return python_url(package.name, package.version)
    if package.kind == "npm":
        return npm_url(package.name, package.version)
    vendor, release = system
    stated = {"arch": package.architecture}
    if package.archive:
        vendor = urllib.parse.urlsplit(package.archive).hostname or "local"
        stated["repository_url"] = package.archive
    elif release:
        stated["distro"] = f"{vendor}-{release}"
    if package.source and (package.source, package.source_version) != (package.name, package.version):
        same = package.source_version in ("", package.version)
        stated["upstream"] = package.source if same else f"{package.source}@{package.source_version}"
    name, version = (urllib.parse.quote(each, safe=":") for each in (package.name, package.version))
    space = f"{_quote_url(vendor)}/" if vendor else ""
    more = "&".join(f"{key}={_quote_url(value)}" for key, value in sorted(stated.items()))
    return f"pkg:{package.kind}/{space}{name}@{version}?{more}"


def _quote_url(value: str) -> str:
    return urllib.parse.quote(value, safe="")


def source_of(package: Package) -> str:
    """The source package with its version, as people write it."""
    return f"{package.source} {package.source_version}".strip()


def contact_of(text: str) -> tuple[str, str]:
    """Name and address in `Name <address>`, as packages name maintainers; empty where there are none."""
    name, _, address = text.partition("<")
    return name.strip(), address.partition(">")[0].strip()


def text(path: bytes) -> str:
    """A path as documents have it: absolute, and printable where it is no UTF-8."""
    return "/" + path.decode("utf-8", "backslashreplace")


def kind_of(file: LayeredFile) -> str:
    """A description of a file that is no regular one; empty for a regular one."""
    if file.kind is EntryKind.SYMLINK:
        return f"symbolic link to {file.link.decode('utf-8', 'backslashreplace')}"
    return "" if file.kind is EntryKind.FILE else file.kind.value
