"""Certificates for single registries, with a real registry that requires a client certificate.

Tests of registry/settings.py: CA files; the registries with plain HTTP.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandwright.errors import UsageError
from sandwright.registry import certificates
from sandwright.registry.failure import NotFound, RegistryError
from sandwright.registry.reference import parse_reference
from sandwright.registry.repository import open_repository
from sandwright.registry.retries import RetryPolicy
from sandwright.registry.settings import RegistrySettings
from support.registryserver import Server, Tls, make_certificates, registry_server

pytestmark = [pytest.mark.needs("docker-registry", "openssl"), pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    return dataclasses.replace(make_certificates(tmp_path_factory.mktemp("certificates")), of_clients=True)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, tls: Tls) -> Iterator[Server]:
    with registry_server(tmp_path_factory.mktemp("registry"), tls=tls) as running:
        yield running


@pytest.fixture
def directory(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's directory for the registry, empty; the system has none."""
    monkeypatch.setattr(certificates, "SYSTEM", ())
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    made = tmp_path / "containers" / "certs.d" / server.host
    made.mkdir(parents=True)
    return made


def ask(server: Server, settings: RegistrySettings | None = None) -> None:
    """Request a missing image: NotFound shows that the registry answered."""
    settings = settings or RegistrySettings(patience=RetryPolicy(attempts=1))
    with open_repository(parse_reference(f"{server.host}/no/image:1"), settings) as repository:
        repository.manifest("1")


def test_both(server: Server, directory: Path, tls: Tls) -> None:
    shutil.copy(tls.authority, directory / "ours.crt")
    shutil.copy(tls.certificate, directory / "me.cert")
    shutil.copy(tls.key, directory / "me.key")
    with pytest.raises(NotFound):
        ask(server)


def test_no_authority(server: Server, directory: Path, tls: Tls) -> None:
    shutil.copy(tls.certificate, directory / "me.cert")
    shutil.copy(tls.key, directory / "me.key")
    with pytest.raises(RegistryError, match="its certificate is not good"):
        ask(server)


def test_the_option_replaces_authorities(server: Server, directory: Path, tls: Tls, tmp_path: Path) -> None:
    """`--ca-file` names all trusted authorities; the client's certificate is still used."""
    shutil.copy(tls.authority, directory / "ours.crt")
    shutil.copy(tls.certificate, directory / "me.cert")
    shutil.copy(tls.key, directory / "me.key")
    other = make_certificates(tmp_path / "other").authority
    with pytest.raises(RegistryError, match="its certificate is not good"):
        ask(server, RegistrySettings(authorities=other, patience=RetryPolicy(attempts=1)))
    with pytest.raises(NotFound):
        ask(server, RegistrySettings(authorities=tls.authority, patience=RetryPolicy(attempts=1)))


def test_no_client_certificate(server: Server, directory: Path, tls: Tls) -> None:
    shutil.copy(tls.authority, directory / "ours.crt")
    with pytest.raises(RegistryError, match="asks for a client certificate"):
        ask(server)


@pytest.mark.parametrize(("there", "missing"), [("cert", "key"), ("key", "cert")])
def test_half_a_pair(server: Server, directory: Path, there: str, missing: str) -> None:
    (directory / f"me.{there}").touch()
    with pytest.raises(UsageError, match=rf"me\.{there} needs me\.{missing} beside it"):
        ask(server)


@pytest.mark.parametrize("name", ["ours.crt", "me.cert"])
def test_a_file_that_is_no_certificate(server: Server, directory: Path, tls: Tls, name: str) -> None:
    (directory / name).write_text("none")
    shutil.copy(tls.key, directory / "me.key")
    if name != "me.cert":
        shutil.copy(tls.certificate, directory / "me.cert")
    with pytest.raises(UsageError, match=rf"cannot use .*{name}"):
        ask(server)


def test_no_directory_beside_others(tmp_path: Path) -> None:
    """A registry that redirects to a host named `..` gets no certificate."""
    (tmp_path / "certs.d").mkdir()
    assert certificates.tls_context("..", (tmp_path / "certs.d",), authorities=True) is None
