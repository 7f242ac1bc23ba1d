"""The lock of an image: the locked version and SHA-256 of every package it is made of, for each platform.

It is written by resolving the definition with apt, and read by everything else; reading needs no more than
JSON. It decides the image's bytes, so it is checked like untrusted input.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from sandwright.documents.checks import expected
from sandwright.documents.decode import decode
from sandwright.documents.document import FieldErrors
from sandwright.documents.model import ValueCheck, plain
from sandwright.errors import LockError
from sandwright.image.baselock import BaseLock
from sandwright.image.definition import ImageDefinition
from sandwright.image.documents import timestamp
from sandwright.image.lockednpm import LockedNpm
from sandwright.image.lockedwheel import LockedWheel
from sandwright.image.lockfile import (
    APK_ARCHITECTURES,
    ARCHITECTURES,
    COMMAND,
    FILE,
    SCHEMA,
    Checksum,
    FormatVersion,
    PlatformName,
    Time,
    is_count,
    parse_file,
    read_file,
    text_of,
    write_file,
)
from sandwright.image.sections import DebianBase
from sandwright.reading import quoting_no_link, read_unlinked

PackageFormat = Literal["deb", "apk"]
LanguagePackage: TypeAlias = LockedWheel | LockedNpm

ADDRESS = r"(?:https?|file)://[A-Za-z0-9.:-]*(?:/[A-Za-z0-9+_~:][A-Za-z0-9.+_~:-]*)*"
"""The address of an archive that is none of `ARCHIVES`."""

ARCHIVES = ("debian", "debian-security", "alpine")

_VERSION = r"(?:[0-9]+:)?[0-9][A-Za-z0-9.+~_-]*"
_NAME = r"[A-Za-z0-9][A-Za-z0-9+._-]*"


PackageName = Annotated[str, text_of(_NAME, "the name of a package")]
Version = Annotated[str, text_of(_VERSION, "a version")]
Architecture = Annotated[str, text_of("amd64|arm64|all|x86_64|aarch64|noarch", "an architecture")]
Bytes = Annotated[int, expected("a number of bytes", is_count)]
Kibibytes = Annotated[int, expected("a number of KiB", is_count)]
Sha256 = Annotated[str, text_of("[0-9a-f]{64}", "a SHA-256 in 64 hexadecimal digits")]
Archive = Annotated[
    str,
    text_of(
        rf"{'|'.join(ARCHIVES)}|{ADDRESS}", f"one of {', '.join(ARCHIVES)}, or the address of an archive"
    ),
]
ArchivePath = Annotated[
    str,
    text_of(
        r"[A-Za-z0-9+_~:][A-Za-z0-9.+_~:-]*(?:/[A-Za-z0-9+_~:][A-Za-z0-9.+_~:-]*)+\.(?:deb|apk)",
        "a path like pool/…/name.deb",
    ),
]
Suite = Annotated[str, text_of("[a-z][a-z0-9.-]*", "the code name of a suite")]


@dataclass(frozen=True, order=True)
class LockedPackage:
    """One binary package.

    `size` is that of its file in bytes, `installed` the unpacked size in KiB as the distribution estimates
    it. `path` leads to its file from the root of the archive; it is not escaped for URLs. `archive` is the
    name of one of `ARCHIVES`, or the address of another.
    """

    name: PackageName
    version: Version
    architecture: Architecture
    size: Bytes
    sha256: Sha256
    archive: Archive
    path: ArchivePath
    source: PackageName
    source_version: Version
    installed: Kibibytes

    @property
    def format(self) -> PackageFormat:
        """The format of its file."""
        return "apk" if self.path.endswith(".apk") else "deb"

    def __str__(self) -> str:
        return f"{self.name} {self.version} ({self.architecture})"


AnyLocked = TypeVar("AnyLocked", LockedPackage, LockedWheel, LockedNpm)


@dataclass(frozen=True)
class Lock:
    """The pinned inputs of an image.

    `definition` is the checksum of its inputs. `epoch` is the date of the newest release file that
    it was resolved from, in seconds: the time that the image's files get. Packages are sorted by name.
    `wheels` are Python packages, `npm` packages of npm, for the same platforms or for none.
    """

    definition: str
    suite: str
    epoch: int
    platforms: Mapping[str, tuple[LockedPackage, ...]]
    wheels: Mapping[str, tuple[LockedWheel, ...]] = field(default_factory=dict)
    npm: Mapping[str, tuple[LockedNpm, ...]] = field(default_factory=dict)

    def everything(self, platform: str) -> tuple[LockedPackage | LanguagePackage, ...]:
        """All packages of one platform. Raise LockError when it is not locked."""
        return (*self.packages(platform), *self.of_languages(platform))

    def of_languages(self, platform: str) -> tuple[LanguagePackage, ...]:
        """The packages of programming languages of one platform."""
        return (*self.wheels.get(platform, ()), *self.npm.get(platform, ()))

    def packages(self, platform: str) -> tuple[LockedPackage, ...]:
        """The packages of one platform. Raise LockError when it is not locked."""
        if platform not in self.platforms:
            raise LockError(f"the lock does not hold {platform}, only {', '.join(self.platforms)}")
        return self.platforms[platform]


class PackageGone(LockError):
    """Packages that a lock names are no longer on any mirror. `packages` holds them."""

    def __init__(self, packages: Iterable[LockedPackage], mirrors: Iterable[str]) -> None:
        """`mirrors` are the base addresses of the queried mirrors."""
        self.packages = tuple(packages)
        names = ", ".join(str(package) for package in self.packages)
        super().__init__(f"no longer on {', '.join(mirrors)}: {names}; lock again with '{COMMAND}'")


def checksum(definition: "ImageDefinition") -> str:
    """The checksum, `sha256:…`, of that part of a definition which decides about its lock."""
    if definition.reference is not None:
        return _definition_checksum(
            {"registry": definition.reference, "platforms": sorted(definition.platforms)}
        )
    deciding = {
        "suite": definition.suite,
        "configure": definition.configure,
        "packages": sorted(definition.packages),
        "without": sorted(definition.without),
        "platforms": sorted(definition.platforms),
        **_other_sources(definition.base),
        **_requirements(definition),
    }
    return _definition_checksum(deciding)


def _other_sources(base: object) -> dict[str, object]:
    """The part of a base beyond its suite; empty for most, so that their checksums stay."""
    if isinstance(base, DebianBase) and base == DebianBase(debian=base.debian):
        return {}
    return {"base": plain(base)}


def _requirements(definition: "ImageDefinition") -> dict[str, object]:
    """The digests of files with packages of programming languages; empty for most definitions."""
    names = definition.languages.files
    digests = {name: hashlib.sha256(read_unlinked(definition.real / name)).hexdigest() for name in names}
    return {"languages": digests} if digests else {}


def _definition_checksum(deciding: Mapping[str, object]) -> str:
    return f"sha256:{hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()}"


def check_lock(definition: "ImageDefinition", lock: "Lock | BaseLock") -> None:
    """Raise LockError when the definition has changed since the lock was made."""
    if lock.definition != checksum(definition):
        raise LockError(
            f"image '{definition.name}': its definition has changed since {definition.folder / FILE} "
            f"was made; lock it again with '{COMMAND} --name {definition.name}'"
        )


def load_lock(folder: Path) -> Lock:
    """Read the lock in an image's directory.

    Raise NotLocked when there is none; DocumentError, with every fault, when it is not one.
    """
    raw = read_file(folder)
    with quoting_no_link(folder / FILE, str(folder / FILE)):
        return parse_lock(raw, file=str(folder / FILE))


def parse_lock(raw: bytes, *, file: str) -> Lock:
    """Read a lock. `file` is its name in messages. Raise DocumentError with every fault."""
    read = decode(_LockFile, parse_file(raw, file=file))
    return Lock(read.definition, read.suite, read.epoch, read.platforms, read.wheels, read.npm)


def _distinct_by(name: str) -> ValueCheck:
    """A list, sorted, in which no two have the same value of an attribute."""

    def check(listed: tuple[Any, ...]) -> tuple[Any, ...]:
        values = [getattr(each, name) for each in listed]
        if twice := sorted({value for value in values if values.count(value) > 1}):
            raise ValueError(f"holds twice: {', '.join(twice)}")
        return tuple(sorted(listed))

    return ValueCheck(check)


def _check_has_packages(packages: tuple[LockedPackage, ...]) -> tuple[LockedPackage, ...]:
    if not packages:
        raise ValueError("must be a list that is not empty")
    return packages


def _of_their_platform(
    platforms: Mapping[str, tuple[LockedPackage, ...]],
) -> dict[str, tuple[LockedPackage, ...]]:
    """The packages of each platform, sorted; ValueError for one of another architecture, or for none."""
    if not platforms:
        raise ValueError("must be a mapping that is not empty")
    faults = [
        ((platform, index, "architecture"), f"must be {' or '.join(_architectures(package, platform))}")
        for platform, packages in platforms.items()
        for index, package in enumerate(packages)
        if package.architecture not in _architectures(package, platform)
    ]
    if faults:
        raise FieldErrors(faults)
    return {platform: tuple(sorted(packages)) for platform, packages in platforms.items()}


def _architectures(package: LockedPackage, platform: str) -> tuple[str, str]:
    """The architectures that a package of a platform can have."""
    if package.format == "apk":
        return APK_ARCHITECTURES[platform], "noarch"
    return ARCHITECTURES[platform], "all"


@dataclass(frozen=True)
class _LockFile:
    schema: FormatVersion
    definition: Checksum
    suite: Suite
    epoch: Time
    platforms: Annotated[
        dict[
            PlatformName,
            Annotated[tuple[LockedPackage, ...], ValueCheck(_check_has_packages), _distinct_by("name")],
        ],
        ValueCheck(_of_their_platform),
    ]
    wheels: dict[PlatformName, Annotated[tuple[LockedWheel, ...], _distinct_by("name")]] = field(
        default_factory=dict
    )
    npm: dict[PlatformName, Annotated[tuple[LockedNpm, ...], _distinct_by("path")]] = field(
        default_factory=dict
    )


def write_lock(folder: Path, lock: Lock) -> None:
    """Write the lock into an image's directory: complete, or not at all. Raise LockError when that fails."""
    write_file(folder, lock_text(lock))


