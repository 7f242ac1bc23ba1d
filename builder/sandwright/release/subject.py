"""An image as it is published: its parts, documents and claims. Refuses one whose evidence is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any

from sandwright.documents.fields import INDEX, OURS
from sandwright.documents.strictjson import parse_json
from sandwright.errors import BuildError, IntegrityError, UsageError
from sandwright.image.baselock import BaseLock
from sandwright.image.definition import ImageDefinition, base_definitions
from sandwright.image.existing import ImageLayout, read_layout
from sandwright.image.fetcher import Fetcher
from sandwright.image.lock import Lock
from sandwright.image.plan import compression_of, plan_build
from sandwright.image.remote import PushSource, open_layout
from sandwright.progress import SILENT, Progress
from sandwright.release import evidence, provenance, sources, vex
from sandwright.release.attestations import with_attestations
from sandwright.release.evidence import Matrix
from sandwright.release.inventories import Sboms, make_sboms
from sandwright.release.listed import MEDIA_TYPES, PREDICATES
from sandwright.release.packagediff import sbom_urls
from sandwright.release.packagestore import package_store
from sandwright.release.provenance import BUILDER, BuildParameters
from sandwright.release.sbom import image_url
from sandwright.release.statement import (
    PROVENANCE,
    SIGNATURE,
    TEST_RESULT,
    InTotoStatement,
    encode_statement,
)
from sandwright.rootfs.descriptor import OCI_MANIFEST, Descriptor
from sandwright.verify.smoke.report import ImageReport

LOCK_TYPE = "application/vnd.sandwright.lock.v1+json"
SOURCES_TYPE = "application/vnd.sandwright.sources.v1+json"
DOCUMENT_TYPES = frozenset(
    {*MEDIA_TYPES.values(), LOCK_TYPE, SOURCES_TYPE, evidence.SMOKE_TYPE, evidence.MATRIX_TYPE}
)
"""Artifact types of attachments other than signed statements. Their content has the same media type."""

KEPT = "release"
"""The directory beside `images` with the files to publish."""


@dataclass(frozen=True)
class ReleaseDocument:
    """A document to attach to `subject`. `name` is for messages."""

    name: str
    artifact_type: str
    content: bytes
    subject: Descriptor

    @property
    def file_name(self) -> str:
        """Its name as a file: `SBOM-cyclonedx-linux-amd64.json`."""
        return _file_name(self.name, "json")


@dataclass(frozen=True)
class ReleaseStatement:
    """A statement to sign, and the manifests that it is attached to."""

    name: str
    predicate_type: str
    payload: bytes
    subjects: tuple[Descriptor, ...]

    @property
    def file_name(self) -> str:
        """The name of its bundle as a file: `provenance.sigstore.json`."""
        return _file_name(self.name, "sigstore.json")


def _file_name(name: str, suffix: str) -> str:
    return f"{name.replace(' ', '-').replace('/', '-')}.{suffix}"


@dataclass(frozen=True)
class Release:
    """An image with all documents that are published with it.

    `root` is its index, `manifests` those of its platforms.

    `packages` is a store of its packages, to be attached.
    """

    name: str
    image: PushSource
    root: Descriptor
    manifests: Mapping[str, Descriptor]
    documents: tuple[ReleaseDocument, ...]
    claims: tuple[ReleaseStatement, ...]
    packages: PushSource | None = None


@dataclass(frozen=True)
class _Subject:
    """A built image. `epoch` is the time that its files have, `root` its index, with attestations if any."""

    existing: ImageLayout
    epoch: int
    root: Descriptor

    @property
    def name(self) -> str:
        return self.existing.name

    @property
    def manifests(self) -> dict[str, Descriptor]:
        held = {platform: each.manifest for platform, each in self.existing.images.items()}
        return {key: Descriptor(OCI_MANIFEST, each.digest, each.size) for key, each in held.items()}

    @property
    def digests(self) -> dict[str, str]:
        return {platform: each.digest for platform, each in self.manifests.items()}


@dataclass(frozen=True)
class ReleaseEvidence:
    """The evidence about images: the smoke run's report, and the matrix of an image; with the required parts.

    `require` are runtimes, `methods` those of the matrix, without which there must be a matrix all the same
    unless it is not `needed`.
    """

    report: ImageReport | None
    matrix: Matrix | None = None
    require: Sequence[str] = ()
    methods: Sequence[str] = ()
    needed: bool = True


def prepare(
    catalogue: Mapping[str, ImageDefinition],
    name: str,
    proof: ReleaseEvidence,
    *,
    output: Path,
    supply: Fetcher,
    builder: str = BUILDER,
    today: date | None = None,
    store: bool = False,
    attestations: bool = False,
    progress: Progress = SILENT,
) -> Release:
    """Prepare a built image for publication, or refuse it.

    Nothing is sent. `store`: also publish its packages.

    With `attestations`, its index gets SBOM and provenance of each platform as BuildKit has them.

    No statement of a `vex.yaml` may have expired on the day `today`, by default the current one.

    Raise NotProved where evidence is missing, BuildError if the image differs from its definition and lock,
    IntegrityError if it is incomplete or a statement has expired, DocumentError for an invalid `vex.yaml`,
    and the exceptions of making its SBOMs.
    """
    existing = built_image(output, name)
    image = open_layout(existing.path)
    subject = _Subject(existing, _epoch(existing), image.graph.root.descriptor)
    lock = _check_current(catalogue, subject, output)
    seen = list(_evidence(subject, proof))
    packages = lock if isinstance(lock, Lock) else None
    if store and packages is None:
        raise UsageError(f"image '{name}' has no lock of packages, which could be published")
    sboms = make_sboms(existing, packages, output / KEPT / name, supply, progress=progress)
    written = sources.collect_sources(catalogue, name)
    describe = partial(
        provenance.predicate,
        BuildParameters(name, tuple(subject.manifests), subject.epoch, existing.variant),
        written,
        lock,
        input_checksum=existing.input_checksum,
        codec=compression_of(catalogue[name], existing.variant).identity,
        builder=builder,
    )
    if attestations:
        image = with_attestations(image, list(_attestations(subject, sboms, describe(()))))
        subject = replace(subject, root=image.graph.root.descriptor)
        seen = [replace(each, subject=subject.root) for each in seen]
    stored = None
    if store and packages is not None:
        stored = package_store(subject.root, packages, tuple(subject.manifests), supply, progress)
    documents = [
        *_sboms(sboms, subject.manifests),
        ReleaseDocument("lock", LOCK_TYPE, written.lock, subject.root),
        ReleaseDocument("sources", SOURCES_TYPE, sources.encode_sources(written), subject.root),
        *seen,
    ]
    predicate = describe(
        [_byproduct(each) for each in documents],
        store=stored.graph.root.descriptor.digest if stored else "",
    )
    claims = (
        _provenance(subject, predicate),
        *_sbom_statements(subject, sboms),
        *_vex_statements(subject, catalogue, sboms, today or datetime.now(UTC).date()),
        _test_result(subject, seen),
        _signature(subject),
    )
    return Release(name, image, subject.root, subject.manifests, tuple(documents), claims, stored)


def built_image(output: Path, name: str) -> ImageLayout:
    """The layout of an image. Raise UsageError when it isn't built, IntegrityError when it isn't whole."""
    layout = output / "images" / name
    if not layout.exists():
        raise UsageError(f"image '{name}' is not built: no {layout}; sandwright build-images --name {name}")
    return read_layout(layout)


def _evidence(subject: _Subject, proof: ReleaseEvidence) -> Iterator[ReleaseDocument]:
    smoke = evidence.smoke_evidence(subject.name, subject.digests, proof.report, require=proof.require)
    yield ReleaseDocument("smoke run", evidence.SMOKE_TYPE, smoke, subject.root)
    matrix = evidence.matrix_evidence(
        subject.name, subject.digests, proof.matrix, require=proof.methods, needed=proof.needed
    )
    if matrix is not None:
        yield ReleaseDocument("matrix", evidence.MATRIX_TYPE, matrix, subject.root)


def _sboms(sboms: Sboms, manifests: Mapping[str, Descriptor]) -> Iterator[ReleaseDocument]:
    for platform, written in sboms.documents.items():
        for kind, raw in written.items():
            yield ReleaseDocument(f"SBOM {kind} {platform}", MEDIA_TYPES[kind], raw, manifests[platform])


def _byproduct(document: ReleaseDocument) -> dict[str, Any]:
    return provenance.byproduct(
        document.name,
        document.content,
        artifact_type=document.artifact_type,
        media_type=document.artifact_type,
        attached_to=document.subject.digest,
    )


def _provenance(subject: _Subject, predicate: Mapping[str, Any]) -> ReleaseStatement:
    """The statement on the image's origin, with its documents."""
    made = InTotoStatement(PROVENANCE, _named_subjects(subject), predicate)
    return ReleaseStatement("provenance", PROVENANCE, encode_statement(made), (subject.root,))


