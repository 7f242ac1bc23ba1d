"""Reads SBOMs back, of either format, and compares them with an image: file by file, package by package."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sandwright.documents.fields import OURS
from sandwright.documents.strictjson import parse_json
from sandwright.errors import ArchiveRefused, IntegrityError
from sandwright.image import lock
from sandwright.release import cyclonedx, spdx
from sandwright.release.contents import LayeredFile
from sandwright.release.sbom import Format, text
from sandwright.visible import one_line

MOST_DIFFERENCES = 10


@dataclass(frozen=True)
class ParsedSbom:
    """The content of an SBOM: the image's digest, the files with their SHA-256, and the packages.

    `packages` are name, version and SHA-256 (empty where it gives none).
    """

    digest: str
    files: Mapping[str, str]
    packages: frozenset[tuple[str, str, str]]


def read_sbom(raw: bytes, kind: Format, where: str) -> ParsedSbom:
    """Read a document of ours. Raise ArchiveRefused, which begins with `where`, for one that is none."""
    document = parse_json(raw, where, OURS)
    try:
        return _cyclonedx(document) if kind == "cyclonedx" else _spdx(document)
    except (KeyError, TypeError, ValueError, AttributeError, StopIteration, RecursionError) as error:
        raise ArchiveRefused(f"{where}: not an SBOM as sandwright writes them: {error!r}") from None


def compare_listing(
    listed: ParsedSbom,
    files: Mapping[bytes, LayeredFile],
    digest: str,
    locked: Collection[lock.LockedPackage | lock.LanguagePackage] | None = None,
) -> list[str]:
    """The differences of an SBOM and an image: a line for each difference, the first ones.

    `locked` are the packages that must be in it, each with its SHA-256; None where there is no lock to go by.
    """
    lines = list(map(one_line, _differences(listed, files, digest, locked)))
    more = len(lines) - MOST_DIFFERENCES
    return [*lines[:MOST_DIFFERENCES], f"and {more} more"] if more > 0 else lines


def check_listing(
    listed: ParsedSbom,
    files: Mapping[bytes, LayeredFile],
    digest: str,
    locked: Collection[lock.LockedPackage | lock.LanguagePackage] | None,
    where: str,
) -> None:
    """Raise IntegrityError with the differences, if there are any."""
    lines = compare_listing(listed, files, digest, locked)
    if lines:
        raise IntegrityError(f"{where}: it differs from the image:\n  " + "\n  ".join(lines))


def _differences(
    listed: ParsedSbom,
    files: Mapping[bytes, LayeredFile],
    digest: str,
    locked: Collection[lock.LockedPackage | lock.LanguagePackage] | None,
) -> Iterator[str]:
    if listed.digest != digest:
        yield f"subject: the SBOM is of {listed.digest}, the image is {digest}"
    there = {text(path): file.digests["sha256"] for path, file in files.items()}
    for path in sorted(there.keys() | listed.files.keys()):
        if path not in listed.files:
            yield f"{path}: in the image, and not in the SBOM"
        elif path not in there:
            yield f"{path}: in the SBOM, and not in the image"
        elif there[path] != listed.files[path]:
            yield f"{path}: sha256: {listed.files[path]} in the SBOM, {there[path]} in the image"
    if locked is not None:
        expected = {(each.name, each.version, each.sha256) for each in locked}
        for name, version, total in sorted(expected ^ listed.packages):
            has = (
                "in the lock, and not in the SBOM"
                if (name, version, total) in expected
                else "not in the lock"
            )
            yield f"package {name} {version} {total}: {has}"


def _cyclonedx(document: Mapping[str, Any]) -> ParsedSbom:
    if (document["bomFormat"], document["specVersion"]) != ("CycloneDX", "1.6"):
        raise ValueError("neither CycloneDX 1.6")
    found = list(_flat(document["components"]))
    files = [each for each in found if each["type"] == "file"]
    packages = [each for each in found if each["type"] == "library"]
    return ParsedSbom(
        document["metadata"]["component"]["version"],
        _distinct([(each["name"], _hash(each)) for each in files]),
        frozenset((each["name"], each["version"], _hash(each)) for each in packages),
    )


def _flat(components: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
    for each in components:
        yield each
        yield from _flat(each.get("components", ()))


def _hash(component: Mapping[str, Any]) -> str:
    sums = (each["content"] for each in component.get("hashes", ()) if each["alg"] == "SHA-256")
    return str(next(sums, ""))


def _spdx(document: Mapping[str, Any]) -> ParsedSbom:
    if document["spdxVersion"] != "SPDX-2.3":
        raise ValueError("not SPDX 2.3")
    image = next(each for each in document["packages"] if each["SPDXID"] == spdx.IMAGE)
    others = [each for each in document["packages"] if each["SPDXID"] not in (spdx.IMAGE, spdx.SYSTEM)]
    return ParsedSbom(
        image["versionInfo"],
        _distinct([(each["fileName"].removeprefix("."), _sha256_of(each)) for each in document["files"]]),
        frozenset((each["name"], each["versionInfo"], _sha256_of(each)) for each in others),
    )


def _sha256_of(element: Mapping[str, Any]) -> str:
    sums = (each["checksumValue"] for each in element.get("checksums", ()) if each["algorithm"] == "SHA256")
    return str(next(sums, ""))


def _distinct(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    files = dict(pairs)
    if len(files) != len(pairs):
        raise ValueError("a file is listed twice")
    return files


MEDIA_TYPES: Mapping[Format, str] = {"cyclonedx": cyclonedx.MEDIA_TYPE, "spdx": spdx.MEDIA_TYPE}
WRITERS = {"cyclonedx": cyclonedx.write_cyclonedx, "spdx": spdx.write_spdx}
PREDICATES: Mapping[Format, str] = {
    "cyclonedx": "https://cyclonedx.org/bom",
    "spdx": "https://spdx.dev/Document",
}
"""The predicate types of signed SBOMs: `cosign verify-attestation --type cyclonedx`, `--type spdxjson`."""
SUFFIXES: Mapping[Format, str] = {"cyclonedx": "cdx.json", "spdx": "spdx.json"}
