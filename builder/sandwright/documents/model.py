"""A document's model as a dataclass declares it: its keys, their types, and the checks of values.

The annotations of its fields declare the valid values:

- `str`, `int`, `float`, `bool`, a `Literal`; nothing is converted but a whole number to a `float`.
- `tuple[X, ...]` of a list; `dict[K, V]`, `Mapping[K, V]` or another dataclass of a mapping; `Any`.
- `X | None` where null is a value; `int | str` and the like for values of several kinds.
- `A | B` of several dataclasses, of which the keys of a mapping choose one.
- `Annotated[X, ValueCheck(…)]` for a value that a function checks.

A field's key is its name, or `metadata={"key": …}`; None for a field that no document has. A field without a
default is required. An annotation is read as it is, so the module with the dataclasses does not postpone its
annotations.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any, Union, get_args, get_origin

Schema = dict[str, Any]


@dataclass(frozen=True, eq=False)
class ValueCheck:
    """In an `Annotated`: `function` gives a decoded value back, or raises ValueError with the fault.

    `schema` is the JSON Schema of the value, where the type says too little; without `type` and `anyOf` it
    narrows that of the type. With `raw`, the function takes the value as it is in the document, of any type.
    With `context`, it also takes the context object of the caller of `decode`.
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
    """The keys that a dataclass describes, in its order. Raise TypeError for postponed annotations."""
    for each in fields(model):
        if isinstance(each.type, str):
            raise TypeError(f"{model.__module__} postpones the annotations of {model.__name__}")
        name = each.metadata.get("key", each.name)
        if name is None:
            continue
        required = each.default is MISSING and each.default_factory is MISSING
        default = None if required else each.default
        if each.default_factory is not MISSING:
            default = each.default_factory()
        yield ModelKey(name, each.name, each.type, required, default)


def options(form: object) -> tuple[object, ...]:
    """The members of a union; any other type alone."""
    return get_args(form) if get_origin(form) in (Union, types.UnionType) else (form,)


def plain(value: object) -> Any:  # noqa: ANN401 - any JSON value
    """A decoded value as plain JSON data: dataclasses as mappings by their keys, tuples as lists."""
    if is_dataclass(value) and not isinstance(value, type):
        return {key.name: plain(getattr(value, key.field)) for key in keys(type(value))}
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value
