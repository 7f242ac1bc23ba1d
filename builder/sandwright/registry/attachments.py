"""Moves documents, statements and signatures of an image between a registry and a layout.

In a layout, attachments have the names that they have as tags in a registry without a referrers API
(distribution-spec, "Referrers Tag Schema"), and those of cosign 2: `sha256-DIGEST`, `sha256-DIGEST.sig`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sandwright.errors import ArchiveRefused
from sandwright.progress import SILENT, Progress
from sandwright.registry.failure import NotFound
from sandwright.registry.graph import ImageGraph
from sandwright.registry.pull import ContentStore, keep_document, pull_pinned
from sandwright.registry.push import OpenBlob, move_tag, push_by_digest
from sandwright.registry.referrer import (
    fallback_tag,
    list_document,
    list_referrer,
    read_list,
    referrers,
)
from sandwright.registry.repository import RawManifest, Repository
from sandwright.rootfs.descriptor import Descriptor

COSIGN_2 = (".sig", ".att")
MOST = 500
"""Attachments of one manifest."""


def pull_attachments(
    repository: Repository, graph: ImageGraph, store: ContentStore, *, progress: Progress = SILENT
) -> dict[str, Descriptor]:
    """Pull the attached documents of an image; return the documents by their name in a layout.

    Raise ArchiveRefused if it is too large, and the exceptions of pulling.
    """
    found = {}
    for node in graph.nodes:
        digest = node.descriptor.digest
        if document := _pull_referrers(repository, digest, store, progress):
            keep_document(store, document)
            found[fallback_tag(digest)] = document.descriptor
        for suffix in COSIGN_2:
            tag = f"{fallback_tag(digest)}{suffix}"
            if repository.head(tag) is not None:
                root = repository.manifest(tag).descriptor
                pull_pinned(repository, root, store, progress=progress)
                found[tag] = root
    return found


def push_attachments(
    repository: Repository,
    graph: ImageGraph,
    attachments: Mapping[str, ImageGraph],
    open_blob: OpenBlob,
    *,
    progress: Progress = SILENT,
) -> list[str]:
    """Push the attached documents of an image; return the digests of everything sent."""
    sent: list[str] = []
    for node in graph.nodes:
        subject = node.descriptor
        if (listed := attachments.get(fallback_tag(subject.digest))) is not None:
            for each in listed.nodes[:-1]:
                sent += push_by_digest(repository, ImageGraph((each,)), open_blob, progress=progress)
            for referrer in read_list(listed.root.content, listed.root.descriptor.digest):
                list_referrer(repository, subject.digest, referrer)
        for suffix in COSIGN_2:
            tag = f"{fallback_tag(subject.digest)}{suffix}"
            if (signed := attachments.get(tag)) is not None:
                sent += push_by_digest(repository, signed, open_blob, progress=progress)
                root = signed.root
                move_tag(
                    repository,
                    RawManifest(root.descriptor.media_type, root.descriptor.digest, root.content),
                    tag,
                )
    return sent


def _pull_referrers(
    repository: Repository, digest: str, store: ContentStore, progress: Progress
) -> RawManifest | None:
    """The list of the referrers that are there, which are pulled; None without any."""
    listed = referrers(repository, digest)
    if len(listed) > MOST:
        raise ArchiveRefused(f"{repository}: more than {MOST} documents are attached to {digest}")
    there = [each for each in listed if _is_pulled(repository, each.descriptor, store, progress)]
    return list_document(there) if there else None


def _is_pulled(
    repository: Repository, descriptor: Descriptor, store: ContentStore, progress: Progress
) -> bool:
    """Pull a referrer; False for one that is listed and gone."""
    try:
        pull_pinned(repository, descriptor, store, progress=progress)
    except NotFound:
        return False
    return True


def attachments_of(graph: ImageGraph) -> Iterator[str]:
    """The names that attachments of an image can have in a layout."""
    for node in graph.nodes:
        for suffix in ("", *COSIGN_2):
            yield f"{fallback_tag(node.descriptor.digest)}{suffix}"
