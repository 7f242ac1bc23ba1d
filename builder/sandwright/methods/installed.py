"""Finds the entry points that distributions declare, without `importlib.metadata` where possible."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import PathFinder

from sandwright import lazy

GROUP = "sandwright.methods"
"""The group of entry points that name methods."""


@dataclass(frozen=True)
class EntryPoint:
    """An entry point: `value` is "module:name", or a module alone."""

    name: str
    value: str

    @property
    def module(self) -> str:
        """The module that it is in."""
        return self.value.partition(":")[0].strip()

    def load(self) -> object:
        """The object that it names. Raise the errors of importing its module."""
        return lazy.load(self.value)


def entry_points(group: str) -> tuple[EntryPoint, ...]:
    """The entry points of a group, those of distributions that imports find first in front.

    Entry points are read from the files of installed distributions (the entry points specification of PyPA):
    importing `importlib.metadata` would take an eighth of a first run. It is used where distributions lie
    elsewhere than in directories.
    """
    found: list[EntryPoint] = []
    if any(hasattr(each, "find_distributions") for each in sys.meta_path if each is not PathFinder):
        return _by_metadata(group)
    for folder in sys.path:
        try:
            names = sorted(os.listdir(folder or "."))  # noqa: PTH208 - on the way of each first run
        except NotADirectoryError:  # an archive
            return _by_metadata(group)
        except OSError:
            continue
        for name in names:
            if name.lower().endswith((".dist-info", ".egg-info")) or name.lower() == "egg-info":
                found += _declared(f"{folder or '.'}/{name}/entry_points.txt", group)
    return tuple(found)


def _by_metadata(group: str) -> tuple[EntryPoint, ...]:
    from importlib import metadata  # noqa: PLC0415 - see `entry_points`

    return tuple(EntryPoint(point.name, point.value) for point in metadata.entry_points(group=group))


def _declared(path: str, group: str) -> Iterator[EntryPoint]:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - on the way of each first run
            content = file.read()
    except OSError:
        return
    if group.encode() not in content:
        return
    section = ""
    for line in content.decode("utf-8", "replace").splitlines():
        text = line.strip()
        if text.startswith("["):
            section = text.strip("[]").strip()
        elif section == group and "=" in text and not text.startswith(("#", ";")):
            name, _, value = text.partition("=")
            yield EntryPoint(name.strip(), value.partition("[")[0].strip())  # without extras
