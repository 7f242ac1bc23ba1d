"""Attestation manifests in an image's index, as BuildKit writes them, for tools that read no referrers.

Format: moby/buildkit, docs/attestations/attestation-storage.md. The index lists one for each platform, on the
platform `unknown/unknown`; its layers are in-toto statements about that platform's manifest. They have no
signatures of their own: the signature of the index covers them.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, BinaryIO

from sandwright.documents.fields import INDEX
from sandwright.documents.strictjson import parse_json
from sandwright.errors import ArchiveRefused, IntegrityError
from sandwright.image.remote import PushSource
from sandwright.registry.graph import ImageGraph, ManifestNode, read_node, sha256_descriptor
from sandwright.release.statement import PAYLOAD_TYPE, InTotoStatement, decode_statement, encode_statement
from sandwright.rootfs.descriptor import (
    MANIFEST_TYPES,
    OCI_CONFIG,
    OCI_MANIFEST,
    UNKNOWN,
    Descriptor,
    canonical,
)

KIND = "vnd.docker.reference.type"
SUBJECT = "vnd.docker.reference.digest"
ATTESTATION = "attestation-manifest"
PREDICATE_TYPE = "in-toto.io/predicate-type"
"""The annotation by which readers choose a statement."""


def with_attestations(image: PushSource, statements: Sequence[InTotoStatement]) -> PushSource:
    """The image with an attestation manifest for each platform, listed in a new index.

    Each statement has one subject, the digest of a platform's manifest.
    """
    root = image.graph.root
    by_subject: dict[str, list[InTotoStatement]] = {}
    for each in statements:
        (digest,) = each.subjects
        by_subject.setdefault(digest, []).append(each)
    blobs: dict[str, bytes] = {}
    nodes = [_attestation(found, blobs) for found in by_subject.values()]
    document = dict(root.document)
    document["manifests"] = [
        *document["manifests"],
        *(_attestation_row(node, digest) for digest, node in zip(by_subject, nodes, strict=True)),
    ]
    content = canonical(document)
    index = read_node(sha256_descriptor(root.descriptor.media_type, content), content, "index")

    def open_blob(blob: Descriptor) -> BinaryIO:
        return io.BytesIO(blobs[blob.digest]) if blob.digest in blobs else image.open_blob(blob)

    return replace(image, graph=ImageGraph((*image.graph.nodes[:-1], *nodes, index)), open_blob=open_blob)


def without_attestations(index: bytes, where: str) -> bytes:
    """The index as it was before `with_attestations`; unchanged if it has none."""
    document = dict(parse_json(index, where, INDEX))
    remaining = [each for each in document["manifests"] if not _is_attestation_row(each)]
    if len(remaining) == len(document["manifests"]):
        return index
    return canonical({**document, "manifests": remaining})


def check_index(graph: ImageGraph, read: Callable[[Descriptor], bytes], where: str) -> dict[str, str]:
    """Platform → digest of its manifest, for an index of platforms and at most one attestation of each.

    `read` gives a blob. Raise ArchiveRefused for another index, or an attestation that is about something
    else than it is listed for, IntegrityError for one of no platform.
    """
    children = [each for each in graph.root.children if each.media_type in MANIFEST_TYPES]
    attestations = [each for each in children if each.platform == UNKNOWN]
    platforms = {str(each.platform): each.digest for each in children if each.platform not in (None, UNKNOWN)}
    if not platforms or len(platforms) + len(attestations) != len(graph.nodes) - 1:
        raise ArchiveRefused(f"{where}: it is not an index of platforms, and attestations of them, alone")
    nodes = {each.descriptor.digest: each for each in graph.nodes}
    subjects = [_check_attestation(each, nodes[each.digest], read, where) for each in attestations]
    for digest in subjects:
        if digest not in platforms.values() or subjects.count(digest) > 1:
            raise IntegrityError(f"{where}: attestations of {digest}: of no platform, or twice")
    return platforms


def _check_attestation(
    listed: Descriptor, node: ManifestNode, read: Callable[[Descriptor], bytes], where: str
) -> str:
    """The digest that an attestation manifest is about, by its row in the index and by each statement."""
    at = f"{where}: attestation {listed.digest}"
    subject = listed.annotations.get(SUBJECT, "")
    _, *layers = node.blobs
    if listed.annotations.get(KIND) != ATTESTATION or not layers:
        raise ArchiveRefused(f"{at}: the index does not call it an {ATTESTATION}, or it is empty")
    for layer in layers:
        if layer.media_type != PAYLOAD_TYPE:
            raise ArchiveRefused(f"{at}: {layer.media_type} is no statement")
        found = decode_statement(read(layer), f"{at}: {layer.digest}")
        if {*found.subjects} != {subject} or found.predicate_type != layer.annotations.get(PREDICATE_TYPE):
            raise ArchiveRefused(f"{at}: {layer.digest}: it says something else than it is listed for")
    return subject


def _attestation(statements: Sequence[InTotoStatement], blobs: dict[str, bytes]) -> ManifestNode:
    """The manifest of some statements; its blobs are added to `blobs`."""
    rows = []
    for each in statements:
        content = encode_statement(each)
        layer = sha256_descriptor(PAYLOAD_TYPE, content)
        rows.append(layer.document(annotations={PREDICATE_TYPE: each.predicate_type}))
        blobs[layer.digest] = content
    config = canonical(
        {
            "architecture": UNKNOWN.architecture,
            "os": UNKNOWN.os,
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": [each["digest"] for each in rows]},
        }
    )
    named = sha256_descriptor(OCI_CONFIG, config)
    blobs[named.digest] = config
    content = canonical(
        {"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": named.document(), "layers": rows}
    )
    return read_node(sha256_descriptor(OCI_MANIFEST, content), content, "attestation")


def _attestation_row(node: ManifestNode, subject: str) -> dict[str, Any]:
    """The index's entry for an attestation manifest."""
    return node.descriptor.document(
        platform={"architecture": UNKNOWN.architecture, "os": UNKNOWN.os},
        annotations={KIND: ATTESTATION, SUBJECT: subject},
    )


def _is_attestation_row(row: Mapping[str, Any]) -> bool:
    return bool((row.get("annotations") or {}).get(KIND) == ATTESTATION)
