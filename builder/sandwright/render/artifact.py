"""The result of rendering: files by name, as bytes, not yet written anywhere."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Artifact:
    """One rendered file.

    `name` is its path below the directory of its method, with `/` between parts: `launch`, `seccomp.bpf`.
    `purpose` is one line for the user. An `executable` one gets mode 0755, others 0644.
    """

    name: str
    content: bytes
    purpose: str
    executable: bool = False

    @property
    def mode(self) -> int:
        """The permission bits of its file."""
        return 0o755 if self.executable else 0o644

    @property
    def digest(self) -> str:
        """The SHA-256 of its content, as `sha256:…`."""
        return f"sha256:{hashlib.sha256(self.content).hexdigest()}"


def json_artifact(name: str, document: Any, purpose: str) -> Artifact:  # noqa: ANN401 - JSON
    """A JSON file with sorted keys: the same document gives the same bytes."""
    return Artifact(name, json_text(document).encode("utf-8", "surrogateescape"), purpose)


def json_text(document: Any) -> str:  # noqa: ANN401 - JSON
    """A document as `json.dumps` writes it with an indent of 2, sorted keys and no escapes for letters.

    That has no C code for indents, which costs several times as much (CPython 3.11, json/encoder.py).
    """
    return f"{_indented_json(document, chr(10))}\n"


def _indented_json(value: Any, newline: str) -> str:  # noqa: ANN401 - JSON
    """A value behind whose lines `newline` puts the indent of where it stands."""
    if isinstance(value, str):
        return _string(value)
    inner = newline + "  "
    if isinstance(value, dict) and value:
        parts = [f"{_string(key)}: {_indented_json(item, inner)}" for key, item in sorted(value.items())]
        return f"{{{inner}{f',{inner}'.join(parts)}{newline}}}"
    if isinstance(value, list | tuple) and value:
        parts = [_string(item) if type(item) is str else _indented_json(item, inner) for item in value]
        return f"[{inner}{f',{inner}'.join(parts)}{newline}]"
    return repr(value) if type(value) is int else json.dumps(value)


_string = json.encoder.encode_basestring
"""Text in quotes, in C where CPython has it."""
