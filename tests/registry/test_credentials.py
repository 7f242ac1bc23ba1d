"""Logins to registries: the credentials for each repository, and faulty files and helpers.

Tests of registry/authorization.py.
Tests of registry/credentials.py.
"""

from __future__ import annotations

import base64
import json
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from sandwright.errors import HostError, ToolMissing
from sandwright.registry import credentials
from sandwright.registry.credentials import AuthFiles, Credential, auth_files


def packed(user: str, password: str) -> str:
    return base64.b64encode(f"{user}:{password}".encode()).decode()


def logins(path: Path, document: Any) -> AuthFiles:
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return AuthFiles((path,))


def found(tmp_path: Path, document: Any, host: str, repository: str = "a/b") -> tuple[str, str, str] | None:
    credential = logins(tmp_path / "config.json", document).find(host, repository)
    return None if credential is None else (credential.user, credential.password, credential.identity_token)


ONE = {"auth": packed("me", "p:w")}
LOOK_UPS: dict[str, tuple[dict[str, Any], str, str, tuple[str, str, str] | None]] = {
    "by host": ({"auths": {"ghcr.io": ONE}}, "ghcr.io", "a/b", ("me", "p:w", "")),
    "by host and port": ({"auths": {"localhost:5000": ONE}}, "localhost:5000", "a", ("me", "p:w", "")),
    "another port": ({"auths": {"localhost:5000": ONE}}, "localhost:5001", "a", None),
    "another host": ({"auths": {"ghcr.io": ONE}}, "evil.ghcr.io", "a", None),
    "a host that only begins so": ({"auths": {"ghcr.io": ONE}}, "ghcr.io.evil.example", "a", None),
    "with a scheme": ({"auths": {"https://ghcr.io": ONE}}, "ghcr.io", "a", ("me", "p:w", "")),
    "with an API version": ({"auths": {"https://ghcr.io/v2/": ONE}}, "ghcr.io", "a", ("me", "p:w", "")),
    "Docker Hub as docker writes it": (
        {"auths": {"https://index.docker.io/v1/": ONE}},
        "docker.io",
        "library/alpine",
        ("me", "p:w", ""),
    ),
    "Docker Hub as podman writes it": ({"auths": {"docker.io": ONE}}, "docker.io", "a/b", ("me", "p:w", "")),
    "the most specific": (
        {"auths": {"ghcr.io": ONE, "ghcr.io/a": {"auth": packed("team", "x")}}},
        "ghcr.io",
        "a/b",
        ("team", "x", ""),
    ),
    "a part of a name is no part": (
        {"auths": {"ghcr.io": ONE, "ghcr.io/te": {"auth": packed("team", "x")}}},
        "ghcr.io",
        "team/app",
        ("me", "p:w", ""),
    ),
    "an identity token": (
        {"auths": {"ghcr.io": {"auth": packed("me", ""), "identitytoken": "refresh"}}},
        "ghcr.io",
        "a",
        ("me", "", "refresh"),
    ),
    "user and password in the clear": (
        {"auths": {"ghcr.io": {"username": "me", "password": "pw"}}},
        "ghcr.io",
        "a",
        ("me", "pw", ""),
    ),
    "an entry that says nothing": ({"auths": {"ghcr.io": {}}}, "ghcr.io", "a", None),
    "no logins at all": ({}, "ghcr.io", "a", None),
    "null for a section": ({"auths": None}, "ghcr.io", "a", None),
}


@pytest.mark.parametrize("name", LOOK_UPS)
def test_which_login_is_found(tmp_path: Path, name: str) -> None:
    document, host, repository, expected = LOOK_UPS[name]
    assert found(tmp_path, document, host, repository) == expected


FAULTS: dict[str, tuple[Any, str]] = {
    "no JSON": ("{", "not JSON"),
    "a list": ("[]", "not a JSON object"),
    "two megabytes": (" " * (2 << 20), "longer than 1 MiB"),
    "deeply nested": ("[" * 100_000, "not JSON"),
    "a section that is text": ({"auths": "x"}, "auths is not an object"),
    "an entry that is text": ({"auths": {"ghcr.io": "x"}}, "the login for ghcr.io is not an object"),
    "no base64": ({"auths": {"ghcr.io": {"auth": "!"}}}, "'auth' is not base64 of user:password"),
    "no colon": ({"auths": {"ghcr.io": {"auth": "bWU="}}}, "'auth' is not base64 of user:password"),
    "a number for auth": ({"auths": {"ghcr.io": {"auth": 1}}}, "'auth' is not base64 of user:password"),
    "a number for a token": (
        {"auths": {"ghcr.io": {"auth": packed("a", "b"), "identitytoken": 7}}},
        "its values must be strings",
    ),
    "a helper that is a path": ({"credHelpers": {"ghcr.io": "../../bin/sh"}}, "cannot be the name of a"),
    "a helper that is a list": ({"credHelpers": {"ghcr.io": ["a"]}}, "cannot be the name of a"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_files_that_are_no_logins(tmp_path: Path, name: str) -> None:
    document, message = FAULTS[name]
    with pytest.raises(HostError) as caught:
        found(tmp_path, document, "ghcr.io")
    assert message in str(caught.value)
    assert "bWU" not in str(caught.value)


def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").mkdir()
    with pytest.raises(HostError, match=r"cannot read the logins in .*: Is a directory"):
        AuthFiles((tmp_path / "config.json",)).find("ghcr.io", "a")


def test_the_first_file_that_knows_counts(tmp_path: Path) -> None:
    first = tmp_path / "first"
    second = tmp_path / "second"
    first.write_text(json.dumps({"auths": {"quay.io": ONE}}))
    second.write_text(json.dumps({"auths": {"quay.io": {}, "ghcr.io": {"auth": packed("you", "x")}}}))
    files = AuthFiles((tmp_path / "not-there", first, second))
    assert [getattr(files.find(host, "a"), "user", None) for host in ("quay.io", "ghcr.io", "x.y")] == [
        "me",
        "you",
        None,
    ]


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"HOME": "/h"}, ["/h/.config/containers/auth.json", "/h/.docker/config.json"]),
        (
            {"HOME": "/h", "XDG_RUNTIME_DIR": "/r", "XDG_CONFIG_HOME": "/c", "DOCKER_CONFIG": "/d"},
            ["/r/containers/auth.json", "/c/containers/auth.json", "/d/config.json"],
        ),
        ({"HOME": "/h", "REGISTRY_AUTH_FILE": "/f"}, ["/f"]),
    ],
    ids=["plain", "everything set", "a file by name"],
)
def test_where_logins_lie(environment: dict[str, str], expected: list[str]) -> None:
    assert [str(each) for each in auth_files(environment).files] == expected


