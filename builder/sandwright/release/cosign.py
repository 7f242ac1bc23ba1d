"""Signatures and attestations where cosign 2, Podman and skopeo look for them: beside the image, under tags.

`sha256-DIGEST.sig` names a manifest whose layers are signed documents of "simple signing", each with its
signature in an annotation (sigstore/cosign, specs/SIGNATURE_SPEC.md; containers/image,
docs/containers-policy.json.5.md, sigstoreSigned). `sha256-DIGEST.att` has DSSE envelopes of statements as
layers (specs/ATTESTATION_SPEC.md). Entries of others stay. A signature names the repository that it
was made for, which Podman compares.
"""

from __future__ import annotations

import base64
import binascii
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sandwright.documents import fields
from sandwright.documents.strictjson import parse_json
from sandwright.errors import ArchiveRefused
from sandwright.registry.failure import NotFound, WrongContent
from sandwright.registry.graph import sha256_descriptor
from sandwright.registry.repository import RawManifest, Repository
from sandwright.release.attach import fetch
from sandwright.release.bundle import BUNDLE, NotSigned, has_keyid
from sandwright.release.signing import PublicKey, SigningKey
from sandwright.release.statement import SIGNATURE
from sandwright.release.subject import Release, ReleaseStatement
from sandwright.rootfs.descriptor import Descriptor, canonical, mapping, read_descriptor, sequence

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
SIMPLE = "application/vnd.dev.cosign.simplesigning.v1+json"
ENVELOPE = "application/vnd.dsse.envelope.v1+json"
ANNOTATION = "dev.cosignproject.cosign/signature"
PREDICATE = "predicateType"

MOST = 100
"""Layers under such a tag that are looked at; more are refused."""
LARGEST = 16 << 20
"""Bytes of an envelope that is looked at."""


@dataclass(frozen=True)
class MissingEvidence:
    """The missing document of a manifest: an attestation of `claim`, without a claim a signature."""

    subject: Descriptor
    claim: ReleaseStatement | None = None

    @property
    def name(self) -> str:
        """The name of the document, for plans and errors."""
        what = f"{self.claim.name} as an attestation" if self.claim else "signature"
        return f"{what} for cosign 2 and Podman"

    @property
    def tag(self) -> str:
        """The tag to which the document belongs."""
        return f"{self.subject.digest.replace(':', '-', 1)}.{'att' if self.claim else 'sig'}"


def missing_evidence(
    repository: Repository, release: Release, verifier: object
) -> tuple[MissingEvidence, ...]:
    """The documents signed by a key that the registry lacks; none if no key signs."""
    if not isinstance(verifier, PublicKey):
        return ()
    subjects = {each.digest: each for each in (release.root, *release.manifests.values())}
    evidence = [MissingEvidence(each) for each in subjects.values()]
    for claim in release.claims:
        if claim.predicate_type != SIGNATURE:
            evidence += [MissingEvidence(subject, claim) for subject in claim.subjects]
    return tuple(
        each
        for each in evidence
        if not _is_published(repository, each, _read_layers(repository, each.tag), verifier)
    )


def sign(repository: Repository, each: MissingEvidence, key: SigningKey) -> None:
    """Sign missing documents, add them to the existing ones under the tag, and read that back.

    Two that do so at the same moment can lose one; it is tried again. Raise RegistryError, WrongContent,
    HostError when the key does not sign.
    """
    if each.claim is None:
        content = payload(repository, each.subject)
        layer = _signature_layer(
            SIMPLE, content, {ANNOTATION: base64.b64encode(key.sign_bytes(content)).decode()}
        )
    else:
        content = canonical(
            parse_json(key.sign(each.claim.payload), each.name, fields.BUNDLE)["dsseEnvelope"]
        )
        layer = _signature_layer(ENVELOPE, content, {ANNOTATION: "", PREDICATE: each.claim.predicate_type})
    patience = repository.client.settings.patience
    for _ in range(patience.attempts):
        layers = [*_read_layers(repository, each.tag), layer]
        config = canonical(_empty_config(layers))
        described = sha256_descriptor(CONFIG, config)
        for descriptor, data in ((described, config), (read_descriptor(layer, each.name), content)):
            repository.push_blob(descriptor, lambda data=data: io.BytesIO(data))  # type: ignore[misc]
        manifest = canonical({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"mediaType": CONFIG, "digest": described.digest, "size": described.size},
            "layers": layers,
        })  # fmt: skip
        document = RawManifest(MANIFEST, sha256_descriptor(MANIFEST, manifest).digest, manifest)
        repository.put_manifest(document, each.tag)
        if _is_published(repository, each, _read_layers(repository, each.tag), key.verifier):
            return
        repository.client.transport.wait(patience.pause)
    raise WrongContent(f"{repository}: {each.name} of {each.subject.digest} was put there, and is not there")


