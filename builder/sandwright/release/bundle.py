"""Sigstore's bundle, version 0.3, around a DSSE envelope: how signed statements are stored. Pure.

Formats: sigstore_bundle.proto of sigstore/protobuf-specs, as cosign 3 attaches it to images; DSSE's
protocol.md and envelope.md, version 1. A bundle holds exactly one signature. Its information about the signer
is a hint.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from sandwright.documents import fields
from sandwright.documents.strictjson import parse_json
from sandwright.errors import ArchiveRefused, IntegrityError
from sandwright.release.statement import PAYLOAD_TYPE
from sandwright.rootfs.descriptor import canonical, mapping, sequence

BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"


class NotSigned(IntegrityError):
    """There is no signature by the required signer."""


class Verifier(Protocol):
    """The required signer: a public key or an identity. As text it names this signer, for messages."""

    def opened(self, bundle: bytes, where: str) -> bytes:
        """The statement in a bundle, if it is signed by them.

        Raise NotSigned when it isn't, ArchiveRefused when it is no bundle; both begin with `where`.
        """


class Signer(Protocol):
    """Signs statements."""

    @property
    def verifier(self) -> Verifier:
        """The signer."""

    def sign(self, payload: bytes) -> bytes:
        """A bundle with a statement, signed. Raise HostError when the key, or the service, refuses."""


@dataclass(frozen=True)
class Envelope:
    """A statement with its signature. `material` are claims about the signer, which prove nothing."""

    payload: bytes
    signature: bytes
    material: Mapping[str, Any]


def write_bundle(payload: bytes, signature: bytes, hint: str) -> bytes:
    """The bundle of a statement that a key signed; `hint` is how others find the key."""
    signatures = [{"sig": _base64(signature)}]
    envelope = {"payload": _base64(payload), "payloadType": PAYLOAD_TYPE, "signatures": signatures}
    material = {"publicKey": {"hint": hint}}
    return canonical({"mediaType": BUNDLE, "verificationMaterial": material, "dsseEnvelope": envelope})


def read_bundle(bundle: bytes, where: str) -> Envelope:
    """A bundle's content, unproved. Raise ArchiveRefused, which begins with `where`, if it isn't one."""
    document = parse_json(bundle, where, fields.BUNDLE)
    if document.get("mediaType") != BUNDLE:
        raise ArchiveRefused(f"{where}: not a bundle of version 0.3")
    envelope = mapping(document.get("dsseEnvelope"), f"{where}: dsseEnvelope")
    if envelope.get("payloadType") != PAYLOAD_TYPE:
        raise ArchiveRefused(f"{where}: its payload is no in-toto statement")
    payload = _decode_base64(envelope.get("payload"), f"{where}: payload")
    signatures = sequence(envelope.get("signatures"), f"{where}: signatures")
    if len(signatures) != 1:
        raise ArchiveRefused(f"{where}: a bundle has one signature, this one has {len(signatures)}")
    return Envelope(
        payload,
        _decode_base64(mapping(signatures[0], f"{where}: signature").get("sig"), f"{where}: signature"),
        mapping(document.get("verificationMaterial", {}), f"{where}: verificationMaterial"),
    )


def has_keyid(bundle: bytes) -> bool:
    """Whether the signature in a bundle names its key, as sandwright once wrote it.

    go-securesystemslib, and so cosign 3, refuses a name that isn't its own hash of the key (dsse/verify.go).
    """
    signatures = parse_json(bundle, "bundle", fields.BUNDLE)["dsseEnvelope"]["signatures"]
    return any(each.get("keyid") for each in signatures)


def signed(payload: bytes) -> bytes:
    """The bytes that a signature of a statement covers: DSSE's pre-authentication encoding."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _decode_base64(value: object, where: str) -> bytes:
    try:
        if not isinstance(value, str):
            raise binascii.Error("not a string")
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ArchiveRefused(f"{where}: not base64: {error}") from None
