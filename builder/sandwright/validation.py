"""Makes pydantic models of documents, and words pydantic's errors with position and field."""

from __future__ import annotations

import difflib
import json
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ValidationError

from sandwright.document import Document, FieldErrors, Path, Value, field_name, shown_value
from sandwright.errors import DocumentError, Problem

M = TypeVar("M", bound=BaseModel)

_KINDS: Mapping[str, str] = {
    **dict.fromkeys(
        ("model_type", "model_attributes_type", "dict_type", "mapping_type", "dataclass_type"), "a mapping"
    ),
    **dict.fromkeys(("list_type", "tuple_type", "set_type", "frozen_set_type", "iterable_type"), "a list"),
    "string_type": "text",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "none_required": "null",
}
"""What a value must be, by pydantic's type of error."""


@dataclass(frozen=True)
class _Fault:
    """One error of pydantic. `path` leads through the document, `labels` are the union members it went into.

    Each label has the length of the path at which the union stands. `names` are the keys that a mapping
    could have had.
    """

    path: Path
    labels: tuple[tuple[int, str], ...]
    kind: str
    message: str
    at_key: bool = False
    names: tuple[str, ...] = ()

    @property
    def guesses(self) -> list[str]:
        """The known key that an unknown one looks like."""
        return (
            difflib.get_close_matches(str(self.path[-1]), self.names, n=1)
            if self.kind == "extra_forbidden"
            else []
        )


def load_model(
    model: type[M], document: Document, *, context: Mapping[str, Any] | None = None, strict: bool = True
) -> M:
    """Make a pydantic model of a document. `context` reaches the model's validators.

    Validation is strict, as for JSON: text is not taken for a number or a truth value, while a list fills a
    tuple or a set and text fills an Enum. A `mode="before"` validator leaves that mode, since what it gives
    counts as Python's: a field that has one and is a tuple, set or Enum takes `Field(strict=False)`.
    A validator that finds faults deeper inside what it checks raises `FieldErrors`.
    Raise DocumentError with every problem that pydantic found, in plain words and with its position.
    """
    try:
        return model.model_validate_json(json.dumps(document.data), strict=strict, context=context)
    except ValidationError as invalid:
        raise DocumentError(document.file, problems(model, document, invalid)) from None


def problems(model: type[BaseModel], document: Document, invalid: ValidationError) -> list[Problem]:
    """Every error of `invalid`, which validating `document` as a `model` raised.

    Where a value may take one of several forms, only the errors of the form it comes nearest to are given.
    """
    faults = [
        fault
        for error in invalid.errors(include_url=False)
        for fault in _faults(model, document, cast("Mapping[str, Any]", error))
    ]
    found = [_problem(document, fault) for fault in _without_unions(faults)]
    return list(dict.fromkeys(found))


def _problem(document: Document, fault: _Fault) -> Problem:
    place = document.key_position if fault.at_key else document.position
    message = fault.message
    if fault.kind == "extra_forbidden":
        guess = "".join(f"did you mean '{name}'?" for name in fault.guesses)
        message = f"no such key; {guess or 'there is ' + ', '.join(fault.names)}"
    return Problem(*place(fault.path), field_name(fault.path), message)


def _faults(model: type[BaseModel], document: Document, error: Mapping[str, Any]) -> list[_Fault]:
    walk = _Walk(model, document.data)
    kind, location = error["type"], error["loc"]
    for index, step in enumerate(location):
        walk.take(step, last=index == len(location) - 1, missing=kind == "missing")
    raised = error.get("ctx", {}).get("error")
    if isinstance(raised, FieldErrors):
        return [_Fault(walk.path + path, walk.labels, kind, message) for path, message in raised.faults]
    fault = _Fault(walk.path, walk.labels, kind, _message(error), at_key=walk.at_key)
    if kind == "extra_forbidden":
        return [replace(fault, at_key=True, names=_keys(walk.parents))]
    if kind in ("union_tag_not_found", "union_tag_invalid"):
        return [replace(fault, path=(*fault.path, error["ctx"]["discriminator"].strip("'")))]
    return [fault]