def payload(repository: Repository, subject: Descriptor) -> bytes:
    """The signed text: the manifest's digest, and the repository."""
    return canonical({
        "critical": {
            "identity": {"docker-reference": str(repository)},
            "image": {"docker-manifest-digest": subject.digest},
            "type": "cosign container image signature",
        },
        "optional": None,
    })  # fmt: skip


def _signature_layer(media_type: str, content: bytes, annotations: dict[str, str]) -> dict[str, Any]:
    made = sha256_descriptor(media_type, content)
    return {"mediaType": media_type, "digest": made.digest, "size": made.size, "annotations": annotations}


def _empty_config(layers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """An image configuration without content, because cosign requires one."""
    digests = [layer["digest"] for layer in layers]
    rootfs = {"type": "layers", "diff_ids": digests}
    return {"architecture": "", "os": "", "config": {}, "history": [], "rootfs": rootfs}


def _read_layers(repository: Repository, tag: str) -> list[dict[str, Any]]:
    """The layers under a tag as they are written there. Raise ArchiveRefused for another manifest."""
    try:
        document = repository.manifest(tag)
    except NotFound:
        return []
    where = f"{repository}: {tag}"
    layers = sequence(parse_json(document.content, where, fields.MANIFEST).get("layers"), f"{where}: layers")
    if len(layers) > MOST:
        raise ArchiveRefused(f"{where}: holds more than {MOST} signatures")
    return [dict(mapping(layer, f"{where}: layers")) for layer in layers]


def _is_published(
    repository: Repository, evidence: MissingEvidence, layers: Sequence[dict[str, Any]], verifier: PublicKey
) -> bool:
    where = f"{repository}: {evidence.tag}"
    found = [read_descriptor(layer, where) for layer in layers]
    if evidence.claim is None:
        content = payload(repository, evidence.subject)
        ours = sha256_descriptor(SIMPLE, content)
        signed = [each for each in found if (each.media_type, each.digest) == (SIMPLE, ours.digest)]
        return any(_signs(each, content, verifier) for each in signed) and repository.has_blob(ours)
    statements = (
        each
        for each in found
        if each.media_type == ENVELOPE
        and each.annotations.get(PREDICATE) == evidence.claim.predicate_type
        and each.size <= LARGEST
    )
    return evidence.claim.payload in _verified_statements(repository, statements, verifier)


def _signs(layer: Descriptor, content: bytes, verifier: PublicKey) -> bool:
    try:
        signature = base64.b64decode(layer.annotations.get(ANNOTATION, ""), validate=True)
    except binascii.Error:
        return False
    return verifier.has_signed(content, signature)


def _verified_statements(
    repository: Repository, layers: Iterator[Descriptor], verifier: PublicKey
) -> Iterator[bytes]:
    """The statements that the key has signed, of envelopes that are layers."""
    for each in layers:
        where = f"{repository}: {each.digest}"
        try:
            envelope = parse_json(fetch(repository, each, where), where, fields.ENVELOPE)
            material = {"publicKey": {"hint": verifier.hint}}
            whole = {"mediaType": BUNDLE, "verificationMaterial": material, "dsseEnvelope": envelope}
            payload = verifier.opened(canonical(whole), where)
            if not has_keyid(canonical(whole)):
                yield payload
        except (NotSigned, ArchiveRefused, NotFound):
            continue
