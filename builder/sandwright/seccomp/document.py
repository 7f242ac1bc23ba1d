"""Reads a seccomp profile in JSON as Docker, Podman, containerd and the OCI runtime specification write it.

Keys that none of them has are kept out of the result without complaint, as the engines do; the linter names
them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sandwright.documents.document import Document, Path, Value, field_name
from sandwright.documents.jsontext import parse_json
from sandwright.errors import DocumentError, Problem
from sandwright.seccomp import action as actions
from sandwright.seccomp.action import Action, ActionKind
from sandwright.seccomp.model import (
    ALWAYS,
    U64,
    ArgumentComparison,
    ComparisonOperator,
    RuleCondition,
    SeccompProfile,
    SeccompRule,
)

ARCHITECTURES = frozenset(
    f"SCMP_ARCH_{name}"
    for name in (
        *("NATIVE", "X86", "X86_64", "X32", "ARM", "AARCH64", "LOONGARCH64", "M68K", "RISCV64", "SH", "SHEB"),
        *("MIPS", "MIPS64", "MIPS64N32", "MIPSEL", "MIPSEL64", "MIPSEL64N32", "PARISC", "PARISC64"),
        *("PPC", "PPC64", "PPC64LE", "S390", "S390X"),
    )
)
"""The values of `architectures` (runtime-spec, config-linux.md, "Seccomp"; NATIVE is Podman's)."""


def load_profile_json(text: str | bytes, file: str) -> SeccompProfile:
    """Read a profile; of the configuration of an OCI bundle, the part at `linux.seccomp`.

    Raise DocumentError with everything that is wrong and where.
    """
    return read_profile(parse_json(text, file=file))


def read_profile(document: Document) -> SeccompProfile:
    """The profile that a document holds. Raise as `load_profile_json` does."""
    reader = _Reader(document)
    path: Path = ()
    data = document.data
    if isinstance(data, dict) and isinstance(data.get("linux"), dict):
        path = ("linux", "seccomp")
        data = reader.mapping((path[0],), data["linux"]).get("seccomp")
    profile = reader.profile(path, data)
    if reader.problems:
        raise DocumentError(document.file, reader.problems)
    return profile


class _Reader:
    """Parses a profile and collects its faults; a wrong value is replaced by a harmless one."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self.problems: list[Problem] = []

    def profile(self, path: Path, value: Value) -> SeccompProfile:
        data = self.mapping(path, value)
        default = self.action(path, data, "defaultAction", "defaultErrnoRet", "defaultErrno")
        listed = self.architectures((*path, "architectures"), data.get("architectures"))
        mapped: dict[str, tuple[str, ...]] = {}
        for index, item in enumerate(self.items((*path, "archMap"), data.get("archMap"))):
            at = (*path, "archMap", index)
            entry = self.mapping(at, item)
            below = self.architectures((*at, "subArchitectures"), entry.get("subArchitectures"))
            for name in self.architectures((*at, "architecture"), [entry.get("architecture")]):
                mapped.setdefault(name, below)
        if listed and mapped:
            self.fault((*path, "archMap"), "cannot be given together with architectures")
        rules = tuple(
            self.rule((*path, "syscalls", index), item)
            for index, item in enumerate(self.items((*path, "syscalls"), data.get("syscalls")))
        )
        flags = self.texts((*path, "flags"), data.get("flags"))
        return SeccompProfile(
            self._document.file, default, rules, listed, mapped, flags, self._document, path
        )

    def rule(self, path: Path, value: Value) -> SeccompRule:
        data = self.mapping(path, value)
        names = self.texts((*path, "names"), data.get("names"))
        if data.get("name"):
            single = self.texts((*path, "name"), [data["name"]])
            if names:
                self.fault((*path, "name"), "cannot be given together with names")
            names = names or single
        arguments = tuple(
            self.argument((*path, "args", index), item)
            for index, item in enumerate(self.items((*path, "args"), data.get("args")))
        )
        comment = data.get("comment")
        return SeccompRule(
            names,
            self.action(path, data, "action", "errnoRet", "errno"),
            arguments,
            self.condition((*path, "includes"), data.get("includes")),
            self.condition((*path, "excludes"), data.get("excludes")),
            comment if isinstance(comment, str) else "",
            path,
            self._document.position(path),
        )

    def argument(self, path: Path, value: Value) -> ArgumentComparison:
        data = self.mapping(path, value)
        index = self.number((*path, "index"), data.get("index"), 5)
        text = data.get("op")
        if text not in _OPERATORS:
            self.fault((*path, "op"), f"must be one of {', '.join(sorted(_OPERATORS))}")
        operator = _OPERATORS.get(str(text), ComparisonOperator.EQ)
        first = self.number((*path, "value"), data.get("value", 0), U64)
        second = self.number((*path, "valueTwo"), data.get("valueTwo", 0), U64)
        if operator is ComparisonOperator.MASKED_EQ:
            return ArgumentComparison(index, operator, (second,), first)
        return ArgumentComparison(index, operator, (first,))

    def condition(self, path: Path, value: Value) -> RuleCondition:
        if value is None:
            return ALWAYS
        data = self.mapping(path, value)
        text = data.get("minKernel")
        kernel = None if text is None else kernel_version(str(text))
        if text is not None and kernel is None:
            self.fault((*path, "minKernel"), 'must be a version such as "4.8"')
        return RuleCondition(
            self.texts((*path, "caps"), data.get("caps")),
            self.texts((*path, "arches"), data.get("arches")),
            kernel,
        )

    def action(self, path: Path, data: dict[str, Value], key: str, number_key: str, name_key: str) -> Action:
        text = data.get(key)
        kind = actions.BY_OCI_NAME.get(text) if isinstance(text, str) else None
        if kind is None:
            action_names = ", ".join(sorted(actions.BY_OCI_NAME))
            self.fault(
                (*path, key), f"must be one of {action_names}" if key in data else f"{key} is required"
            )
        number = data.get(number_key)
        code = 1 if number is None else self.number((*path, number_key), number, 0xFFFF)
        name = data.get(name_key)
        if name:
            code = actions.errno_numbers().get(str(name), 0)
            if not code:
                self.fault((*path, name_key), f"{name} is not the name of an error")
        return (
            Action(kind, code)
            if kind in (ActionKind.ERRNO, ActionKind.TRACE)
            else Action(kind or ActionKind.ERRNO)
        )

    def architectures(self, path: Path, value: Value) -> tuple[str, ...]:
        found = self.texts(path, value)
        for name in found:
            if name not in ARCHITECTURES:
                self.fault(path, f"{name} is not an architecture of the OCI specification")
        return found

    def texts(self, path: Path, value: Value) -> tuple[str, ...]:
        found = self.items(path, value)
        for index, item in enumerate(found):
            if not isinstance(item, str) or not item:
                self.fault((*path, index), "must be text")
        return tuple(item for item in found if isinstance(item, str))

    def items(self, path: Path, value: Value) -> list[Value]:
        if value is None:
            return []
        if not isinstance(value, list):
            self.fault(path, "must be a list")
            return []
        return value

    def mapping(self, path: Path, value: Value) -> dict[str, Value]:
        if isinstance(value, dict):
            return value
        self.fault(path, "must be an object")
        return {}

    def number(self, path: Path, value: Value, maximum: int) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= maximum:
            return value
        self.fault(path, f"must be a whole number from 0 to {maximum}")
        return 0

    def fault(self, path: Path, message: str) -> None:
        position = self._document.position(path)
        self.problems.append(Problem(*position, field_name(path), message))


_OPERATORS: Mapping[str, ComparisonOperator] = {
    operator.value: operator for operator in ComparisonOperator if operator is not ComparisonOperator.NONE_OF
}


def kernel_version(text: str) -> tuple[int, int] | None:
    """The first two numbers of a version such as `4.8` or `6.18.44-cloud`; only these are compared.

    None if it is not a version.
    """
    match = _VERSION.match(text)
    return (int(match[1]), int(match[2])) if match else None


_VERSION = re.compile(r"([0-9]{1,6})\.([0-9]{1,6})(?![0-9])")
