"""The base of every bundle, as shipped in `oci/*.json`: mounts, masks, capability sets, limits."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sandwright.resources import data_json


@dataclass(frozen=True)
class BaselineMount:
    """A mount of the runtime-spec. `destination` is absolute; `options` are those of mount(8)."""

    destination: str
    type: str
    source: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rlimit:
    """A resource limit of the runtime-spec; `type` as in getrlimit(2): `RLIMIT_CORE`."""

    type: str
    soft: int
    hard: int


@dataclass(frozen=True)
class Point:
    """A path that every root file system must have, to be mounted on. `mode` holds the permission bits."""

    path: str
    mode: int


@dataclass(frozen=True)
class Baseline:
    """The shipped data, as values. Each line's reason stays in the files.

    `strip` are keys of annotations, those that end in `*` prefixes. `forbidden` are trees in which no working
    directory, volume or program may lie.
    """

    mounts: tuple[BaselineMount, ...]
    rootless_sys: BaselineMount
    masked: tuple[str, ...]
    masked_rootless: tuple[str, ...]
    readonly: tuple[str, ...]
    namespaces: tuple[str, ...]
    capabilities: Mapping[str, tuple[str, ...]]
    rlimits: tuple[Rlimit, ...]
    path: str
    hostname: str
    strip: tuple[str, ...]
    directories: tuple[Point, ...]
    files: tuple[Point, ...]
    forbidden: tuple[str, ...]


@functools.cache
def load_baseline() -> Baseline:
    """The baseline that ships with this installation."""
    mounts, paths, process = _baseline_json("mounts"), _baseline_json("paths"), _baseline_json("process")
    annotations, points = _baseline_json("annotations"), _baseline_json("mountpoints")
    return Baseline(
        mounts=tuple(_baseline_mount(item) for item in mounts["mounts"]),
        rootless_sys=_baseline_mount(mounts["rootless_sys"]),
        masked=_column(paths["masked"], "path"),
        masked_rootless=_column(paths["masked_rootless"], "path"),
        readonly=_column(paths["readonly"], "path"),
        namespaces=_column(process["namespaces"], "type"),
        capabilities={name: _column(rows, "capability") for name, rows in process["capabilities"].items()},
        rlimits=tuple(Rlimit(row["type"], row["soft"], row["hard"]) for row in process["rlimits"]),
        path=process["search_path"],
        hostname=process["hostname"],
        strip=_column(annotations["strip"], "key"),
        directories=tuple(Point(row["path"], int(row["mode"], 8)) for row in points["directories"]),
        files=tuple(Point(row["path"], int(row["mode"], 8)) for row in points["files"]),
        forbidden=_column(points["forbidden"], "path"),
    )


def _baseline_json(name: str) -> dict[str, Any]:
    document: dict[str, Any] = data_json("oci", f"{name}.json")
    return document


def _baseline_mount(row: Mapping[str, Any]) -> BaselineMount:
    return BaselineMount(row["destination"], row["type"], row["source"], tuple(row["options"]))


def _column(rows: list[Mapping[str, Any]], key: str) -> tuple[str, ...]:
    return tuple(row[key] for row in rows)
