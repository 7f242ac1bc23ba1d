"""The lock of an image: every package it is made of, by version and SHA-256, for each platform.

It is written by resolving the definition with apt, and read by everything else; reading needs no more than
JSON. What is in it decides the image's bytes, so it is checked as strictly as if someone else had written it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandwright.errors import DocumentError, HostError, LockError, Problem
from sandwright.outputs import write_output
from sandwright.reading import read_start

if TYPE_CHECKING:
    from sandwright.image.baselock import BaseLock
    from sandwright.image.definition import ImageDefinition

FILE = "lock.json"
SCHEMA = 1
COMMAND = "sandwright lock-images"
MAX_BYTES = 16 << 20
ARCHIVES = ("debian", "debian-security")
ARCHITECTURES: Mapping[str, str] = {"linux/amd64": "amd64", "linux/arm64": "arm64"}
"""Debian's name of the architecture for each platform that a lock can hold."""


@dataclass(frozen=True, order=True)
class LockedPackage:
    """One binary package.

    `size` is that of the `.deb` in bytes, `installed` the unpacked size in KiB as Debian estimates it. `path`
    leads to the `.deb` from the root of the archive; it is not escaped for URLs.
    """

    name: str
    version: str
    architecture: str
    size: int
    sha256: str
    archive: str
    path: str
    source: str
    source_version: str
    installed: int

    def __str__(self) -> str:
        return f"{self.name} {self.version} ({self.architecture})"


@dataclass(frozen=True)
class Lock:
    """What an image is made of.

    `definition` is the checksum of what decided about it. `epoch` is the date of the newest release file that
    it was resolved from, in seconds: the time that the image's files get. Packages are sorted by name.
    """

    definition: str
    suite: str
    epoch: int
    platforms: Mapping[str, tuple[LockedPackage, ...]]

    def packages(self, platform: str) -> tuple[LockedPackage, ...]:
        """The packages of one platform. Raise LockError when it is not locked."""
        if platform not in self.platforms:
            raise LockError(f"the lock does not hold {platform}, only {', '.join(self.platforms)}")
        return self.platforms[platform]


class NotLocked(LockError):
    """An image has no lock yet."""


class PackageGone(LockError):
    """Packages that a lock names are no longer on any mirror. `packages` holds them."""

    def __init__(self, packages: Iterable[LockedPackage], mirrors: Iterable[str]) -> None:
        """`mirrors` are the base addresses that were asked."""
        self.packages = tuple(packages)
        names = ", ".join(str(package) for package in self.packages)
        super().__init__(f"no longer on {', '.join(mirrors)}: {names}; lock again with '{COMMAND}'")


def checksum(definition: ImageDefinition) -> str:
    """The checksum, `sha256:…`, of that part of a definition which decides what is locked."""
    if definition.reference is not None:
        return _checksum({"registry": definition.reference, "platforms": sorted(definition.platforms)})
    deciding = {
        "suite": definition.suite,
        "configure": definition.configure,
        "packages": sorted(definition.packages),
        "without": sorted(definition.without),
        "platforms": sorted(definition.platforms),
    }
    return _checksum(deciding)


def _checksum(deciding: Mapping[str, object]) -> str:
    return f"sha256:{hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()}"


def check_lock(definition: ImageDefinition, lock: Lock | BaseLock) -> None:
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
    return parse_lock(read_file(folder), file=str(folder / FILE))


def read_file(folder: Path) -> bytes:
    """What the lock file of an image's directory holds. Raise NotLocked; LockError when it can't be read."""
    path = folder / FILE
    try:
        return read_start(path, size=MAX_BYTES + 1)
    except FileNotFoundError:
        raise NotLocked(
            f"image '{folder.name}' is not locked; do so with '{COMMAND} --name {folder.name}'"
        ) from None
    except OSError as error:
        raise LockError(f"image '{folder.name}': {path} can't be read: {error.strerror}") from None


def parse_lock(raw: bytes, *, file: str) -> Lock:
    """Read a lock. `file` is its name in messages. Raise DocumentError with every fault."""
    reader = _Reader()
    lock = reader.lock(parse_json(raw, file=file))
    if lock is None or reader.problems:
        raise DocumentError(file, reader.problems)
    return lock


