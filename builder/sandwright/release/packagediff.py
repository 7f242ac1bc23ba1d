"""Compares the packages of two images or SBOMs; prints Markdown for reviewers, or JSON.

An SBOM is CycloneDX or SPDX 2 with package URLs, of any program.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandwright.documents import strictjson
from sandwright.errors import ArchiveRefused
from sandwright.release.packageurl import parse_package_url
from sandwright.release.sbom import package_url, take_inventory
from sandwright.rootfs.images.source import open_image
from sandwright.visible import one_line

_VARIANT = ("arch", "repository_url")
"""Qualifiers of a package URL that tell packages of the same name apart; the others change with a release."""


@dataclass(frozen=True, order=True)
class PackageKey:
    """A package in any version: type and name in its URL, and its architecture."""

    name: str
    qualifiers: str = ""

    def __str__(self) -> str:
        return self.name.rpartition("/")[2] + (f" ({self.qualifiers})" if self.qualifiers else "")


@dataclass(frozen=True)
class PackageChange:
    """A package with the versions before and after, none where it was not there."""

    package: PackageKey
    before: tuple[str, ...]
    after: tuple[str, ...]


Versions = Mapping[PackageKey, tuple[str, ...]]


def image_packages(path: Path, platform: str | None) -> Versions:
    """The packages of an image. Raise the errors of opening and reading it."""
    inventory = take_inventory("image", open_image(path, platform=platform))
    return _by_key(package_url(each, inventory.system) for each in inventory.packages)


def sbom_packages(raw: bytes, where: str) -> Versions:
    """The packages of an SBOM. Raise ArchiveRefused, which begins with `where`, for another document.

    So does one without package URLs: two of them would compare as equal.
    """
    if not (urls := sbom_urls(raw, where)):
        raise ArchiveRefused(f"{where}: has no package URL: no package could be compared")
    return _by_key(urls)


def sbom_urls(raw: bytes, where: str) -> list[str]:
    """The package URLs in an SBOM. Raise ArchiveRefused, which begins with `where`, for another document."""
    try:
        document = strictjson.loads_lenient(raw)
        if document.get("bomFormat") == "CycloneDX":
            return list(_cyclonedx_urls(document.get("components", ())))
        if str(document.get("spdxVersion", "")).startswith("SPDX-2"):
            return list(_spdx_urls(document.get("packages", ())))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ArchiveRefused(f"{where}: not an SBOM: {error!r}") from None
    raise ArchiveRefused(f"{where}: neither CycloneDX nor SPDX 2")


def package_changes(before: Versions, after: Versions) -> list[PackageChange]:
    """The packages whose versions differ, sorted."""
    keys = sorted(before.keys() | after.keys())
    changes = (PackageChange(key, before.get(key, ()), after.get(key, ())) for key in keys)
    return [each for each in changes if each.before != each.after]


def to_markdown(changes: Iterable[PackageChange]) -> str:
    """A table, or a line where nothing has changed."""
    rows = [
        f"| {_change_kind(each)} | {_inline_code(str(each.package))} "
        f"| {_versions(each.before)} | {_versions(each.after)} |"
        for each in changes
    ]
    if not rows:
        return "No package has changed.\n"
    return "\n".join(["| | package | before | after |", "|---|---|---|---|", *rows]) + "\n"


def to_json(changes: Iterable[PackageChange]) -> bytes:
    """An object with the lists `added`, `removed` and `changed`."""
    found: dict[str, list[dict[str, Any]]] = {"added": [], "removed": [], "changed": []}
    for each in changes:
        entry = {"package": each.package.name, "qualifiers": each.package.qualifiers}
        found[_change_kind(each)].append({**entry, "before": list(each.before), "after": list(each.after)})
    return (json.dumps(found, indent=1, sort_keys=True) + "\n").encode()


def _change_kind(change: PackageChange) -> str:
    if change.before and change.after:
        return "changed"
    return "added" if change.after else "removed"


def _versions(versions: tuple[str, ...]) -> str:
    return ", ".join(map(_inline_code, versions))


def _inline_code(text: str) -> str:
    """Text as code in a cell of a table, which `|` and line breaks would end."""
    return f"`{one_line(text).replace('`', '').replace('|', '')}`"


def _by_key(urls: Iterable[str]) -> dict[PackageKey, tuple[str, ...]]:
    found: dict[PackageKey, set[str]] = {}
    for url in urls:
        parsed = parse_package_url(url)
        variant = " ".join(parsed.qualifiers[each] for each in _VARIANT if each in parsed.qualifiers)
        found.setdefault(PackageKey(parsed.name, variant), set()).add(parsed.version)
    return {key: tuple(sorted(versions)) for key, versions in found.items()}


def _cyclonedx_urls(components: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for each in components:
        if each.get("purl") and each.get("type") != "file":
            yield str(each["purl"])
        yield from _cyclonedx_urls(each.get("components", ()))


def _spdx_urls(packages: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for package in packages:
        for each in package.get("externalRefs", ()):
            url = str(each.get("referenceLocator", ""))
            if each.get("referenceType") == "purl" and not url.startswith("pkg:oci/"):
                yield url
