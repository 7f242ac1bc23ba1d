"""Attaches documents to images and lists them: referrers, by the registry's API or under the fallback tag.

Protocol: distribution-spec 1.1, "Listing Referrers" and "Referrers Tag Schema". Requesting the list shows
whether a registry has the API: one registry acknowledged a subject (`OCI-Subject`) without listing it.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sandwright.documents.fields import INDEX
from sandwright.documents.strictjson import parse_json
from sandwright.registry.failure import NotFound, RegistryError, WrongContent
from sandwright.registry.graph import sha256_descriptor
from sandwright.registry.repository import LARGEST_DOCUMENT, RawManifest, Repository, read
from sandwright.registry.upload import Source
from sandwright.rootfs.descriptor import (
    OCI_INDEX,
    OCI_MANIFEST,
    Descriptor,
    canonical,
    check_document,
    read_descriptor,
    sequence,
)

EMPTY_TYPE = "application/vnd.oci.empty.v1+json"
EMPTY = b"{}"
EMPTY_CONFIG = sha256_descriptor(EMPTY_TYPE, EMPTY)
MOST_PAGES = 50
TITLE = "org.opencontainers.image.title"
"""Names a document; on a layer, the file that it is (image-spec, annotations.md)."""
_NO_API = frozenset({400, 404, 405, 406, 415, 501})


@dataclass(frozen=True)
class Referrer:
    """A manifest that refers to another one, with its `artifact_type`."""

    descriptor: Descriptor
    artifact_type: str
    annotations: Mapping[str, str]


def fallback_tag(digest: str) -> str:
    """The tag of the list in a registry without the API: `sha256-abc…`."""
    algorithm, _, encoded = digest.partition(":")
    return f"{algorithm[:32]}-{encoded[:64]}"


def referrers(repository: Repository, digest: str, *, artifact_type: str | None = None) -> list[Referrer]:
    """The referrers of the manifest with this digest, of one type or of all. Raise RegistryError."""
    listed = _referrers_by_api(repository, digest)
    found = _fallback(repository, digest) if listed is None else listed
    return [each for each in found if artifact_type in (None, each.artifact_type)]


def push_referrer(
    repository: Repository,
    subject: Descriptor,
    artifact_type: str,
    content: bytes,
    *,
    media_type: str,
    annotations: Mapping[str, str] | None = None,
    file_name: str = "",
) -> Referrer:
    """Attach a document to the manifest `subject`, and check that it is listed. Idempotent.

    `file_name` is the name of the file that `oras pull` writes; without it, oras writes none.

    In a registry without the API, the list under the fallback tag is extended. Concurrent writers can
    overwrite each other's list, so it is read back, and the write repeated. Raise RegistryError.
    """
    layer = sha256_descriptor(media_type, content)
    title = {"annotations": {TITLE: file_name}} if file_name else {}
    document = artifact_manifest(subject, artifact_type, [layer.document(**title)], annotations or {})
    for descriptor, data in ((EMPTY_CONFIG, EMPTY), (layer, content)):
        repository.push_blob(descriptor, _opener(data))
    if repository.head(document.digest) is None:
        repository.put_manifest(document)
    referrer = Referrer(document.descriptor, artifact_type, dict(annotations or {}))
    list_referrer(repository, subject.digest, referrer)
    return referrer


def list_referrer(repository: Repository, subject: str, referrer: Referrer) -> None:
    """Check that a stored referrer of the manifest with digest `subject` is listed.

    In a registry without the API, extend the list under the fallback tag. Raise RegistryError.
    """
    for _ in range(repository.client.settings.patience.attempts):
        listed = _referrers_by_api(repository, subject)
        if listed is None:
            listed = _extend_fallback(repository, subject, referrer)
        if any(each.descriptor.digest == referrer.descriptor.digest for each in listed):
            return
        repository.client.transport.wait(repository.client.settings.patience.pause)
    operation = repository.operation(f"referrers of {subject}")
    raise WrongContent(f"{operation}: {referrer.descriptor.digest} was attached, and is not listed")


def artifact_manifest(
    subject: Descriptor,
    artifact_type: str,
    layers: Sequence[Mapping[str, Any]],
    annotations: Mapping[str, str],
) -> RawManifest:
    """A manifest of these layers that refers to `subject`. Its config is EMPTY."""
    document = {
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "artifactType": artifact_type,
        "config": EMPTY_CONFIG.document(),
        "layers": list(layers),
        "subject": subject.document(),
        **({"annotations": dict(annotations)} if annotations else {}),
    }
    content = canonical(document)
    return RawManifest(OCI_MANIFEST, sha256_descriptor(OCI_MANIFEST, content).digest, content)


def _referrers_by_api(repository: Repository, digest: str) -> list[Referrer] | None:
    """The list of the registry's API; None without the API."""
    operation = repository.operation(f"referrers of {digest}")
    path, found, size = f"referrers/{digest}", [], 0
    for _ in range(MOST_PAGES):
        try:
            with repository.send("GET", path, operation.what, headers={"Accept": OCI_INDEX}) as answer:
                if answer.content_type != OCI_INDEX:
                    return None  # a page for people, most likely
                body = read(answer, operation)
                following = answer.headers.get("Link", "")
                base = answer.url
        except RegistryError as error:
            if error.status in _NO_API:
                return None
            raise
        size += len(body)
        if size > LARGEST_DOCUMENT:  # as the list under the fallback tag, which is one document
            raise RegistryError(f"{operation}: the list is longer than {LARGEST_DOCUMENT >> 20} MiB")
        found += read_list(body, str(operation))
        if 'rel="next"' not in following:
            return found
        target = following.partition("<")[2].partition(">")[0]
        path = repository.client.resolve(target, base, operation)
    raise RegistryError(f"{operation}: the list has more than {MOST_PAGES} pages")


