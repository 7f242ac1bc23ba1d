"""Compares locks image by image, and writes the differences as Markdown for reviewers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from sandwright.errors import UsageError
from sandwright.image.baselock import BaseLock, base_lock_changes, load_base_lock
from sandwright.image.definition import ImageDefinition, load_catalogue
from sandwright.image.lock import Lock, load_lock, lock_changes
from sandwright.image.lockfile import NotLocked


def lock_differences(before: Path, after: Path) -> dict[str, list[str]]:
    """The changes of each image's lock from the directory `before` to `after`; only images that changed.

    An image in one directory alone is a change, too. Raise DocumentError or LockError for an unreadable lock,
    UsageError for a path that is not a directory.
    """
    for each in (before, after):
        if not each.is_dir():
            raise UsageError(f"{each} is no directory of images")
    old, new = load_catalogue(before), load_catalogue(after)
    found = {name: _changes(old.get(name), definition) for name, definition in new.items()}
    found |= {name: ["- the image"] for name in old.keys() - new.keys()}
    return {name: found[name] for name in sorted(found) if found[name]}


def markdown(differences: Mapping[str, list[str]]) -> str:
    """The differences as Markdown: a heading and a list of changes for each image, each in code."""
    return "".join(f"{line}\n" for line in _difference_lines(differences))


def _difference_lines(differences: Mapping[str, list[str]]) -> Iterator[str]:
    if not differences:
        yield "No lock has changed."
    for name, changes in differences.items():
        yield f"## {name}"
        yield ""
        yield from (f"- `{change.strip()}`" for change in changes)
        yield ""


def _changes(old: ImageDefinition | None, new: ImageDefinition) -> list[str]:
    before, after = _try_load_lock(old), _try_load_lock(new)
    match after:
        case Lock():
            return lock_changes(before if isinstance(before, Lock) else None, after)
        case BaseLock():
            return base_lock_changes(before if isinstance(before, BaseLock) else None, after)
        case None:
            return ["- the lock"] if before else []


def _try_load_lock(definition: ImageDefinition | None) -> Lock | BaseLock | None:
    """The lock of an image; None when it needs none, or has none yet."""
    try:
        if definition is None or not (definition.suite or definition.reference):
            return None
        return load_lock(definition.folder) if definition.suite else load_base_lock(definition.folder)
    except NotLocked:
        return None
