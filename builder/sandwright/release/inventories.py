"""SBOMs of built images, kept beside them: those of the same image by the same code are taken again."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandwright.documents import strictjson
from sandwright.image.existing import ImageLayout
from sandwright.image.fetcher import Fetcher
from sandwright.image.lock import Lock, LockedPackage
from sandwright.outputs import disk_errors
from sandwright.progress import SILENT, Progress
from sandwright.release.contents import read_contents
from sandwright.release.listed import SUFFIXES, WRITERS, check_listing, read_sbom
from sandwright.release.packagefiles import PackageFiles, is_kept, package_files
from sandwright.release.sbom import FORMATS, Format, take_inventory
from sandwright.rootfs.descriptor import canonical
from sandwright.rootfs.images.source import open_image
from sandwright.rootfs.unpacking.store import write_atomically

MADE = "made.json"


@dataclass(frozen=True)
class Sboms:
    """The SBOMs of an image: platform → format → document. `fresh`: they were made now.

    `documents` list every file; `packages` are the same without files, to be signed.
    """

    documents: Mapping[str, Mapping[Format, bytes]]
    packages: Mapping[str, Mapping[Format, bytes]]
    fresh: bool


def make_sboms(
    existing: ImageLayout,
    lock: Lock | None,
    directory: Path,
    supply: Fetcher,
    *,
    progress: Progress = SILENT,
) -> Sboms:
    """The SBOMs of a built image for all its platforms, kept in `directory`.

    `lock` is that of its packages, None on a registry's base. Raise the exceptions of reading the image and
    of getting its packages, HostError if writing fails.
    """
    made = _made_from(existing, lock)
    cached = _read_stored(directory, made, existing)
    if cached is not None:
        return cached
    documents: dict[str, dict[Format, bytes]] = {}
    packages: dict[str, dict[Format, bytes]] = {}
    for platform in existing.images:
        with progress.step(f"SBOM of {existing.name} {platform}", existing.images[platform].size):
            locked = lock.packages(platform) if lock is not None else ()
            debs = _debs(locked, supply, progress)
            inventory = take_inventory(
                existing.name,
                open_image(existing.path, platform=platform),
                locked,
                debs,
                lock.of_languages(platform) if lock is not None else (),
            )
            documents[platform] = {each: WRITERS[each](inventory) for each in FORMATS}
            packages[platform] = {each: WRITERS[each](inventory.without_files()) for each in FORMATS}
    sboms = Sboms(documents, packages, fresh=True)
    _store_documents(directory, made, sboms)
    return sboms


def check_sbom(
    existing: ImageLayout, platform: str, *, kind: Format, raw: bytes, lock: Lock | None, where: str
) -> int:
    """Compare an SBOM with a built image, file for file; how many there are. Raise IntegrityError."""
    image = open_image(existing.path, platform=platform)
    contents = read_contents(image)
    locked = None if lock is None else lock.everything(platform)
    check_listing(read_sbom(raw, kind, where), contents.files, image.digest, locked, where)
    return len(contents.files)


def path_of(directory: Path, platform: str, kind: Format, *, files: bool = True) -> Path:
    """The path of an SBOM, with or without `files`."""
    part = "" if files else "packages."
    return directory / f"{platform.partition('/')[2]}.{part}{SUFFIXES[kind]}"


def _debs(locked: Sequence[LockedPackage], supply: Fetcher, progress: Progress) -> dict[str, PackageFiles]:
    """The files of packages; packages with unknown files are fetched, unless the cache has them."""
    unknown = [each for each in locked if not is_kept(each, supply.cache)]
    paths = supply.fetch(unknown, progress) if unknown else {}
    return package_files(locked, paths, supply.cache)


def _made_from(existing: ImageLayout, lock: Lock | None) -> str:
    """A checksum of all inputs of the SBOMs."""
    packages = {
        platform: [each.sha256 for each in lock.everything(platform)] if lock else []
        for platform in existing.images
    }
    parts = {"image": existing.whole.digest, "name": existing.name, "packages": packages, "code": _code()}
    return hashlib.sha256(canonical(parts)).hexdigest()


@functools.cache
def _code() -> str:
    files = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(hashlib.sha256(each.read_bytes()).digest() for each in files)).hexdigest()


def _read_stored(directory: Path, made: str, existing: ImageLayout) -> Sboms | None:
    """The stored SBOMs, if they were made from the same input and are whole."""
    try:
        record = strictjson.loads((directory / MADE).read_bytes())
        if record["made"] != made:
            return None
        whole, packages = (
            {
                platform: {
                    kind: _read_sbom(path_of(directory, platform, kind, files=files), record["files"])
                    for kind in FORMATS
                }
                for platform in existing.images
            }
            for files in (True, False)
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Sboms(whole, packages, fresh=False)


def _read_sbom(path: Path, sums: Mapping[str, str]) -> bytes:
    raw = path.read_bytes()
    if sums[path.name] != hashlib.sha256(raw).hexdigest():
        raise ValueError("another document")
    return raw


def _store_documents(directory: Path, made: str, sboms: Sboms) -> None:
    with disk_errors(directory):
        directory.mkdir(parents=True, exist_ok=True)
        sums = {}
        for files, documents in ((True, sboms.documents), (False, sboms.packages)):
            for platform, written in documents.items():
                for kind, raw in written.items():
                    path = path_of(directory, platform, kind, files=files)
                    write_atomically(path, raw)
                    sums[path.name] = hashlib.sha256(raw).hexdigest()
        write_atomically(directory / MADE, canonical({"made": made, "files": sums}))
