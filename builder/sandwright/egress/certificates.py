"""Makes the certificates of one run: of a CA for the hosts of `network.http`, and of each host.

OpenSSL's program makes them (openssl-req(1), 3.0 or newer). The authority may sign for these hosts only. Its
key is removed before the sandbox starts, the hosts' keys once haproxy has read them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sandwright import process
from sandwright.errors import ToolMissing

_DAYS = "397"  # what the strictest clients accept of a host's certificate
_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
_TIMEOUT = 20.0


@contextmanager
def new_authority(directory: Path, hosts: Iterable[str]) -> Iterator[Authority]:
    """Make an authority for hosts. Its key is in a private directory until the `with` block ends.

    Raise ToolMissing without openssl, CommandFailed where it is too old.
    """
    key, certificate = directory / "authority.key", directory / "authority.pem"
    permitted = ",".join(f"permitted;DNS:{host}" for host in dict.fromkeys(hosts))
    try:
        _openssl(
            *("req", "-x509", *_KEY, "-keyout", key, "-out", certificate, "-days", _DAYS),
            *("-subj", "/CN=sandwright, for one run"),
            *_extensions(
                basicConstraints="critical,CA:TRUE,pathlen:0",
                keyUsage="critical,keyCertSign",
                nameConstraints=f"critical,{permitted}",
            ),
        )
        yield Authority(key, certificate)
    finally:
        key.unlink(missing_ok=True)


class Authority:
    """The CA that signs the certificates of a run's hosts."""

    def __init__(self, key: Path, certificate: Path) -> None:
        self._key, self._certificate = key, certificate

    @property
    def certificate(self) -> str:
        """The authority's certificate, as PEM."""
        return self._certificate.read_text()

    def certify(self, host: str) -> str:
        """Make a key and a certificate for a host; give both with the CA's certificate, as PEM."""
        key, certificate = self._key.with_name("host.key"), self._key.with_name("host.pem")
        try:
            _openssl(
                *("req", "-x509", *_KEY, "-keyout", key, "-out", certificate, "-days", _DAYS),
                *("-CA", self._certificate, "-CAkey", self._key, "-subj", "/CN=sandwright"),
                *_extensions(
                    subjectAltName=f"DNS:{host}",
                    basicConstraints="critical,CA:FALSE",
                    keyUsage="critical,digitalSignature",
                    extendedKeyUsage="serverAuth",
                ),
            )
            return certificate.read_text() + key.read_text() + self.certificate
        finally:
            key.unlink(missing_ok=True)
            certificate.unlink(missing_ok=True)


def _extensions(**values: str) -> Iterator[str]:
    for name, value in values.items():
        yield from ("-addext", f"{name}={value}")


def _openssl(*words: object) -> None:
    program = process.find("openssl")
    if program is None:
        raise ToolMissing("openssl", "it makes the certificates of network.http")
    # Nobody's configuration: it would add extensions.
    process.run(program, *map(str, words), "-config", "/dev/null", timeout=_TIMEOUT)
