"""A real registry on loopback: Debian's `docker-registry`, with or without TLS and logins."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sandwright import process
from sandwright.registry.credentials import Credential

LOGIN = ("writer", "secret of writer")
HASHED = "$2b$05$U1tjxDO8Oe7Jee/NOLOMLeDtNWcnhhD78/vXymsBQ1jKoh6eUFOae"
"""The password of `LOGIN` in bcrypt, the only kind that the registry accepts."""

STARTS_WITHIN = 20.0


@dataclass(frozen=True)
class Tls:
    """A certificate for `localhost` and 127.0.0.1, its key, and its authority.

    A server with `of_clients` asks each client for a certificate of this authority, as this one.
    """

    authority: Path
    certificate: Path
    key: Path
    of_clients: bool = False


@dataclass(frozen=True)
class Server:
    """A running registry. `host` is its form in references; `storage` is its directory of content."""

    host: str
    storage: Path
    log: Path

    def copy(self, repository: str, other: str) -> None:
        """Copy a repository to another name: it consists of directories with links to blobs."""
        repositories = self.storage / "docker/registry/v2/repositories"
        shutil.copytree(repositories / repository, repositories / other)

    def blob(self, digest: str) -> Path:
        """The path of a blob in the server's storage."""
        algorithm, _, encoded = digest.partition(":")
        return self.storage / "docker/registry/v2/blobs" / algorithm / encoded[:2] / encoded / "data"


@contextlib.contextmanager
def registry_server(
    directory: Path,
    *,
    login: bool = False,
    tls: Tls | None = None,
    address: str = "127.0.0.1",
    program: Path | str = "docker-registry",
) -> Iterator[Server]:
    """Run a registry for the length of a `with`, its files in `directory`; with `login`, for `LOGIN` alone.

    It listens on `address`; with `tls` on the loopback's, whose name the certificate has.
    """
    directory.mkdir(parents=True, exist_ok=True)
    port = free_port()
    storage, log = directory / "storage", directory / "log"
    configuration = {
        "version": "0.1",
        "log": {"level": "warn"},
        "storage": {"filesystem": {"rootdirectory": str(storage)}, "delete": {"enabled": True}},
        "http": {"addr": f"{address}:{port}", "secret": "for tests", **_tls(tls)},
        **(_auth(directory) if login else {}),
    }
    written = directory / "config.json"
    written.write_text(json.dumps(configuration))  # JSON is YAML
    serve = (program, "serve", written)
    calm = {**os.environ, "GOMAXPROCS": "1", "GOGC": "1000"}  # half the processor's time for small requests
    with log.open("wb") as out, process.start(*serve, stdout=out, stderr=out, env=calm) as running:
        wait_for(address, port, log, tls=tls)
        assert running.poll() is None, log.read_text()
        yield Server(f"localhost:{port}" if tls else f"{address}:{port}", storage, log)


def make_certificates(directory: Path, *, names: str = "DNS:localhost,IP:127.0.0.1") -> Tls:
    """An authority, and a certificate that it signed."""
    directory.mkdir(parents=True, exist_ok=True)
    made = Tls(directory / "authority.pem", directory / "server.pem", directory / "server.key")
    key, request, extensions = (directory / name for name in ("authority.key", "server.csr", "extensions"))
    extensions.write_text(f"subjectAltName={names}\n")
    new = ("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    own = ("-x509", "-days", "2", "-subj", "/CN=test authority")
    process.run(*new, *own, "-keyout", key, "-out", made.authority)
    process.run(*new, "-subj", "/CN=localhost", "-keyout", made.key, "-out", request)
    signed = ("-CA", made.authority, "-CAkey", key, "-CAcreateserial", "-extfile", extensions)
    process.run("openssl", "x509", "-req", "-days", "2", "-in", request, "-out", made.certificate, *signed)
    return made


def _tls(tls: Tls | None) -> dict[str, object]:
    if tls is None:
        return {}
    clients = {"clientcas": [str(tls.authority)]} if tls.of_clients else {}
    return {"tls": {"certificate": str(tls.certificate), "key": str(tls.key), **clients}}


def _auth(directory: Path) -> dict[str, object]:
    path = directory / "htpasswd"
    path.write_text(f"{LOGIN[0]}:{HASHED}\n")
    return {"auth": {"htpasswd": {"realm": "test", "path": str(path)}}}


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def wait_for(listens: str, port: int, log: Path, *, tls: Tls | None = None) -> None:
    """Wait until a server answers. Raise AssertionError with its log if it does not."""
    address = f"https://localhost:{port}/" if tls else f"http://{listens}:{port}/"
    context = ssl.create_default_context(cafile=str(tls.authority)) if tls else None
    if tls and context:
        context.load_cert_chain(tls.certificate, tls.key)
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), *([urllib.request.HTTPSHandler(context=context)] if context else [])
    )
    end = time.monotonic() + STARTS_WITHIN
    while True:
        try:
            opener.open(address, timeout=2).close()
        except urllib.error.HTTPError:
            return
        except OSError:
            if time.monotonic() > end:
                raise AssertionError(f"docker-registry did not start: {log.read_text()}") from None
            time.sleep(0.05)
        else:
            return


@dataclass(frozen=True)
class StaticCredentials:
    """One credential, for one host."""

    host: str
    credential: Credential

    def find(self, host: str, repository: str) -> Credential | None:  # noqa: ARG002
        return self.credential if host == self.host else None
