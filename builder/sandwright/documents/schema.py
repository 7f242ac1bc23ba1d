"""The JSON Schema of a dataclass that documents are decoded into, its docstrings as descriptions.

An editor can check it while you type. Loading checks more: relations between fields.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Mapping
from dataclasses import is_dataclass
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from sandwright.documents.model import Schema, keys, options, plain


def document_schema(model: type, title: str, **more: Any) -> Schema:  # noqa: ANN401 - JSON values
    """The JSON Schema (draft 2020-12) of a document; `more` are further keywords of it."""
    definitions: dict[str, Schema] = {}
    schema = _section_schema(model, definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": dict(sorted(definitions.items())),
        **schema,
        "title": title,
        **more,
    }


def _section_schema(section: type, definitions: dict[str, Schema]) -> Schema:
    """The schema of a mapping with fixed keys; those of the mappings in it go to `definitions`."""
    texts = descriptions(section)
    properties = {}
    for key in keys(section):
        schema = _schema(key.form, definitions)
        default = {"default": plain(key.default)} if key.default is not None else {}
        text = {"description": texts[key.field]} if key.field in texts else {}
        properties[key.name] = {**default, **schema, **text}
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
            return _schema_with_checks(inner, [check.schema for check in checks if check.schema], definitions)
        case (origin, names) if origin is Literal:
            values = {"const": names[0]} if len(names) == 1 else {"enum": list(names)}
            return {**values, "type": _TYPES[type(names[0])]}
        case (origin, (item, _)) if origin is tuple:
            return {"type": "array", "items": _schema(item, definitions)}
        case (origin, (name, value)) if origin is dict:
            return _mapping_schema(_schema(name, definitions), _schema(value, definitions, nullable=True))
    present = [each for each in options(form) if each is not NoneType]
    if len(present) > 1:
        return {"anyOf": [_schema(each, definitions) for each in present]}
    if len(present) < len(options(form)):
        schema = _schema(present[0], definitions)
        return {"anyOf": [schema, {"type": "null"}]} if nullable else schema
    if isinstance(form, type) and is_dataclass(form):
        definitions[_title(form)] = _section_schema(form, definitions)
        return {"$ref": f"#/$defs/{_title(form)}"}
    return {"type": _TYPES[form]}


def _schema_with_checks(inner: object, written: list[Schema], definitions: dict[str, Schema]) -> Schema:
    whole = [each for each in written if "type" in each or "anyOf" in each]
    schema = dict(whole[-1]) if whole else _schema(inner, definitions)
    narrowing = [each for each in written if each not in whole]
    return functools.reduce(lambda one, other: {**one, **other}, narrowing, schema)


def _mapping_schema(name: Schema, value: Schema) -> Schema:
    if "pattern" in name:
        return {"type": "object", "patternProperties": {name["pattern"]: value}}
    return {"type": "object", "additionalProperties": value}


_TYPES: Mapping[object, str] = {str: "string", bool: "boolean", int: "integer", float: "number"}


@functools.cache
def descriptions(section: type) -> Mapping[str, str]:
    """The docstrings below the fields of a class and of those that it derives from."""
    found: dict[str, str] = {}
    for each in reversed(section.__mro__[:-1]):
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(each))).body
        assert isinstance(definition, ast.ClassDef)
        for statement, following in zip(definition.body, definition.body[1:], strict=False):
            text = _docstring_of(following)
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and text:
                found[statement.target.id] = text
    return found


def _docstring_of(statement: ast.stmt) -> str:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        value = statement.value.value
        return inspect.cleandoc(value) if isinstance(value, str) else ""
    return ""