def test_no_secret_is_shown() -> None:
    assert "pw" not in repr(Credential("f", "me", "pw", "pw"))


@pytest.fixture
def helper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A credential helper, `docker-credential-test`, for the test to write, and a PATH with it."""
    bins = tmp_path / "bin"
    bins.mkdir()
    monkeypatch.setenv("PATH", f"{bins}:/usr/bin:/bin")
    return bins / "docker-credential-test"


def write(helper: Path, script: str) -> None:
    helper.write_text(f"#!/bin/sh\n{script}\n")
    helper.chmod(helper.stat().st_mode | stat.S_IXUSR)


GIVES = """echo '{"ServerURL": "x", "Username": "helped", "Secret": "s3"}'"""


class TestHelpers:
    """Programs that store logins."""

    def test_it_is_asked_for_the_host(self, helper: Path, tmp_path: Path) -> None:
        asked = tmp_path / "asked"
        write(helper, f'echo "$# $1 $(cat)" > {asked}\n{GIVES}')
        document = {"credHelpers": {"ghcr.io": "test"}, "auths": {"ghcr.io": ONE}}
        assert found(tmp_path, document, "ghcr.io") == ("helped", "s3", "")
        assert asked.read_text() == "1 get ghcr.io\n"

    def test_docker_hub_has_an_old_name(self, helper: Path, tmp_path: Path) -> None:
        asked = tmp_path / "asked"
        write(helper, f"cat > {asked}\n{GIVES}")
        assert found(tmp_path, {"credsStore": "test"}, "docker.io") == ("helped", "s3", "")
        assert asked.read_text() == "https://index.docker.io/v1/"

    def test_another_host_is_not_its_business(self, helper: Path, tmp_path: Path) -> None:
        write(helper, GIVES)
        assert found(tmp_path, {"credHelpers": {"ghcr.io": "test"}}, "quay.io") is None

    def test_it_has_none(self, helper: Path, tmp_path: Path) -> None:
        write(helper, "echo 'credentials not found in native keychain'; exit 1")
        document = {"credsStore": "test", "auths": {"ghcr.io": ONE}}
        assert found(tmp_path, document, "ghcr.io") == ("me", "p:w", "")

    def test_an_identity_token(self, helper: Path, tmp_path: Path) -> None:
        write(helper, """echo '{"Username": "<token>", "Secret": "t0"}'""")
        assert found(tmp_path, {"credsStore": "test"}, "ghcr.io") == ("", "", "t0")

    @pytest.mark.parametrize(
        ("script", "message"),
        [
            ("echo no; exit 3", "no login for ghcr.io: no"),
            ("printf 'a\\033[2Jb'; exit 1", r"no login for ghcr.io: a \[2Jb"),
            ("echo nothing", "holds no Username and Secret"),
            ("echo '{}'", "holds no Username and Secret"),
            ("""echo '{"Username": 1, "Secret": "x"}'""", "holds no Username and Secret"),
        ],
    )
    def test_it_fails(self, helper: Path, tmp_path: Path, script: str, message: str) -> None:
        write(helper, script)
        with pytest.raises(HostError, match=message):
            found(tmp_path, {"credsStore": "test"}, "ghcr.io")

    def test_it_hangs(self, helper: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write(helper, "sleep 60")
        monkeypatch.setattr(credentials, "HELPER_TIMEOUT", 0.3)
        begun = time.monotonic()
        with pytest.raises(HostError, match=r"no login for ghcr\.io within 0\.3 s"):
            found(tmp_path, {"credsStore": "test"}, "ghcr.io")
        assert time.monotonic() - begun < 30

    @pytest.mark.usefixtures("helper")
    def test_it_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(ToolMissing, match=r"docker-credential-test is not installed; .* names it"):
            found(tmp_path, {"credsStore": "test"}, "ghcr.io")
