"""Parses the `WWW-Authenticate` header of a 401 (RFC 9110, 11.6.1). Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

LONGEST = 16 << 10
"""The most characters of a header that are read."""

_WORD = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_ITEM = re.compile(
    rf"""\s*(?:
        (?P<key>{_WORD})\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^\s",]+)) |
        (?P<scheme>{_WORD})(?=\s|,|$)(?:\s+(?P<token68>[A-Za-z0-9._~+/-]+=*)(?=\s*(?:,|$)))?
    )\s*(?:,|(?=\s)|$)""",
    re.VERBOSE | re.ASCII,
)


@dataclass(frozen=True)
class AuthChallenge:
    """One authentication challenge. `scheme` and the names of `parameters` are in lower case."""

    scheme: str
    parameters: Mapping[str, str]


def parse_challenges(header: str) -> list[AuthChallenge]:
    """The challenges of a header, or of several joined by commas, up to the first malformed one."""
    found: list[tuple[str, dict[str, str]]] = []
    at, text = 0, header[:LONGEST]
    while at < len(text):
        match = _ITEM.match(text, at)
        if match is None or match.end() == at:
            break
        at = match.end()
        if match["scheme"]:
            found.append((match["scheme"].lower(), {}))
        elif not found:
            break
        else:
            value = match["plain"] if match["quoted"] is None else re.sub(r"\\(.)", r"\1", match["quoted"])
            found[-1][1].setdefault(match["key"].lower(), value)
    return [AuthChallenge(scheme, parameters) for scheme, parameters in found]
