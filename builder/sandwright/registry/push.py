"""Pushes an image by digest, blobs first and the root last; reads it back; then moves the tags.

A tag therefore never names an incomplete image. A second push sends nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO

from sandwright.progress import SILENT, Progress, ProgressStep
from sandwright.registry.failure import NotFound, RegistryError, WrongContent
from sandwright.registry.graph import ImageGraph, ManifestNode
from sandwright.registry.parallel import JOBS, run_parallel
from sandwright.registry.reference import check_tag
from sandwright.registry.repository import LARGEST_DOCUMENT, RawManifest, Repository
from sandwright.rootfs.descriptor import Descriptor

OpenBlob = Callable[[Descriptor], BinaryIO]
"""Opens a blob of the image for reading."""


@dataclass(frozen=True)
class PushResult:
    """The result of a push. `digest` is the image's; `sent` are the digests of everything sent.

    `tagged` are the tags that moved.
    """

    digest: str
    sent: tuple[str, ...]
    tagged: tuple[str, ...]

    @property
    def changed(self) -> bool:
        """Whether the push sent or tagged anything."""
        return bool(self.sent or self.tagged)


def push(
    repository: Repository,
    graph: ImageGraph,
    open_blob: OpenBlob,
    *,
    tags: Sequence[str] = (),
    mount_from: Sequence[str] = (),
    jobs: int = JOBS,
    progress: Progress = SILENT,
) -> PushResult:
    """Push an image to a repository, read it back, and move `tags` to it.

    Blobs of the repositories in `mount_from`, of the same registry, are mounted rather than sent. Raise
    UsageError for an invalid tag, RegistryError, IntegrityError for a blob with a wrong digest, WrongContent
    when the registry returns something else.
    """
    for tag in tags:
        check_tag(tag)
    sent = push_by_digest(repository, graph, open_blob, mount_from=mount_from, jobs=jobs, progress=progress)
    document = _document(graph.root)
    moved = tuple(tag for tag in dict.fromkeys(tags) if move_tag(repository, document, tag))
    return PushResult(document.digest, sent, moved)


def push_by_digest(
    repository: Repository,
    graph: ImageGraph,
    open_blob: OpenBlob,
    *,
    mount_from: Sequence[str] = (),
    jobs: int = JOBS,
    progress: Progress = SILENT,
) -> tuple[str, ...]:
    """Push everything but the tags. Return the digests of everything sent."""
    sizes = sum(blob.size for blob in graph.blobs)
    largest_first = sorted(graph.blobs, key=lambda each: -each.size)
    with progress.step(f"push {repository}", sizes) as step:
        tasks = [partial(_push_blob, repository, open_blob, mount_from, step, blob) for blob in largest_first]
        went = run_parallel(tasks, stop=repository.client.transport.stop, jobs=jobs)
        sent = [blob.digest for blob, was_sent in zip(largest_first, went, strict=True) if was_sent]
    sent += [node.descriptor.digest for node in graph.nodes if _push_document(repository, node)]
    verify(repository, graph, jobs=jobs)
    return tuple(sent)


def verify(repository: Repository, graph: ImageGraph, *, jobs: int = JOBS) -> None:
    """Check that a repository has all of an image: documents byte for byte, blobs by size.

    Raise WrongContent or RegistryError that names the missing content.
    """

    def check_document(node: ManifestNode) -> None:
        found = repository.manifest(node.descriptor.digest)
        if (found.content, found.media_type) != (node.content, node.descriptor.media_type):
            was = f"{found.media_type} of {len(found.content)} bytes"
            raise WrongContent(f"{repository}: gives {node.descriptor.digest} back as something else: {was}")

    def check_blob(blob: Descriptor) -> None:
        if not repository.has_blob(blob):
            operation = repository.operation(f"blob {blob.digest}")
            raise NotFound(f"{operation}: it was pushed, and is not there", status=404)

    tasks = [partial(check_document, node) for node in graph.nodes]
    tasks += [partial(check_blob, blob) for blob in graph.blobs]
    run_parallel(tasks, stop=repository.client.transport.stop, jobs=jobs)


def move_tag(repository: Repository, document: RawManifest, tag: str) -> bool:
    """Point a tag to a stored manifest and read it back. Return whether the tag moved."""
    if repository.head(tag) == document.digest:
        return False
    repository.put_manifest(document, tag)
    found = repository.manifest(tag).digest
    if found != document.digest:
        raise WrongContent(f"{repository}: tag {tag} names {found} after it was moved to {document.digest}")
    return True


def _push_blob(
    repository: Repository,
    open_blob: OpenBlob,
    mount_from: Sequence[str],
    step: ProgressStep,
    blob: Descriptor,
) -> bool:
    return repository.push_blob(blob, lambda: open_blob(blob), mount_from=mount_from, step=step)


def _push_document(repository: Repository, node: ManifestNode) -> bool:
    if len(node.content) > LARGEST_DOCUMENT:
        size = f"{len(node.content)} bytes, which registries need not take"
        raise RegistryError(f"{repository}: {node.descriptor.digest} has {size}")
    if repository.head(node.descriptor.digest) == node.descriptor.digest:
        return False
    repository.put_manifest(_document(node))
    return True


def _document(node: ManifestNode) -> RawManifest:
    return RawManifest(node.descriptor.media_type, node.descriptor.digest, node.content)