class _Walk:
    """Follows an error's location through the data and the types at once.

    Pydantic's locations mix keys and indices of the document with names of union members; the types tell
    which is which.
    """

    def __init__(self, model: type[BaseModel], data: Value) -> None:
        self.path: Path = ()
        self.labels: tuple[tuple[int, str], ...] = ()
        self.at_key = False
        self.types: list[object] = [model]
        self.parents: list[object] = []
        self._data = data

    def take(self, step: str | int, *, last: bool, missing: bool) -> None:
        if step == "[key]":
            self.at_key = True
        elif (last and missing) or self._has(step):
            self.parents, self.types = self.types, list(_inside(self.types, step))
            self._data = self._within(step)
            self.path = (*self.path, step)
        else:
            self.labels = (*self.labels, (len(self.path), str(step)))
            self.types = [each for each in self.types if _is_called(each, step)] or self.types

    def _within(self, step: str | int) -> Value:
        if isinstance(self._data, dict):
            return self._data.get(str(step))
        return self._data[step] if isinstance(self._data, list) and isinstance(step, int) else None

    def _has(self, step: str | int) -> bool:
        if isinstance(self._data, dict):
            return step in self._data and not any(
                isinstance(each, type) and each.__name__ == step for each in self.types
            )
        return isinstance(self._data, list) and isinstance(step, int) and step < len(self._data)


def _forms(annotation: object) -> Iterable[object]:
    """The members of a union, also through `Annotated` and type aliases; any other type alone."""
    if hasattr(annotation, "__value__"):
        yield from _forms(annotation.__value__)
    elif typing.get_origin(annotation) is typing.Annotated:
        yield from _forms(typing.get_args(annotation)[0])
    elif typing.get_origin(annotation) in (typing.Union, types.UnionType):
        for member in typing.get_args(annotation):
            yield from _forms(member)
    else:
        yield annotation


def _inside(candidates: Iterable[object], step: str | int) -> Iterable[object]:
    """The types that a value can have which is `step` inside one of these."""
    for candidate in candidates:
        arguments = typing.get_args(candidate)
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            for name, info in candidate.model_fields.items():
                if step in (name, info.alias, info.validation_alias):
                    yield from _forms(info.annotation)
        elif isinstance(step, int) and arguments:
            yield from _forms(
                arguments[step] if step < len(arguments) and ... not in arguments else arguments[0]
            )
        elif len(arguments) == 2:
            yield from _forms(arguments[1])


def _is_called(candidate: object, label: str | int) -> bool:
    """Whether a union member is the one that pydantic calls `label`: its class, or the value of its tag."""
    if not (isinstance(candidate, type) and issubclass(candidate, BaseModel)):
        return False
    return candidate.__name__ == label or any(
        label in typing.get_args(form)
        for info in candidate.model_fields.values()
        for form in _forms(info.annotation)
        if typing.get_origin(form) is typing.Literal
    )


def _keys(candidates: Iterable[object]) -> tuple[str, ...]:
    return tuple(
        info.alias or name
        for candidate in candidates
        if isinstance(candidate, type) and issubclass(candidate, BaseModel)
        for name, info in candidate.model_fields.items()
    )


def _without_unions(faults: Sequence[_Fault]) -> list[_Fault]:
    """The same faults, those of a union's members reduced to the member that the value comes nearest to."""
    plain = [fault for fault in faults if not fault.labels]
    unions: dict[Path, dict[str, list[_Fault]]] = {}
    for fault in faults:
        if fault.labels:
            (length, label), *rest = fault.labels
            inner = replace(fault, labels=tuple(rest))
            unions.setdefault(fault.path[:length], {}).setdefault(label, []).append(inner)
    for path, members in unions.items():
        plain += _nearest_form(path, [_without_unions(member) for member in members.values()])
    return plain


def _nearest_form(path: Path, members: Sequence[list[_Fault]]) -> list[_Fault]:
    fitting = [member for member in members if not _wrong_kind(path, member)]
    if not fitting:
        return [_any_kind(path, [fault for member in members for fault in member])]
    best = min(_distance(member) for member in fitting)
    nearest = [member for member in fitting if _distance(member) == best]
    return nearest[0] if len(nearest) == 1 else _joined(path, nearest)


