"""The files of a package, one by one: read from the package once, then kept beside the downloads.

A package never changes under its SHA-256, so its list of files is cached under that name: decompressing
packages is the slowest step of an SBOM.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from sandwright.digests import sha256
from sandwright.documents import strictjson
from sandwright.image.cache import Cache
from sandwright.image.lock import LockedPackage
from sandwright.image.packagefile import ExpectedDigest, open_package
from sandwright.outputs import disk_errors
from sandwright.release.contents import hash_stream
from sandwright.release.licences import Licence, copyright_licence, spdx_licence
from sandwright.release.relations import CONTROL_FIELDS
from sandwright.rootfs.tar.entry import EntryKind
from sandwright.rootfs.unpacking.store import write_atomically

SCHEMA = 5
_JOBS = 2


@dataclass(frozen=True)
class PackageFiles:
    """The files of a package: path (as in the package, relative) → SHA-256 in hex.

    Of a symbolic link it is the SHA-256 of its target as written. `licence` is the licence in its own
    copyright file, or for Alpine in its control file. `control` has the `CONTROL_FIELDS` of its format, where
    they are there.
    """

    files: Mapping[bytes, str]
    licence: Licence
    control: Mapping[str, str] = field(default_factory=dict)


def package_files(
    packages: Sequence[LockedPackage], paths: Mapping[str, Path], cache: Cache
) -> dict[str, PackageFiles]:
    """The files of each package, by the SHA-256 of the package. `paths` has the packages' locations.

    Raise IntegrityError for a package that differs from the lock.
    """

    def files(package: LockedPackage) -> PackageFiles:
        cached = _cache_path(cache, package.sha256)
        found = _read_listing(cached)
        if found is None:
            found = _from_package(package, paths[package.sha256])
            with disk_errors(cached):
                cached.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(cached, _encode(found))
        return found

    by_digest = {each.sha256: each for each in packages}
    with ThreadPoolExecutor(_JOBS, "sandwright-packages") as pool:
        return dict(zip(by_digest, pool.map(files, by_digest.values()), strict=True))


def is_kept(package: LockedPackage, cache: Cache) -> bool:
    """Whether the files of a package are known already, so that the package itself is not needed."""
    return _read_listing(_cache_path(cache, package.sha256)) is not None


def _from_package(package: LockedPackage, path: Path) -> PackageFiles:
    files: dict[bytes, str] = {}
    text = b""
    copyright_path = f"usr/share/doc/{package.name}/copyright".encode()
    promise = ExpectedDigest(str(package), package.size, package.sha256, package.format)
    with open_package(path, promise) as opened:
        stated = opened.fields()
        for entry in opened.data:
            if entry.kind is EntryKind.FILE:
                pieces: list[bytes] | None = [] if entry.path == copyright_path else None
                files[entry.path] = hash_stream(opened.data.chunks(), ("sha256",), pieces)["sha256"]
                text = b"".join(pieces) if pieces is not None else text
            elif entry.kind is EntryKind.SYMLINK:
                files[entry.path] = hashlib.sha256(entry.link).hexdigest()
            elif entry.kind is EntryKind.HARDLINK and entry.link in files:
                files[entry.path] = files[entry.link]
    control = {name: stated[name] for name in CONTROL_FIELDS[package.format] if name in stated}
    if package.format == "apk":
        return PackageFiles(files, spdx_licence(stated.get("license", "")), control)
    return PackageFiles(files, copyright_licence(text.decode("utf-8", "replace")), control)


def _cache_path(cache: Cache, sha256: str) -> Path:
    return cache.root / "contents" / f"v{SCHEMA}" / sha256[:2] / f"{sha256}.json"


def _encode(found: PackageFiles) -> bytes:
    files = {path.decode("utf-8", "surrogateescape"): digest for path, digest in found.files.items()}
    licence = [found.licence.expression, dict(found.licence.names), found.licence.text]
    body = json.dumps({"files": files, "licence": licence, "control": dict(found.control)}, sort_keys=True)
    return f"{sha256(body.encode())}\n{body}\n".encode()


def _read_listing(path: Path) -> PackageFiles | None:
    """The stored listing; None without one, or if it is not whole."""
    try:
        total, _, body = path.read_bytes().removesuffix(b"\n").partition(b"\n")
        if total.decode() != sha256(body):
            return None
        data = strictjson.loads_record(body)
    except (OSError, ValueError):
        return None
    files = {name.encode("utf-8", "surrogateescape"): digest for name, digest in data["files"].items()}
    return PackageFiles(files, Licence(*data["licence"]), data["control"])
