"""Logs in to a registry (authentication): Basic, or a token of its token server (Bearer).

Protocol: "Docker Registry v2 authentication" of the distribution project, token and OAuth 2. Only the
registry itself can name its token server (the realm), not a server that it redirects to (CVE-2020-15157). A
login is sent to the realm only when it is the registry's host or a known token server.
"""

from __future__ import annotations

import base64
import re
import threading
import time
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sandwright.documents import strictjson
from sandwright.registry.challenge import AuthChallenge, parse_challenges
from sandwright.registry.credentials import Credential
from sandwright.registry.failure import Denied, RegistryError, RegistryOperation, printable, refusal
from sandwright.registry.reference import is_loopback
from sandwright.registry.scope import united
from sandwright.registry.settings import TOKEN_SERVERS_VARIABLE, RegistrySettings
from sandwright.registry.transport import Body, Response

LARGEST_ANSWER = 1 << 20
LONGEST_TOKEN = 64 << 10
CLIENT = "sandwright"
ELSEWHERE = "which is on this machine, where it has nothing to say"
_DEFAULT_LIFE = 60.0
"""The default lifetime of a token in seconds: the protocol's minimum."""

_MARGIN = 10.0
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]+", re.ASCII)

Send = Callable[[str, str, Mapping[str, str], Body | bytes | None, RegistryOperation], Response]
"""Sends a request to a token server, with retries and without following redirects."""


@dataclass(frozen=True)
class _Token:
    text: str
    until: float


