"""Pulls an image, its documents and then its blobs, into a content store.

Digests are verified before anything is stored: a blob's by `registry.download`, a document's by
`registry.repository`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import BinaryIO, Protocol

from sandwright.errors import ArchiveRefused
from sandwright.progress import SILENT, Progress, ProgressStep
from sandwright.registry.graph import ImageGraph, PlatformFilter, walk
from sandwright.registry.parallel import run_parallel
from sandwright.registry.repository import LARGEST_DOCUMENT, RawManifest, Repository
from sandwright.rootfs.descriptor import Descriptor


class ContentStore(Protocol):
    """Stores blobs by digest, for all threads of a pull."""

    def has(self, descriptor: Descriptor) -> bool:
        """Whether the store has a blob."""
        ...

    def read(self, descriptor: Descriptor) -> bytes:
        """The content of a stored document."""
        ...

    def adding(self, descriptor: Descriptor) -> AbstractContextManager[BinaryIO]:
        """A new file, stored when the `with` ends without an error."""
        ...


def pull(
    repository: Repository,
    what: str,
    store: ContentStore,
    *,
    platforms: PlatformFilter = lambda _: True,
    progress: Progress = SILENT,
) -> ImageGraph:
    """Pull the image that a tag or digest names into a store, only for the `platforms` platforms.

    Stored blobs are not fetched again. Everything is verified. Raise RegistryError, WrongContent,
    ArchiveRefused for invalid documents, and the errors of the store.
    """
    root = repository.manifest(what)
    keep_document(store, root)
    return pull_pinned(repository, root.descriptor, store, platforms=platforms, progress=progress)


def pull_pinned(
    repository: Repository,
    root: Descriptor,
    store: ContentStore,
    *,
    platforms: PlatformFilter = lambda _: True,
    progress: Progress = SILENT,
) -> ImageGraph:
    """Pull an image by its descriptor. When the store has all of it, the registry is not contacted."""

    def load(descriptor: Descriptor) -> bytes:
        if store.has(descriptor):
            return store.read(descriptor)
        if descriptor.size > LARGEST_DOCUMENT:
            raise ArchiveRefused(f"{repository}: {descriptor.digest} is too long for a document")
        document = repository.manifest(descriptor.digest)
        keep_document(store, document)
        return document.content

    graph = walk(root, load, str(repository), platforms=platforms)
    fetch_blobs(repository, graph.blobs, store, progress=progress)
    return graph


def fetch_blobs(
    repository: Repository,
    blobs: Sequence[Descriptor],
    store: ContentStore,
    *,
    progress: Progress = SILENT,
) -> None:
    """Pull the blobs that a store lacks, each verified against its digest."""
    missing = [blob for blob in blobs if not store.has(blob)]
    if not missing:
        return
    largest_first = sorted(missing, key=lambda each: -each.size)
    with progress.step(f"pull {repository}", sum(blob.size for blob in missing)) as step:
        tasks = [partial(_fetch_blob, repository, store, step, blob) for blob in largest_first]
        run_parallel(tasks, stop=repository.client.transport.stop)


def _fetch_blob(repository: Repository, store: ContentStore, step: ProgressStep, blob: Descriptor) -> None:
    with store.adding(blob) as sink:
        repository.fetch_blob(blob, sink, step=step)


def keep_document(store: ContentStore, document: RawManifest) -> None:
    """Add a document to a store, unless it is there."""
    descriptor = document.descriptor
    if not store.has(descriptor):
        with store.adding(descriptor) as sink:
            sink.write(document.content)
