"""The image that carries a snapshot: the copier and the project in layers, for each platform of the copier.

It holds nothing else, so that the policy's own image stays as it is. Equal content gives equal layers, which
a registry and a node have already.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import BinaryIO

from sandwright.errors import UsageError
from sandwright.image.layer import LayerWriter, WrittenLayer, writing_layer
from sandwright.image.layout import Blob, StagingArea, staging
from sandwright.prebuilt import PrebuiltProgram
from sandwright.registry.credentials import auth_files
from sandwright.registry.graph import ImageGraph, walk
from sandwright.registry.push import PushResult, push
from sandwright.registry.reference import Reference, parse_reference, split_host
from sandwright.registry.repository import open_repository
from sandwright.registry.settings import TOKEN_SERVERS_VARIABLE, RegistrySettings
from sandwright.rootfs.descriptor import (
    OCI_CONFIG,
    OCI_INDEX,
    OCI_LAYER,
    OCI_MANIFEST,
    Descriptor,
    Platform,
    canonical,
)
from sandwright.rootfs.tar.entry import EntryKind, TarEntry
from sandwright_kubernetes.copier import COPIER
from sandwright_kubernetes.sync.rules import ProjectRules
from sandwright_kubernetes.sync.snapshot import Snapshot, take_snapshot

PLAIN = "http://"


@dataclass(frozen=True)
class Registry:
    """The registry for snapshots: a repository; `plain` without TLS, which loopback never needs."""

    reference: Reference
    plain: bool

    @property
    def settings(self) -> RegistrySettings:
        """With this user's logins, as `docker login` and `podman login` keep them."""
        listed = os.environ.get(TOKEN_SERVERS_VARIABLE, "").replace(",", " ").split()
        servers = frozenset(split_host(host)[0] for host in listed)
        insecure = frozenset((self.reference.host,)) if self.plain else frozenset()
        return RegistrySettings(auth_files(os.environ), None, insecure, token_servers=servers)


def parse_registry(text: str) -> Registry:
    """`registry.example/projects`, `http://10.0.0.1:5000/projects`. Raise UsageError for another text."""
    plain = text.startswith(PLAIN)
    reference = parse_reference(text.removeprefix(PLAIN), tag=None)
    if reference.tag or reference.digest:
        raise UsageError(f"{text}: a repository is needed, without a tag or digest")
    return Registry(reference, plain)


class StagedImage:
    """An image in a staging area: its `graph`."""

    def __init__(self, area: StagingArea, graph: ImageGraph) -> None:
        """Made by `program_image`."""
        self._area = area
        self.graph = graph

    @property
    def digest(self) -> str:
        """The image's."""
        return self.graph.root.descriptor.digest

    def push(self, registry: Registry, tag: str) -> PushResult:
        """Send the blobs that the registry does not have, and read them back.

        Raise RegistryError, and WrongContent where it has something else than was sent.
        """
        with open_repository(registry.reference, registry.settings, push=True) as repository:
            return push(repository, self.graph, self.opened, tags=(tag,))

    def opened(self, descriptor: Descriptor) -> BinaryIO:
        """A blob of it."""
        return (self._area.path / Blob.of(descriptor).name).open("rb")


class SnapshotImage(StagedImage):
    """An image with a project in it; `snapshot` describes the project."""

    def __init__(self, area: StagingArea, graph: ImageGraph, snapshot: Snapshot) -> None:
        """Made by `snapshot_image`."""
        super().__init__(area, graph)
        self.snapshot = snapshot


@contextmanager
def snapshot_image(rules: ProjectRules, folder: Path) -> Iterator[SnapshotImage]:
    """The project as it is now, for the length of a `with`; its blobs are below `folder`."""
    with staging(folder) as area, ThreadPoolExecutor(2) as pool:
        layers, snapshot = _project_layers(rules, area, pool)
        yield SnapshotImage(area, _graph(area, pool, COPIER, layers), snapshot)


@contextmanager
def program_image(program: PrebuiltProgram, folder: Path) -> Iterator[StagedImage]:
    """A program of ours at the root and nothing else, likewise."""
    with staging(folder) as area, ThreadPoolExecutor(2) as pool:
        yield StagedImage(area, _graph(area, pool, program, []))


def _graph(
    area: StagingArea, pool: Executor, program: PrebuiltProgram, layers: list[WrittenLayer]
) -> ImageGraph:
    """An index of one image for each platform of a cluster's nodes: the program below the layers."""
    documents: dict[str, bytes] = {}
    entries = []
    for platform in COPIER.platforms:
        first = _program_layer(area, pool, program, platform)
        manifest = _platform_manifest(area, documents, platform, program.name, [first, *layers])
        entries.append(replace(manifest, platform=Platform(*platform.split("/"))))
    index = {
        "schemaVersion": 2,
        "mediaType": OCI_INDEX,
        "manifests": [
            each.document(platform={"os": each.platform.os, "architecture": each.platform.architecture})
            for each in entries
            if each.platform
        ],
    }
    root = _add_document(area, documents, OCI_INDEX, index)
    return walk(root, lambda each: documents[each.digest], "snapshot")


def _project_layers(
    rules: ProjectRules, area: StagingArea, pool: Executor
) -> tuple[list[WrittenLayer], Snapshot]:
    writers: dict[int, LayerWriter] = {}
    with ExitStack() as stack:

        def put(number: int, entry: TarEntry, content: Iterator[bytes]) -> None:
            if number not in writers:
                writers[number] = stack.enter_context(writing_layer(area, pool, Event()))
            writers[number].add(entry, content)

        put(0, TarEntry(b"project", EntryKind.DIRECTORY, 0o755), iter(()))
        snapshot = take_snapshot(rules, put)
    return [writers[number].layer for number in sorted(writers)], snapshot


def _program_layer(
    area: StagingArea, pool: Executor, program: PrebuiltProgram, platform: str
) -> WrittenLayer:
    content = program.path(platform).read_bytes()
    with writing_layer(area, pool, Event()) as writer:
        name = program.name.encode()
        writer.add(TarEntry(name, EntryKind.FILE, 0o755, size=len(content)), iter((content,)))
    return writer.layer


def _platform_manifest(
    area: StagingArea,
    documents: dict[str, bytes],
    platform: str,
    program: str,
    layers: list[WrittenLayer],
) -> Descriptor:
    system, architecture = platform.split("/")
    config = {
        "os": system,
        "architecture": architecture,
        "config": {"Entrypoint": [f"/{program}"]},
        "rootfs": {"type": "layers", "diff_ids": [each.diff_id for each in layers]},
    }
    about = area.add(canonical(config))
    manifest = {
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "config": about.descriptor(OCI_CONFIG),
        "layers": [each.blob.descriptor(OCI_LAYER) for each in layers],
    }
    return _add_document(area, documents, OCI_MANIFEST, manifest)


def _add_document(
    area: StagingArea, documents: dict[str, bytes], media_type: str, document: Mapping[str, object]
) -> Descriptor:
    content = canonical(document)
    blob = area.add(content)
    documents[blob.digest] = content
    return Descriptor(media_type, blob.digest, blob.size)
