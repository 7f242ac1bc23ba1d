"""What rendering gives: files by name, as bytes, not yet written anywhere."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Artifact:
    """One rendered file.

    `name` is its path below the directory of its method, with `/` between parts: `launch`, `seccomp.bpf`.
    `purpose` says in one line what it is for. An `executable` one gets mode 0755, others 0644.
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
    text = json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    return Artifact(name, text.encode("utf-8", "surrogateescape"), purpose)
