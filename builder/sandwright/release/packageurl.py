"""Reads package URLs: `pkg:type/namespace/name@version?qualifiers#subpath`."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class PackageUrl:
    """A package URL. `name` is type, namespace and name: `deb/debian/curl`. `version` may be empty."""

    name: str
    version: str
    qualifiers: Mapping[str, str]

    @property
    def source(self) -> str:
        """The name with that of the source package, which distributions state as `upstream`."""
        upstream = self.qualifiers.get("upstream", "").partition("@")[0]
        return f"{self.name.rpartition('/')[0]}/{upstream}" if upstream else self.name

    def matches(self, other: PackageUrl) -> bool:
        """Whether another package is the one that this URL is about, or is built from it."""
        if self.name not in (other.name, other.source) or self.version not in ("", other.version):
            return False
        return all(other.qualifiers.get(key) == value for key, value in self.qualifiers.items())


def parse_package_url(url: str) -> PackageUrl:
    """Read a URL. Anything is one, since a wrong one fits no package."""
    main, _, qualifiers = url.removeprefix("pkg:").partition("#")[0].partition("?")
    name, _, version = main.rpartition("@") if "@" in main else (main, "", "")
    stated = dict(urllib.parse.parse_qsl(qualifiers))
    return PackageUrl(urllib.parse.unquote(name), urllib.parse.unquote(version), stated)
