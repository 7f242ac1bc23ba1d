"""Keys that sign: Ed25519 and ECDSA P-256, in files or behind a key service.

Keys and key services are securesystemslib's (extra `release`); a key service is named by the URI that it has
there (`awskms:…`, `gcpkms:…`, `azurekms:…`, `hsm:…`).
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sandwright.environment import KEY_PASSWORD
from sandwright.errors import HostError, ToolMissing, UsageError
from sandwright.reading import open_named
from sandwright.release.bundle import Envelope, NotSigned, read_bundle, signed, write_bundle

try:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes, PublicKeyTypes
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        PublicFormat,
        load_pem_private_key,
        load_pem_public_key,
    )
    from cryptography.x509 import load_pem_x509_certificates
    from securesystemslib.exceptions import UnverifiedSignatureError
    from securesystemslib.signer import SIGNER_FOR_URI_SCHEME, CryptoSigner, Signature, Signer, SSlibKey
except ImportError as error:  # without the extra `release`
    _MISSING: ImportError | None = error
else:
    _MISSING = None

PASSWORD = KEY_PASSWORD.name
"""Names the environment variable with the password of an encrypted key."""

SCHEMES = ("ed25519", "ecdsa-sha2-nistp256")
_HINT = "pip install 'sandwright[release]'"
_URI = re.compile(r"[a-z][a-z0-9+.-]*:.+")
_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----\n?", re.DOTALL)
_LARGEST_KEY = 1 << 20


@dataclass(frozen=True)
class PublicKey:
    """A public key. `source` is where it came from; `fingerprint` the SHA-256 of its DER form, in hex."""

    key: SSlibKey
    source: str
    fingerprint: str

    def __str__(self) -> str:
        return f"{self.source} ({self.fingerprint[:16]})"

    @property
    def hint(self) -> str:
        """The key's name in bundles, as cosign writes it."""
        return base64.b64encode(bytes.fromhex(self.fingerprint)).decode()

    def opened(self, bundle: bytes, where: str) -> bytes:
        """The statement in a bundle, if the key has signed it; see `Verifier`."""
        envelope = read_bundle(bundle, where)
        if not self.has_signed(signed(envelope.payload), envelope.signature):
            raise NotSigned(f"{where}: not signed by {self}{_describe_key(envelope)}")
        return envelope.payload

    def has_signed(self, content: bytes, signature: bytes) -> bool:
        """Whether a signature of these very bytes is this key's."""
        try:
            self.key.verify_signature(Signature(self.key.keyid, signature.hex()), content)
        except UnverifiedSignatureError:
            return False
        return True


@dataclass(frozen=True)
class SigningKey:
    """A private key, or a key service, with the public key that goes with it."""

    signer: Signer
    verifier: PublicKey

    def sign(self, payload: bytes) -> bytes:
        """A bundle with a statement, signed. Raise HostError when the key service refuses."""
        bundle = write_bundle(payload, self.sign_bytes(signed(payload)), self.verifier.hint)
        self.verifier.opened(bundle, self.verifier.source)  # the public key is the one that goes with it
        return bundle

    def sign_bytes(self, content: bytes) -> bytes:
        """A signature of these very bytes. Raise HostError when the key service refuses."""
        try:
            return bytes.fromhex(self.signer.sign(content).signature)
        except Exception as error:  # any exception of the library of a key service
            message = f"{type(error).__name__}: {error}"
            raise HostError(f"{self.verifier.source}: it does not sign: {message}") from error


def load_key(
    where: str, *, public: str = "", environ: Mapping[str, str], now: datetime | None = None
) -> SigningKey:
    """The key in a PEM file (PKCS #8, with or without a password), or the one that a key service's URI names.

    A key service needs `public`, the file of its public key. A certificate beside the key, or in `public`,
    must be good at `now`. Raise UsageError for an unusable key, HostError for a file that
    can't be read or a key service that refuses, ToolMissing without the libraries.
    """
    _require_library()
    if _URI.fullmatch(where) and not Path(where).exists():
        return _from_service(where, public, now)
    raw = _read_key(where)
    private = _parse_private_key(raw, where, environ)
    verifier = _verifier(private.public_key(), where)
    for certified in (_certificates(raw, where, now), [load_verifier(public, now=now)] if public else []):
        for each in certified:
            if each.fingerprint != verifier.fingerprint:
                raise UsageError(f"{each.source}: it is not the public key of {where}")
    return SigningKey(CryptoSigner(private, verifier.key), verifier)


def load_verifier(where: str, *, now: datetime | None = None) -> PublicKey:
    """The public key in a PEM file, or that of a certificate, which must be good at `now`.

    Raise UsageError for an unusable key, HostError for a file that can't be read.
    """
    _require_library()
    raw = _read_key(where)
    if b"PRIVATE KEY-----" in raw:
        raise UsageError(f"{where}: this is a private key; checking takes the public one")
    certified = _certificates(raw, where, now)
    if certified:
        return certified[0]
    try:
        return _verifier(load_pem_public_key(raw), where)
    except ValueError as error:
        raise UsageError(f"{where}: not a public key in PEM: {error}") from None


def _describe_key(envelope: Envelope) -> str:
    """The key that a bundle names as its own, for messages."""
    named = envelope.material.get("publicKey")
    hint = named.get("hint") if isinstance(named, dict) else None
    try:
        fingerprint = base64.b64decode(hint, validate=True).hex() if isinstance(hint, str) else ""
    except ValueError:
        return ""
    return f", but by {fingerprint[:16]}" if len(fingerprint) == hashlib.sha256().digest_size * 2 else ""


def _require_library() -> None:
    if _MISSING is not None:
        raise ToolMissing(str(_MISSING.name), _HINT) from _MISSING


def _read_key(where: str) -> bytes:
    try:
        with open_named(where) as file:
            return file.read(_LARGEST_KEY)
    except OSError as error:
        raise HostError(f"{where}: cannot read the key: {error.strerror}") from None


def _parse_private_key(raw: bytes, where: str, environ: Mapping[str, str]) -> PrivateKeyTypes:
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
        raise UsageError(f"{where}: cannot use the private key: {reason}") from None


def _verifier(public: PublicKeyTypes, where: str) -> PublicKey:
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
    return PublicKey(key, where, hashlib.sha256(encoded).hexdigest())


def _certificates(raw: bytes, where: str, now: datetime | None) -> Sequence[PublicKey]:
    """The public keys of the certificates in a file. Raise UsageError for one that is not good now."""
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


def _from_service(where: str, public: str, now: datetime | None) -> SigningKey:
    if not public:
        raise UsageError(f"{where}: a key service needs --public-key, the file of its public key")
    verifier = load_verifier(public, now=now)
    if where.partition(":")[0] not in SIGNER_FOR_URI_SCHEME:
        schemes = ", ".join(sorted(SIGNER_FOR_URI_SCHEME))
        raise UsageError(f"{where}: there is neither such a file nor such a kind of key; there is {schemes}")
    try:
        signer = Signer.from_priv_key_uri(where, verifier.key)
    except Exception as error:  # any exception of the library of a key service
        raise HostError(f"{where}: cannot use the key: {type(error).__name__}: {error}") from error
    return SigningKey(signer, verifier)
