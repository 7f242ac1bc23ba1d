"""The operations on one repository of a registry: manifests and blobs, verified against their digests.

Endpoints: distribution-spec 1.1, "Endpoints". Every document and blob is verified by the requested digest.
For a tag the digest is computed here, and compared with the registry's header.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO

from sandwright.errors import ArchiveRefused
from sandwright.progress import ProgressStep
from sandwright.registry.client import RegistryClient, RegistryRequest
from sandwright.registry.download import Download
from sandwright.registry.failure import Cancelled, RegistryError, RegistryOperation, WrongContent, printable
from sandwright.registry.reference import Reference, check_repository
from sandwright.registry.scope import PULL, PUSH, repository_scope, united
from sandwright.registry.settings import RegistrySettings
from sandwright.registry.transport import ConnectionBroken, Response
from sandwright.registry.upload import Source, Upload
from sandwright.rootfs.descriptor import INDEX_TYPES, MANIFEST_TYPES, Descriptor, check_digest

LARGEST_DOCUMENT = 4 << 20
"""Bytes of a manifest: the size that registries must accept (distribution-spec, "Pushing Manifests")."""

DOCUMENT_TYPES = (*sorted(INDEX_TYPES), *sorted(MANIFEST_TYPES))
_SCHEMA_1 = "application/vnd.docker.distribution.manifest.v1"


class _Unseen:
    def advance(self, amount: int) -> None:
        """Ignore the progress."""


UNSEEN: ProgressStep = _Unseen()


@dataclass(frozen=True)
class RawManifest:
    """The bytes of a manifest or index, with media type and digest."""

    media_type: str
    digest: str
    content: bytes

    @property
    def descriptor(self) -> Descriptor:
        """Its descriptor."""
        return Descriptor(self.media_type, self.digest, len(self.content))


class Repository:
    """One repository of a registry, opened with `open_repository`. May be used by several threads.

    Every operation raises RegistryError with the registry's message when it is refused (among them NotFound,
    Denied, Unreachable), and WrongContent for bytes that differ from the requested digest.
    """

    def __init__(self, client: RegistryClient, name: str, *, push: bool) -> None:
        self.name = name
        self.host = client.host
        self.client = client
        self.scopes: tuple[str, ...] = (repository_scope(name, PUSH if push else PULL),)

    def __str__(self) -> str:
        return f"{self.host}/{self.name}"

    def operation(self, what: str) -> RegistryOperation:
        """The subject of a request, for messages."""
        return RegistryOperation(self.host, self.name, what)

    def send(
        self,
        method: str,
        path: str,
        what: str,
        *expect: int,
        headers: dict[str, str] | None = None,
        body: bytes | None = None,
    ) -> Response:
        """Send a request for a path below the repository, or for a full URL."""
        url = path if "://" in path else f"/v2/{self.name}/{path}"
        request = RegistryRequest(
            method, url, self.operation(what), self.scopes, headers or {}, body, frozenset(expect or (200,))
        )
        return self.client.send(request)

    def manifest(self, what: str) -> RawManifest:
        """Pull the manifest or index that a tag or digest names, and verify its digest."""
        operation = self.operation(f"manifest {what}")
        headers = {"Accept": ", ".join(DOCUMENT_TYPES)}
        with self.send("GET", f"manifests/{what}", operation.what, headers=headers) as answer:
            body = read(answer, operation)
            media_type = _media_type(answer, operation)
            header = answer.headers.get("Docker-Content-Digest", "")
        digest = _check_body(what, body, header, operation)
        return RawManifest(media_type, digest, body)

    def head(self, what: str) -> str | None:
        """The digest of a tag or digest in the registry, or None."""
        headers = {"Accept": ", ".join(DOCUMENT_TYPES)}
        with self.send("HEAD", f"manifests/{what}", f"manifest {what}", 200, 404, headers=headers) as answer:
            if answer.status == 404:
                return None
            header = answer.headers.get("Docker-Content-Digest", "")
        if is_digest(header):
            return header
        return self.manifest(what).digest

    def put_manifest(self, document: RawManifest, tag: str | None = None) -> str:
        """Store a manifest under its digest or a tag. Return the header `OCI-Subject` of the answer."""
        what = tag or document.digest
        operation = self.operation(f"put manifest {what}")
        headers = {"Content-Type": document.media_type}
        body = document.content
        with self.send("PUT", f"manifests/{what}", operation.what, 201, headers=headers, body=body) as answer:
            header = answer.headers.get("Docker-Content-Digest", "")
            subject = answer.headers.get("OCI-Subject", "")
            answer.finish()
        if header and header != document.digest:
            raise WrongContent(
                f"{operation}: it stored {printable(header, 100)} in place of {document.digest}"
            )
        return subject

    def has_blob(self, descriptor: Descriptor) -> bool:
        """Whether the repository has a blob. Raise WrongContent when it has it with another size."""
        what = f"blob {descriptor.digest}"
        with self.send("HEAD", f"blobs/{descriptor.digest}", what, 200, 404) as answer:
            if answer.status == 404:
                return False
            length = answer.other_length(descriptor.size)
        if length:
            raise WrongContent(
                f"{self.operation(what)}: has {length} bytes where {descriptor.size} were promised"
            )
        return True

    def fetch_blob(self, descriptor: Descriptor, sink: BinaryIO, *, step: ProgressStep = UNSEEN) -> None:
        """Write a blob to a seekable file, verified when this returns.

        An interrupted transfer resumes.
        """
        what = f"blob {descriptor.digest}"
        request = RegistryRequest(
            "GET",
            f"/v2/{self.name}/blobs/{descriptor.digest}",
            self.operation(what),
            self.scopes,
            expect=frozenset({200, 206, 416}),
        )
        Download(self.client, request, descriptor, sink, step).run()

    def push_blob(
        self,
        descriptor: Descriptor,
        source: Source,
        *,
        mount_from: Sequence[str] = (),
        step: ProgressStep = UNSEEN,
    ) -> bool:
        """Store a blob in the repository; return whether it was sent.

        It is mounted when one of the repositories `mount_from` has it. The blob is hashed while it is sent:
        raise IntegrityError for another digest.
        """
        if self.has_blob(descriptor):
            step.advance(descriptor.size)
            return False
        upload = Upload(self.client, self.name, self.scopes, descriptor, source, step=step)
        for repository in mount_from:
            scope = repository_scope(check_repository(repository), PULL)
            if upload.mount(repository, united([*self.scopes, scope])):
                step.advance(descriptor.size)
                return False
        upload.run()
        return True


@contextmanager
def open_repository(
    reference: Reference, settings: RegistrySettings, *, push: bool = False
) -> Iterator[Repository]:
    """The repository of a reference, for the length of a `with`; writable with `push`.

    The first operation connects. Ctrl-C, or an error, ends the requests of all threads.
    """
    client = RegistryClient(reference.host, settings)
    try:
        yield Repository(client, reference.repository, push=push)
    except Cancelled:
        raise RegistryError(f"registry {reference.host}: stopped") from None
    finally:
        client.transport.stop()


def read(answer: Response, operation: RegistryOperation, *, limit: int = LARGEST_DOCUMENT) -> bytes:
    """The body of a document. Raise RegistryError when it is too long or incomplete."""
    try:
        body = answer.beginning(limit)
    except ConnectionBroken as problem:
        raise RegistryError(f"{operation}: no whole answer: {problem}") from problem
    if len(body) > limit:
        raise RegistryError(
            f"{operation}: the answer is longer than {limit >> 20} MiB, which no document may be"
        )
    return body


def _media_type(answer: Response, operation: RegistryOperation) -> str:
    media_type = answer.content_type
    if media_type in INDEX_TYPES or media_type in MANIFEST_TYPES:
        return media_type
    if media_type.startswith(_SCHEMA_1):
        raise RegistryError(
            f"{operation}: it is of Docker's first format, without a config; push the image again"
        )
    if media_type == "text/html":
        raise RegistryError(f"{operation}: it answered with a web page, not with a manifest")
    raise RegistryError(
        f"{operation}: it answered with {printable(media_type, 100) or 'no media type'}, no manifest"
    )


def _check_body(what: str, body: bytes, header: str, operation: RegistryOperation) -> str:
    """Verify a document requested by `what`, against the digest `said` of the registry; return its digest."""
    expected = what if is_digest(what) else header if is_digest(header) else ""
    algorithm = expected.partition(":")[0] or "sha256"
    found = f"{algorithm}:{hashlib.new(algorithm, body).hexdigest()}"
    if expected and found != expected:
        raise WrongContent(
            f"{operation}: the received content has the digest {found}, {expected} was promised"
        )
    return found


def is_digest(text: str) -> bool:
    """Whether a text is a digest of a supported algorithm."""
    try:
        check_digest(text, "")
    except ArchiveRefused:
        return False
    return True
