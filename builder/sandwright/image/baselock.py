"""The lock of an image whose base is in a registry: the digests that its reference named.

It pins the base for all platforms (usually an index) and the manifest of each platform. A build uses these
digests alone; the reference only names their repository.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from sandwright.documents.decode import decode
from sandwright.documents.model import ValueCheck
from sandwright.errors import ArchiveRefused, LockError
from sandwright.image.fields import check_reference
from sandwright.image.lockfile import (
    FILE,
    SCHEMA,
    Checksum,
    FormatVersion,
    PlatformName,
    Time,
    parse_file,
    read_file,
    write_file,
)
from sandwright.registry.reference import Reference, parse_reference
from sandwright.rootfs.descriptor import (
    INDEX_TYPES,
    MANIFEST_TYPES,
    Descriptor,
    read_descriptor,
)


class BaseGone(LockError):
    """The registry no longer has the image that a lock pins."""


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
        """The reference, with the digest of its image."""
        return parse_reference(self.reference).at(self.base.digest)


def load_base_lock(folder: Path) -> BaseLock:
    """Read the lock in an image's directory. Raise NotLocked without one, DocumentError with every fault."""
    read = decode(_BaseLockFile, parse_file(read_file(folder), file=str(folder / FILE)))
    return BaseLock(read.definition, read.reference, read.epoch, read.base, read.platforms)


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


def _pin(value: object, types: frozenset[str]) -> Descriptor:
    try:
        found = read_descriptor(value, "descriptor")
    except ArchiveRefused as error:
        raise ValueError(str(error)) from None
    if found.media_type not in types:
        raise ValueError(f"{found.media_type} is none of {', '.join(sorted(types))}")
    if not found.digest.startswith("sha256:"):
        raise ValueError("only SHA-256 can be kept here")
    return Descriptor(found.media_type, found.digest, found.size)


def _pin_base(value: object) -> Descriptor:
    return _pin(value, INDEX_TYPES | MANIFEST_TYPES)


def _pin_manifest(value: object) -> Descriptor:
    return _pin(value, MANIFEST_TYPES)


def _not_empty(platforms: Mapping[str, Descriptor]) -> Mapping[str, Descriptor]:
    if not platforms:
        raise ValueError("must be a mapping that is not empty")
    return platforms


@dataclass(frozen=True)
class _BaseLockFile:
    schema: FormatVersion
    definition: Checksum
    reference: Annotated[str, ValueCheck(check_reference)]
    epoch: Time
    base: Annotated[Descriptor, ValueCheck(_pin_base, raw=True)]
    platforms: Annotated[
        dict[PlatformName, Annotated[Descriptor, ValueCheck(_pin_manifest, raw=True)]], ValueCheck(_not_empty)
    ]
