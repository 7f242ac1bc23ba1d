"""Brings images to a registry with their evidence: nothing is tagged that isn't whole, signed and read back.

The order guarantees it: blobs and manifests by digest, documents, signed statements, reading all of it back,
and then the tags. A publication that is interrupted leaves the tags as they were; the next one does the rest.
Content that the registry already has is not sent and not signed again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from sandwright.errors import ArchiveRefused, IntegrityError
from sandwright.progress import SILENT, Progress
from sandwright.registry.failure import NotFound, WrongContent
from sandwright.registry.graph import ImageGraph
from sandwright.registry.parallel import run_parallel
from sandwright.registry.push import move_tag, push_by_digest, verify
from sandwright.registry.reference import check_tag
from sandwright.registry.referrer import TITLE, Referrer, list_referrer, push_referrer, referrers
from sandwright.registry.repository import RawManifest as Stored
from sandwright.registry.repository import Repository
from sandwright.release.attach import LARGEST_BUNDLE, AttachedDocument, attached_documents, fetch
from sandwright.release.bundle import BUNDLE, NotSigned, Signer, Verifier, has_keyid
from sandwright.release.cosign import MissingEvidence, missing_evidence, sign
from sandwright.release.packagestore import STORE_TYPE
from sandwright.release.provenance import sha256_digest
from sandwright.release.signing import SigningKey
from sandwright.release.subject import DOCUMENT_TYPES, Release, ReleaseDocument, ReleaseStatement
from sandwright.rootfs.descriptor import Descriptor

PREDICATE = "dev.sigstore.bundle.predicateType"
CONTENT = "dev.sigstore.bundle.content"
"""Annotations by which cosign finds attached documents."""


@dataclass(frozen=True)
class PublishPlan:
    """The steps of a publication. `parts` are those of the image that the registry lacks.

    `others` are signatures where other tools look for them, `packages` parts of the package store. `tags` are
    the tags to move, each with its current target.
    """

    release: Release
    where: str
    parts: tuple[Descriptor, ...]
    documents: tuple[ReleaseDocument, ...]
    claims: tuple[tuple[ReleaseStatement, Descriptor], ...]
    others: tuple[MissingEvidence, ...]
    tags: tuple[tuple[str, str | None], ...]
    packages: tuple[Descriptor, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        work = (self.parts, self.packages, self.documents, self.claims, self.others, self.tags)
        return not any(work)

    def describe(self) -> Iterator[str]:
        """The plan, a line for each step."""
        name = f"{self.where}@{self.release.root.digest}"
        if self.is_empty:
            yield f"{name}: nothing to do"
            return
        total = len(self.release.image.graph.nodes) + len(self.release.image.graph.blobs)
        if self.parts:
            size = sum(each.size for each in self.parts)
            yield f"{name}: push {len(self.parts)} of {total} parts, {size} bytes"
        if self.packages:
            size = sum(each.size for each in self.packages)
            yield f"{name}: attach {len(self.packages)} parts of the package store, {size} bytes"
        for document in self.documents:
            yield f"{name}: attach {document.name}, {len(document.content)} bytes"
        for claim, subject in self.claims:
            yield f"{name}: sign {claim.name}, attach it to {subject.digest}"
        for other in self.others:
            yield f"{name}: sign {other.name}, tag it {other.tag}"
        yield f"{name}: read back and verify"
        for tag, before in self.tags:
            yield f"{name}: tag {tag}, " + ("which is new" if before is None else f"which names {before}")


@dataclass(frozen=True)
class Published:
    """The result of a publication. `sent` are digests and names of documents, `tagged` the moved tags."""

    digest: str
    sent: tuple[str, ...]
    tagged: tuple[str, ...]

    @property
    def changed(self) -> bool:
        """Whether the publication sent or tagged anything."""
        return bool(self.sent or self.tagged)


def make_plan(
    repository: Repository, release: Release, verifier: Verifier, tags: Sequence[str]
) -> PublishPlan:
    """Ask the registry for its content, and plan the steps. Raise UsageError for an invalid tag."""
    for tag in tags:
        check_tag(tag)
    there = _attached_documents(repository, release)
    return PublishPlan(
        release,
        str(repository),
        tuple(_unpushed_parts(repository, release.image.graph)),
        tuple(each for each in release.documents if not _has_whole(repository, there, each)),
        tuple(_unsigned(repository, release, there, verifier)),
        missing_evidence(repository, release, verifier),
        tuple(
            (tag, now) for tag in dict.fromkeys(tags) if (now := repository.head(tag)) != release.root.digest
        ),
        tuple(_missing_packages(repository, release)),
    )


def publish(
    repository: Repository, plan: PublishPlan, key: Signer, *, progress: Progress = SILENT
) -> Published:
    """Carry out a plan. If it is empty, read the image's documents once more.

    Raise RegistryError, WrongContent, IntegrityError, HostError when the key does not sign.
    """
    release = plan.release
    if plan.is_empty:  # making the plan has read all the rest
        verify(repository, release.image.graph)
        return Published(release.root.digest, (), ())
    sent: list[str] = []
    if plan.parts:
        sent += push_by_digest(repository, release.image.graph, release.image.open_blob, progress=progress)
    if plan.packages and release.packages is not None:
        graph = release.packages.graph
        sent += push_by_digest(repository, graph, release.packages.open_blob, progress=progress)
        list_referrer(repository, release.root.digest, Referrer(graph.root.descriptor, STORE_TYPE, {}))
    for document in plan.documents:
        _attach(
            repository,
            document.subject,
            document.artifact_type,
            document.content,
            {TITLE: document.name},
            file_name=document.file_name,
        )
        sent.append(document.name)
    bundles: dict[str, bytes] = {}
    for claim, subject in plan.claims:
        if claim.name not in bundles:
            bundles[claim.name] = key.sign(claim.payload)
        annotations = {TITLE: claim.name, CONTENT: "dsse-envelope", PREDICATE: claim.predicate_type}
        _attach(repository, subject, BUNDLE, bundles[claim.name], annotations, file_name=claim.file_name)
        sent.append(f"{claim.name} of {subject.digest}")
    for other in plan.others:
        assert isinstance(key, SigningKey), "only signatures by keys are planned"
        sign(repository, other, key)
        sent.append(f"{other.name} of {other.subject.digest}")
    read_back(repository, release, key.verifier, sent=plan.documents)
    root = release.image.graph.root
    stored = Stored(root.descriptor.media_type, root.descriptor.digest, root.content)
    moved = tuple(tag for tag, _ in plan.tags if move_tag(repository, stored, tag))
    return Published(release.root.digest, tuple(sent), moved)


def read_back(
    repository: Repository, release: Release, verifier: Verifier, *, sent: Sequence[ReleaseDocument] = ()
) -> None:
    """Check that the registry has all of a release: the image, each document, each statement and signature.

    The image's blobs are compared by size, like documents that were there before; those in `sent` and all
    statements are read. Raise WrongContent, IntegrityError or RegistryError, which name the missing content.
    """
    verify(repository, release.image.graph)
    for part in _missing_packages(repository, release):
        raise IntegrityError(f"{repository}: {part.digest} of the package store is not there")
    there = _attached_documents(repository, release)
    for document in release.documents:
        found = _has_document(there, document)
        if found is None:
            raise IntegrityError(f"{repository}: {document.name} was attached, and is not there")
        if document in sent:
            fetch(repository, found.content, f"{repository}: {document.name}")
        elif not repository.has_blob(found.content):
            raise WrongContent(f"{repository}: {document.name}: its content {found.content.digest} is gone")
    for claim, subject in _unsigned(repository, release, there, verifier):
        raise IntegrityError(f"{repository}: {claim.name} of {subject.digest} was attached, and is not there")
    for each in missing_evidence(repository, release, verifier):
        raise IntegrityError(f"{repository}: {each.name} of {each.subject.digest} is not there")


def _attach(
    repository: Repository,
    subject: Descriptor,
    artifact_type: str,
    content: bytes,
    annotations: dict[str, str],
    *,
    file_name: str,
) -> None:
    push_referrer(
        repository,
        subject,
        artifact_type,
        content,
        media_type=artifact_type,
        annotations=annotations,
        file_name=file_name,
    )


def _attached_documents(repository: Repository, release: Release) -> list[AttachedDocument]:
    """The documents attached to the image and each of its platforms."""
    found = []
    for subject in (release.root, *release.manifests.values()):
        found += attached_documents(repository, subject.digest, {BUNDLE, *DOCUMENT_TYPES})[0]
    return found


def _missing_packages(repository: Repository, release: Release) -> Iterator[Descriptor]:
    """The parts of the package store that are not there; its manifest also if it is not listed."""
    if release.packages is None:
        return
    missing = list(_unpushed_parts(repository, release.packages.graph))
    yield from missing
    root = release.packages.graph.root.descriptor
    listed = referrers(repository, release.root.digest, artifact_type=STORE_TYPE)
    if root not in missing and all(each.descriptor.digest != root.digest for each in listed):
        yield root


def _unpushed_parts(repository: Repository, graph: ImageGraph) -> Iterator[Descriptor]:
    tasks = [partial(repository.has_blob, blob) for blob in graph.blobs]
    has = run_parallel(tasks, stop=repository.client.transport.stop)
    yield from (blob for blob, there in zip(graph.blobs, has, strict=True) if not there)
    for node in graph.nodes:
        if repository.head(node.descriptor.digest) != node.descriptor.digest:
            yield node.descriptor


def _has_document(there: Sequence[AttachedDocument], document: ReleaseDocument) -> AttachedDocument | None:
    key = (document.artifact_type, document.subject.digest, sha256_digest(document.content))
    return next(
        (each for each in there if (each.artifact_type, each.subject, each.content.digest) == key), None
    )


def _has_whole(repository: Repository, there: Sequence[AttachedDocument], document: ReleaseDocument) -> bool:
    found = _has_document(there, document)
    return found is not None and repository.has_blob(found.content)


def _unsigned(
    repository: Repository, release: Release, there: Sequence[AttachedDocument], verifier: Verifier
) -> Iterator[tuple[ReleaseStatement, Descriptor]]:
    """The claims that no bundle there has the key's signature for, each with the manifest that lacks it."""
    signed = set()
    for each in there:
        if each.artifact_type == BUNDLE:
            payload = _verified_statement(repository, each, verifier)
            signed.add((each.subject, payload))
    for claim in release.claims:
        for subject in claim.subjects:
            if (subject.digest, claim.payload) not in signed:
                yield claim, subject


def _verified_statement(repository: Repository, bundle: AttachedDocument, verifier: Verifier) -> bytes | None:
    """The statement in a bundle that the key signed; None if it is missing, malformed or another signer's.

    None also for one with a keyid, as sandwright once wrote it: cosign 3 refuses that, so it is signed again.
    """
    where = f"{repository}: {bundle}"
    try:
        content = fetch(repository, bundle.content, where, most=LARGEST_BUNDLE)
        payload = verifier.opened(content, where)
        return None if has_keyid(content) else payload
    except (NotSigned, ArchiveRefused, NotFound):
        return None
