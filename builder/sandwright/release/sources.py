"""Sources of an image that people wrote: definitions, their files, and the lock.

They are published beside the image, so that it can be rebuilt with nothing but the key.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sandwright.documents.fields import OURS
from sandwright.documents.strictjson import parse_json
from sandwright.errors import ArchiveRefused, HostError
from sandwright.image.baselock import BaseLock, load_base_lock
from sandwright.image.definition import FILE, ImageDefinition
from sandwright.image.lock import Lock, load_lock
from sandwright.image.lockfile import FILE as LOCK_FILE
from sandwright.outputs import disk_errors
from sandwright.reading import read_unlinked
from sandwright.rootfs.descriptor import canonical, strings

SCHEMA = 1
_LONGEST = 255


@dataclass(frozen=True)
class Sources:
    """The definition of an image and those of its bases, with their files and the one lock.

    `files` are by path (`debian/image.yaml`), the lock among them, at `lock_path`.
    """

    image: str
    files: Mapping[str, bytes]
    lock_path: str

    @property
    def lock(self) -> bytes:
        """The lock file."""
        return self.files[self.lock_path]

    @property
    def written(self) -> Mapping[str, bytes]:
        """All files but the lock."""
        return {path: content for path, content in sorted(self.files.items()) if path != self.lock_path}


def collect_sources(catalogue: Mapping[str, ImageDefinition], name: str) -> Sources:
    """The sources of an image. Raise HostError for a file that can't be read."""
    files: dict[str, bytes] = {}
    definition = catalogue[name]
    while True:
        for path in (
            FILE,
            *(each.source for each in definition.files if each.source),
            *definition.keys,
            *definition.languages.files,
        ):
            files[f"{definition.name}/{path}"] = _read_source(definition.real / path)
        if definition.parent is None:
            break
        definition = catalogue[definition.parent]
    lock_path = f"{definition.name}/{LOCK_FILE}"
    files[lock_path] = _read_source(definition.real / LOCK_FILE)
    return Sources(name, files, lock_path)


def encode_sources(sources: Sources) -> bytes:
    """Encode everything except the lock as one document."""
    files = {path: base64.b64encode(content).decode() for path, content in sources.written.items()}
    return canonical({"schema": SCHEMA, "image": sources.image, "files": files, "lock": sources.lock_path})


def decode_sources(raw: bytes, lock: bytes, where: str) -> Sources:
    """Decode such a document. Raise ArchiveRefused, whose text begins with `where`, for invalid sources."""
    document = parse_json(raw, where, OURS)
    if document.get("schema") != SCHEMA or not isinstance(document.get("image"), str):
        raise ArchiveRefused(f"{where}: not the sources of an image, or of another version")
    files = {}
    for path, encoded in strings(document.get("files"), f"{where}: files").items():
        try:
            files[_check_source_path(path, where)] = base64.b64decode(encoded, validate=True)
        except binascii.Error as error:
            raise ArchiveRefused(f"{where}: {path!r}: not base64: {error}") from None
    lock_path = _check_source_path(document.get("lock"), where)
    return Sources(document["image"], {**files, lock_path: lock}, lock_path)


def write_sources(sources: Sources, directory: Path) -> None:
    """Write them into an empty directory. Raise HostError when that fails."""
    with disk_errors(directory):
        for path, content in sources.files.items():
            target = directory / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)


def lock_of_image(catalogue: Mapping[str, ImageDefinition], name: str) -> Lock | BaseLock:
    """The lock from which an image is built: its own, or that of its lowest base."""
    definition = catalogue[name]
    while definition.parent is not None:
        definition = catalogue[definition.parent]
    return load_lock(definition.folder) if definition.suite else load_base_lock(definition.folder)


def _check_source_path(path: object, where: str) -> str:
    parts = path.split("/") if isinstance(path, str) else []
    good = all(part not in ("", ".", "..") and "\0" not in part and len(part) <= _LONGEST for part in parts)
    if len(parts) < 2 or not good:
        raise ArchiveRefused(f"{where}: {path!r} cannot be the path of a source")
    return "/".join(parts)


def _read_source(path: Path) -> bytes:
    try:
        return read_unlinked(path)
    except OSError as error:
        raise HostError(f"cannot read {path}: {error.strerror}") from error
