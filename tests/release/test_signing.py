"""Keys and signatures: signing, verification, refusals, and agreement with openssl.

Tests of release/signing.py.
"""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from securesystemslib.signer import (
    SIGNER_FOR_URI_SCHEME,
    CryptoSigner,
    Key,
    SecretsHandler,
    Signature,
    Signer,
)

from sandwright import process
from sandwright.errors import ArchiveRefused, HostError, UsageError
from sandwright.release.bundle import NotSigned
from sandwright.release.signing import load_key, load_verifier
from support.releases import new_key, write_key

PAYLOAD = b'{"_type":"https://in-toto.io/Statement/v1"}'
NOW = datetime(2026, 6, 1, tzinfo=UTC)


@pytest.mark.parametrize("kind", ["ed25519", "p256"])
def test_signed_and_opened(tmp_path: Path, kind: str) -> None:
    private, public = write_key(tmp_path, kind=kind)
    key = load_key(str(private), environ={})
    assert load_verifier(str(public)).opened(key.sign(PAYLOAD), "x") == PAYLOAD


@pytest.mark.needs("openssl")
@pytest.mark.parametrize("kind", ["ed25519", "p256"])
def test_openssl_agrees(tmp_path: Path, kind: str) -> None:
    """openssl makes the key, and checks the signature over the bytes that DSSE defines."""
    option = (
        ("-algorithm", "ed25519")
        if kind == "ed25519"
        else ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")
    )
    private, public = tmp_path / "key.pem", tmp_path / "key.pub"
    process.run("openssl", "genpkey", *option, "-out", private)
    process.run("openssl", "pkey", "-in", private, "-pubout", "-out", public)
    bundle = json.loads(load_key(str(private), environ={}).sign(PAYLOAD))
    assert bundle["mediaType"] == "application/vnd.dev.sigstore.bundle.v0.3+json"
    envelope = bundle["dsseEnvelope"]
    assert envelope["payloadType"] == "application/vnd.in-toto+json"
    assert base64.b64decode(envelope["payload"]) == PAYLOAD
    (signature,) = envelope["signatures"]
    (tmp_path / "signed").write_bytes(
        b"DSSEv1 28 application/vnd.in-toto+json %d %b" % (len(PAYLOAD), PAYLOAD)
    )
    (tmp_path / "signature").write_bytes(base64.b64decode(signature["sig"]))
    checking = ("-rawin",) if kind == "ed25519" else ("-rawin", "-digest", "sha256")
    words = (
        "-verify",
        "-pubin",
        "-inkey",
        public,
        "-sigfile",
        tmp_path / "signature",
        "-in",
        tmp_path / "signed",
    )
    process.run("openssl", "pkeyutl", *words, *checking)
    der = process.run("openssl", "pkey", "-pubin", "-in", public, "-outform", "DER").stdout
    digest = process.run("openssl", "dgst", "-sha256", "-r", stdin=der).text.split()[0]
    hint = base64.b64encode(bytes.fromhex(digest)).decode()
    assert bundle["verificationMaterial"] == {"publicKey": {"hint": hint}}
    assert "keyid" not in signature, "cosign 3 refuses any but its own"


def test_somebody_else_s(tmp_path: Path) -> None:
    key, other = new_key(tmp_path), new_key(tmp_path, "other")
    message = f"x: not signed by {other.verifier}, but by {key.verifier.fingerprint[:16]}"
    with pytest.raises(NotSigned) as caught:
        other.verifier.opened(key.sign(PAYLOAD), "x")
    assert str(caught.value) == message


def _change(bundle: dict[str, Any], place: str) -> None:
    envelope = bundle["dsseEnvelope"]
    if place == "payload":
        envelope["payload"] = base64.b64encode(PAYLOAD + b" ").decode()
    elif place == "signature":
        raw = bytearray(base64.b64decode(envelope["signatures"][0]["sig"]))
        raw[5] ^= 1
        envelope["signatures"][0]["sig"] = base64.b64encode(raw).decode()
    elif place == "empty signature":
        envelope["signatures"][0]["sig"] = ""


