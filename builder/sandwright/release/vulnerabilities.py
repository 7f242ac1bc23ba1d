"""Finds known vulnerabilities of an image's packages in a directory of OSV documents. Nothing is fetched.

Format: https://ossf.github.io/osv-schema/. Distributions name source packages there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandwright.documents import strictjson
from sandwright.errors import ArchiveRefused, HostError, UsageError
from sandwright.image.lock import PackageFormat
from sandwright.reading import read_start
from sandwright.release.packages import Package
from sandwright.release.sbom import Inventory, package_url
from sandwright.release.versions import is_older
from sandwright.release.vex import AppliedStatement, Vex, apply_vex
from sandwright.rootfs.descriptor import shorten_repr

MAX_DOCUMENT = 16 << 20
_MALFORMED = (AttributeError, KeyError, TypeError, ValueError)


@dataclass(frozen=True, order=True)
class Vulnerability:
    """A known vulnerability of a package of an image. `fixed` is the first version without it, if any."""

    name: str
    package: str
    version: str
    fixed: str
    url: str
    aliases: tuple[str, ...] = ()

    def __str__(self) -> str:
        fixed = f"fixed in {self.fixed}" if self.fixed else "not fixed"
        return f"{self.name}: {self.package} {self.version}, {fixed}"


@dataclass(frozen=True)
class Assessment:
    """A vulnerability and the statement about it, if there is one."""

    vulnerability: Vulnerability
    statement: AppliedStatement | None

    @property
    def is_open(self) -> bool:
        """Whether the vulnerability still needs action."""
        return self.statement is None or self.statement.statement.status not in ("not_affected", "fixed")

    def __str__(self) -> str:
        if self.statement is None:
            return str(self.vulnerability)
        stated = self.statement.statement
        why = stated.justification or stated.impact or stated.action or ""
        return f"{self.vulnerability}; {stated.status}{f': {why}' if why else ''}"


@dataclass(frozen=True)
class OsvDatabase:
    """OSV documents, by ecosystem and source package: `Debian:12`, `openssl`."""

    entries: Mapping[tuple[str, str], Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]]

    def find(self, inventory: Inventory) -> list[Vulnerability]:
        """The vulnerabilities of an image's packages, sorted.

        Raise UsageError where no document is about the image's distribution: nothing would be compared.
        """
        if inventory.packages and not any(each in _ecosystems(inventory.system) for each, _ in self.entries):
            name = " ".join(filter(None, inventory.system)) or "of an unknown distribution"
            raise UsageError(f"the OSV documents have none for an image {name}: no package was compared")
        found = (self._of_package(package, inventory) for package in inventory.packages)
        return sorted({each for vulnerabilities in found for each in vulnerabilities})

    def _of_package(self, package: Package, inventory: Inventory) -> Iterator[Vulnerability]:
        kind = package.kind
        if kind != "deb" and kind != "apk":  # noqa: PLR1714 - mypy knows the rest then
            return  # versions of another ecosystem are not compared
        source = package.source or package.name
        version = package.source_version or package.version
        for ecosystem in _ecosystems(inventory.system):
            for document, affected in self.entries.get((ecosystem, source), ()):
                try:
                    if _is_affected(kind, version, affected):
                        yield Vulnerability(
                            str(document["id"]),
                            package.name,
                            package.version,
                            _fixed_in(kind, version, affected),
                            package_url(package, inventory.system),
                            tuple(map(str, document.get("aliases") or ())),
                        )
                except _MALFORMED as error:
                    where = f"{document['id']}: {package.name} {shorten_repr(version)}"
                    raise ArchiveRefused(f"{where}: cannot compare the version: {error!r}") from None


def read_osv(directory: Path) -> OsvDatabase:
    """Read each `.json` below a directory. Raise HostError for none, ArchiveRefused for other documents."""
    entries: dict[tuple[str, str], list[tuple[Mapping[str, Any], Mapping[str, Any]]]] = {}
    paths = sorted(directory.rglob("*.json"))
    if not paths:
        raise HostError(f"{directory} holds no OSV documents, which are files *.json")
    for path in paths:
        document = _read_osv_document(path)
        try:
            for affected in () if document.get("withdrawn") else document.get("affected") or ():
                package = affected.get("package") or {}
                key = (str(package.get("ecosystem", "")), str(package.get("name", "")))
                entries.setdefault(key, []).append((document, affected))
        except _MALFORMED as error:
            raise ArchiveRefused(f"{path}: not an OSV document: {error!r}") from None
    return OsvDatabase(entries)


def assess(found: Sequence[Vulnerability], vexes: Sequence[Vex]) -> list[Assessment]:
    """The vulnerabilities with the statement about each; by its name or an alias."""
    applied = apply_vex(vexes, {each.url for each in found})
    return [Assessment(each, _statement_about(each, applied)) for each in found]


def _statement_about(found: Vulnerability, applied: Sequence[AppliedStatement]) -> AppliedStatement | None:
    names = {found.name, *found.aliases}
    for each in applied:
        stated = {each.statement.vulnerability, *each.statement.aliases}
        if names & stated and found.url in each.packages:
            return each
    return None


def _read_osv_document(path: Path) -> Mapping[str, Any]:
    try:
        document = strictjson.loads_lenient(read_start(path, size=MAX_DOCUMENT))
        if not isinstance(document["id"], str):
            raise TypeError("id is no text")
    except OSError as error:
        raise HostError(f"cannot read {path}: {error.strerror}") from None
    except _MALFORMED as error:
        raise ArchiveRefused(f"{path}: not an OSV document: {error!r}") from None
    return dict(document)


def _ecosystems(system: tuple[str, str]) -> Collection[str]:
    """The names of a distribution's releases in OSV: `Debian:12`, `Alpine:v3.22`."""
    name, version = system
    if name == "debian":
        return ("Debian", f"Debian:{version.partition('.')[0]}")
    if name == "alpine":
        return ("Alpine", f"Alpine:v{'.'.join(version.split('.')[:2])}")
    return ()


def _is_affected(kind: PackageFormat, version: str, affected: Mapping[str, Any]) -> bool:
    if version in (affected.get("versions") or ()):
        return True
    ranges = (each for each in affected.get("ranges") or () if each.get("type") == "ECOSYSTEM")
    return any(_in_osv_range(kind, version, each.get("events") or ()) for each in ranges)


def _in_osv_range(kind: PackageFormat, version: str, events: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a version is in a range: after an `introduced`, not after a `fixed` or `last_affected`."""
    inside = False
    for event in map(dict[str, Any], events):
        if "introduced" in event:
            first = event["introduced"]
            inside = inside or first == "0" or not is_older(kind, version, first)
        elif "fixed" in event:
            inside = inside and is_older(kind, version, event["fixed"])
        elif "last_affected" in event:
            inside = inside and not is_older(kind, event["last_affected"], version)
    return inside


def _fixed_in(kind: PackageFormat, version: str, affected: Mapping[str, Any]) -> str:
    """The first listed version after this one that has a fix; empty if there is none."""
    events = (event for each in affected.get("ranges") or () for event in each.get("events") or ())
    fixes = (str(event["fixed"]) for event in events if "fixed" in event)
    return next((fixed for fixed in fixes if is_older(kind, version, fixed)), "")
