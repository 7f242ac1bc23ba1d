"""The vocabulary of SBPL: operations and their tree, filters, constants, modifiers. Suggests known names.

The facts are data, `seatbelt/vocabulary.json`; this module gives them types.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from sandwright.resources import data_json

Action = Literal["allow", "deny"]
ArgumentKind = Literal["string", "path", "integer", "bits", "flag", "address"]
PatternKind = Literal["literal", "subpath", "prefix", "regex"]


T = TypeVar("T")


@dataclass(frozen=True)
class Operation:
    """An operation. `parent` decides when no rule names it, unless `builtin` does: it is then *terminal*.

    `self_allowed`: the kernel allows it when the target is the process itself. `families` are those of the
    filters it takes; empty when not known.
    """

    name: str
    parent: str | None
    builtin: Action | None
    families: frozenset[str]
    self_allowed: bool = False


@dataclass(frozen=True)
class FilterKind:
    """A filter. `key` names the tested property, `pattern` the comparison of text, if there is one.

    `open` filters take the name of any constant, known to us or not.
    """

    name: str
    key: str
    family: str
    argument: ArgumentKind
    pattern: PatternKind | None
    constants: Mapping[str, int]
    open: bool = False


@dataclass(frozen=True, repr=False)
class ModifierKind:
    """A modifier of rules. `action` is the only kind of rule that takes it, if only one does."""

    name: str
    action: Action | None
    argument: Literal["none", "string", "integer", "any"]
    deprecated: bool

    def __repr__(self) -> str:
        return f"the modifier {self.name}"


@dataclass(frozen=True)
class Vocabulary:
    """All names, each with its meaning; aliases are spelled out, so each dict has every name that works."""

    operations: Mapping[str, Operation]
    filters: Mapping[str, FilterKind]
    modifiers: Mapping[str, ModifierKind]
    constants: Mapping[str, int]
    no_ops: frozenset[str]
    protocols: frozenset[str]
    deprecated: Mapping[str, str]

    def chain(self, operation: str) -> tuple[Operation, ...]:
        """An operation and those that decide when nothing names it, up to a terminal one or `default`."""
        found = [self.operations[operation]]
        while found[-1].builtin is None and found[-1].parent is not None:
            found.append(self.operations[found[-1].parent])
        return tuple(found)


def nearest(name: str, names: Iterable[str]) -> str:
    """`; did you mean 'x'?` when a known name is near, else nothing."""
    close = difflib.get_close_matches(name, list(names), n=1, cutoff=0.75)
    return f"; did you mean '{close[0]}'?" if close else ""


@functools.cache
def vocabulary() -> Vocabulary:
    """The vocabulary that ships with the package, read once."""
    data = data_json("seatbelt", "vocabulary.json")
    return Vocabulary(
        operations=_read_operations(data),
        filters=_read_filters(data),
        modifiers=_modifiers(data),
        constants={name: number for family in data["constants"].values() for name, number in family.items()},
        no_ops=frozenset(data["no_ops"]),
        protocols=frozenset(data["protocols"]),
        deprecated=data["deprecated"],
    )


def _read_operations(data: Mapping[str, Any]) -> dict[str, Operation]:
    found = {
        name: Operation(
            name,
            entry["parent"],
            None if entry["builtin"] == "inherit" else entry["builtin"],
            frozenset(entry.get("families", ())),
            entry.get("self", False),
        )
        for name, entry in data["operations"].items()
    }
    return _with_aliases(found, data["operation_aliases"])


def _read_filters(data: Mapping[str, Any]) -> dict[str, FilterKind]:
    found: dict[str, FilterKind] = {}
    for name, entry in data["filters"].items():
        kind: ArgumentKind = entry["type"]
        constants = data["constants"].get(entry.get("constants"), {})
        patterns: dict[str, PatternKind | None] = {"": None}
        if kind in ("string", "path"):
            patterns = {"": "literal", "-prefix": "prefix", "-regex": "regex"}
        if kind == "path":
            patterns |= {"-literal": "literal", "-subpath": "subpath"}
        for suffix, pattern in patterns.items():
            found[name + suffix] = FilterKind(
                name + suffix, name, entry["family"], kind, pattern, constants, entry.get("open", False)
            )
    return _with_aliases(found, data["filter_aliases"])


def _modifiers(data: Mapping[str, Any]) -> dict[str, ModifierKind]:
    found = {
        name: ModifierKind(name, entry.get("action"), entry["argument"], entry.get("deprecated", False))
        for name, entry in data["modifiers"].items()
    }
    return _with_aliases(found, data["modifier_aliases"])


def _with_aliases(found: dict[str, T], aliases: Mapping[str, str]) -> dict[str, T]:
    return found | {alias: found[name] for alias, name in aliases.items()}
