"""Entries of `credentials.http`: secrets that the proxy puts into requests, and their placeholders.

The proxy puts a secret into a request that the rules of `network.http` allow, where its header is missing or
holds the placeholder. Any other value is refused, as programs inside could work for another account with it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sandwright.policy import values
from sandwright.policy.http_rules import PORT
from sandwright.policy.phrasing import quoted
from sandwright.policy.provenance import PolicySource

KINDS = ("env", "file", "keyring", "cmd")
"""The kinds of sources for a secret."""

FILE_LIFETIME, LIFETIME = 60, 3600
"""Seconds after which a secret is read again: from a file, and from elsewhere."""

SIGNATURE = "AWS4-HMAC-SHA256"
"""The scheme of requests that are signed: AWS Signature Version 4. The secret is no part of them."""

SIGNATURE_VARIABLES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
"""The variables that the AWS command line and SDKs read a key from; the last one for a temporary key."""

_HEADER = re.compile(r"[a-z][a-z0-9-]{0,63}")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,31}")
_FRAMING = frozenset((
    "host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade", "expect",
    "keep-alive", "proxy-authorization", "proxy-connection", "cookie", "content-type", "accept-encoding",
))  # fmt: skip
"""Headers that frame a message, or that programs set themselves."""


@dataclass(frozen=True)
class HttpCredential:
    """A secret for one header of one host. `kind` is one of `KINDS`, `reference` the text after its colon.

    `scheme` is the word before the secret, empty for none; `variable` the one that has the placeholder
    inside, empty for none; `lifetime` seconds.
    """

    host: str
    port: int
    header: str
    scheme: str
    kind: str
    reference: str
    variable: str
    lifetime: int
    source: PolicySource

    @property
    def signs(self) -> bool:
        """Whether the proxy signs requests with the secret instead of sending it."""
        return self.scheme == SIGNATURE

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that have placeholders inside."""
        if self.signs:
            return SIGNATURE_VARIABLES
        return (self.variable,) if self.variable else ()

    @property
    def use(self) -> str:
        """A description of the secret and its destination."""
        host = self.host if self.port == PORT else f"{self.host}:{self.port}"
        how = "in the signatures of requests" if self.signs else f"as {self.header}"
        return f"{self.origin}, to {host} {how}"

    def same_use(self, other: HttpCredential) -> bool:
        """Whether another entry sends the same secret in the same header to the same host."""
        return self.use == other.use and self.scheme == other.scheme

    @property
    def origin(self) -> str:
        """The source of the secret as the policy writes it."""
        return f"{self.kind}:{self.reference}"


def secret_key(credential: HttpCredential) -> str:
    """The key of a secret in the proxy's maps."""
    return f"{credential.host}:{credential.port}:{credential.header}"


def header_name(text: str) -> str:
    """The name of a header that can hold a secret. Raise ValueError for others."""
    name = text.lower()
    if not _HEADER.fullmatch(name):
        raise ValueError(f"{quoted(text)} is no name of a header, like x-api-key")
    if name in _FRAMING:
        raise ValueError(f"{quoted(text)} cannot hold a secret; use authorization or a header of the service")
    return name


def header_scheme(text: str) -> str:
    """A word before a secret. Raise ValueError for others, and for Basic, which is no word and a secret."""
    if not _SCHEME.fullmatch(text):
        raise ValueError(f"{quoted(text)} is no scheme, like Bearer")
    if text.lower() == "basic":
        raise ValueError("Basic is not possible: clients encode the placeholder together with a name")
    if text.lower().startswith("aws4-") and text != SIGNATURE:
        raise ValueError(f"{quoted(text)}: of the signatures of AWS, only {SIGNATURE} is possible")
    return text


def secret_source(text: str) -> str:
    """The source of a secret, `KIND:PLACE`. Raise ValueError for others."""
    kind, colon, reference = text.partition(":")
    if (
        kind not in KINDS
        or not colon
        or not reference.strip()
        or any(c < " " or c == "\x7f" for c in reference)
    ):
        raise ValueError(f"{quoted(text)} must be env:NAME, file:PATH, keyring:SERVICE/ACCOUNT or cmd:WORDS")
    if kind == "env":
        values.variable(reference)
    if kind == "file" and not reference.startswith(("/", "~/")):
        raise ValueError(f"{quoted(text)}: write the path in full, or from ~/")
    if kind == "keyring" and not all(reference.partition("/")[::2]):
        raise ValueError(f"{quoted(text)} must be keyring:SERVICE/ACCOUNT")
    return text


def default_lifetime(kind: str) -> int:
    """The default number of seconds after which a secret is read again."""
    return FILE_LIFETIME if kind == "file" else LIFETIME
