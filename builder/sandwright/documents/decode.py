"""Decodes a document into dataclasses, and reports everything that does not fit with its position.

`documents.model` describes the supported dataclasses.
"""

from __future__ import annotations

import difflib
import types
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

from sandwright.documents.document import Document, FieldErrors, Path, Value, shown_value
from sandwright.documents.model import keys
from sandwright.errors import DocumentError, Problem

T = TypeVar("T")

_KINDS: Mapping[object, str] = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    tuple: "a list",
    dict: "a mapping",
}
_INVALID: Any = object()
"""Stands for a value that is wrong, once the problem is noted."""


def decode(model: type[T], document: Document, *, context: object = None) -> T:
    """Make a dataclass of a document. Raise DocumentError with everything that is wrong in it.

    `context` reaches the checks that ask for it.
    """
    decoder = _Decoder(document, context)
    decoded = decoder.value(model, document.data, ())
    if decoder.problems:
        raise DocumentError(document.file, list(dict.fromkeys(decoder.problems)))
    return cast("T", decoded)


class _Decoder:
    def __init__(self, document: Document, context: object) -> None:
        self.problems: list[Problem] = []
        self._document = document
        self._context = context

    def value(self, form: object, value: Value, path: Path, *, at_key: bool = False) -> Any:  # noqa: ANN401
        """A value of a form, `_INVALID` where a problem was noted. `at_key` when it is a key of a mapping."""
        origin = get_origin(form)
        if origin is Annotated:
            return self._decode_annotated(form, value, path, at_key=at_key)
        if origin is Literal:
            return self._decode_literal(get_args(form), value, path)
        if origin in (Union, types.UnionType):
            return self._decode_union(get_args(form), value, path)
        if origin is tuple:
            return self._decode_list(get_args(form)[0], value, path)
        if origin in (dict, Mapping):
            key, inner = get_args(form)
            return self._decode_mapping(key, inner, value, path)
        if is_dataclass(form):
            return self._decode_fields(cast("type", form), value, path)
        return value if form is Any else self._decode_scalar(form, value, path)

    def _decode_annotated(self, form: object, value: Value, path: Path, *, at_key: bool) -> Any:  # noqa: ANN401
        inner, *checks = get_args(form)
        raw = any(check.raw for check in checks)
        found = value if raw else self.value(inner, value, path)
        for check in checks:
            if found is _INVALID:
                break
            try:
                found = check.function(found, self._context) if check.context else check.function(found)
            except FieldErrors as error:
                for below, message in error.faults:
                    self._add_problem((*path, *below), message)
                found = _INVALID
            except ValueError as error:
                found = self._add_problem(path, str(error), at_key=at_key)
        return found

    def _decode_literal(self, members: Sequence[object], value: Value, path: Path) -> Any:  # noqa: ANN401
        for member in members:
            if type(value) is type(member) and value == member:
                return member
        names = [str(member) for member in members]
        hint = _guess(shown_value(value).strip("'"), names)
        return self._add_problem(
            path, f"must be one of {', '.join(names)}, not {shown_value(value)}{hint and f'; {hint}'}"
        )

    def _decode_union(self, forms: Sequence[object], value: Value, path: Path) -> Any:  # noqa: ANN401
        present = [form for form in forms if form is not types.NoneType]
        if value is None and len(present) < len(forms):
            return None
        if len(present) == 1:
            return self.value(present[0], value, path)
        fitting = [form for form in present if _is_kind(_plain_type(form), value)]
        if not fitting:
            kinds = " or ".join(dict.fromkeys(_KINDS[_plain_type(form)] for form in present))
            return self._add_problem(path, f"must be {kinds}, not {shown_value(value)}")
        if len(fitting) > 1 and isinstance(value, dict):
            return self._one_of_models([cast("type", form) for form in fitting], value, path)
        return self.value(fitting[0], value, path)

    def _one_of_models(self, models: Sequence[type], value: dict[str, Value], path: Path) -> Any:  # noqa: ANN401
        """A mapping that may have one of several forms: of the one that its keys come nearest to."""
        distances = [_mismatch(model, value) for model in models]
        nearest = [
            model for model, distance in zip(models, distances, strict=True) if distance == min(distances)
        ]
        if len(nearest) == 1:
            return self._decode_fields(nearest[0], value, path)
        key_names = list(dict.fromkeys(key.name for model in nearest for key in keys(model)))
        if not value:
            return self._add_problem(path, f"must have one of {', '.join(key_names)}")
        if set(value) <= set(key_names):
            return self._add_problem(path, f"can have only one of {', '.join(sorted(value))}")
        for name in value.keys() - set(key_names):
            self._report_unknown_key((*path, name), key_names)
        return _INVALID

    def _decode_list(self, form: object, value: Value, path: Path) -> Any:  # noqa: ANN401
        if not isinstance(value, list):
            return self._wrong_kind(tuple, value, path)
        items = [self.value(form, item, (*path, index)) for index, item in enumerate(value)]
        return _INVALID if any(item is _INVALID for item in items) else tuple(items)

    def _decode_mapping(self, key: object, form: object, value: Value, path: Path) -> Any:  # noqa: ANN401
        if not isinstance(value, dict):
            return self._wrong_kind(dict, value, path)
        names = [self.value(key, name, (*path, name), at_key=True) for name in value]
        values = [self.value(form, inner, (*path, name)) for name, inner in value.items()]
        invalid = any(each is _INVALID for each in (*names, *values))
        return _INVALID if invalid else dict(zip(names, values, strict=True))

    def _decode_fields(self, model: type, value: Value, path: Path) -> Any:  # noqa: ANN401
        if not isinstance(value, dict):
            return self._wrong_kind(dict, value, path)
        model_keys = {key.name: key for key in keys(model)}
        for name in value.keys() - model_keys.keys():
            self._report_unknown_key((*path, name), tuple(model_keys))
        for key in model_keys.values():
            if key.required and key.name not in value:
                self._add_problem((*path, key.name), "is required")
        values = {
            key.field: self.value(key.form, value[name], (*path, name))
            for name, key in model_keys.items()
            if name in value
        }
        missing = any(key.required and key.field not in values for key in model_keys.values())
        invalid = any(each is _INVALID for each in values.values())
        return _INVALID if missing or invalid else model(**values)

    def _decode_scalar(self, kind: object, value: Value, path: Path) -> Any:  # noqa: ANN401
        if not _is_kind(kind, value):
            return self._wrong_kind(kind, value, path)
        return float(cast("float", value)) if kind is float else value

    def _wrong_kind(self, kind: object, value: Value, path: Path) -> Any:  # noqa: ANN401
        quotes = "; put it in quotes" if kind is str and isinstance(value, bool | int | float) else ""
        # a policy may be a link to a token, or to logins: the text of a whole file is shown nowhere
        received = shown_value(value) if path else _whole_file(value)
        return self._add_problem(path, f"must be {_KINDS[kind]}, not {received}{quotes}")

    def _report_unknown_key(self, path: Path, names: Sequence[str]) -> None:
        hint = _guess(str(path[-1]), names) or f"there is {', '.join(names)}"
        self._add_problem(path, f"no such key; {hint}", at_key=True)

    def _add_problem(self, path: Path, message: str, *, at_key: bool = False) -> Any:  # noqa: ANN401
        self.problems.append(self._document.problem(path, message, at_key=at_key))
        return _INVALID


