"""Signatures without a key: by sigstore's own library, against a stand-in for its services on loopback.

The public services are not tested: no request leaves the machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sandwright.errors import ArchiveRefused, HostError, UsageError
from sandwright.release.bundle import NotSigned
from sandwright.release.keyless import KeylessSigner, load_identity, log_in
from support.releases import new_key
from support.sigstoreserver import ISSUER, Sigstore, sigstore, token

WHO = "https://forge.example/team/app/.github/workflows/release.yml@refs/tags/v1"


def statement(name: str = "app") -> bytes:
    subject = {"name": name, "digest": {"sha256": "0" * 64}}
    kind = {"_type": "https://in-toto.io/Statement/v1", "predicateType": "https://example/p", "predicate": {}}
    return json.dumps({**kind, "subject": [subject]}).encode()


@pytest.fixture(scope="module")
def server() -> Iterator[Sigstore]:
    with sigstore() as running:
        yield running


@pytest.fixture(scope="module")
def trust(server: Sigstore, tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(tmp_path_factory.mktemp("trust") / "trust.json", json.dumps(server.trust()))


@pytest.fixture(scope="module")
def login(trust: str, tmp_path_factory: pytest.TempPathFactory) -> KeylessSigner:
    return log_in(written(tmp_path_factory.mktemp("token") / "token", token(WHO)), trust=trust)


def written(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_signed_and_opened(login: KeylessSigner, trust: str) -> None:
    bundle = login.sign(statement())
    assert load_identity(WHO, ISSUER, trust=trust).opened(bundle, "x") == statement()
    assert str(login.verifier) == f"{WHO} ({ISSUER})"


@pytest.mark.parametrize(
    ("subject", "issuer", "said"),
    [
        (WHO.replace("v1", "v2"), ISSUER, "SANs do not match"),
        (WHO, "https://other.example", "Certificate's OIDCIssuer does not match"),
        ("", ISSUER, "SANs do not match"),
    ],
)
def test_somebody_else(login: KeylessSigner, trust: str, subject: str, issuer: str, said: str) -> None:
    with pytest.raises(NotSigned, match=f"x: not signed by .*{said}"):
        load_identity(subject, issuer, trust=trust).opened(login.sign(statement()), "x")


def test_keys_and_identities_do_not_stand_for_each_other(login: KeylessSigner, tmp_path: Path) -> None:
    key = new_key(tmp_path)
    with pytest.raises(NotSigned, match=r"x: not signed by .*, but by a key"):
        login.verifier.opened(key.sign(statement()), "x")
    with pytest.raises(NotSigned, match="x: not signed by"):
        key.verifier.opened(login.sign(statement()), "x")


def test_services_that_are_not_trusted(login: KeylessSigner, tmp_path: Path) -> None:
    with sigstore() as other:
        trust = written(tmp_path / "trust.json", json.dumps(other.trust()))
    with pytest.raises(NotSigned):
        load_identity(WHO, ISSUER, trust=trust).opened(login.sign(statement()), "x")


def _payload(one: dict[str, Any], other: dict[str, Any]) -> None:
    one["dsseEnvelope"]["payload"] = other["dsseEnvelope"]["payload"]


def _envelope(one: dict[str, Any], other: dict[str, Any]) -> None:
    """The envelope is signed, and by the same certificate, but it was not the logged one."""
    one["dsseEnvelope"] = other["dsseEnvelope"]


def _entry(one: dict[str, Any], other: dict[str, Any]) -> None:
    one["verificationMaterial"]["tlogEntries"] = other["verificationMaterial"]["tlogEntries"]


def _no_entry(one: dict[str, Any], _other: dict[str, Any]) -> None:
    one["verificationMaterial"]["tlogEntries"] = []


def _promise(one: dict[str, Any], _other: dict[str, Any]) -> None:
    one["verificationMaterial"]["tlogEntries"][0]["integratedTime"] = "1767225600"


def _certificate(one: dict[str, Any], _other: dict[str, Any]) -> None:
    one["verificationMaterial"]["certificate"]["rawBytes"] = "AAAA"


@pytest.mark.parametrize(
    "change",
    [_payload, _envelope, _entry, _no_entry, _promise, _certificate],
    ids=lambda each: each.__name__.strip("_"),
)
def test_changed(login: KeylessSigner, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> None:
    one, other = (json.loads(login.sign(statement(name))) for name in ("app", "other"))
    change(one, other)
    with pytest.raises(NotSigned, match="x: not signed by"):
        login.verifier.opened(json.dumps(one).encode(), "x")


def test_no_bundle(login: KeylessSigner) -> None:
    with pytest.raises(ArchiveRefused, match=r"x: not a bundle of version 0\.3"):
        login.verifier.opened(b"{}", "x")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (token(WHO, seconds=-1000), "no good identity token"),
        ("not a token", "no good identity token"),
        ("", "no identity token"),
    ],
    ids=["expired", "text", "empty"],
)
def test_tokens(tmp_path: Path, trust: str, given: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        log_in(written(tmp_path / "token", given), trust=trust)


def test_no_token_in_the_environment(trust: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GITHUB_ACTIONS", "GITLAB_CI", "CIRCLECI", "BUILDKITE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sigstore.oidc.detect_credential", lambda: None)  # it would ask a cloud's machine
    with pytest.raises(UsageError, match="no identity token: name its file, or run where there is one"):
        log_in(trust=trust)


@pytest.mark.parametrize("what", ["signingCert", "entries"])
def test_a_service_that_refuses(tmp_path: Path, what: str) -> None:
    with sigstore() as server:
        trust = written(tmp_path / "trust.json", json.dumps(server.trust()))
        server.refuses = what
        with pytest.raises(HostError, match="sigstore: it does not sign: "):
            log_in(written(tmp_path / "token", token(WHO)), trust=trust).sign(statement())


@pytest.mark.parametrize("text", ["", "[]", "{}"])
def test_no_trust_configuration(tmp_path: Path, text: str) -> None:
    path = written(tmp_path / "trust.json", text)
    with pytest.raises(UsageError, match=rf"{path}: not a trust configuration of Sigstore"):
        load_identity(WHO, ISSUER, trust=path)