def lock_text(lock: Lock) -> str:
    """The lock as JSON, a line for each package, so that a change of one is a change of one line."""
    of_npm = f' "npm": {_lines_by_platform(lock.npm)},\n' if lock.npm else ""
    of_python = f',\n "wheels": {_lines_by_platform(lock.wheels)}' if lock.wheels else ""
    return (
        "{\n"
        f' "definition": {json.dumps(lock.definition)},\n'
        f' "epoch": {lock.epoch},\n{of_npm}'
        f' "platforms": {_lines_by_platform(lock.platforms)},\n'
        f' "schema": {SCHEMA},\n'
        f' "suite": {json.dumps(lock.suite)}{of_python}\n'
        "}\n"
    )


def _lines_by_platform(listed: Mapping[str, Sequence[Any]]) -> str:
    lines = {
        platform: [json.dumps(asdict(each), sort_keys=True) for each in sorted(packages)]
        for platform, packages in listed.items()
    }
    platforms = ",\n".join(
        f"  {json.dumps(platform)}: [\n" + ",\n".join(f"   {line}" for line in lines[platform]) + "\n  ]"
        for platform in sorted(lines)
    )
    return f"{{\n{platforms}\n }}"


def lock_changes(old: Lock | None, new: Lock) -> list[str]:
    """The changes of a new lock, a line for each: packages that were added or removed, or changed version."""
    lines: dict[str, list[str]] = {}
    for platform in sorted({*new.platforms, *(old.platforms if old else ())}):
        before = _locked_by_name(old, platform) if old else {}
        after = _locked_by_name(new, platform)
        for name in sorted({*before, *after}):
            change = _change(name, before.get(name), after.get(name))
            if change:
                lines.setdefault(change, []).append(platform)
    changes = [f"{change} ({', '.join(platforms)})" for change, platforms in lines.items()]
    if old is not None and old.suite != new.suite:
        changes.insert(0, f"suite {old.suite} → {new.suite}")
    if old is not None and old.epoch != new.epoch:
        changes.append(f"epoch {timestamp(old.epoch)} → {timestamp(new.epoch)}")
    return changes


def _locked_by_name(lock: Lock, platform: str) -> dict[str, LockedPackage | LanguagePackage]:
    """The packages of a platform by name, those of Python as `NAME (Python)`, those of npm by directory."""
    return {
        **{each.name: each for each in lock.platforms.get(platform, ())},
        **{f"{each.name} (Python)": each for each in lock.wheels.get(platform, ())},
        **{f"{each.path.removeprefix('node_modules/')} (npm)": each for each in lock.npm.get(platform, ())},
    }


def _change(
    name: str, before: LockedPackage | LanguagePackage | None, after: LockedPackage | LanguagePackage | None
) -> str | None:
    if before is None or after is None:
        one = before or after
        return None if one is None else f"{'+' if before is None else '-'} {name} {one.version}"
    if before.version != after.version:
        return f"  {name} {before.version} → {after.version}"
    return f"  {name} {after.version} has other bytes" if before.sha256 != after.sha256 else None