def _whole_file(value: Value) -> str:
    if isinstance(value, str):
        return "text"
    return "a number" if type(value) in (int, float) else shown_value(value)


def _guess(word: str, names: Sequence[str]) -> str:
    nearest = difflib.get_close_matches(word, names, n=1)
    return f"did you mean '{nearest[0]}'?" if nearest else ""


def _mismatch(model: type, value: Mapping[str, Value]) -> tuple[int, int]:
    """The distance of a mapping from a form: missing and extra keys, then keys that resemble none of its."""
    model_keys = {key.name: key for key in keys(model)}
    unknown = value.keys() - model_keys.keys()
    missing = [name for name, key in model_keys.items() if key.required and name not in value]
    return len(unknown) + len(missing), sum(not _guess(name, tuple(model_keys)) for name in unknown)


def _plain_type(form: object) -> object:
    """The plain type behind an annotation."""
    while get_origin(form) is Annotated:
        form = get_args(form)[0]
    if get_origin(form) is Literal:
        return type(get_args(form)[0])
    kind = dict if is_dataclass(form) else get_origin(form) or form
    return dict if kind is Mapping else kind


def _is_kind(kind: object, value: Value) -> bool:
    match value:
        case bool():
            return kind is bool
        case int():
            return kind in (int, float)
        case float():
            return kind is float
        case str():
            return kind is str
        case list():
            return kind is tuple
        case dict():
            return kind is dict
        case _:
            return False
