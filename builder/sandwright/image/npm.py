"""Locks and downloads packages of npm, which only downloads: no script of a package is run.

The versions are those of a package-lock.json. Packages come from the registry of npm's own settings, each by
name and version, and must have the digest that the file states for it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import tempfile
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sandwright import process, user_dirs
from sandwright.documents import strictjson
from sandwright.errors import CommandFailed, FetchError, IntegrityError, LockError
from sandwright.image.cache import Cache
from sandwright.image.definition import ImageDefinition
from sandwright.image.lock import Lock
from sandwright.image.lockednpm import NAME, PATH, LockedNpm, is_version
from sandwright.reading import read_unlinked

_TIMEOUT = 1800.0
_MACHINES = {"linux/amd64": "x64", "linux/arm64": "arm64"}
_ALGORITHMS = ("sha512", "sha384", "sha256")
"""The accepted algorithms, the strongest first. SHA-1, which old files have, is not among them."""


@dataclass(frozen=True)
class _Entry:
    """A package of a package-lock.json. `digest` is algorithm and digest in hexadecimal."""

    path: str
    name: str
    version: str
    digest: tuple[str, str]
    direct: bool

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"


def with_npm(definition: ImageDefinition, lock: Lock, cache: Cache) -> Lock:
    """The lock with the packages of an image's package-lock.json, which are added to the cache.

    Packages for development are left out. Raise LockError for a package that is not of a registry or has no
    digest, and for an error of npm, with its message.
    """
    assert definition.languages.npm is not None
    path = definition.folder / definition.languages.npm
    libc = "musl" if definition.distribution == "alpine" else "glibc"
    document = _read_package_lock(definition.real / definition.languages.npm, path)
    try:
        chosen = {each: _registry_entries(document, each, libc) for each in lock.platforms}
    except ValueError as error:
        raise LockError(f"{path}: {error}") from None
    try:
        files = _download_entries([each for entries in chosen.values() for each in entries], cache)
    except CommandFailed as error:
        raise LockError(f"image '{definition.name}': languages.npm: {error.stderr.strip()}") from error
    return replace(
        lock, npm={each: tuple(_locked_entries(entries, files)) for each, entries in chosen.items()}
    )


def fetch_npm(packages: Sequence[LockedNpm], cache: Cache) -> None:
    """Download packages into the cache. Raise FetchError, IntegrityError."""
    entries = [
        _Entry(each.path, each.name, each.version, ("sha256", each.sha256), each.direct) for each in packages
    ]
    try:
        _download_entries(entries, cache)
    except CommandFailed as error:
        raise FetchError(f"npm: {error.stderr.strip()}") from error


def _read_package_lock(file: Path, path: Path) -> Mapping[str, Any]:
    try:
        document = strictjson.loads(read_unlinked(file))
    except ValueError as error:
        raise LockError(f"{path}: not a package-lock.json: {error}") from None
    version = document.get("lockfileVersion") if isinstance(document, dict) else None
    if version not in (2, 3) or not isinstance(document.get("packages"), dict):
        raise LockError(f"{path}: its lockfileVersion is not 2 or 3, which npm 7 and newer write")
    return dict(document["packages"])


def _registry_entries(packages: Mapping[str, Any], platform: str, libc: str) -> list[_Entry]:
    """The packages that a platform needs, sorted. Raise ValueError for one that can't be taken."""
    root = _json_object(packages.get("", {}), "the project")
    direct = {
        name
        for key in ("dependencies", "optionalDependencies")
        for name in _json_object(root.get(key, {}), f"{key} of the project")
    }
    found = []
    for path, value in sorted(packages.items()):
        entry = _json_object(value, path)
        if not path or entry.get("dev") or entry.get("extraneous"):
            continue
        if entry.get("inBundle") and "integrity" not in entry:
            continue  # it is in the archive of the package that bundles it
        if not re.fullmatch(PATH, path) or entry.get("link"):
            raise ValueError(f"{path!r} is a directory of the project; only packages of a registry are taken")
        if _fits_platform(entry, {"os": "linux", "cpu": _MACHINES[platform], "libc": libc}):
            found.append(_registry_entry(path, entry, direct))
        elif not entry.get("optional"):
            raise ValueError(f"{path}: it is not for {platform} with {libc}")
    return found


