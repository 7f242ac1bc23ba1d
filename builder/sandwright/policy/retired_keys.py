"""Names of keys and features of the last release. A document that has them is rewritten before it is decoded.

So digests, approvals, merging and messages know the new names only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from sandwright.documents.document import Document, Path, Position, Value, field_name
from sandwright.errors import Problem, retired_warning

Key = tuple[str, ...]

RETIRED_KEYS: Mapping[Key, Key] = {
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


def rename_keys(document: Document) -> Renamed:
    """Give keys and features their new names, each value with the position that it has."""
    warnings: list[Problem] = []
    faults: list[Problem] = []
    for old, new in RETIRED_KEYS.items():
        if not _has_key(document.data, old):
            continue
        position, names = document.key_position(old), (field_name(old), field_name(new))
        if _has_key(document.data, new):
            message = f"is the former name of {names[1]}, which is given too; leave {names[0]} out"
            faults.append(Problem(*position, names[0], message))
        else:
            warnings.append(Problem(*position, "", retired_warning(*names)))
        document = _rename_key(document, old, new)
    document, about_features = _with_new_features(document)
    return Renamed(document, tuple(sorted([*warnings, *about_features])), tuple(faults))


def _with_new_features(document: Document) -> tuple[Document, Iterable[Problem]]:
    """The document with the new names of features, and a warning where each old one stands first."""
    gaps = document.data.get("accept_gaps") if isinstance(document.data, dict) else None
    if not isinstance(document.data, dict) or not isinstance(gaps, list):
        return document, ()
    first: dict[str, Problem] = {}
    found: list[Value] = []
    for index, gap in enumerate(gaps):
        name = gap.get("feature") if isinstance(gap, dict) else None
        if isinstance(gap, dict) and isinstance(name, str) and name in RETIRED_FEATURES:
            new, position = RETIRED_FEATURES[name], document.position(("accept_gaps", index, "feature"))
            first.setdefault(name, Problem(*position, "", retired_warning(name, new)))
            gap = {**gap, "feature": new}  # noqa: PLW2901 - an alias may lead to the same mapping elsewhere
        found.append(gap)
    return replace(document, data={**document.data, "accept_gaps": found}), first.values()


def _rename_key(document: Document, old: Key, new: Key) -> Document:
    """A document in which a value has another key, or is left out where that key is there too."""
    data = _remove_key(document.data, old)
    if _has_key(data, new):
        return replace(document, data=data)
    data = _set_key(data, new, _get_key(document.data, old))
    marks, key_marks = (_moved_marks(found, old, new) for found in (document.marks, document.key_marks))
    return replace(document, data=data, marks=marks, key_marks=key_marks)


def _moved_marks(marks: Mapping[Path, Position], old: Key, new: Key) -> Mapping[Path, Position]:
    """The positions with the new path; a section that only the new key has is where the old key was."""
    size = len(old)
    found: dict[Path, Position] = {}
    for path, position in marks.items():
        if path[:size] != old:
            found[path] = position
            continue
        found[*new, *path[size:]] = position
        for length in range(1, len(new)):
            found.setdefault(new[:length], marks[old])
    return found


def _has_key(data: Value, key: Key) -> bool:
    for step in key:
        if not isinstance(data, dict) or step not in data:
            return False
        data = data[step]
    return True


def _get_key(data: Value, key: Key) -> Value:
    for step in key:
        assert isinstance(data, dict)
        data = data[step]
    return data


def _remove_key(data: Value, key: Key) -> Value:
    """The same without a key, which is there."""
    assert isinstance(data, dict)
    if len(key) == 1:
        return {name: value for name, value in data.items() if name != key[0]}
    return {**data, key[0]: _remove_key(data[key[0]], key[1:])}


def _set_key(data: Value, key: Key, value: Value) -> Value:
    """The same with a value. A section that is no mapping stays, for decoding to refuse."""
    if not key:
        return value
    return (
        {**data, key[0]: _set_key(data.get(key[0], {}), key[1:], value)} if isinstance(data, dict) else data
    )
