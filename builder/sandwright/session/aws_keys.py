"""Reads keys for signatures of requests to AWS: `credentials.http` with the scheme AWS4-HMAC-SHA256.

A key has an ID, a secret, and a session token if it is temporary. Its text is these words, with blanks.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass

from sandwright.bridge.secret import Reach, checked_secret, read_secret
from sandwright.documents import strictjson
from sandwright.errors import UsageError
from sandwright.policy.http_credentials import SIGNATURE_VARIABLES

_ID = re.compile(r"[A-Za-z0-9_]{16,128}")


@dataclass(frozen=True)
class SecretValue:
    """The text of a secret. `expires` is the POSIX time of its end, None for one that lasts."""

    text: str
    expires: float | None = None


def key_of_variables(environ: Mapping[str, str], sandbox: Reach) -> SecretValue:
    """The key in the variables of the AWS command line. Raise UsageError if there is none."""
    *needed, token = SIGNATURE_VARIABLES
    temporary = any(f"{token}{end}" in environ for end in ("", "_FILE", "_COMMAND"))
    words = [read_secret(name, environ, sandbox) for name in (*needed, *([token] if temporary else []))]
    return SecretValue(" ".join(_checked_words(words, needed[0])))


def key_of_process(text: str, where: str) -> SecretValue:
    """The key in the JSON of a `credential_process` (AWS SDKs and Tools Reference Guide).

    `aws configure export-credentials` prints it. Raise UsageError for another text; `where` names its source.
    """
    try:
        value = strictjson.loads_lenient(text)
        words = [value["AccessKeyId"], value["SecretAccessKey"]]
        token, expires = value.get("SessionToken"), value.get("Expiration")
        words += [token] if token else []
        end = datetime.datetime.fromisoformat(expires).timestamp() if expires else None
        checked = _checked_words([checked_secret(each, where) for each in words], where)
        return SecretValue(" ".join(checked), end)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise UsageError(
            f"{where}: no key of AWS: it must be JSON with AccessKeyId and SecretAccessKey, "
            "as `aws configure export-credentials` prints it"
        ) from None


def _checked_words(words: list[str], where: str) -> list[str]:
    if not _ID.fullmatch(words[0]):
        raise UsageError(f"{where}: the ID of a key of AWS has 16 to 128 letters and digits")
    return words
