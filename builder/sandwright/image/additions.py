"""Adds the accounts, directories, files and links of a definition to the tree of its base or packages."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from sandwright.errors import BuildError
from sandwright.image import accounts
from sandwright.image.definition import ImageDefinition
from sandwright.image.overlay import Content, Overlay
from sandwright.reading import open_unlinked

_CHUNK = 1 << 20


def keeps(path: bytes) -> bool:
    """Whether adding accounts and owners needs the content of the file at that path."""
    return path in accounts.FILES


def add(definition: ImageDefinition, overlay: Overlay) -> None:
    """Add everything in the definition. Raise BuildError for a path in the way or an unknown owner."""
    if "accounts" not in definition.declare:
        _add_accounts(definition, overlay)
    names = account_names(overlay)
    account = definition.config.init
    if account is not None and names.uid(account) == 0:
        raise BuildError(f"config.init: '{account}' has the uid 0, and commands are not to run as root")
    for directory in definition.directories:
        uid, gid = names.uid(directory.user), names.gid(directory.group)
        overlay.directory(_relative_path(directory.path), mode=directory.mode, uid=uid, gid=gid)
    for link in definition.links:
        overlay.link(_relative_path(link.path), link.target.encode())
    for file in definition.files:
        uid, gid = names.uid(file.user), names.gid(file.group)
        path = _relative_path(file.path)
        if file.content is not None:
            overlay.file(path, file.content.encode(), mode=file.mode, uid=uid, gid=gid)
        elif file.source is not None:
            source, size = source_of(definition, file.source)
            overlay.file(path, source, size=size, mode=file.mode, uid=uid, gid=gid)


def account_names(overlay: Overlay) -> accounts.Names:
    """The accounts in the tree."""
    content = overlay.tree.content
    return accounts.names(content(accounts.PASSWD) or b"", content(accounts.GROUP) or b"")


def checksums(definition: ImageDefinition) -> dict[str, str]:
    """The SHA-256 of each file beside the definition that goes into the image, by its name there."""
    sources = sorted({file.source for file in definition.files if file.source is not None})
    return {source: _checksum_of(source_of(definition, source)[0]()) for source in sources}


def _add_accounts(definition: ImageDefinition, overlay: Overlay) -> None:
    listed = definition.accounts
    held = {path: found for path in accounts.FILES if (found := overlay.tree.content(path)) is not None}
    for path, content in accounts.extended(held, listed.users, listed.groups).items():
        real = overlay.tree.resolve(path)
        node = None if real is None else overlay.tree.get(real)
        if node is None:
            overlay.file(path, content)
        else:
            overlay.file(path, content, mode=node.mode, uid=node.uid, gid=node.gid)


def _relative_path(path: str) -> bytes:
    return path.lstrip("/").encode()


def source_of(definition: ImageDefinition, name: str) -> tuple[Content, int]:
    """A file beside the definition: a function that reads it, and its size. Links are not followed."""
    path = definition.real / name
    try:
        size = path.lstat().st_size
    except OSError as error:
        raise BuildError(f"image '{definition.name}': cannot read {path}: {error.strerror}") from error
    return (lambda: _read_regular(path)), size


def _read_regular(path: Path) -> Iterator[bytes]:
    try:
        fd = open_unlinked(path)
    except OSError as error:
        raise BuildError(f"cannot read {path}: {error.strerror}") from error
    with os.fdopen(fd, "rb") as file:
        while data := file.read(_CHUNK):
            yield data


def _checksum_of(chunks: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
    return f"sha256:{digest.hexdigest()}"
