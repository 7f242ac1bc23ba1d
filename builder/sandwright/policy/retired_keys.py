"""Names of keys and features of the last release. A document that has them is rewritten before it is decoded.

So digests, approvals, merging and messages know the new names only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from sandwright.documents.document import Document, Path, Position, Value, field_name
from sandwright.errors import Problem, retired_warning

RETIRED_KEYS: Mapping[Path, Path] = {
    ("degrade",): ("accept_gaps",),
    ("outer",): ("gvisor", "engine"),
    ("prefer",): ("methods",),
    ("process", "privileged"): ("process", "sandbox_root"),
}
"""Each key of the last release that has another name now."""

RETIRED_FEATURES: Mapping[str, str] = {
    "outer": "gvisor.engine",
    "process.privileged": "process.sandbox-root",
}
"""The same of the features that `accept_gaps` names."""


class Renamed(NamedTuple):
    """A document with the new names, a warning for each old one, and a fault for each key that has both."""

    document: Document
    warnings: tuple[Problem, ...]
    faults: tuple[Problem, ...]


def renamed(document: Document) -> Renamed:
    """Give keys and features their new names, each value with the position that it has."""
    warnings: list[Problem] = []
    faults: list[Problem] = []
    for old, new in RETIRED_KEYS.items():
        if not _has(document.data, old):
            continue
        position, names = document.key_position(old), (field_name(old), field_name(new))
        if _has(document.data, new):
            message = f"is the former name of {names[1]}, which is given too; leave {names[0]} out"
            faults.append(Problem(*position, names[0], message))
        else:
            warnings.append(Problem(*position, "", retired_warning(*names)))
        document = _moved(document, old, new)
    found = dict(_retired_features(document.data))
    for path, name in found.items():
        document = replace(document, data=_with(document.data, path, RETIRED_FEATURES[name]))
    first = {name: path for path, name in reversed(found.items())}
    for name, path in first.items():
        message = retired_warning(name, RETIRED_FEATURES[name])
        warnings.append(Problem(*document.position(path), "", message))
    return Renamed(document, tuple(sorted(warnings)), tuple(faults))


def _retired_features(data: Value) -> Iterator[tuple[Path, str]]:
    gaps = data.get("accept_gaps") if isinstance(data, dict) else None
    for index, gap in enumerate(gaps if isinstance(gaps, list) else ()):
        name = gap.get("feature") if isinstance(gap, dict) else None
        if isinstance(name, str) and name in RETIRED_FEATURES:
            yield ("accept_gaps", index, "feature"), name


def _moved(document: Document, old: Path, new: Path) -> Document:
    """A document in which a value has another key, or is left out where that key is there too."""
    data = _without(document.data, old)
    if not _has(data, new):
        data = _with(data, new, _value(document.data, old))
    marks, key_marks = (_moved_marks(found, old, new) for found in (document.marks, document.key_marks))
    return replace(document, data=data, marks=marks, key_marks=key_marks)


def _moved_marks(marks: Mapping[Path, Position], old: Path, new: Path) -> Mapping[Path, Position]:
    """The positions with the new path; a section that only the new key has is where the old key was."""
    size = len(old)
    sections = {new[:length]: marks[old] for length in range(1, len(new)) if old in marks}
    moved = {(*new, *path[size:]): at for path, at in marks.items() if path[:size] == old}
    return sections | moved | {path: at for path, at in marks.items() if path[:size] != old}


def _has(data: Value, path: Path) -> bool:
    for step in path:
        if not isinstance(data, dict) or step not in data:
            return False
        data = data[str(step)]
    return True


def _value(data: Value, path: Path) -> Value:
    for step in path:
        assert isinstance(data, dict)
        data = data[str(step)]
    return data


def _without(data: Value, path: Path) -> Value:
    """The same without the key at a path, which is there."""
    assert isinstance(data, dict)
    if len(path) == 1:
        return {name: value for name, value in data.items() if name != path[0]}
    return {**data, str(path[0]): _without(data[str(path[0])], path[1:])}


def _with(data: Value, path: Path, value: Value) -> Value:
    """The same with a value at a path. A parent that is no mapping stays, for decoding to refuse."""
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        assert isinstance(data, list)
        return [_with(each, rest, value) if index == step else each for index, each in enumerate(data)]
    return {**data, step: _with(data.get(step, {}), rest, value)} if isinstance(data, dict) else data
