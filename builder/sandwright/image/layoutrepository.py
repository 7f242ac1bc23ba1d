"""An OCI layout, read as if it were a repository of a registry: for checks without a network."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from sandwright.documents.fields import INDEX, MANIFEST_OR_INDEX
from sandwright.documents.strictjson import parse_json
from sandwright.progress import ProgressStep
from sandwright.registry.client import RegistryClient
from sandwright.registry.failure import NotFound, WrongContent
from sandwright.registry.reference import parse_reference
from sandwright.registry.repository import UNSEEN, RawManifest, Repository, is_digest, open_repository
from sandwright.registry.settings import RegistrySettings
from sandwright.registry.transport import Response
from sandwright.rootfs.descriptor import (
    OCI_INDEX,
    OCI_MANIFEST,
    Descriptor,
    read_descriptor,
    sequence,
)
from sandwright.rootfs.images import blobs

_LARGEST = 4 << 20
_CHUNK = 1 << 20


class LayoutRepository(Repository):
    """The content of a layout as a repository that can only be read.

    It has no referrers API: attachments are found by their names, as `pull-image` writes them.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(RegistryClient("localhost", RegistrySettings()), path.name, push=False)
        self._path = path
        self._source = blobs.DirectoryBlobs(path)

    def __str__(self) -> str:
        return str(self._path)

    def send(
        self,
        method: str,  # noqa: ARG002 - as for a registry
        path: str,  # noqa: ARG002
        what: str,
        *expect: int,  # noqa: ARG002
        headers: dict[str, str] | None = None,  # noqa: ARG002
        body: bytes | None = None,  # noqa: ARG002
    ) -> Response:
        """Raise NotFound: nothing answers requests."""
        raise NotFound(f"{self}: {what}: a layout answers no requests", status=404)

    def manifest(self, what: str) -> RawManifest:
        """The manifest or index that a name or digest names."""
        digest = what if is_digest(what) else self._digest_named(what)
        content = self._read_manifest_blob(digest)
        document = parse_json(content, f"{self}: {digest}", MANIFEST_OR_INDEX)
        media_type = document.get("mediaType") or (OCI_INDEX if "manifests" in document else OCI_MANIFEST)
        return RawManifest(str(media_type), digest, content)

    def head(self, what: str) -> str | None:
        """The digest of a name or digest, or None."""
        try:
            return self.manifest(what).digest
        except NotFound:
            return None

    def has_blob(self, descriptor: Descriptor) -> bool:
        """Whether a blob is there. Raise WrongContent when it has another size."""
        size = self._source.size(descriptor.path)
        if size not in (None, descriptor.size):
            raise WrongContent(f"{self}: {descriptor.digest} has {size} bytes, not {descriptor.size}")
        return size is not None

    def fetch_blob(self, descriptor: Descriptor, sink: BinaryIO, *, step: ProgressStep = UNSEEN) -> None:
        """Write a blob to a file, verified when this returns."""
        if not self.has_blob(descriptor):
            raise NotFound(f"{self}: {descriptor.digest} is not there", status=404)
        algorithm, _, expected = descriptor.digest.partition(":")
        found = hashlib.new(algorithm)
        with self._source.open(descriptor.path) as file:
            while data := file.read(_CHUNK):
                found.update(data)
                sink.write(data)
                step.advance(len(data))
        if found.hexdigest() != expected:
            raise WrongContent(f"{self}: {descriptor.digest} has other bytes")

    def _digest_named(self, name: str) -> str:
        index = parse_json(
            blobs.read(self._source, "index.json", limit=_LARGEST), f"{self}: index.json", INDEX
        )
        for number, each in enumerate(sequence(index.get("manifests"), f"{self}: manifests")):
            descriptor = read_descriptor(each, f"{self}: manifests[{number}]")
            if name in descriptor.names:
                return descriptor.digest
        raise NotFound(f"{self}: it has no '{name}'", status=404)

    def _read_manifest_blob(self, digest: str) -> bytes:
        try:
            content = blobs.read(self._source, Descriptor(OCI_MANIFEST, digest, 0).path, limit=_LARGEST)
        except FileNotFoundError:
            raise NotFound(f"{self}: {digest} is not there", status=404) from None
        algorithm, _, expected = digest.partition(":")
        if hashlib.new(algorithm, content).hexdigest() != expected:
            raise WrongContent(f"{self}: {digest} has other bytes")
        return content


def is_layout(name: str) -> bool:
    """Whether a name is the path of an OCI layout, and not a reference."""
    return (Path(name) / "oci-layout").is_file()


@contextmanager
def open_readable(name: str, settings: RegistrySettings) -> Iterator[Repository]:
    """The layout or repository that a path or reference names, for the length of a `with`."""
    if is_layout(name):
        yield LayoutRepository(Path(name))
        return
    with open_repository(parse_reference(name), settings) as repository:
        yield repository
