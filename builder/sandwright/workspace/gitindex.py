"""Recognizes a refreshed index (`.git/index`): `git status` changes its bytes, and stages nothing.

An index that differs only in that counts as unchanged. The files of a workspace keep the entries of the
indexes that it had, by the digest of the file.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from sandwright import user_dirs
from sandwright.documents import strictjson
from sandwright.git.entries import entries_digest
from sandwright.git.index import MOST
from sandwright.workspace.below import OPEN_FILE, closing, open_below
from sandwright.workspace.store import Workspace

PATH = b".git/index"
_MOST = 50
"""Indexes that are remembered."""


def remember(workspace: Workspace, root: int) -> None:
    """Keep the entries of the index below the open project or copy. Raise HostError."""
    digest, entries = _index_digests(root)
    indexes = _staged_entries(workspace)
    if entries and digest not in indexes:
        latest = dict([*indexes.items(), (digest, entries)][-_MOST:])
        user_dirs.write(_file(workspace), strictjson.dumps(latest))


def refreshed_digest(workspace: Workspace, project: int, digest: str) -> str:
    """The digest of the project's index, if it stages the same as the one with `digest`; else `digest`."""
    now, entries = _index_digests(project)
    return now if entries and _staged_entries(workspace).get(digest) == entries else digest


def _index_digests(root: int) -> tuple[str, str]:
    """The digests of an index and of its entries; empty if it can't be read or compared."""
    folder = open_below(root, PATH.rpartition(b"/")[0])
    if folder is None:
        return "", ""
    with closing(folder):
        try:
            file = os.open(PATH.rpartition(b"/")[2], OPEN_FILE, dir_fd=folder)
        except OSError:
            return "", ""
    with os.fdopen(file, "rb") as opened:
        data = opened.read(MOST)
    return hashlib.sha256(data).hexdigest(), entries_digest(data)


def _staged_entries(workspace: Workspace) -> dict[str, str]:
    try:
        indexes = strictjson.loads_record(Path(_file(workspace)).read_bytes())
    except (OSError, ValueError):
        return {}
    return indexes if isinstance(indexes, dict) else {}


def _file(workspace: Workspace) -> str:
    return f"{workspace.directory}/indexes.json"