def _wrong_kind(path: Path, member: Sequence[_Fault]) -> bool:
    return all(fault.path == path and fault.kind in _KINDS for fault in member)


def _distance(member: Sequence[_Fault]) -> tuple[int, int]:
    """How far a value is from a form: faults, then keys that can't be meant for one that the form has."""
    return len(member), sum(fault.kind == "extra_forbidden" and not fault.guesses for fault in member)


def _any_kind(path: Path, faults: Sequence[_Fault]) -> _Fault:
    given = faults[0].message.rpartition(", not ")[2]
    wanted = " or ".join(dict.fromkeys(_KINDS[fault.kind] for fault in faults))
    return _Fault(path, (), faults[0].kind, f"must be {wanted}, not {given}")


def _joined(path: Path, members: Sequence[list[_Fault]]) -> list[_Fault]:
    """One list of faults for several forms that are equally near."""
    faults = [fault for member in members for fault in member]
    missing = [str(fault.path[-1]) for fault in faults if fault.kind == "missing" and fault.path[:-1] == path]
    unknown: dict[Path, _Fault] = {}
    for fault in faults:
        if fault.kind == "extra_forbidden":
            names = unknown[fault.path].names if fault.path in unknown else ()
            unknown[fault.path] = replace(fault, names=tuple(dict.fromkeys(names + fault.names)))
    known = {name for fault in unknown.values() for name in fault.names}
    keys = sorted(str(each[-1]) for each in unknown)
    if keys and known.issuperset(keys):
        return [_Fault(path, (), "several_forms", f"can have only one of {', '.join(keys)}")]
    if unknown:
        return list(unknown.values())
    if len(missing) == len(faults):
        return [_Fault(path, (), "missing", f"must have one of {', '.join(dict.fromkeys(missing))}")]
    return members[0]


def _message(error: Mapping[str, Any]) -> str:
    kind, context = error["type"], error.get("ctx", {})
    given = shown_value(error["input"])
    if kind in _KINDS:
        hint = (
            "; put it in quotes"
            if kind == "string_type" and isinstance(error["input"], bool | int | float)
            else ""
        )
        return f"must be {_KINDS[kind]}, not {given}{hint}"
    if kind in ("value_error", "assertion_error"):
        return str(context["error"])
    wording = _WORDING.get(kind)
    if wording is not None:
        return wording(context, given)
    return re.sub(r"^Input should be", "must be", str(error["msg"]))


def _one_of(context: Mapping[str, Any], given: str, *, key: str = "expected") -> str:
    text = context[key]
    names = [quoted[1:-1] for quoted in re.findall(r"'[^']*'", text)]
    guess = difflib.get_close_matches(given.strip("'"), names, n=1)
    hint = f"; did you mean '{guess[0]}'?" if guess else ""
    return f"must be one of {', '.join(names) or text}, not {given}{hint}"


def _at_least(count: int, *, unit: str) -> str:
    return "must not be empty" if count == 1 else f"must have at least {count} {unit}"


_WORDING: Mapping[str, Callable[[Mapping[str, Any], str], str]] = {
    "missing": lambda _, __: "is required",
    "literal_error": _one_of,
    "enum": _one_of,
    "union_tag_invalid": lambda context, _: _one_of(context, f"'{context['tag']}'", key="expected_tags"),
    "union_tag_not_found": lambda _, __: "is required",
    "string_pattern_mismatch": lambda context, given: (
        f"must match {context['pattern']}, which {given} does not"
    ),
    "string_too_short": lambda context, _: _at_least(context["min_length"], unit="characters"),
    "string_too_long": lambda context, _: f"must have at most {context['max_length']} characters",
    "too_short": lambda context, _: _at_least(context["min_length"], unit="items"),
    "too_long": lambda context, _: f"must have at most {context['max_length']} items",
    "greater_than": lambda context, given: f"must be more than {context['gt']}, not {given}",
    "greater_than_equal": lambda context, given: f"must be at least {context['ge']}, not {given}",
    "less_than": lambda context, given: f"must be less than {context['lt']}, not {given}",
    "less_than_equal": lambda context, given: f"must be at most {context['le']}, not {given}",
    "finite_number": lambda _, given: f"must be a finite number, not {given}",
}
