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
from sandwright.session.prepare import resolved_with
from sandwright.session.request import RunRequest

KEYRING = ("secret-tool", "lookup", "service")
"""Asks the desktop's keyring (secret-tool(1)); its entries have these names from most libraries."""

_PREFIX = re.compile(r"(?:[A-Za-z]{2,8}[0-9]{0,2}[-_]){1,3}")
_MAX_PREFIX, _MIN_RANDOM = 14, 16
_CLASSES = (string.digits, string.ascii_lowercase, string.ascii_uppercase)


def source_secret(credential: HttpCredential, environ: Mapping[str, str], sandbox: Reach) -> str:
    """The secret of an entry; it is in no message.

    Raise UsageError if there is none or the sandbox can access its source, HostError if reading it fails.
    """
    match credential.kind:
        case "env":
            return read_secret(credential.reference, environ, sandbox)
        case "file":
            text = file_secret(credential.reference, credential.origin, sandbox)
        case "keyring":
            service, _, account = credential.reference.partition("/")
            words = (*KEYRING, service, "username", account)
            text = command_secret(words, credential.origin, environ, sandbox)
        case _:
            text = command_secret(credential.reference, "credentials.http: cmd", environ, sandbox)
    return checked_secret(text, credential.origin)


def placeholder(secret: str) -> str:
    """Random text in a secret's shape: its length, the kinds of its characters, a prefix such as `sk-ant-`.

    Of a JSON Web Token (RFC 7519), only the signature is replaced, because clients read its claims.
    """
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

    def begin(self) -> dict[str, str]:
        """Pass all secrets to the proxy; give the variables of the sandbox, with their placeholders.

        Raise SandwrightError if one can't be read: nothing is started then.
        """
        variables: dict[str, str] = {}
        placeholders: dict[str, str] = {}
        for each in self._credentials:
            secret = source_secret(each, self._environ, self._sandbox)
            self._headers[secret_key(each)] = _header_value(each, secret)
            if each.variable:
                value = variables.setdefault(each.variable, placeholder(secret))
                placeholders[secret_key(each)] = _header_value(each, value)
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

    def _refresh_secrets(self, over: threading.Event) -> None:
        now = time.monotonic()
        due = {index: now + each.lifetime for index, each in enumerate(self._credentials)}
        while due and not over.wait(max(0.0, min(due.values()) - time.monotonic())):
            index = min(due, key=lambda each: due[each])
            credential = self._credentials[index]
            due[index] = time.monotonic() + credential.lifetime
            try:
                self._read_again(credential)
            except (SandwrightError, OSError) as fault:
                self._notify(
                    f"credentials.http: the secret for {credential.host} was not read again: {fault}"
                )

    def _read_again(self, credential: HttpCredential) -> None:
        secret = source_secret(credential, self._environ, self._sandbox)
        headers = {**self._headers, secret_key(credential): _header_value(credential, secret)}
        if headers != self._headers:
            set_values(self._folder, MAPS[0], headers)
            self._headers = headers


def _header_value(credential: HttpCredential, secret: str) -> str:
    return f"{credential.scheme} {secret}" if credential.scheme else secret
