"""Finds the login of a registry: the credentials of `docker login`, `podman login` and credential helpers.

Files: config.json of the docker command (`auths`, `credsStore`, `credHelpers`) and containers-auth.json(5). A
helper is the program `docker-credential-NAME` (protocol: docker/docker-credential-helpers). Credentials are
read only after a registry asks for them. Secrets never appear in messages or on command lines.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from sandwright import process
from sandwright.documents import strictjson
from sandwright.errors import CommandFailed, HostError
from sandwright.reading import open_named
from sandwright.registry.reference import HUB

HELPER_TIMEOUT = 30.0
LARGEST_FILE = 1 << 20
_HUB_KEY = "https://index.docker.io/v1/"
_HELPER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
_NOT_FOUND = "credentials not found"
_TOKEN_USER = "<token>"  # noqa: S105 - how helpers say that the secret is an identity token


@dataclass(frozen=True)
class Credential:
    """A name and a secret, or an identity token (an OAuth 2 refresh token), from `source`."""

    source: str
    user: str = ""
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)


class CredentialSource(Protocol):
    """Finds credentials."""

    def find(self, host: str, repository: str) -> Credential | None:
        """The credential for a repository, or None."""
        ...


class _Anonymous:
    def find(self, host: str, repository: str) -> Credential | None:  # noqa: ARG002
        """Find none."""
        return None


ANONYMOUS: CredentialSource = _Anonymous()


@dataclass(frozen=True)
class AuthFiles:
    """Auth files, in order of precedence. Missing files are skipped."""

    files: Sequence[Path]

    def find(self, host: str, repository: str) -> Credential | None:
        """See `CredentialSource`.

        Raise HostError for an unreadable or invalid file or a helper that fails; ToolMissing for a missing
        helper.
        """
        for path in self.files:
            document = _read_login_file(path)
            found = None if document is None else _find_credential(document, host, repository, path)
            if found is not None:
                return found
        return None


def auth_files(environment: Mapping[str, str], *, explicit: Path | None = None) -> AuthFiles:
    """The auth files of this user: Podman's, then Docker's; `explicit` alone if given."""
    if explicit is not None:
        return AuthFiles((explicit,))
    if environment.get("REGISTRY_AUTH_FILE"):
        return AuthFiles((Path(environment["REGISTRY_AUTH_FILE"]),))
    return AuthFiles(tuple(_usual(environment)))


def _usual(environment: Mapping[str, str]) -> Iterator[Path]:
    home = Path(environment.get("HOME") or "~").expanduser()
    if environment.get("XDG_RUNTIME_DIR"):
        yield Path(environment["XDG_RUNTIME_DIR"], "containers", "auth.json")
    configuration = environment.get("XDG_CONFIG_HOME") or str(home / ".config")
    yield Path(configuration, "containers", "auth.json")
    yield Path(environment.get("DOCKER_CONFIG") or home / ".docker", "config.json")


def _read_login_file(path: Path) -> Mapping[str, Any] | None:
    try:
        with open_named(path) as file:
            raw = file.read(LARGEST_FILE + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise HostError(f"cannot read the logins in {path}: {error.strerror}") from error
    try:
        if len(raw) > LARGEST_FILE:
            raise ValueError("too long")
        document = strictjson.loads_lenient(raw)
    except (ValueError, RecursionError):
        raise HostError(f"{path}: is no file of logins: not JSON, or longer than 1 MiB") from None
    if not isinstance(document, dict):
        raise HostError(f"{path}: is no file of logins: not a JSON object")
    return document


def _find_credential(
    document: Mapping[str, Any], host: str, repository: str, path: Path
) -> Credential | None:
    helpers = _section(document, "credHelpers", path)
    for key in _host_keys(host):
        if key in helpers:
            return _ask_helper(helpers[key], host, path)
    store = document.get("credsStore")
    if store:
        found = _ask_helper(store, host, path)
        if found is not None:
            return found
    auths = {_normal(key): value for key, value in _section(document, "auths", path).items()}
    for name in _login_keys(host, repository):
        if name in auths:
            found = _decode(auths[name], name, path)
            if found is not None:
                return found
    return None


def _section(document: Mapping[str, Any], name: str, path: Path) -> Mapping[str, Any]:
    section = document.get(name) or {}
    if not isinstance(section, dict):
        raise HostError(f"{path}: is no file of logins: {name} is not an object")
    return section


def _host_keys(host: str) -> tuple[str, ...]:
    return (HUB, "index.docker.io", _HUB_KEY) if host == HUB else (host,)


def _normal(key: str) -> str:
    """A key without its scheme and API version: `https://index.docker.io/v1/` is `docker.io`."""
    name = re.sub(r"^https?://", "", key).rstrip("/")
    name = re.sub(r"/v[12]$", "", name)
    host, slash, rest = name.partition("/")
    host = HUB if host.lower() in ("index.docker.io", "registry-1.docker.io") else host.lower()
    return f"{host}{slash}{rest}"


def _login_keys(host: str, repository: str) -> Iterator[str]:
    """`host/a/b`, `host/a`, `host`: a login for part of a registry takes precedence."""
    parts = [host, *repository.split("/")]
    for count in range(len(parts), 0, -1):
        yield "/".join(parts[:count])


def _decode(entry: object, name: str, path: Path) -> Credential | None:
    """The credential of an entry of `auths`; None when a helper has it."""
    if not isinstance(entry, dict):
        raise HostError(f"{path}: the login for {name} is not an object")
    source = f"{path} ({name})"
    token = entry.get("identitytoken")
    user, password = entry.get("username") or "", entry.get("password") or ""
    packed = entry.get("auth")
    if packed:
        try:
            user, colon, password = base64.b64decode(packed, validate=True).decode().partition(":")
        except (binascii.Error, ValueError, TypeError):
            colon = ""
        if not colon:
            raise HostError(
                f"{path}: cannot read the login for {name}: 'auth' is not base64 of user:password"
            )
        password = password.rstrip("\0")
    if not all(isinstance(each, str) for each in (user, password, token or "")):
        raise HostError(f"{path}: cannot read the login for {name}: its values must be strings")
    if token:
        return Credential(source, user, identity_token=token)
    return Credential(source, user, password) if user or password else None


def _ask_helper(helper: object, host: str, path: Path) -> Credential | None:
    if not isinstance(helper, str) or not _HELPER.fullmatch(helper):
        raise HostError(f"{path}: {helper!r:.60} cannot be the name of a credential helper")
    program = f"docker-credential-{helper}"
    process.which(program, hint=f"{path} names it as the helper that has the login for {host}")
    key = _HUB_KEY if host == HUB else host
    try:
        answer = process.run(program, "get", stdin=key.encode(), timeout=HELPER_TIMEOUT, check=False)
    except CommandFailed as failed:
        raise HostError(f"{program}: no login for {host} within {HELPER_TIMEOUT:g} s") from failed
    if not answer:
        output = f"{answer.text} {answer.stderr}"
        if _NOT_FOUND in output.lower():
            return None
        raise HostError(f"{program}: no login for {host}: {_printable(output)}")
    try:
        document = strictjson.loads_lenient(answer.stdout)
        user, secret = document["Username"], document["Secret"]
    except (ValueError, KeyError, TypeError, RecursionError):
        user = secret = None
    if not isinstance(user, str) or not isinstance(secret, str):
        raise HostError(f"{program}: its answer for {host} holds no Username and Secret")
    if user == _TOKEN_USER:
        return Credential(program, identity_token=secret)
    return Credential(program, user, secret) if secret else None


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text).strip()[:300]