def parse_json(raw: bytes, *, file: str) -> object:
    """Read what a lock file holds, strictly. Raise DocumentError for what no lock can be."""
    try:
        data: object = json.loads(
            _short_enough(raw).decode(), object_pairs_hook=_distinct, parse_constant=_no_constant
        )
    except json.JSONDecodeError as error:
        problem = Problem(error.lineno, error.colno, "", f"is not JSON: {error.msg}")
        raise DocumentError(file, [problem]) from None
    except RecursionError:
        raise DocumentError(file, [Problem(0, 0, "", "is not a lock: nested too deep")]) from None
    except ValueError as error:
        raise DocumentError(file, [Problem(0, 0, "", f"is not a lock: {error}")]) from None
    return data


def write_lock(folder: Path, lock: Lock) -> None:
    """Write the lock into an image's directory: complete, or not at all. Raise LockError when that fails."""
    write_file(folder, lock_text(lock))


def write_file(folder: Path, text: str) -> None:
    """Write the text of a lock into an image's directory, as `write_lock` does."""
    try:
        write_output(str(folder / FILE), text.encode(), mode=0o644)
    except HostError as error:
        raise LockError(str(error)) from error


def lock_text(lock: Lock) -> str:
    """The lock as JSON, a line for each package, so that a change of one is a change of one line."""
    platforms = ",\n".join(
        f"  {json.dumps(platform)}: [\n"
        + ",\n".join(
            f"   {json.dumps(asdict(package), sort_keys=True)}"
            for package in sorted(lock.platforms[platform])
        )
        + "\n  ]"
        for platform in sorted(lock.platforms)
    )
    return (
        "{\n"
        f' "definition": {json.dumps(lock.definition)},\n'
        f' "epoch": {lock.epoch},\n'
        f' "platforms": {{\n{platforms}\n }},\n'
        f' "schema": {SCHEMA},\n'
        f' "suite": {json.dumps(lock.suite)}\n'
        "}\n"
    )


def lock_changes(old: Lock | None, new: Lock) -> list[str]:
    """What a new lock changes, a line for each: packages that came, went or have another version."""
    lines: dict[str, list[str]] = {}
    for platform in sorted({*new.platforms, *(old.platforms if old else ())}):
        before = {package.name: package for package in (old.platforms.get(platform, ()) if old else ())}
        after = {package.name: package for package in new.platforms.get(platform, ())}
        for name in sorted({*before, *after}):
            change = _change(before.get(name), after.get(name))
            if change:
                lines.setdefault(change, []).append(platform)
    changes = [f"{change} ({', '.join(platforms)})" for change, platforms in lines.items()]
    if old is not None and old.suite != new.suite:
        changes.insert(0, f"suite {old.suite} → {new.suite}")
    if old is not None and old.epoch != new.epoch:
        changes.append(f"epoch {_date(old.epoch)} → {_date(new.epoch)}")
    return changes


def _change(before: LockedPackage | None, after: LockedPackage | None) -> str | None:
    match before, after:
        case None, LockedPackage():
            return f"+ {after.name} {after.version}"
        case LockedPackage(), None:
            return f"- {before.name} {before.version}"
        case LockedPackage(), LockedPackage() if before.version != after.version:
            return f"  {after.name} {before.version} → {after.version}"
        case LockedPackage(), LockedPackage() if before.sha256 != after.sha256:
            return f"  {after.name} {after.version} has other bytes"
        case _:
            return None


def _date(epoch: int) -> str:
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _short_enough(raw: bytes) -> bytes:
    if len(raw) > MAX_BYTES:
        raise ValueError(f"larger than {MAX_BYTES >> 20} MiB")
    return raw


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key '{next(key for key in keys if keys.count(key) > 1)}' is given twice")
    return data


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON")


_YEAR_10000 = 253_402_300_800
_VERSION = r"(?:[0-9]+:)?[0-9][A-Za-z0-9.+~-]*"
_NAME = r"[a-z0-9][a-z0-9+.-]+"


