"""A stand-in for Sigstore on loopback: an authority for certificates, its log, and a log of signatures.

sigstore's own library can check its certificates and entries: RFC 6962 for the authority's log, a tree of one
leaf for each signature. A client with a token of ours gets a certificate.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from support.localhttp import QuietHandler, listening

ISSUER = "https://login.example"
_ISSUER_OIDS = ("1.3.6.1.4.1.57264.1.1", "1.3.6.1.4.1.57264.1.8")  # the first holds bare text
_SCT_OID = x509.ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")
_SECRET = "a secret of the login that is longer than 32 bytes"


def token(subject: str, *, seconds: int = 3600, issuer: str = ISSUER) -> str:
    """An identity token, like one from a login."""
    now = int(time.time())
    claims = {"iss": issuer, "aud": "sigstore", "sub": subject, "iat": now - 60, "exp": now + seconds}
    return jwt.encode(claims, _SECRET, algorithm="HS256")


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _spki(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _id(key: ec.EllipticCurvePrivateKey) -> bytes:
    return hashlib.sha256(_spki(key)).digest()


def _b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


@dataclass
class Sigstore:
    """A running server. `refuses` makes it refuse a certificate or an entry, by a part of the path."""

    url: str
    authority_key: ec.EllipticCurvePrivateKey
    authority: x509.Certificate
    certificate_log: ec.EllipticCurvePrivateKey
    signature_log: ec.EllipticCurvePrivateKey
    refuses: str = ""

    def certificate(
        self, request: x509.CertificateSigningRequest, claims: dict[str, Any]
    ) -> x509.Certificate:
        """A certificate of ten minutes for the subject of a token, with the time of its log entry."""
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([]))
            .issuer_name(self.authority.subject)
            .public_key(request.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=1))
            .not_valid_after(now + timedelta(minutes=9))
            .add_extension(x509.KeyUsage(True, *[False] * 8), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.authority_key.public_key()),
                critical=False,
            )
            .add_extension(
                x509.SubjectAlternativeName([x509.UniformResourceIdentifier(claims["sub"])]), critical=True
            )
        )
        for oid, value in zip(_ISSUER_OIDS, (claims["iss"].encode(), _utf8(claims["iss"])), strict=True):
            issuer = x509.UnrecognizedExtension(x509.ObjectIdentifier(oid), value)
            builder = builder.add_extension(issuer, critical=False)
        # The logged form is the certificate without the log's own answer, which signs it (RFC 6962, 3.2).
        bare = builder.sign(self.authority_key, hashes.SHA256())
        answer = x509.UnrecognizedExtension(_SCT_OID, self._logged(bare))
        return builder.add_extension(answer, critical=False).sign(self.authority_key, hashes.SHA256())

    def _logged(self, bare: x509.Certificate) -> bytes:
        stamp = int(time.time() * 1000)
        body = bare.tbs_certificate_bytes
        entry = _id(self.authority_key) + len(body).to_bytes(3, "big") + body
        signed = struct.pack("!BBQH", 0, 0, stamp, 1) + entry + b"\0\0"
        signature = self.certificate_log.sign(signed, ec.ECDSA(hashes.SHA256()))
        stamped = struct.pack("!B", 0) + _id(self.certificate_log) + struct.pack("!QH", stamp, 0)
        stamped += struct.pack("!BBH", 4, 3, len(signature)) + signature
        listed = struct.pack("!H", len(stamped)) + stamped
        listed = struct.pack("!H", len(listed)) + listed
        return _octets(listed)

    def entry(self, proposed: dict[str, Any]) -> dict[str, Any]:
        """The entry of a signed envelope, the only one in its tree."""
        content = proposed["spec"]["proposedContent"]
        envelope = json.loads(content["envelope"])
        payload = base64.b64decode(envelope["payload"])
        (signature,) = envelope["signatures"]
        spec = {
            "envelopeHash": {
                "algorithm": "sha256",
                "value": hashlib.sha256(content["envelope"].encode()).hexdigest(),
            },
            "payloadHash": {"algorithm": "sha256", "value": hashlib.sha256(payload).hexdigest()},
            "signatures": [{"signature": signature["sig"], "verifier": content["verifiers"][0]}],
        }
        body = _canonical({"apiVersion": "0.0.1", "kind": "dsse", "spec": spec})
        root = hashlib.sha256(b"\0" + body).digest()
        log, now = _id(self.signature_log).hex(), int(time.time())
        promised = {"body": _b64(body), "integratedTime": now, "logID": log, "logIndex": 0}
        promise = self.signature_log.sign(_canonical(promised), ec.ECDSA(hashes.SHA256()))
        proof = {
            "logIndex": 0,
            "treeSize": 1,
            "rootHash": root.hex(),
            "hashes": [],
            "checkpoint": self._checkpoint(root),
        }
        verification = {"inclusionProof": proof, "signedEntryTimestamp": _b64(promise)}
        return {root.hex(): {**promised, "verification": verification}}

    def _checkpoint(self, root: bytes) -> str:
        note = f"log.example - 1\n1\n{_b64(root)}\n"
        signature = self.signature_log.sign(note.encode(), ec.ECDSA(hashes.SHA256()))
        return f"{note}\n\u2014 log.example {_b64(_id(self.signature_log)[:4] + signature)}\n"

    def trust(self) -> dict[str, Any]:
        """The clients' trust root: the addresses of the services, and the trusted certificates."""
        since = {"validFor": {"start": "2020-01-01T00:00:00Z"}}
        service = {"majorApiVersion": 1, "operator": "example", **since}
        chain = {"certificates": [{"rawBytes": _b64(self.authority.public_bytes(Encoding.DER))}]}
        authority = {
            "subject": {"organization": "example", "commonName": "example"},
            "uri": self.url,
            "certChain": chain,
            **since,
        }
        return {
            "mediaType": "application/vnd.dev.sigstore.clienttrustconfig.v0.1+json",
            "trustedRoot": {
                "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
                "tlogs": [self._log(self.signature_log)],
                "certificateAuthorities": [authority],
                "ctlogs": [self._log(self.certificate_log)],
                "timestampAuthorities": [],
            },
            "signingConfig": {
                "mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json",
                "caUrls": [{"url": self.url, **service}],
                "oidcUrls": [],
                "rekorTlogUrls": [{"url": self.url, **service}],
                "rekorTlogConfig": {"selector": "ANY"},
                "tsaUrls": [],
                "tsaConfig": {"selector": "ANY"},
            },
        }

    def _log(self, key: ec.EllipticCurvePrivateKey) -> dict[str, Any]:
        public = {
            "rawBytes": _b64(_spki(key)),
            "keyDetails": "PKIX_ECDSA_P256_SHA_256",
            "validFor": {"start": "2020-01-01T00:00:00Z"},
        }
        return {
            "baseUrl": self.url,
            "hashAlgorithm": "SHA2_256",
            "publicKey": public,
            "logId": {"keyId": _b64(_id(key))},
        }


