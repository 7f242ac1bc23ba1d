"""The entries of the render cache: read, and written as the user's own key authenticates them."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from pathlib import Path
from typing import Any

from session.conftest import Project


def entry(project: Project, *, run: bool = False) -> tuple[Path, dict[str, Any]]:
    """One that is there, or that a run makes, and what it says."""
    assert not run or project.run("true").returncode == 0
    kept = (project.home / ".cache/sandwright/sessions").glob("*.json")
    path = next(each for each in kept if b'"prepared"' in each.read_bytes())
    mac, _, body = path.read_bytes().partition(b"\n")
    assert mac == _mac(project, path, body)
    return path, json.loads(body)


def write(project: Project, path: Path, data: dict[str, Any]) -> None:
    """As whoever has the key can, which nobody inside has."""
    body = json.dumps(data).encode()
    path.write_bytes(_mac(project, path, body) + b"\n" + body)


def _mac(project: Project, path: Path, body: bytes) -> bytes:
    key = (project.home / ".local/state/sandwright/keys/render-cache").read_bytes()
    return hmac.new(key, os.fsencode(path.name) + b"\0" + body, hashlib.sha256).hexdigest().encode()
