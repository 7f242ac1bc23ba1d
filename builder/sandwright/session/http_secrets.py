"""Secrets of `credentials.http` for one run: read on the host, kept fresh, and their placeholders.

They are in this process and in the inspecting proxy's memory (`inspection.set_values`), in no file and no
argument. The sandbox has a placeholder of the same shape, since clients look at a key before they send it.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import secrets
import string
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from sandwright.bridge.programs import reach
from sandwright.bridge.secret import Reach, checked_secret, command_secret, file_secret, read_secret
from sandwright.documents import strictjson
from sandwright.egress.inspection import FOLDER, MAPS, set_values
from sandwright.errors import SandwrightError
from sandwright.policy.http_credentials import HttpCredential, secret_key
from sandwright.session.aws_keys import SecretValue, key_of_process, key_of_variables
from sandwright.session.prepare import resolved_with
from sandwright.session.request import RunRequest

KEYRING = ("secret-tool", "lookup", "service")
"""Asks the desktop's keyring (secret-tool(1)); its entries have these names from most libraries."""

_BEFORE_END, _SHORTEST = 300.0, 30.0
"""Seconds: how long before a key's end it is read again, and how often at most."""

_PREFIX = re.compile(r"(?:[A-Za-z]{2,8}[0-9]{0,2}[-_]){1,3}")
_MAX_PREFIX, _MIN_RANDOM = 14, 16
_CLASSES = (string.digits, string.ascii_lowercase, string.ascii_uppercase)


def _source_secret(credential: HttpCredential, environ: Mapping[str, str], sandbox: Reach) -> SecretValue:
    """The secret of an entry, or its key of AWS; it is in no message.

    Raise UsageError if there is none or the sandbox can access its source, HostError if reading it fails.
    """
    if credential.kind == "env" and credential.signs:
        return key_of_variables(environ, sandbox)
    if credential.kind == "env":
        return SecretValue(read_secret(credential.reference, environ, sandbox))
    text = _source_text(credential, environ, sandbox)
    if credential.signs:
        return key_of_process(text, credential.origin)
    return SecretValue(checked_secret(text, credential.origin))


def _source_text(credential: HttpCredential, environ: Mapping[str, str], sandbox: Reach) -> str:
    match credential.kind:
        case "file":
            return file_secret(credential.reference, credential.origin, sandbox)
        case "keyring":
            service, _, account = credential.reference.partition("/")
            words = (*KEYRING, service, "username", account)
            return command_secret(words, credential.origin, environ, sandbox)
        case _:
            return command_secret(credential.reference, "credentials.http: cmd", environ, sandbox)


def placeholder(secret: str) -> str:
    """Random text in a secret's shape: its length, the kinds of its characters, a prefix such as `sk-ant-`.

    Of a JSON Web Token (RFC 7519), only the signature is replaced, because clients read its claims. Each word
    of a key of AWS has a placeholder of its own.
    """
    if " " in secret:
        return " ".join(map(placeholder, secret.split(" ")))
    head, dot, signature = secret.rpartition(".")
    if dot and head.count(".") == 1 and _is_json_part(head.partition(".")[0]):
        return f"{head}.{_shuffled(signature)}"
    prefix = _PREFIX.match(secret)
    length = len(prefix[0]) if prefix else 0
    if length > _MAX_PREFIX or len(secret) - length < _MIN_RANDOM:
        length = 0
    return secret[:length] + _shuffled(secret[length:])


def _is_json_part(part: str) -> bool:
    try:
        return isinstance(
            strictjson.loads_lenient(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))), dict
        )
    except ValueError:
        return False


def _shuffled(text: str) -> str:
    kinds = (next((each for each in _CLASSES if character in each), character) for character in text)
    return "".join(map(secrets.choice, kinds))


def session_secrets(
    request: RunRequest, directory: Path, digest: str, notify: Callable[[str], None]
) -> HttpSecrets:
    """The secrets of a session for its proxy in a directory.

    `digest` is the policy's. Raise IntegrityError for another one.
    """
    policy = resolved_with(request, digest=digest)
    return HttpSecrets(policy.credentials.http, directory / FOLDER, os.environ, reach(policy), notify)


class HttpSecrets:
    """The secrets of one run in its proxy; a thread reads them again after their lifetimes."""

    def __init__(
        self,
        credentials: Sequence[HttpCredential],
        folder: Path,
        environ: Mapping[str, str],
        sandbox: Reach,
        notify: Callable[[str], None],
    ) -> None:
        """`folder` is that of the proxy's control socket."""
        self._credentials, self._folder = credentials, folder
        self._environ, self._sandbox, self._notify = dict(environ), sandbox, notify
        self._headers: dict[str, str] = {}
        self._expires: dict[str, float] = {}

    def begin(self) -> dict[str, str]:
        """Pass all secrets to the proxy; give the variables of the sandbox, with their placeholders.

        Raise SandwrightError if one can't be read: nothing is started then.
        """
        variables: dict[str, str] = {}
        placeholders: dict[str, str] = {}
        for each in self._credentials:
            secret = self._read_secret(each)
            self._headers[secret_key(each)] = _header_value(each, secret)
            words = placeholder(secret).split(" ")
            words = [variables.setdefault(*pair) for pair in zip(each.variables, words, strict=False)]
            if words:
                placeholders[secret_key(each)] = _header_value(each, " ".join(words))
        for file, values in zip(MAPS, (self._headers, placeholders), strict=True):
            set_values(self._folder, file, values)
        return variables

    @contextlib.contextmanager
    def refreshed(self) -> Iterator[None]:
        """Read the secrets again after their lifetimes, for the length of a `with`."""
        over = threading.Event()
        thread = threading.Thread(target=self._refresh_secrets, args=(over,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()

    def _read_secret(self, credential: HttpCredential) -> str:
        key = _source_secret(credential, self._environ, self._sandbox)
        self._expires[secret_key(credential)] = float("inf") if key.expires is None else key.expires
        return key.text

    def _due(self, credential: HttpCredential) -> float:
        """The monotonic time at which a secret is read again: after its lifetime, or before its end."""
        remaining = self._expires[secret_key(credential)] - time.time() - _BEFORE_END
        return time.monotonic() + min(float(credential.lifetime), max(remaining, _SHORTEST))

    def _refresh_secrets(self, over: threading.Event) -> None:
        due = {index: self._due(each) for index, each in enumerate(self._credentials)}
        while due and not over.wait(max(0.0, min(due.values()) - time.monotonic())):
            index = min(due, key=lambda each: due[each])
            credential = self._credentials[index]
            try:
                self._read_again(credential)
            except (SandwrightError, OSError) as fault:
                self._notify(
                    f"credentials.http: the secret for {credential.host} was not read again: {fault}"
                )
            due[index] = self._due(credential)

    def _read_again(self, credential: HttpCredential) -> None:
        secret = self._read_secret(credential)
        headers = {**self._headers, secret_key(credential): _header_value(credential, secret)}
        if headers != self._headers:
            set_values(self._folder, MAPS[0], headers)
            self._headers = headers


def _header_value(credential: HttpCredential, secret: str) -> str:
    return f"{credential.scheme} {secret}" if credential.scheme else secret
