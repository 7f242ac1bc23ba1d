"""The origin of an image, as SLSA's provenance, version 1: https://slsa.dev/spec/v1.0/provenance.

It names by digest all inputs of the image (definitions, lock, packages, base), and all documents published
with it (SBOMs, lock, evidence), so the signed provenance covers everything. It contains no times: the same
image with the same inputs and evidence has the same provenance.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sandwright
from sandwright.errors import ArchiveRefused, IntegrityError
from sandwright.image.baselock import BaseLock
from sandwright.image.lock import Lock, LockedPackage
from sandwright.image.plan import builder_checksum
from sandwright.image.variant import PREFIX, ImageVariant, read_variant
from sandwright.release import packages
from sandwright.release.packagestore import STORE_TYPE
from sandwright.release.sbom import package_url
from sandwright.release.sources import Sources
from sandwright.release.statement import InTotoStatement, resource, resource_digest, resources
from sandwright.rootfs.descriptor import mapping, sequence, strings

BUILD_TYPE = "urn:sandwright:build:v1"
BUILDER = "urn:sandwright:builder"
"""The builder's default name: a build on a developer's machine."""

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")

ATTACHED_TO = "dev.sandwright.attached-to"
ARTIFACT_TYPE = "dev.sandwright.artifact-type"


@dataclass(frozen=True)
class BuildParameters:
    """The parameters of a build. `epoch` is the time that the image's files have, in seconds."""

    image: str
    platforms: tuple[str, ...]
    epoch: int
    variant: ImageVariant


@dataclass(frozen=True)
class Provenance:
    """The content of a provenance.

    `digest` is that of the image's index; `dependencies` and `documents` by name.

    `code` and `codec` are checksum and compressor of the builder.
    """

    digest: str
    parameters: BuildParameters
    dependencies: Mapping[str, str]
    documents: tuple[Byproduct, ...]
    code: str
    codec: str
    store: str = ""
    """The digest of the package store; empty without one."""


@dataclass(frozen=True)
class Byproduct:
    """A document that is published with an image: its digest, and the digest of its subject."""

    name: str
    digest: str
    artifact_type: str
    attached_to: str


def read_provenance(found: InTotoStatement, digest: str, where: str) -> Provenance:
    """Read the provenance of the image with that digest. Raise ArchiveRefused if it is not ours."""
    definition = mapping(found.predicate.get("buildDefinition"), f"{where}: buildDefinition")
    details = mapping(found.predicate.get("runDetails"), f"{where}: runDetails")
    if definition.get("buildType") != BUILD_TYPE:
        raise ArchiveRefused(f"{where}: its buildType is not {BUILD_TYPE}")
    parameters = mapping(definition.get("externalParameters"), f"{where}: externalParameters")
    inner = mapping(definition.get("internalParameters"), f"{where}: internalParameters")
    platforms = tuple(sequence(parameters.get("platforms"), f"{where}: platforms"))
    image, epoch = parameters.get("image"), parameters.get("epoch")
    if (
        not isinstance(image, str)
        or not isinstance(epoch, int)
        or not all(isinstance(each, str) for each in platforms)
    ):
        raise ArchiveRefused(f"{where}: its externalParameters are not image, platforms and epoch")
    variant = {key: value for key, value in parameters.items() if key not in ("image", "platforms", "epoch")}
    version = mapping(mapping(details.get("builder"), where).get("version"), f"{where}: version")
    dependencies = resources(definition.get("resolvedDependencies"), f"{where}: resolvedDependencies")
    listed = resources(details.get("byproducts"), f"{where}: byproducts")
    return Provenance(
        digest,
        BuildParameters(image, platforms, epoch, read_variant(variant, f"{where}: externalParameters")),
        {
            str(each.get("name")): resource_digest(each, where)
            for each in dependencies
            if not _is_commit(each) and not _is_store(each)
        },
        tuple(_read_byproduct(each, f"{where}: byproducts[{n}]") for n, each in enumerate(listed)),
        str(version.get("code")),
        str(inner.get("codec")),
        next((resource_digest(each, where) for each in dependencies if _is_store(each)), ""),
    )


def _read_byproduct(value: Mapping[str, Any], where: str) -> Byproduct:
    stated = strings(value.get("annotations"), f"{where}.annotations")
    if not {ATTACHED_TO, ARTIFACT_TYPE} <= stated.keys():
        raise ArchiveRefused(f"{where}: it doesn't say what it is attached to, nor its type")
    name = str(value.get("name"))
    return Byproduct(name, resource_digest(value, where), stated[ARTIFACT_TYPE], stated[ATTACHED_TO])