def _fallback(repository: Repository, digest: str) -> list[Referrer]:
    try:
        document = repository.manifest(fallback_tag(digest))
    except NotFound:
        return []
    return read_list(document.content, f"{repository}: {fallback_tag(digest)}")


def _extend_fallback(repository: Repository, digest: str, referrer: Referrer) -> list[Referrer]:
    """Add to the list under the fallback tag; return the new list."""
    listed = _fallback(repository, digest)
    if all(each.descriptor.digest != referrer.descriptor.digest for each in listed):
        repository.put_manifest(list_document([*listed, referrer]), fallback_tag(digest))
        listed = _fallback(repository, digest)
    return listed


def list_document(listed: Iterable[Referrer]) -> RawManifest:
    """The list of referrers as a document."""
    entries = [_referrer_row(each) for each in listed]
    content = canonical({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": entries})
    return RawManifest(OCI_INDEX, sha256_descriptor(OCI_INDEX, content).digest, content)


def read_list(body: bytes, where: str) -> list[Referrer]:
    """The referrers in a list. Raise ArchiveRefused for a document that is none."""
    index = parse_json(body, where, INDEX)
    check_document(index, OCI_INDEX, where)
    return [
        _referrer(each, f"{where}: manifests[{number}]")
        for number, each in enumerate(sequence(index["manifests"], where))
    ]


def _referrer(value: Any, where: str) -> Referrer:  # noqa: ANN401 - JSON
    descriptor = read_descriptor(value, where)
    artifact_type = value.get("artifactType")
    return Referrer(
        descriptor, artifact_type if isinstance(artifact_type, str) else "", dict(descriptor.annotations)
    )


def _referrer_row(referrer: Referrer) -> dict[str, Any]:
    """A referrer's row in the index, with its type and annotations."""
    annotations = {"annotations": dict(referrer.annotations)} if referrer.annotations else {}
    kind = {"artifactType": referrer.artifact_type} if referrer.artifact_type else {}
    return {**referrer.descriptor.document(), **kind, **annotations}


def _opener(data: bytes) -> Source:
    return lambda: io.BytesIO(data)