def _matches(pattern: str) -> Callable[[object], bool]:
    compiled = re.compile(pattern)
    return lambda value: isinstance(value, str) and compiled.fullmatch(value) is not None


def _count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**40


def is_time(value: object) -> bool:
    """Whether it is a time in seconds since 1970 that a date can say."""
    return _count(value) and isinstance(value, int) and value < _YEAR_10000


_FIELDS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "name": (_matches(_NAME), "the name of a package"),
    "version": (_matches(_VERSION), "a version"),
    "architecture": (_matches("amd64|arm64|all"), "an architecture"),
    "size": (_count, "a number of bytes"),
    "sha256": (_matches("[0-9a-f]{64}"), "a SHA-256 in 64 hexadecimal digits"),
    "archive": (_matches("|".join(ARCHIVES)), f"one of {', '.join(ARCHIVES)}"),
    "path": (_matches(r"pool(?:/[A-Za-z0-9+_~:][A-Za-z0-9.+_~:-]*)+\.deb"), "a path like pool/…/name.deb"),
    "source": (_matches(_NAME), "the name of a source package"),
    "source_version": (_matches(_VERSION), "a version"),
    "installed": (_count, "a number of KiB"),
}


class _Reader:
    """Turns JSON into a lock and collects what is wrong with it."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def lock(self, data: object) -> Lock | None:
        if not self._has_keys(data, "", ("definition", "epoch", "platforms", "schema", "suite")):
            return None
        assert isinstance(data, dict)
        self._check(
            data["schema"] is not True and data["schema"] == SCHEMA, "schema", f"this program reads {SCHEMA}"
        )
        self._check(_matches("sha256:[0-9a-f]{64}")(data["definition"]), "definition", "must be sha256:…")
        self._check(_matches("[a-z][a-z0-9-]*")(data["suite"]), "suite", "must be the code name of a suite")
        self._check(is_time(data["epoch"]), "epoch", "must be a time in seconds")
        if not isinstance(data["platforms"], dict) or not data["platforms"]:
            self._check(False, "platforms", "must be a mapping that is not empty")
            return None
        platforms = {name: self._packages(name, listed) for name, listed in data["platforms"].items()}
        return None if self.problems else Lock(data["definition"], data["suite"], data["epoch"], platforms)

    def _packages(self, platform: str, listed: object) -> tuple[LockedPackage, ...]:
        where = f'platforms["{platform}"]'
        if platform not in ARCHITECTURES:
            self._check(False, where, f"is none of {', '.join(ARCHITECTURES)}")
        elif not isinstance(listed, list) or not listed:
            self._check(False, where, "must be a list that is not empty")
        else:
            packages = [
                self._package(f"{where}[{index}]", each, platform) for index, each in enumerate(listed)
            ]
            found = [package for package in packages if package is not None]
            names = [package.name for package in found]
            twice = sorted({name for name in names if names.count(name) > 1})
            self._check(not twice, where, f"holds twice: {', '.join(twice)}")
            return tuple(sorted(found))
        return ()

    def _package(self, where: str, data: object, platform: str) -> LockedPackage | None:
        if not self._has_keys(data, where, tuple(_FIELDS)):
            return None
        assert isinstance(data, dict)
        before = len(self.problems)
        for name, (holds, what) in _FIELDS.items():
            self._check(holds(data[name]), f"{where}.{name}", f"must be {what}")
        if len(self.problems) > before:
            return None
        own = ARCHITECTURES[platform]
        self._check(data["architecture"] in (own, "all"), f"{where}.architecture", f"must be {own} or all")
        return LockedPackage(**data)

    def _has_keys(self, data: object, where: str, keys: tuple[str, ...]) -> bool:
        if not isinstance(data, dict):
            self._check(False, where, "must be a mapping")
            return False
        missing = [key for key in keys if key not in data]
        unknown = [key for key in data if key not in keys]
        self._check(not missing, where, f"lacks {', '.join(missing)}")
        self._check(not unknown, where, f"has unknown keys: {', '.join(unknown)}")
        return not missing and not unknown

    def _check(self, holds: bool, where: str, message: str) -> None:
        if not holds:
            self.problems.append(Problem(0, 0, where, message))