@pytest.mark.parametrize("kind", ["ed25519", "p256"])
@pytest.mark.parametrize("place", ["payload", "signature", "empty signature"])
def test_changed(tmp_path: Path, place: str, kind: str) -> None:
    key = new_key(tmp_path, kind=kind)
    bundle = json.loads(key.sign(PAYLOAD))
    _change(bundle, place)
    with pytest.raises(NotSigned):
        key.verifier.opened(json.dumps(bundle).encode(), "x")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"mediaType": "application/vnd.dev.sigstore.bundle+json;version=0.2"},
            "x: not a bundle of version 0.3",
        ),
        ({"dsseEnvelope": None}, "x: dsseEnvelope: expected an object"),
        ({"dsseEnvelope": {"payloadType": "text/plain"}}, "x: its payload is no in-toto statement"),
        (
            {"dsseEnvelope": {"payloadType": "application/vnd.in-toto+json", "payload": "%"}},
            "x: payload: not base64",
        ),
        (
            {
                "dsseEnvelope": {
                    "payloadType": "application/vnd.in-toto+json",
                    "payload": "",
                    "signatures": [{"sig": 1}],
                }
            },
            "x: signature: not base64",
        ),
        (
            {
                "dsseEnvelope": {
                    "payloadType": "application/vnd.in-toto+json",
                    "payload": "",
                    "signatures": [],
                }
            },
            "x: a bundle has one signature, this one has 0",
        ),
        (
            {
                "dsseEnvelope": {
                    "payloadType": "application/vnd.in-toto+json",
                    "payload": "",
                    "signatures": [{"sig": ""}, {"sig": ""}],
                }
            },
            "x: a bundle has one signature, this one has 2",
        ),
    ],
)
def test_no_bundle(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    key = new_key(tmp_path)
    bundle = {**json.loads(key.sign(PAYLOAD)), **change}
    with pytest.raises(ArchiveRefused, match=message):
        key.verifier.opened(json.dumps(bundle).encode(), "x")


def encrypted(directory: Path) -> Path:
    private, _ = write_key(directory)
    key = load_pem_private_key(private.read_bytes(), None)
    private.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"a password"))
    )
    return private


def test_an_encrypted_key(tmp_path: Path) -> None:
    path = str(encrypted(tmp_path))
    assert load_key(path, environ={"SANDWRIGHT_KEY_PASSWORD": "a password"}).verifier.source == path
    with pytest.raises(UsageError, match="its password belongs in SANDWRIGHT_KEY_PASSWORD"):
        load_key(path, environ={})
    with pytest.raises(UsageError, match="the password in SANDWRIGHT_KEY_PASSWORD may be wrong"):
        load_key(path, environ={"SANDWRIGHT_KEY_PASSWORD": "another"})


COSIGN = (
    "-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\neyJrZGYiOnt9fQ==\n"
    "-----END ENCRYPTED SIGSTORE PRIVATE KEY-----\n"
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a private key in PEM"),
        ("no key", "not a private key in PEM"),
        (COSIGN, "in cosign's own encryption.*cosign import-key-pair"),
        ("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "cannot use the private key"),
    ],
    ids=["empty", "text", "cosign", "garbage"],
)
def test_no_private_key(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "key"
    path.write_text(text)
    with pytest.raises(UsageError, match=f"{path}: .*{message}"):
        load_key(str(path), environ={})


def test_keys_of_other_kinds(tmp_path: Path) -> None:
    _, public = write_key(tmp_path, kind="p384")
    with pytest.raises(
        UsageError, match="neither Ed25519 nor ECDSA over P-256: its scheme is ecdsa-sha2-nistp384"
    ):
        load_verifier(str(public))
    path = tmp_path / "rsa"
    private = rsa.generate_private_key(65537, 2048)
    path.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with pytest.raises(UsageError, match="neither Ed25519 nor ECDSA over P-256"):
        load_key(str(path), environ={})


def test_halves_that_are_mixed_up(tmp_path: Path) -> None:
    private, public = write_key(tmp_path)
    with pytest.raises(UsageError, match="this is a private key; checking takes the public one"):
        load_verifier(str(private))
    with pytest.raises(UsageError, match="not a private key in PEM"):
        load_key(str(public), environ={})
    _, other = write_key(tmp_path, "other")
    with pytest.raises(UsageError, match=f"{other}: it is not the public key of {private}"):
        load_key(str(private), public=str(other), environ={})
    with pytest.raises(HostError, match="cannot read the key: No such file"):
        load_verifier(str(tmp_path / "none"))


def certificate(directory: Path, begins: datetime, ends: datetime) -> tuple[Path, Path]:
    """A private key, and a certificate for it."""
    private, _ = write_key(directory, kind="p256")
    key = load_pem_private_key(private.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "release")])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), begins, ends)
        .sign(key, hashes.SHA256())
        .public_bytes(Encoding.PEM)
    )
    path = directory / "certificate.pem"
    path.write_bytes(made)
    return private, path


