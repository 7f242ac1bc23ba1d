"""Finds entry points that others install, and imports what reads them only where there may be some."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def entry_points(group: str) -> Mapping[str, EntryPoint]:
    """The entry points of a group by name, as `importlib.metadata` finds them.

    Which takes an eighth of a first run to say that there are none.
    """
    if not _may_be_there(group):
        return {}
    from importlib import metadata  # noqa: PLC0415 - see above

    return {point.name: point for point in metadata.entry_points(group=group)}


def _may_be_there(group: str) -> bool:
    """Whether a file of entry points holds the name, or distributions lie elsewhere than in directories."""
    if any(hasattr(each, "find_distributions") for each in sys.meta_path if each is not PathFinder):
        return True
    return any(_named_in(folder or ".", group.encode()) for folder in sys.path)


def _named_in(folder: str, group: bytes) -> bool:
    try:
        names = os.listdir(folder)  # noqa: PTH208 - on the way of each first run
    except NotADirectoryError:
        return True  # an archive
    except OSError:
        return False
    lower = ((name, name.lower()) for name in names)
    infos = (name for name, low in lower if low.endswith((".dist-info", ".egg-info")) or low == "egg-info")
    return any(group in _content(f"{folder}/{name}/entry_points.txt") for name in infos)


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - likewise
            return file.read()
    except OSError:
        return b""
