"""Documents attached to manifests of a registry: their list and content, proved by digests."""

from __future__ import annotations

import io
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial

from sandwright.errors import ArchiveRefused
from sandwright.registry.failure import NotFound, WrongContent
from sandwright.registry.graph import read_node
from sandwright.registry.parallel import run_parallel
from sandwright.registry.referrer import Referrer, referrers
from sandwright.registry.repository import Repository
from sandwright.rootfs.descriptor import Descriptor

LARGEST = 256 << 20
"""Bytes of a document that is attached."""

LARGEST_BUNDLE = 16 << 20
"""Bytes of a signed statement. Everybody who checks an image parses all attached documents as such."""

_LARGEST_CONFIG = 1 << 20
MOST = 500


@dataclass(frozen=True)
class AttachedDocument:
    """A document of one layer that is attached to `subject`. `manifest` is the digest of its manifest."""

    artifact_type: str
    subject: str
    manifest: str
    content: Descriptor

    def __str__(self) -> str:
        return f"{self.artifact_type} {self.manifest}"


def attached_documents(
    repository: Repository, subject: str, types: Collection[str]
) -> tuple[list[AttachedDocument], int]:
    """The documents of these types that are attached to a manifest, and how many others are.

    Listed ones that are missing, or that differ from the list, count as others. Raise RegistryError, and
    WrongContent for manifests with other bytes.
    """
    listed = referrers(repository, subject)
    if len(listed) > MOST:
        raise ArchiveRefused(f"{repository}: more than {MOST} documents are attached to {subject}")
    tasks = [
        partial(_find_document, repository, each, subject) for each in listed if each.artifact_type in types
    ]
    found = [each for each in run_parallel(tasks, stop=repository.client.transport.stop) if each is not None]
    return found, len(listed) - len(found)


def _find_document(repository: Repository, listed: Referrer, subject: str) -> AttachedDocument | None:
    try:
        return _read_document(repository, listed, subject)
    except (ArchiveRefused, NotFound):
        return None


def _read_document(repository: Repository, listed: Referrer, subject: str) -> AttachedDocument | None:
    """A listed document that matches the list and has one layer: anyone who may push can attach anything."""
    manifest = repository.manifest(listed.descriptor.digest)
    where = f"{repository}: {listed.artifact_type} {manifest.digest}"
    node = read_node(listed.descriptor, manifest.content, where)
    refers = node.subject.digest if node.subject is not None else ""
    if refers != subject or node.document.get("artifactType") != listed.artifact_type or len(node.blobs) != 2:
        return None
    config, content = node.blobs
    fetch(repository, config, where, most=_LARGEST_CONFIG)
    return AttachedDocument(listed.artifact_type, subject, manifest.digest, content)


def fetch(repository: Repository, content: Descriptor, where: str, *, most: int = LARGEST) -> bytes:
    """The content of a blob of at most `most` bytes, compared with its digest.

    Raise WrongContent for other bytes, RegistryError.

    Raise ArchiveRefused if the descriptor has another size: anyone can attach one in a registry.
    """
    if content.size > most:
        raise ArchiveRefused(f"{where}: has {content.size} bytes; at most {most} are read")
    sink = io.BytesIO()
    try:
        repository.fetch_blob(content, sink)
    except WrongContent as error:
        if len(sink.getvalue()) != content.size:
            raise ArchiveRefused(f"{where}: {error}") from error
        raise WrongContent(f"{where}: {error}") from error
    return sink.getvalue()
