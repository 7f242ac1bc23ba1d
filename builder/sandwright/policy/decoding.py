"""Decodes a document into dataclasses, and reports everything that does not fit with its position.

A dataclass names the keys of a mapping; the annotations of its fields say what each value may be:

- `str`, `int`, `float`, `bool`, a `Literal` of texts; nothing is converted but a whole number to a `float`.
- `tuple[X, ...]` of a list, `dict[K, V]` or another dataclass of a mapping.
- `X | None` where null is a value; `int | str` and the like for several kinds of scalars.
- `Annotated[X, Check(…)]` for a value that a function checks.

A field's key is its name, or `metadata={"key": …}`. A field without a default is required. An annotation is
read as it is, so the module with the dataclasses does not postpone its annotations.
"""

from __future__ import annotations

import difflib
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

from sandwright.document import Document, FieldErrors, Path, Value, field_name, shown_value
from sandwright.errors import DocumentError, Problem

Schema = dict[str, Any]

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


@dataclass(frozen=True, eq=False)
class ValueCheck:
    """In an `Annotated`: `function` gives a decoded value back, or raises ValueError with what is wrong.

    `schema` is the JSON Schema of the value, where the type says too little. With `raw`, the function takes
    the value as it stands in the document, whatever it is. With `context`, it also takes what the caller of
    `decode` knows.
    """

    function: Callable[..., Any]
    schema: Schema | None = None
    raw: bool = False
    context: bool = False


@dataclass(frozen=True)
class ModelKey:
    """A key of a mapping that a dataclass describes: `name` in the document, `field` in Python.

    `default` is that of the field, None for a required key.
    """

    name: str
    field: str
    form: object
    required: bool
    default: Any = None


def keys(model: type) -> Iterator[ModelKey]:
    """The keys that a dataclass describes, in its order."""
    for each in fields(model):
        required = each.default is MISSING and each.default_factory is MISSING
        default = None if required else each.default
        if each.default_factory is not MISSING:
            default = each.default_factory()
        yield ModelKey(each.metadata.get("key", each.name), each.name, each.type, required, default)


def options(form: object) -> tuple[object, ...]:
    """The members of a union; any other type alone."""
    return get_args(form) if get_origin(form) in (Union, types.UnionType) else (form,)


def decode(model: type[T], document: Document, *, context: object = None) -> T:
    """Make a dataclass of a document. Raise DocumentError with everything that is wrong in it."""
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

    def value(self, form: object, given: Value, path: Path, *, at_key: bool = False) -> Any:  # noqa: ANN401
        """A value of a form, `_INVALID` where a problem was noted. `at_key` when it is a key of a mapping."""
        origin = get_origin(form)
        if origin is Annotated:
            return self._checked(form, given, path, at_key=at_key)
        if origin is Literal:
            return self._literal(get_args(form), given, path)
        if origin in (Union, types.UnionType):
            return self._any_of(get_args(form), given, path)
        if origin is tuple:
            return self._list(get_args(form)[0], given, path)
        if origin is dict:
            key, inner = get_args(form)
            return self._mapping(key, inner, given, path)
        if is_dataclass(form):
            return self._fields(cast("type", form), given, path)
        return self._scalar(form, given, path)

    def _checked(self, form: object, given: Value, path: Path, *, at_key: bool) -> Any:  # noqa: ANN401
        inner, *checks = get_args(form)
        raw = any(check.raw for check in checks)
        found = given if raw else self.value(inner, given, path)
        for check in checks:
            if found is _INVALID:
                break
            try:
                found = check.function(found, self._context) if check.context else check.function(found)
            except FieldErrors as error:
                for below, message in error.faults:
                    self._refuse((*path, *below), message)
                found = _INVALID
            except ValueError as error:
                found = self._refuse(path, str(error), at_key=at_key)
        return found

    def _literal(self, names: Sequence[str], given: Value, path: Path) -> Any:  # noqa: ANN401
        if isinstance(given, str) and given in names:
            return given
        guess = difflib.get_close_matches(shown_value(given).strip("'"), names, n=1)
        hint = f"; did you mean '{guess[0]}'?" if guess else ""
        return self._refuse(path, f"must be one of {', '.join(names)}, not {shown_value(given)}{hint}")

    def _any_of(self, forms: Sequence[object], given: Value, path: Path) -> Any:  # noqa: ANN401
        present = [form for form in forms if form is not types.NoneType]
        if given is None and len(present) < len(forms):
            return None
        if len(present) == 1:
            return self.value(present[0], given, path)
        for form in present:
            if _is_kind(form, given):
                return self._scalar(form, given, path)
        kinds = " or ".join(_KINDS[form] for form in present)
        return self._refuse(path, f"must be {kinds}, not {shown_value(given)}")

    def _list(self, form: object, given: Value, path: Path) -> Any:  # noqa: ANN401
        if not isinstance(given, list):
            return self._wrong_kind(tuple, given, path)
        items = [self.value(form, item, (*path, index)) for index, item in enumerate(given)]
        return _INVALID if any(item is _INVALID for item in items) else tuple(items)

    def _mapping(self, key: object, form: object, given: Value, path: Path) -> Any:  # noqa: ANN401
        if not isinstance(given, dict):
            return self._wrong_kind(dict, given, path)
        names = [self.value(key, name, (*path, name), at_key=True) for name in given]
        values = [self.value(form, value, (*path, name)) for name, value in given.items()]
        invalid = any(each is _INVALID for each in (*names, *values))
        return _INVALID if invalid else dict(zip(names, values, strict=True))

    def _fields(self, model: type, given: Value, path: Path) -> Any:  # noqa: ANN401
        if not isinstance(given, dict):
            return self._wrong_kind(dict, given, path)
        known = {key.name: key for key in keys(model)}
        for name in given.keys() - known.keys():
            self._unknown((*path, name), tuple(known))
        for key in known.values():
            if key.required and key.name not in given:
                self._refuse((*path, key.name), "is required")
        values = {
            key.field: self.value(key.form, given[name], (*path, name))
            for name, key in known.items()
            if name in given
        }
        missing = any(key.required and key.field not in values for key in known.values())
        invalid = any(value is _INVALID for value in values.values())
        return _INVALID if missing or invalid else model(**values)

    def _scalar(self, kind: object, given: Value, path: Path) -> Any:  # noqa: ANN401
        if not _is_kind(kind, given):
            return self._wrong_kind(kind, given, path)
        return float(cast("float", given)) if kind is float else given

    def _wrong_kind(self, kind: object, given: Value, path: Path) -> Any:  # noqa: ANN401
        quotes = "; put it in quotes" if kind is str and isinstance(given, bool | int | float) else ""
        return self._refuse(path, f"must be {_KINDS[kind]}, not {shown_value(given)}{quotes}")

    def _unknown(self, path: Path, names: Sequence[str]) -> None:
        guess = difflib.get_close_matches(str(path[-1]), names, n=1)
        hint = f"did you mean '{guess[0]}'?" if guess else f"there is {', '.join(names)}"
        self._refuse(path, f"no such key; {hint}", at_key=True)

    def _refuse(self, path: Path, message: str, *, at_key: bool = False) -> Any:  # noqa: ANN401
        position = self._document.key_position(path) if at_key else self._document.position(path)
        self.problems.append(Problem(*position, field_name(path), message))
        return _INVALID


def _is_kind(kind: object, given: Value) -> bool:
    match given:
        case bool():
            return kind is bool
        case int():
            return kind in (int, float)
        case float():
            return kind is float
        case str():
            return kind is str
        case _:
            return False