def predicate(
    parameters: BuildParameters,
    sources: Sources,
    lock: Lock | BaseLock,
    byproducts: Iterable[Mapping[str, Any]],
    *,
    input_checksum: str,
    codec: str,
    builder: str = BUILDER,
    store: str = "",
) -> dict[str, Any]:
    """The predicate. `input_checksum` is that of the build: equal inputs give an equal image.

    `store` is the digest of the package store, empty without one.
    """
    return {
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": {
                "image": parameters.image,
                "platforms": list(parameters.platforms),
                "epoch": parameters.epoch,
                **parameters.variant.document(),
            },
            "internalParameters": {"inputs": input_checksum, "codec": codec},
            "resolvedDependencies": [
                *(resource(path, sha256_digest(content)) for path, content in sorted(sources.files.items())),
                *_materials(lock, parameters.platforms),
                *_commit(parameters.variant.labels),
                *([resource("packages", store, annotations={ARTIFACT_TYPE: STORE_TYPE})] if store else ()),
            ],
        },
        "runDetails": {
            "builder": {
                "id": builder,
                "version": {"sandwright": sandwright.__version__, "code": builder_checksum()},
            },
            "byproducts": list(byproducts),
        },
    }


def materials(sources: Sources, lock: Lock | BaseLock, platforms: Sequence[str]) -> dict[str, str]:
    """All materials of an image, name → digest, in the form of `read_provenance`'s `dependencies`."""
    named = {path: sha256_digest(content) for path, content in sources.files.items()}
    listed = {str(each["name"]): resource_digest(each, "lock") for each in _materials(lock, platforms)}
    return {**named, **listed}


def compare_digests(expected: Mapping[str, str], stated: Mapping[str, str], where: str) -> None:
    """Raise IntegrityError unless sources and provenance name the same, with the first that they don't."""
    for name in sorted(expected.keys() | stated.keys()):
        if expected.get(name) != stated.get(name):
            what = f"{expected.get(name, 'missing')}, and the provenance says {stated.get(name, 'nothing')}"
            raise IntegrityError(f"{where}: {name}: it is {what}")


def byproduct(
    name: str, content: bytes, *, artifact_type: str, media_type: str, attached_to: str
) -> dict[str, Any]:
    """A document that is published with the image, attached to the manifest with that digest."""
    annotations = {ATTACHED_TO: attached_to, ARTIFACT_TYPE: artifact_type}
    return resource(name, sha256_digest(content), mediaType=media_type, annotations=annotations)


def sha256_digest(content: bytes) -> str:
    """The digest of bytes that are at hand."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _materials(lock: Lock | BaseLock, platforms: Sequence[str]) -> list[dict[str, Any]]:
    if isinstance(lock, BaseLock):
        pins = [(lock.reference, lock.base.digest)]
        pins += [(f"{lock.reference} {platform}", lock.platforms[platform].digest) for platform in platforms]
        return [resource(name, digest) for name, digest in pins]
    found = dict.fromkeys(package for platform in platforms for package in lock.packages(platform))
    languages = {each.file: each for platform in platforms for each in lock.of_languages(platform)}
    return [
        *(resource(str(each), f"sha256:{each.sha256}", uri=_uri(each, lock)) for each in found),
        *(resource(file, f"sha256:{each.sha256}", uri=each.url) for file, each in languages.items()),
    ]


def _commit(labels: Mapping[str, str]) -> list[dict[str, Any]]:
    """The commit that the release was made from, if its labels name repository and revision."""
    source, revision = labels.get(f"{PREFIX}source"), labels.get(f"{PREFIX}revision", "")
    if source is None or not _COMMIT.fullmatch(revision):
        return []
    return [{"name": "repository", "uri": f"git+{source}", "digest": {"gitCommit": revision}}]


def _is_commit(dependency: Mapping[str, Any]) -> bool:
    digests = dependency.get("digest")
    return isinstance(digests, Mapping) and digests.keys() == {"gitCommit"}


def _is_store(dependency: Mapping[str, Any]) -> bool:
    annotations = dependency.get("annotations")
    return isinstance(annotations, Mapping) and annotations.get(ARTIFACT_TYPE) == STORE_TYPE


def _uri(package: LockedPackage, lock: Lock) -> str:
    archive = packages.foreign_archive(package)
    named = packages.Package(
        package.format, package.name, package.version, package.architecture, archive=archive
    )
    vendor = "alpine" if package.format == "apk" else "debian"
    return package_url(named, (vendor, lock.suite.removeprefix("v")))
