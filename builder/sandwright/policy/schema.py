"""The JSON Schema of `sandbox.yaml`, for editors: the model, its docstrings as descriptions."""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Mapping
from dataclasses import is_dataclass
from types import NoneType
from typing import Annotated, Literal, get_args, get_origin

from sandwright.policy import model
from sandwright.policy.decoding import Schema, keys, options


def policy_schema() -> Schema:
    """The JSON Schema (draft 2020-12) of one layer of a policy.

    It says what an editor can check while somebody types. Loading checks more: relations between fields, and
    what a host makes of them.
    """
    definitions: dict[str, Schema] = {}
    schema = _section(model.PolicyFile, definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": dict(sorted(definitions.items())),
        **schema,
        "title": "sandwright policy",
    }


def _section(section: type, definitions: dict[str, Schema]) -> Schema:
    """The schema of a mapping with fixed keys; those of the mappings in it go to `definitions`."""
    texts = _descriptions()[section.__name__]
    properties = {}
    for key in keys(section):
        schema = _schema(key.form, definitions)
        default = {"default": key.default} if key.default is not None else {}
        properties[key.name] = {**default, **schema, "description": texts[key.field]}
    required = [key.name for key in keys(section) if key.required]
    return {
        "additionalProperties": False,
        "description": inspect.getdoc(section),
        "properties": properties,
        **({"required": required} if required else {}),
        "title": _title(section),
        "type": "object",
    }


def _title(section: type) -> str:
    return section.__name__.removesuffix("Section")


def _schema(form: object, definitions: dict[str, Schema], *, nullable: bool = False) -> Schema:
    """The schema of a value. A key that may be absent has None in the model, which a file never says."""
    match get_origin(form), get_args(form):
        case (origin, (inner, *checks)) if origin is Annotated:
            written = [check.schema for check in checks if check.schema is not None]
            return dict(written[-1]) if written else _schema(inner, definitions)
        case (origin, names) if origin is Literal:
            return {"enum": list(names), "type": "string"}
        case (origin, (item, _)) if origin is tuple:
            return {"type": "array", "items": _schema(item, definitions)}
        case (origin, (_, value)) if origin is dict:
            return {"type": "object", "additionalProperties": _schema(value, definitions, nullable=True)}
    present = [each for each in options(form) if each is not NoneType]
    if len(present) < len(options(form)):
        schema = _schema(present[0], definitions)
        return {"anyOf": [schema, {"type": "null"}]} if nullable else schema
    if isinstance(form, type) and is_dataclass(form):
        definitions[_title(form)] = _section(form, definitions)
        return {"$ref": f"#/$defs/{_title(form)}"}
    return {"type": _TYPES[form]}


_TYPES: Mapping[object, str] = {str: "string", bool: "boolean", int: "integer", float: "number"}


@functools.cache
def _descriptions() -> Mapping[str, Mapping[str, str]]:
    """By class and field: the docstring below the field."""
    tree = ast.parse(inspect.getsource(model))
    found: dict[str, dict[str, str]] = {}
    for definition in tree.body:
        if isinstance(definition, ast.ClassDef):
            fields = found.setdefault(definition.name, {})
            for statement, following in zip(definition.body, definition.body[1:], strict=False):
                text = _text(following)
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and text:
                    fields[statement.target.id] = text
    return found


def _text(statement: ast.stmt) -> str:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        value = statement.value.value
        return inspect.cleandoc(value) if isinstance(value, str) else ""
    return ""
