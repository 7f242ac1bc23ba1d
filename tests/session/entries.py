"""The entries of the render cache: read, and written with a valid HMAC by the user's own key."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from sandwright.session.entry import CacheEntry, entry_bytes, parse_entry, question_words
from session.conftest import Project


def entries(project: Project) -> list[Path]:
    """All existing entries."""
    return sorted((project.home / ".cache/sandwright/sessions").glob("*.entry"))


def entry(project: Project, *, run: bool = False) -> tuple[Path, CacheEntry]:
    """An existing entry, or one that a run creates, with its content."""
    assert not run or project.run("true").returncode == 0
    path = entries(project)[0]
    mac, _, body = path.read_bytes().partition(b"\n")
    assert mac == _mac(project, path, body)
    return path, parse_entry(body)


def write(project: Project, path: Path, data: CacheEntry) -> None:
    """Write an entry as the owner of the key can; no program inside has the key."""
    body = entry_bytes(data)
    path.write_bytes(_mac(project, path, body) + b"\n" + body)


def sandbox(data: CacheEntry) -> dict[str, Any]:
    """The description of the sandbox in an entry, for Python."""
    found: dict[str, Any] = json.loads(data.sandbox or "")
    return found


def starting(data: CacheEntry, *words: str) -> CacheEntry:
    """An entry that starts another program."""
    return replace(data, launcher=words)


def touching(project: Project, data: CacheEntry, made: Path) -> CacheEntry:
    """An entry that makes a file. A shell would refuse the launcher's `--run`, so it is a script."""
    script = project.home.parent / "pwned.sh"
    script.write_text(f"#!/bin/sh\ntouch '{made}'\n")
    script.chmod(0o755)
    return starting(data, str(script))


def with_artifacts(data: CacheEntry, directory: str, digests: dict[str, str]) -> CacheEntry:
    """An entry with other artifacts."""
    record = json.loads(f"{{{data.record}") | {"directory": directory, "artifacts": digests}
    return replace(data, record=json.dumps(record)[1:])


def with_answer(data: CacheEntry, kind: str, answer: tuple[str, ...]) -> CacheEntry:
    """The same entry with another answer to the first question of a kind."""
    recording = data.recording()
    at = next(index for index, (question, _) in enumerate(recording) if question[0] == kind)
    recording[at] = recording[at][0], answer
    return replace(data, questions=question_words(recording))


def _mac(project: Project, path: Path, body: bytes) -> bytes:
    key = (project.home / ".local/state/sandwright/keys/render-cache").read_bytes()
    return hmac.new(key, os.fsencode(path.name) + b"\0" + body, hashlib.sha256).hexdigest().encode()
