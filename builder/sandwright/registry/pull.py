"""Pulls an image: its documents, then its blobs, into a place that keeps them by digest."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import BinaryIO, Protocol

from sandwright.errors import ArchiveRefused
from sandwright.progress import SILENT, Progress, ProgressStep
from sandwright.registry.graph import ImageGraph, PlatformFilter, walk
from sandwright.registry.parallel import JOBS, run_parallel
from sandwright.registry.repository import LARGEST_DOCUMENT, RawManifest, Repository
from sandwright.rootfs.descriptor import Descriptor


class ContentStore(Protocol):
    """Where blobs are kept. For all threads of a pull."""

    def has(self, descriptor: Descriptor) -> bool:
        """Whether a blob is there."""
        ...

    def read(self, descriptor: Descriptor) -> bytes:
        """A document that is there."""
        ...

    def adding(self, descriptor: Descriptor) -> AbstractContextManager[BinaryIO]:
        """A file to write, which is in the place when the `with` ends without an error."""
        ...


def pull(
    repository: Repository,
    what: str,
    place: ContentStore,
    *,
    wanted: PlatformFilter = lambda _: True,
    jobs: int = JOBS,
    progress: Progress = SILENT,
) -> ImageGraph:
    """Have the image that a tag or digest names in a place, without the platforms that are not `wanted`.

    What the place has is not asked for. Everything is verified. Raise RegistryError, WrongContent,
    ArchiveRefused for documents that break a rule, and what the place raises.
    """
    root = repository.manifest(what)
    _keep(place, root)
    return pull_pinned(repository, root.descriptor, place, wanted=wanted, jobs=jobs, progress=progress)


def pull_pinned(
    repository: Repository,
    root: Descriptor,
    place: ContentStore,
    *,
    wanted: PlatformFilter = lambda _: True,
    jobs: int = JOBS,
    progress: Progress = SILENT,
) -> ImageGraph:
    """The same for an image whose descriptor is known. The registry isn't asked when the place has it all."""

    def load(descriptor: Descriptor) -> bytes:
        if place.has(descriptor):
            return place.read(descriptor)
        if descriptor.size > LARGEST_DOCUMENT:
            raise ArchiveRefused(f"{repository}: {descriptor.digest} is too long for a document")
        document = repository.manifest(descriptor.digest)
        _keep(place, document)
        return document.content

    graph = walk(root, load, str(repository), wanted=wanted)
    fetch_blobs(repository, graph.blobs, place, jobs=jobs, progress=progress)
    return graph


def fetch_blobs(
    repository: Repository,
    blobs: Sequence[Descriptor],
    place: ContentStore,
    *,
    jobs: int = JOBS,
    progress: Progress = SILENT,
) -> None:
    """Have these blobs in a place."""
    missing = [blob for blob in blobs if not place.has(blob)]
    if not missing:
        return
    largest_first = sorted(missing, key=lambda each: -each.size)
    with progress.step(f"pull {repository}", sum(blob.size for blob in missing)) as step:
        tasks = [partial(_fetch, repository, place, step, blob) for blob in largest_first]
        run_parallel(tasks, stop=repository.client.transport.stop, jobs=jobs)


def _fetch(repository: Repository, place: ContentStore, step: ProgressStep, blob: Descriptor) -> None:
    with place.adding(blob) as sink:
        repository.fetch_blob(blob, sink, step=step)


def _keep(place: ContentStore, document: RawManifest) -> None:
    descriptor = document.descriptor
    if not place.has(descriptor):
        with place.adding(descriptor) as sink:
            sink.write(document.content)
