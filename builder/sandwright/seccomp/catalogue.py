"""Reads the groups and profiles that ship in `seccomp/`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

from sandwright.documents.document import Document, Path, Value, field_name
from sandwright.documents.yaml import parse_yaml
from sandwright.errors import DocumentError, Problem
from sandwright.resources import data_path
from sandwright.seccomp import abi
from sandwright.seccomp.action import ALLOW, EPERM, Action, refusal
from sandwright.seccomp.groups import CatalogueProfile, SyscallGroup, argument_rule, comparison
from sandwright.seccomp.model import U32, ArgumentComparison, SeccompRule

T = TypeVar("T")


@functools.cache
def profile(name: str) -> CatalogueProfile:
    """A shipped profile, read without the others. Raise KeyError when there is none of this name."""
    return read_profiles(_shipped_document("profiles.yaml"), _shipped_groups(), name)[name]


@functools.cache
def profiles() -> Mapping[str, CatalogueProfile]:
    """The shipped profiles by name, in the order of their file."""
    return MappingProxyType(read_profiles(_shipped_document("profiles.yaml"), _shipped_groups()))


@functools.cache
def _shipped_groups() -> Mapping[str, SyscallGroup]:
    return read_groups(_shipped_document("groups.yaml"))


def read_groups(document: Document) -> Mapping[str, SyscallGroup]:
    """The groups of a document. Raise DocumentError with the first thing that is wrong and its position."""
    reader = _Reader(document)
    return {
        name: reader.group(name, ("groups", name))
        for name in reader.mapping(("groups",), reader.top("groups"))
    }


def read_profiles(
    document: Document, groups: Mapping[str, SyscallGroup], selected: str = ""
) -> Mapping[str, CatalogueProfile]:
    """The profiles of a document. One that extends another comes after it. Raise as `read_groups` does.

    `selected`: only the one of this name, and those that it extends.
    """
    reader = _Reader(document)
    found: dict[str, CatalogueProfile] = {}
    listed = reader.mapping(("profiles",), reader.top("profiles"))
    for name in _extension_chain(listed, selected) if selected else listed:
        found[name] = reader.profile(name, ("profiles", name), groups, found)
    return found


def _extension_chain(profiles: dict[str, Value], name: str) -> list[str]:
    """The names of a profile and of those that it extends, the first one first."""
    found: list[str] = []
    while name in profiles and name not in found:
        found.insert(0, name)
        section = profiles[name]
        name = str(section.get("extends")) if isinstance(section, dict) else ""
    return found


@functools.cache
def _shipped_document(name: str) -> Document:
    path = data_path("seccomp", name)
    return parse_yaml(path.read_bytes(), file=f"seccomp/{name}")


class _Reader:
    """Takes values out of a document, and reports those of a wrong form."""

    def __init__(self, document: Document) -> None:
        self._document = document

    def top(self, key: str) -> Value:
        return self.mapping((), self._document.data, (key,))[key]

    def group(self, name: str, path: Path) -> SyscallGroup:
        keys = ("reason", "syscalls", "rules", "errno")
        data = self.mapping(path, self._value_at(path), keys)
        rules = [
            rule
            for index, _ in enumerate(self.list(path, data.get("rules", [])))
            for rule in self.rules((*path, "rules", index))
        ]
        syscalls = self.syscalls((*path, "syscalls"), data["syscalls"]) if "syscalls" in data else ()
        action = self.errno((*path, "errno"), data.get("errno"))
        reason = self.text((*path, "reason"), data.get("reason"))
        return self.make(path, lambda: SyscallGroup(name, reason, syscalls, tuple(rules), action))

    def rules(self, path: Path) -> tuple[SeccompRule, ...]:
        data = self.mapping(path, self._value_at(path), ("syscalls", "allow", "refuse"))
        names = self.syscalls((*path, "syscalls"), data.get("syscalls"))
        return tuple(
            self.rule((*path, verb, index), verb, names)
            for verb in ("allow", "refuse")
            for index, _ in enumerate(self.list((*path, verb), data.get(verb, [])))
        )

    def rule(self, path: Path, verb: str, names: tuple[str, ...]) -> SeccompRule:
        data = self.mapping(path, self._value_at(path), ("when", "reason", "errno"))
        when = tuple(
            self.comparison((*path, "when", i)) for i, _ in enumerate(self.list(path, data.get("when")))
        )
        action = ALLOW if verb == "allow" else self.errno((*path, "errno"), data.get("errno"))
        reason = self.text((*path, "reason"), data.get("reason"))
        return self.make(path, lambda: argument_rule(names, when, action, reason))

    def comparison(self, path: Path) -> ArgumentComparison:
        data = self.mapping(path, self._value_at(path), ("arg", "mask", "is", "none_of"))
        argument, mask = self.number(path, data.get("arg")), self.number(path, data.get("mask", U32))
        negated = "none_of" in data
        if negated == ("is" in data):
            raise self.fault(path, "say one of is and none_of")
        values = self.list(path, data["none_of"]) if negated else [data["is"]]
        numbers = tuple(self.number(path, value) for value in values)
        return self.make(path, lambda: comparison(argument, numbers, mask, negated=negated))

    def profile(
        self,
        name: str,
        path: Path,
        groups: Mapping[str, SyscallGroup],
        before: Mapping[str, CatalogueProfile],
    ) -> CatalogueProfile:
        data = self.mapping(path, self._value_at(path), ("reason", "extends", "without", "grants", "with"))
        base = self.base((*path, "extends"), data.get("extends"), before)
        without = self.names((*path, "without"), data["without"]) if "without" in data else ()
        for group in without:
            if base is None or group not in base.granted_groups(base.with_capability):
                raise self.fault((*path, "without"), f"{group} is not granted there")
        grants = [*(base.grants if base else ()), *self.names((*path, "grants"), data.get("grants"))]
        more = {key: list(value) for key, value in base.with_capability.items()} if base else {}
        for capability in self.mapping((*path, "with"), data.get("with", {})):
            listed = (*path, "with", capability)
            more.setdefault(capability, []).extend(self.names(listed, self._value_at(listed)))
        selected = {key: tuple(g for g in value if g not in without) for key, value in more.items()}
        granted = tuple(group for group in grants if group not in without)
        chosen = {key: value for key, value in selected.items() if value}
        reason = self.text((*path, "reason"), data.get("reason"))
        return self.make(
            path, lambda: CatalogueProfile(name, reason, groups, granted, MappingProxyType(chosen))
        )

    def base(
        self, path: Path, value: Value, before: Mapping[str, CatalogueProfile]
    ) -> CatalogueProfile | None:
        if value is None:
            return None
        name = self.text(path, value)
        if name not in before:
            raise self.fault(path, f"there is no profile {name} before this one")
        return before[name]

    def syscalls(self, path: Path, value: Value) -> tuple[str, ...]:
        found = self.names(path, value)
        for name in found:
            if name not in abi.known_names():
                guess = abi.guess(name)
                hint = f"; did you mean {guess}?" if guess else ""
                raise self.fault(path, f"{name} is not a system call{hint}")
        return found

    def errno(self, path: Path, value: Value) -> Action:
        if value is None:
            return EPERM
        try:
            return refusal(self.text(path, value))
        except KeyError:
            raise self.fault(path, f"{value} is not the name of an error") from None

    def names(self, path: Path, value: Value) -> tuple[str, ...]:
        found = tuple(self.text(path, value).split())
        if len(set(found)) < len(found):
            raise self.fault(path, "names one thing twice")
        return found

    def mapping(self, path: Path, value: Value, keys: Sequence[str] | None = None) -> dict[str, Value]:
        if not isinstance(value, dict):
            raise self.fault(path, "must be a mapping")
        for key in value:
            if keys is not None and key not in keys:
                raise self.fault((*path, key), f"is not one of {', '.join(keys)}")
        return value

    def list(self, path: Path, value: Value) -> list[Value]:
        if not isinstance(value, list):
            raise self.fault(path, "must be a list")
        return value

    def text(self, path: Path, value: Value) -> str:
        if not isinstance(value, str) or not value:
            raise self.fault(path, "must be text")
        return value

    def number(self, path: Path, value: Value) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.fault(path, "must hold whole numbers")
        return value

    def make(self, path: Path, constructor: Callable[[], T]) -> T:
        try:
            return constructor()
        except ValueError as error:
            raise self.fault(path, str(error)) from None

    def fault(self, path: Path, message: str) -> DocumentError:
        position = self._document.position(path)
        return DocumentError(self._document.file, [Problem(*position, field_name(path), message)])

    def _value_at(self, path: Path) -> Value:
        value = self._document.data
        for step in path:
            value = value[step]  # type: ignore[index]
        return value