def _utf8(text: str) -> bytes:
    return bytes([0x0C, len(text)]) + text.encode()


def _octets(raw: bytes) -> bytes:
    """DER's OCTET STRING, of up to 255 bytes."""
    return (bytes([4, len(raw)]) if len(raw) < 128 else bytes([4, 0x81, len(raw)])) + raw


def _canonical(document: Any) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


class _Handler(QuietHandler):
    sigstore: Sigstore

    def do_POST(self) -> None:
        """Issue a certificate, or accept an entry."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.sigstore.refuses and self.sigstore.refuses in self.path:
            self._reply(403, {"message": "no"})
        elif self.path.endswith("/signingCert"):
            self._reply(200, {"signedCertificateEmbeddedSct": {"chain": {"certificates": self._chain(body)}}})
        else:
            self._reply(201, self.sigstore.entry(body))

    def _chain(self, body: dict[str, Any]) -> list[str]:
        claims = jwt.decode(
            self.headers["Authorization"].removeprefix("Bearer "),
            _SECRET,
            algorithms=["HS256"],
            audience="sigstore",
        )
        request = x509.load_pem_x509_csr(base64.b64decode(body["certificateSigningRequest"]))
        made = self.sigstore.certificate(request, claims)
        return [each.public_bytes(Encoding.PEM).decode() for each in (made, self.sigstore.authority)]

    def _reply(self, status: int, document: dict[str, Any]) -> None:
        raw = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)


@contextlib.contextmanager
def sigstore() -> Iterator[Sigstore]:
    """Serve until the `with` ends."""
    key = _new_key()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "example")])
    now = datetime.now(UTC)
    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    authority = (
        x509.CertificateBuilder(
            name, name, key.public_key(), 1, now - timedelta(days=1), now + timedelta(days=1)
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )

    class Handler(_Handler):
        pass

    with listening(Handler) as port:
        Handler.sigstore = Sigstore(f"http://127.0.0.1:{port}", key, authority, _new_key(), _new_key())
        yield Handler.sigstore