def _sbom_statements(subject: _Subject, sboms: Sboms) -> Iterator[ReleaseStatement]:
    """The packages of each platform, signed: for `cosign verify-attestation` and policy engines."""
    for platform, written in sboms.packages.items():
        manifest = subject.manifests[platform]
        for kind, raw in written.items():
            name = f"packages {kind} {platform}"
            content = InTotoStatement(
                PREDICATES[kind], {manifest.digest: f"{subject.name} {platform}"}, parse_json(raw, name, OURS)
            )
            yield ReleaseStatement(name, PREDICATES[kind], encode_statement(content), (manifest,))


def _attestations(subject: _Subject, sboms: Sboms, predicate: Mapping[str, Any]) -> Iterator[InTotoStatement]:
    """Packages and provenance of each platform. The index has them, so they can't name the index."""
    for platform, manifest in subject.manifests.items():
        named = {manifest.digest: f"{subject.name} {platform}"}
        raw = sboms.packages[platform]["spdx"]
        yield InTotoStatement(PREDICATES["spdx"], named, parse_json(raw, f"SBOM {platform}", OURS))
        yield InTotoStatement(PROVENANCE, named, predicate)


def _vex_statements(
    subject: _Subject, catalogue: Mapping[str, ImageDefinition], sboms: Sboms, today: date
) -> Iterator[ReleaseStatement]:
    """The statements of the image and its bases about vulnerabilities, for each platform."""
    lineage = (catalogue[subject.name], *base_definitions(catalogue, subject.name))
    paths = [path for each in lineage if (path := each.folder / vex.FILE).exists()]
    found = [vex.load_vex(path) for path in paths]
    urls = {
        platform: sbom_urls(written["cyclonedx"], platform) for platform, written in sboms.packages.items()
    }
    for path, each in zip(paths, found, strict=True):
        vex.check_expiry(each, today, str(path))
        vex.check_products(each, [url for listed in urls.values() for url in listed], str(path))
    for platform, packages in urls.items() if found else ():
        manifest = subject.manifests[platform]
        image = image_url(subject.name, manifest.digest, platform)
        content = InTotoStatement(
            vex.PREDICATE,
            {manifest.digest: f"{subject.name} {platform}"},
            vex.openvex(found, image, packages),
        )
        yield ReleaseStatement(f"VEX {platform}", vex.PREDICATE, encode_statement(content), (manifest,))