def test_a_certificate(tmp_path: Path) -> None:
    private, path = certificate(tmp_path, NOW - timedelta(days=1), NOW + timedelta(days=1))
    key = load_key(str(private), public=str(path), environ={}, now=NOW)
    assert load_verifier(str(path), now=NOW).opened(key.sign(PAYLOAD), "x") == PAYLOAD


@pytest.mark.parametrize(
    ("begins", "ends", "message"),
    [
        (-9, -1, "the key's certificate has expired: it is good from 2026-05-23 to 2026-05-31"),
        (1, 9, "the key's certificate is not valid yet: it is good from 2026-06-02 to 2026-06-10"),
    ],
)
def test_a_certificate_that_is_not_good(tmp_path: Path, begins: int, ends: int, message: str) -> None:
    private, path = certificate(tmp_path, NOW + timedelta(days=begins), NOW + timedelta(days=ends))
    for use in (
        lambda: load_verifier(str(path), now=NOW),
        lambda: load_key(str(private), public=str(path), environ={}, now=NOW),
    ):
        with pytest.raises(UsageError, match=message):
            use()


class Service(Signer):
    """A key service, as securesystemslib finds it by the scheme of a URI. Its keys are files."""

    refuses = False

    def __init__(self, path: str, public_key: Key) -> None:
        self.key = public_key
        self.inner = CryptoSigner(load_pem_private_key(Path(path).read_bytes(), None))

    @property
    def public_key(self) -> Key:
        """The public key of its configuration."""
        return self.key

    @classmethod
    def from_priv_key_uri(
        cls, priv_key_uri: str, public_key: Key, secrets_handler: SecretsHandler | None = None
    ) -> Signer:
        """Open the key."""
        assert secrets_handler is None
        return cls(priv_key_uri.partition(":")[2], public_key)

    def sign(self, payload: bytes) -> Signature:
        """Sign, or raise an error with the reason."""
        if self.refuses:
            raise PermissionError("the key is disabled")
        return self.inner.sign(payload)


def test_a_key_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SIGNER_FOR_URI_SCHEME, "testkms", Service)
    private, public = write_key(tmp_path, kind="p256")
    uri = f"testkms:{private}"
    with pytest.raises(UsageError, match="a key service needs --public-key"):
        load_key(uri, environ={})
    with pytest.raises(HostError, match="cannot use the key: FileNotFoundError"):
        load_key("testkms:/none", public=str(public), environ={})
    key = load_key(uri, public=str(public), environ={})
    assert load_verifier(str(public)).opened(key.sign(PAYLOAD), "x") == PAYLOAD
    monkeypatch.setattr(Service, "refuses", True)
    with pytest.raises(HostError, match="it does not sign: PermissionError: the key is disabled"):
        key.sign(PAYLOAD)


def test_a_key_service_with_another_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its signature is checked with its claimed public key."""
    monkeypatch.setitem(SIGNER_FOR_URI_SCHEME, "testkms", Service)
    private, _ = write_key(tmp_path)
    _, other = write_key(tmp_path, "other")
    key = load_key(f"testkms:{private}", public=str(other), environ={})
    with pytest.raises(NotSigned):
        key.sign(PAYLOAD)


def test_no_such_kind_of_key(tmp_path: Path) -> None:
    _, public = write_key(tmp_path)
    with pytest.raises(
        UsageError, match=r"nothing:x: there is neither such a file nor such a kind of key; there is .*awskms"
    ):
        load_key("nothing:x", public=str(public), environ={})
