"""The lock of an image whose base is in a registry: the digests that its reference named.

It pins the base for all platforms (usually an index) and the manifest of each platform. A build uses these
digests alone; the reference only says which repository has them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sandwright.errors import ArchiveRefused, DocumentError, Problem, UsageError
from sandwright.image.lock import ARCHITECTURES, FILE, SCHEMA, is_time, parse_json, read_file, write_file
from sandwright.registry.reference import Reference, parse_reference
from sandwright.rootfs.descriptor import (
    INDEX_TYPES,
    MANIFEST_TYPES,
    Descriptor,
    read_descriptor,
)

_KEYS = {"base", "definition", "epoch", "platforms", "reference", "schema"}


@dataclass(frozen=True)
class BaseLock:
    """A pinned base.

    `definition` is the checksum of the inputs of locking. `reference` is the requested name, `base` the
    document that it named, `platforms` the manifest of each platform. `epoch` is the time of the newest of
    these images, in seconds, and becomes the time of everything added.
    """

    definition: str
    reference: str
    epoch: int
    base: Descriptor
    platforms: Mapping[str, Descriptor]

    @property
    def pinned(self) -> Reference:
        """The reference, with the digest of what it named."""
        return parse_reference(self.reference).at(self.base.digest)


def load_base_lock(folder: Path) -> BaseLock:
    """Read the lock in an image's directory. Raise NotLocked without one, DocumentError when invalid."""
    raw, file = read_file(folder), str(folder / FILE)
    data = parse_json(raw, file=file)
    try:
        return _lock(data)
    except (ValueError, ArchiveRefused, UsageError) as error:
        raise DocumentError(
            file, [Problem(0, 0, "", f"is not a lock of a registry's image: {error}")]
        ) from None


def write_base_lock(folder: Path, lock: BaseLock) -> None:
    """Write the lock into an image's directory: complete, or not at all. Raise LockError when that fails."""
    write_file(folder, base_lock_text(lock))


def base_lock_text(lock: BaseLock) -> str:
    """The lock as JSON."""
    document = {
        "schema": SCHEMA,
        "definition": lock.definition,
        "reference": lock.reference,
        "epoch": lock.epoch,
        "base": lock.base.document(),
        "platforms": {platform: each.document() for platform, each in lock.platforms.items()},
    }
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def base_lock_changes(old: BaseLock | None, new: BaseLock) -> list[str]:
    """The changes of a new lock, one a line."""
    if old is None:
        return [f"+ {new.reference} is {new.base.digest}"]
    changes = [f"  reference {old.reference} → {new.reference}"] if old.reference != new.reference else []
    if old.base.digest != new.base.digest:
        changes.append(f"  {new.reference} {old.base.digest} → {new.base.digest}")
    for platform in sorted({*old.platforms, *new.platforms}):
        before, after = old.platforms.get(platform), new.platforms.get(platform)
        if before is None or after is None:
            changes.append(f"{'+' if before is None else '-'} {platform}")
        elif before.digest != after.digest:
            changes.append(f"  {platform} {before.digest} → {after.digest}")
    return changes


def _lock(data: object) -> BaseLock:
    if not isinstance(data, dict) or data.keys() != _KEYS:
        raise ValueError(f"its keys must be {', '.join(sorted(_KEYS))}")
    definition, reference, epoch = data["definition"], data["reference"], data["epoch"]
    if data["schema"] is True or data["schema"] != SCHEMA:
        raise ValueError(f"schema: this program reads {SCHEMA}")
    if not isinstance(definition, str) or not re.fullmatch("sha256:[0-9a-f]{64}", definition):
        raise ValueError("definition must be sha256:…")
    if not isinstance(reference, str):
        raise ValueError("reference must be a string")
    parse_reference(reference)
    if not is_time(epoch):
        raise ValueError("epoch must be a time in seconds")
    platforms = data["platforms"]
    if not isinstance(platforms, dict) or not platforms or not platforms.keys() <= ARCHITECTURES.keys():
        raise ValueError(f"platforms must be some of {', '.join(ARCHITECTURES)}")
    base = _descriptor(data["base"], "base", INDEX_TYPES | MANIFEST_TYPES)
    pins = {
        name: _descriptor(each, f'platforms["{name}"]', MANIFEST_TYPES) for name, each in platforms.items()
    }
    return BaseLock(definition, reference, epoch, base, pins)


def _descriptor(value: object, where: str, types: frozenset[str]) -> Descriptor:
    found = read_descriptor(value, where)
    if found.media_type not in types:
        raise ValueError(f"{where}: {found.media_type} is none of {', '.join(sorted(types))}")
    if not found.digest.startswith("sha256:"):
        raise ValueError(f"{where}: only SHA-256 can be kept here")
    return Descriptor(found.media_type, found.digest, found.size)