def _test_result(subject: _Subject, seen: Sequence[ReleaseDocument]) -> ReleaseStatement:
    """The statement on passed tests, for tools that do not know our reports."""
    reports = {each.name: each.content for each in seen}
    content = InTotoStatement(TEST_RESULT, _named_subjects(subject), evidence.test_result(reports))
    return ReleaseStatement("test result", TEST_RESULT, encode_statement(content), (subject.root,))


def _signature(subject: _Subject) -> ReleaseStatement:
    signed = InTotoStatement(SIGNATURE, _named_subjects(subject), {})
    subjects = (subject.root, *subject.manifests.values())
    return ReleaseStatement("signature", SIGNATURE, encode_statement(signed), subjects)


def _named_subjects(subject: _Subject) -> dict[str, str]:
    """Digest → name of the index and its manifests."""
    manifests = {each.digest: f"{subject.name} {platform}" for platform, each in subject.manifests.items()}
    return {subject.root.digest: subject.name, **manifests}


def _epoch(existing: ImageLayout) -> int:
    """The time of the image's files: the requested one, or that of its lock."""
    whole = parse_json(existing.file(existing.whole).read_bytes(), str(existing.path), INDEX)
    created = whole.get("annotations", {}).get("org.opencontainers.image.created", "")
    try:
        return int(datetime.fromisoformat(created).timestamp())
    except ValueError:
        raise IntegrityError(f"{existing.path}: its index has no time of creation") from None


def _check_current(
    catalogue: Mapping[str, ImageDefinition], subject: _Subject, output: Path
) -> Lock | BaseLock:
    """Check that the image is made from its current definition and lock; give that lock."""
    platforms = list(subject.existing.images)
    plan = plan_build(
        catalogue,
        [subject.name],
        output=output,
        platforms=platforms,
        frozen=True,
        epoch=subject.epoch,
        variant=subject.existing.variant,
    )
    (step,) = (each for each in plan.steps if each.name == subject.name)
    (lock,) = (each.lock for each in plan.steps if each.definition.parent is None)
    if step.reason or lock is None:
        what = (
            f"{subject.existing.path}: not the image that {step.definition.folder} makes now: {step.reason}"
        )
        raise BuildError(f"{what}; build it again with 'sandwright build-images --name {subject.name}'")
    return lock