def _json_object(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{what or 'the project'} is not an object")
    return value


def _fits_platform(entry: Mapping[str, Any], target: Mapping[str, str]) -> bool:
    """Whether a package is for a target, as npm reads `os`, `cpu` and `libc`: `!` means all others."""
    for key, value in target.items():
        listed = entry.get(key) or []
        names = listed if isinstance(listed, list) else [listed]
        allowed = [each for each in names if not str(each).startswith("!")]
        if f"!{value}" in names or (allowed and value not in allowed and "any" not in allowed):
            return False
    return True


def _registry_entry(path: str, entry: Mapping[str, Any], direct: set[str]) -> _Entry:
    tail = path.rpartition("node_modules/")[2]
    name, version = entry.get("name", tail), entry.get("version")
    if not isinstance(name, str) or not re.fullmatch(NAME, name) or not is_version(version):
        raise ValueError(f"{path}: it has no name and version of a registry's package: {name!r}, {version!r}")
    _check_resolved(path, name, str(version), entry.get("resolved"))
    digest = _strongest_digest(path, entry.get("integrity"))
    return _Entry(path, name, str(version), digest, path.removeprefix("node_modules/") in direct)


def _check_resolved(path: str, name: str, version: str, resolved: object) -> None:
    """Refuse packages from Git, files and other addresses. The address itself is not used."""
    if resolved is None:
        return  # as `omit-lockfile-registry-resolved` has it
    parts = urllib.parse.urlsplit(str(resolved))
    where = urllib.parse.unquote(parts.path)
    forms = (f"/{name}/-/", f"/download/{name}/{version}/")
    if parts.scheme not in ("http", "https") or not any(form in where for form in forms):
        raise ValueError(f"{path}: {resolved}: not of a registry; only packages of a registry are taken")


def _strongest_digest(path: str, integrity: object) -> tuple[str, str]:
    """The strongest digest of a text like `sha512-…` (Subresource Integrity), in hexadecimal."""
    stated = dict(each.partition("-")[::2] for each in str(integrity or "").split())
    for algorithm in _ALGORITHMS:
        if algorithm in stated:
            try:
                return algorithm, base64.b64decode(stated[algorithm].partition("?")[0], validate=True).hex()
            except binascii.Error:
                break
    raise ValueError(f"{path}: it has no 'integrity' with one of {', '.join(_ALGORITHMS)}")


def _locked_entries(entries: Sequence[_Entry], files: Mapping[str, tuple[int, str]]) -> Iterator[LockedNpm]:
    for each in entries:
        size, sha256 = files[str(each)]
        yield LockedNpm(each.path, each.name, each.version, size, sha256, each.direct)


def _download_entries(entries: Sequence[_Entry], cache: Cache) -> dict[str, tuple[int, str]]:
    """Let npm download packages into the cache; `NAME@VERSION` → size and SHA-256.

    Raise IntegrityError for a file with another digest than the entry has.
    """
    found: dict[str, tuple[int, str]] = {}
    for batch in _distinct_batches(entries):
        with tempfile.TemporaryDirectory(prefix="npm-", dir=user_dirs.scratch()) as directory:
            _npm_pack(list(map(str, batch)), Path(directory))
            for each in batch:
                path = Path(directory, "packages", _packed_name(each))
                found[str(each)] = _cache_archive(path, each, cache)
    return found


def _distinct_batches(entries: Sequence[_Entry]) -> list[list[_Entry]]:
    """Share packages out so that files of a batch have different names: npm gives `@a/b` that of `a-b`."""
    batches: list[dict[str, _Entry]] = []
    for each in {(str(entry), entry.digest): entry for entry in entries}.values():
        name = _packed_name(each)
        batch = next((batch for batch in batches if name not in batch), None)
        if batch is None:
            batches.append(batch := {})
        batch[name] = each
    return [list(batch.values()) for batch in batches]


def _packed_name(entry: _Entry) -> str:
    return f"{entry.name.removeprefix('@').replace('/', '-')}-{entry.version}.tgz"


def _npm_pack(specs: Sequence[str], directory: Path) -> None:
    """Let npm download packages, named by name and version, into `packages`."""
    packages = directory / "packages"
    packages.mkdir()
    # Without it, npm would read the settings of a project in a directory above.
    (directory / "package.json").write_text("{}\n")
    program = process.which("npm", hint="it downloads the packages of 'languages.npm'")
    process.run(
        program,
        "pack",
        "--ignore-scripts",
        "--loglevel=error",
        "--no-progress",
        "--no-update-notifier",
        f"--pack-destination={packages}",
        "--",
        *specs,
        timeout=_TIMEOUT,
        cwd=directory,
    )


def _cache_archive(path: Path, entry: _Entry, cache: Cache) -> tuple[int, str]:
    algorithm, expected = entry.digest
    try:
        file = path.open("rb")
    except FileNotFoundError:
        raise IntegrityError(f"{entry}: npm downloaded no file {path.name}") from None
    with file:
        found = hashlib.file_digest(file, algorithm).hexdigest()
        if found != expected:
            raise IntegrityError(
                f"{entry}: npm downloaded another file: its {algorithm} is {found}, not {expected}"
            )
        file.seek(0)
        sha256, size = hashlib.file_digest(file, "sha256").hexdigest(), path.stat().st_size
        cache.keep(file, sha256, size)
    return size, sha256
