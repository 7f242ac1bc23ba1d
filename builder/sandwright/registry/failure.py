"""Errors of registries: the request that failed, and the registry's answer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from sandwright.documents import strictjson
from sandwright.errors import FetchError, IntegrityError

MOST_ERRORS = 3
LONGEST_TEXT = 240

_HINTS = {
    401: "it requires a login",
    403: "it does not let us",
    405: "it does not do this at all",
    429: "it was asked too often",
}


class RegistryError(FetchError):
    """A registry refused a request, or sent an unexpected response.

    `status` is that of HTTP, 0 when none came; `codes` are the registry's own (`MANIFEST_UNKNOWN`).
    """

    def __init__(self, message: str, *, status: int = 0, codes: tuple[str, ...] = ()) -> None:
        """`message` names registry, repository and request."""
        self.status = status
        self.codes = codes
        super().__init__(message)


class NotFound(RegistryError):
    """The registry has no such repository, manifest or blob: 404."""


class Denied(RegistryError):
    """The registry denies access: 401 or 403."""


class Unavailable(RegistryError):
    """The registry is unusable now: overloaded, failing, disconnecting, or with an invalid certificate."""


class Unreachable(Unavailable):
    """No registry answered: no such name, no route, connection refused, timeout, a proxy that refuses."""


class Cancelled(Exception):
    """Another task failed, or the caller stopped the work. Never leaves `registry` and `image`."""


class WrongContent(IntegrityError):
    """A registry sent different bytes than requested: the digest or the size is wrong."""


@dataclass(frozen=True)
class RegistryOperation:
    """The subject of a request, for messages. `what` is a clause: `manifest latest`, `blob sha256:…`."""

    host: str
    repository: str
    what: str

    def __str__(self) -> str:
        repository = f", repository {self.repository}" if self.repository else ""
        return f"registry {self.host}{repository}: {self.what}"


def refusal(
    operation: RegistryOperation, status: int, content_type: str, body: bytes, *, note: str = ""
) -> RegistryError:
    """The error for an unexpected response. `body` is the beginning of its body."""
    codes, registry_message = _codes_and_message(content_type, body)
    try:
        name = HTTPStatus(status).phrase
    except ValueError:
        name = "a status that HTTP does not have"
    parts = [f"{status} {name}", note or _HINTS.get(status, ""), registry_message]
    message = f"{operation}: {': '.join(filter(None, parts))}"
    kind = {401: Denied, 403: Denied, 404: NotFound, 429: Unavailable}.get(status, RegistryError)
    kind = Unavailable if status >= 500 else kind
    return kind(message, status=status, codes=codes)


def printable(text: str, longest: int = LONGEST_TEXT) -> str:
    """Text of a stranger for a terminal: one line, no control characters, not endless."""
    clean = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return clean if len(clean) <= longest else f"{clean[:longest]}…"


def other_length(headers: Mapping[str, str], size: int) -> str:
    """The length in an answer's headers, for messages, if it is not `size`; else empty.

    It is a text: a server may promise more digits than Python takes for a number.
    """
    length = headers.get("Content-Length", "")
    return printable(length, 20) if length.isdecimal() and (length.lstrip("0") or "0") != str(size) else ""


def _codes_and_message(content_type: str, body: bytes) -> tuple[tuple[str, ...], str]:
    """The registry's own codes and words, of which there may be none."""
    text = body.decode("utf-8", "replace")
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "text/html" or re.match(r"\s*<(!doctype|html)", text, re.IGNORECASE):
        title = re.search(r"<title[^>]*>([^<]*)", text, re.IGNORECASE)
        return (), f"with a web page{f' titled {printable(title[1])!r}' if title else ''}"
    errors = list(_errors(text))[:MOST_ERRORS]
    if errors:
        return tuple(code for code, _ in errors if code), "; ".join(
            ": ".join(filter(None, each)) for each in errors
        )
    return (), printable(text) if kind in ("text/plain", "application/json") else ""


def _errors(text: str) -> Iterator[tuple[str, str]]:
    """Code and message of each error of distribution-spec, "Error Codes"."""
    try:
        document = strictjson.loads_lenient(text)
    except (ValueError, RecursionError):
        return
    listed = document.get("errors") if isinstance(document, dict) else None
    for each in listed if isinstance(listed, list) else ():
        if isinstance(each, dict):
            code, message = each.get("code"), each.get("message")
            yield (
                printable(code, 60) if isinstance(code, str) else "",
                printable(message) if isinstance(message, str) else "",
            )