class Authorizer:
    """The authentication to one registry, for all threads of a client."""

    def __init__(self, host: str, settings: RegistrySettings, send: Send) -> None:
        self._host = host
        self._settings = settings
        self._send = send
        self._challenge: AuthChallenge | None = None
        self._secure = True
        self._tokens: dict[tuple[str, ...], _Token] = {}
        self._credentials: dict[str, Credential | None] = {}
        self._lock = threading.RLock()

    def challenged(self, headers: Mapping[str, str], url: str) -> tuple[str, ...] | None:
        """Read the challenge of the registry's 401. Return its scopes, or None when it is unsupported."""
        found = parse_challenges(headers.get("WWW-Authenticate", ""))
        usable = {each.scheme: each for each in reversed(found)}
        with self._lock:
            self._secure = url.startswith("https:")
            self._challenge = usable.get("bearer") or usable.get("basic")
            if self._challenge is None:
                return None
            return united(self._challenge.parameters.get("scope", "").split(" "))

    def header(self, operation: RegistryOperation, scopes: Sequence[str]) -> str | None:
        """The `Authorization` header for a request that needs `scopes`; None when it needs none.

        Raise RegistryError when the token server refuses, HostError for unreadable logins.
        """
        with self._lock:
            match self._challenge:
                case AuthChallenge(scheme="basic"):
                    credential = self._credential(operation.repository)
                    return None if credential is None else _basic(credential)
                case AuthChallenge(scheme="bearer") as challenge:
                    return f"Bearer {self._token(challenge, operation, scopes).text}"
                case _:
                    return None

    def forget(self, scopes: Sequence[str]) -> None:
        """Drop the token for these scopes, because the registry refused it."""
        with self._lock:
            self._tokens.pop(united(scopes), None)

    def explain(self, operation: RegistryOperation) -> str:
        """The reason why a 401 is final."""
        with self._lock:
            if self._challenge is None:
                return "it does not say how to log in"
            credential = self._credential(operation.repository)
        if credential is None:
            hint = "'docker login' or 'podman login' make one"
            return f"it wants a login, and there is none for {self._host}; {hint}"
        who = printable(credential.user, 60) or "a token"
        return f"the login of {who} from {credential.source} is not enough"

    def _credential(self, repository: str) -> Credential | None:
        if repository not in self._credentials:
            self._credentials[repository] = self._settings.credentials.find(self._host, repository)
        return self._credentials[repository]

    def _token(self, challenge: AuthChallenge, operation: RegistryOperation, scopes: Sequence[str]) -> _Token:
        key = united(scopes)
        held = self._tokens.get(key)
        if held is None or held.until < time.monotonic():
            held = self._tokens[key] = self._fetch_token(challenge, operation, key)
        return held

    def _fetch_token(
        self, challenge: AuthChallenge, operation: RegistryOperation, scopes: tuple[str, ...]
    ) -> _Token:
        realm = self._realm(challenge, operation)
        where = RegistryOperation(
            operation.host,
            operation.repository,
            f"{operation.what}: token of {urllib.parse.urlsplit(realm).netloc}",
        )
        credential = self._credential(operation.repository)
        fields = [("service", service)] if (service := challenge.parameters.get("service")) else []
        begun = time.monotonic()
        if credential is not None and credential.identity_token:
            answer = self._post_form(realm, [*fields, ("scope", " ".join(scopes))], credential, where)
        else:
            fields += [("scope", scope) for scope in scopes]
            headers = {} if credential is None else {"Authorization": _basic(credential)}
            joined = "&" if urllib.parse.urlsplit(realm).query else "?"
            query = f"{joined}{urllib.parse.urlencode(fields)}" if fields else ""
            answer = self._send("GET", realm + query, headers, None, where)
        with answer:
            return self._read_token(answer, where, begun)

    def _post_form(
        self, realm: str, fields: list[tuple[str, str]], credential: Credential, where: RegistryOperation
    ) -> Response:
        form = [
            ("grant_type", "refresh_token"),
            ("client_id", CLIENT),
            *fields,
            ("refresh_token", credential.identity_token),
        ]
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        return self._send("POST", realm, headers, urllib.parse.urlencode(form).encode(), where)

    def _realm(self, challenge: AuthChallenge, operation: RegistryOperation) -> str:
        """The token server's address, if a credential may be sent there. Raise RegistryError."""
        realm = challenge.parameters.get("realm", "")
        problem = self._realm_fault(realm) or self._stranger(realm, operation)
        if problem:
            raise RegistryError(
                f"{operation}: it names the token server {printable(realm, 120)!r}, {problem}"
            )
        return realm

    def _realm_fault(self, realm: str) -> str:
        try:
            parts = urllib.parse.urlsplit(realm)
            host, _ = parts.hostname or "", parts.port
        except ValueError:
            return "which is not a valid URL"
        if parts.scheme not in ("https", "http") or not host or not realm.isprintable() or " " in realm:
            return "which is not a valid URL"
        if parts.username is not None or parts.fragment:
            return "with more in it than an address should have"
        registry_host = self._host.rpartition(":")[0] or self._host
        if is_loopback(host) and not is_loopback(registry_host):
            return ELSEWHERE
        if parts.scheme == "http" and (self._secure or not self._settings.may_be_plain(parts.netloc)):
            return "to which everybody could listen: it is not https"
        return ""

    def _stranger(self, realm: str, operation: RegistryOperation) -> str:
        """The reason to withhold a login from a realm; empty when it is sent, or without a login."""
        credential = self._credential(operation.repository)
        host = urllib.parse.urlsplit(realm).hostname or ""
        if credential is None or self._settings.knows_token_server(self._host, host):
            return ""
        return (
            f"which is another host: the login from {credential.source} is not sent there; "
            f"if it is this registry's, set {TOKEN_SERVERS_VARIABLE}={host}"
        )

    def _read_token(self, answer: Response, where: RegistryOperation, begun: float) -> _Token:
        body = answer.beginning(LARGEST_ANSWER)
        if answer.status != 200:
            note = ""
            if answer.status in (401, 403):
                note = self.explain(where)
            raise refusal(where, answer.status, answer.content_type, body, note=note)
        if len(body) > LARGEST_ANSWER:
            raise RegistryError(f"{where}: the answer is longer than {LARGEST_ANSWER} bytes")
        try:
            document = strictjson.loads_lenient(body)
            text = document.get("token") or document.get("access_token")
            life = document.get("expires_in")
        except (ValueError, AttributeError, RecursionError):
            raise RegistryError(f"{where}: the answer is not one of a token server") from None
        if not isinstance(text, str) or len(text) > LONGEST_TOKEN or not _TOKEN.fullmatch(text):
            raise Denied(f"{where}: the answer holds no token")
        seconds = float(life) if isinstance(life, int) and 0 < life < 10**6 else _DEFAULT_LIFE
        return _Token(text, begun + max(seconds - _MARGIN, seconds / 2))


def _basic(credential: Credential) -> str:
    packed = base64.b64encode(f"{credential.user}:{credential.password}".encode()).decode()
    return f"Basic {packed}"
