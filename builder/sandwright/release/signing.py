"""Signatures: keys of Ed25519 and ECDSA P-256, in files or behind a key service, over DSSE envelopes.

An envelope is stored in the form of Sigstore's bundle 0.3, with the key's fingerprint as hint, as cosign 3
attaches it to images. Keys and key services are securesystemslib's (extra `release`); a key service is named
by the URI that it has there (`awskms:…`, `gcpkms:…`, `azurekms:…`, `hsm:…`).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandwright.errors import ArchiveRefused, HostError, IntegrityError, ToolMissing, UsageError
from sandwright.image.layout import canonical
from sandwright.release.statement import PAYLOAD_TYPE
from sandwright.rootfs.descriptor import mapping, parse_json, sequence

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes, PublicKeyTypes
    from securesystemslib.signer import Signer, SSlibKey

BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"
PASSWORD = "SANDWRIGHT_KEY_PASSWORD"  # noqa: S105 - the name of a variable
"""Names the environment variable with the password of an encrypted key."""

SCHEMES = ("ed25519", "ecdsa-sha2-nistp256")
_HINT = "pip install 'sandwright[release]'"
_URI = re.compile(r"[a-z][a-z0-9+.-]*:.+")
_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----\n?", re.DOTALL)
_LARGEST_KEY = 1 << 20


class NotSigned(IntegrityError):
    """There is no signature by the key that was asked for."""


@dataclass(frozen=True)
class Verifier:
    """A public key. `source` is where it came from; `fingerprint` the SHA-256 of its DER form, in hex."""

    key: SSlibKey
    source: str
    fingerprint: str

    def __str__(self) -> str:
        return f"{self.source} ({self.fingerprint[:16]})"


@dataclass(frozen=True)
class Key:
    """A private key, or a key service, with the public key that goes with it."""

    signer: Signer
    verifier: Verifier


def load_key(where: str, *, public: str = "", environ: Mapping[str, str], now: datetime | None = None) -> Key:
    """The key in a PEM file (PKCS #8, with or without a password), or the one that a key service's URI names.

    A key service needs `public`, the file of its public key. A certificate beside the key, or in `public`,
    must be good at `now`. Raise UsageError for what is no key that can be used, HostError for a file that
    can't be read or a key service that refuses, ToolMissing without the libraries.
    """
    _require()
    if _URI.fullmatch(where) and not Path(where).exists():
        return _from_service(where, public, now)
    raw = _read(where)
    private = _private(raw, where, environ)
    verifier = _verifier(private.public_key(), where)
    for certified in (_certificates(raw, where, now), [load_verifier(public, now=now)] if public else []):
        for each in certified:
            if each.fingerprint != verifier.fingerprint:
                raise UsageError(f"{each.source}: it is not the public key of {where}")
    from securesystemslib.signer import CryptoSigner  # noqa: PLC0415 - an extra

    return Key(CryptoSigner(private, verifier.key), verifier)


def load_verifier(where: str, *, now: datetime | None = None) -> Verifier:
    """The public key in a PEM file, or that of a certificate, which must be good at `now`.

    Raise UsageError for what is no key that can be used, HostError for a file that can't be read.
    """
    _require()
    from cryptography.hazmat.primitives.serialization import load_pem_public_key  # noqa: PLC0415

    raw = _read(where)
    if b"PRIVATE KEY-----" in raw:
        raise UsageError(f"{where}: this is a private key; checking takes the public one")
    certified = _certificates(raw, where, now)
    if certified:
        return certified[0]
    try:
        return _verifier(load_pem_public_key(raw), where)
    except ValueError as error:
        raise UsageError(f"{where}: not a public key in PEM: {error}") from None


def sign(payload: bytes, key: Key) -> bytes:
    """A bundle with a statement, signed. Raise HostError when the key service refuses."""
    from securesystemslib.dsse import Envelope  # noqa: PLC0415 - an extra

    envelope = Envelope(payload, PAYLOAD_TYPE, {})
    try:
        envelope.sign(key.signer)
    except Exception as error:  # whatever the library of a key service raises
        raise HostError(
            f"{key.verifier.source}: it does not sign: {type(error).__name__}: {error}"
        ) from error
    bundle = canonical(
        {
            "mediaType": BUNDLE,
            "verificationMaterial": {"publicKey": {"hint": key.verifier.fingerprint}},
            "dsseEnvelope": envelope.to_dict(),
        }
    )
    opened(bundle, key.verifier, key.verifier.source)  # the public key is the one that goes with it
    return bundle


def opened(bundle: bytes, verifier: Verifier, where: str) -> bytes:
    """The statement in a bundle, if the key has signed it.

    Raise NotSigned when it hasn't, ArchiveRefused when it is no bundle; both begin with `where`.
    """
    from securesystemslib.exceptions import UnverifiedSignatureError  # noqa: PLC0415
    from securesystemslib.signer import Signature  # noqa: PLC0415

    document = parse_json(bundle, where)
    if document.get("mediaType") != BUNDLE:
        raise ArchiveRefused(f"{where}: not a bundle of version 0.3")
    envelope = mapping(document.get("dsseEnvelope"), f"{where}: dsseEnvelope")
    if envelope.get("payloadType") != PAYLOAD_TYPE:
        raise ArchiveRefused(f"{where}: its payload is no in-toto statement")
    payload = _bytes(envelope.get("payload"), f"{where}: payload")
    for number, each in enumerate(sequence(envelope.get("signatures"), f"{where}: signatures")):
        at = f"{where}: signatures[{number}]"
        raw = _bytes(mapping(each, at).get("sig"), f"{at}.sig")
        try:
            verifier.key.verify_signature(Signature(verifier.key.keyid, raw.hex()), _encoded(payload))
        except UnverifiedSignatureError:
            continue
        return payload
    raise NotSigned(f"{where}: not signed by {verifier}{_signer(document)}")


def _encoded(payload: bytes) -> bytes:
    """What is signed: DSSE's pre-authentication encoding (protocol.md, version 1)."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def _signer(document: Mapping[str, Any]) -> str:
    """Whom a bundle says it is by, for messages."""
    material = document.get("verificationMaterial")
    named = material.get("publicKey") if isinstance(material, dict) else None
    hint = named.get("hint") if isinstance(named, dict) else None
    return f", but by {hint[:16]}" if isinstance(hint, str) and re.fullmatch("[0-9a-f]{64}", hint) else ""


def _bytes(value: object, where: str) -> bytes:
    try:
        if not isinstance(value, str):
            raise binascii.Error("not a string")
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ArchiveRefused(f"{where}: not base64: {error}") from None


def _require() -> None:
    try:
        import cryptography  # noqa: F401, PLC0415
        import securesystemslib  # noqa: F401, PLC0415
    except ImportError as error:
        raise ToolMissing(str(error.name), _HINT) from error


def _read(where: str) -> bytes:
    try:
        with Path(where).open("rb") as file:
            return file.read(_LARGEST_KEY)
    except OSError as error:
        raise HostError(f"{where}: the key can't be read: {error.strerror}") from None


def _private(raw: bytes, where: str, environ: Mapping[str, str]) -> PrivateKeyTypes:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    kinds = {match[1]: match[0] for match in _BLOCK.finditer(raw)}
    if any(kind.endswith((b"SIGSTORE PRIVATE KEY", b"COSIGN PRIVATE KEY")) for kind in kinds):
        raise UsageError(
            f"{where}: this is a key in cosign's own encryption, which only cosign reads; make one with "
            "'openssl genpkey' and give it to cosign with 'cosign import-key-pair'"
        )
    block = next((text for kind, text in kinds.items() if kind.endswith(b"PRIVATE KEY")), b"")
    if not block:
        raise UsageError(f"{where}: not a private key in PEM")
    password = environ.get(PASSWORD, "").encode() or None
    try:
        encrypted = b"ENCRYPTED" in block
        return load_pem_private_key(block, password if encrypted else None)
    except TypeError:
        raise UsageError(f"{where}: the key is encrypted; its password belongs in {PASSWORD}") from None
    except ValueError as error:
        reason = f"the password in {PASSWORD} may be wrong: {error}" if encrypted else str(error)
        raise UsageError(f"{where}: the private key can't be used: {reason}") from None


def _verifier(public: PublicKeyTypes, where: str) -> Verifier:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat  # noqa: PLC0415
    from securesystemslib.signer import SSlibKey  # noqa: PLC0415

    try:
        key = SSlibKey.from_crypto(public)
        scheme = key.scheme
    except ValueError as error:
        scheme, reason = "", str(error)
    else:
        reason = f"its scheme is {scheme}"
    if scheme not in SCHEMES:
        raise UsageError(f"{where}: neither Ed25519 nor ECDSA over P-256: {reason}")
    encoded = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return Verifier(key, where, hashlib.sha256(encoded).hexdigest())


def _certificates(raw: bytes, where: str, now: datetime | None) -> Sequence[Verifier]:
    """The public keys of the certificates in a file. Raise UsageError for one that is not good now."""
    from cryptography.x509 import load_pem_x509_certificates  # noqa: PLC0415

    if b"BEGIN CERTIFICATE-----" not in raw:
        return []
    at = now or datetime.now(UTC)
    try:
        found = load_pem_x509_certificates(raw)
        for each in found:
            if not each.not_valid_before_utc <= at <= each.not_valid_after_utc:
                period = f"{each.not_valid_before_utc:%Y-%m-%d} to {each.not_valid_after_utc:%Y-%m-%d}"
                state = "has expired" if at > each.not_valid_after_utc else "is not valid yet"
                raise UsageError(f"{where}: the key's certificate {state}: it is good from {period}")
        return [_verifier(each.public_key(), where) for each in found]
    except ValueError as error:
        raise UsageError(f"{where}: not a certificate in PEM: {error}") from None


def _from_service(where: str, public: str, now: datetime | None) -> Key:
    from securesystemslib.signer import SIGNER_FOR_URI_SCHEME, Signer  # noqa: PLC0415

    if not public:
        raise UsageError(f"{where}: a key service needs --public-key, the file of its public key")
    verifier = load_verifier(public, now=now)
    if where.partition(":")[0] not in SIGNER_FOR_URI_SCHEME:
        known = ", ".join(sorted(SIGNER_FOR_URI_SCHEME))
        raise UsageError(f"{where}: there is neither such a file nor such a kind of key; there is {known}")
    try:
        signer = Signer.from_priv_key_uri(where, verifier.key)
    except Exception as error:  # whatever the library of a key service raises
        raise HostError(f"{where}: the key can't be used: {type(error).__name__}: {error}") from error
    return Key(signer, verifier)
