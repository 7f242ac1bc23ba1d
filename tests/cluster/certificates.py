"""Certificates of one test cluster: its own authority, and the certificates that it signs."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAYS = 2


@dataclass(frozen=True)
class Authority:
    """An authority of one cluster; all its files lie in `folder`, as NAME.crt and NAME.key."""

    folder: Path
    _key: ec.EllipticCurvePrivateKey
    _name: x509.Name

    def issue(
        self, name: str, common: str, *, groups: Sequence[str] = (), addresses: Sequence[str] = ()
    ) -> None:
        """Issue a certificate for a client, or with `addresses` (names or IP addresses) also for a server."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject.append(x509.NameAttribute(NameOID.COMMON_NAME, common))
        usage = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if addresses else [])]
        made = _begun(x509.Name(subject), self._name, key.public_key())
        made = made.add_extension(x509.ExtendedKeyUsage(usage), critical=False)
        if addresses:
            made = made.add_extension(
                x509.SubjectAlternativeName(list(map(_general, addresses))), critical=False
            )
        _write(self.folder, name, key, made.sign(self._key, hashes.SHA256()))


def make_authority(folder: Path) -> Authority:
    """Make a new authority, with `ca.crt` in a new directory."""
    folder.mkdir(mode=0o700)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test cluster")])
    made = _begun(name, name, key.public_key())
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    _write(folder, "ca", key, made.sign(key, hashes.SHA256()))
    return Authority(folder, key, name)


def _begun(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    made = made.serial_number(x509.random_serial_number())
    hour = datetime.timedelta(hours=1)
    return made.not_valid_before(now - hour).not_valid_after(now + datetime.timedelta(days=_DAYS))


def _general(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        return x509.DNSName(address)


def _write(folder: Path, name: str, key: ec.EllipticCurvePrivateKey, made: x509.Certificate) -> None:
    (folder / f"{name}.crt").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form, plain = serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    path = folder / f"{name}.key"
    path.touch(mode=0o600)
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, plain))
