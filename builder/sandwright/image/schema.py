"""The JSON Schema of image definitions, for editors."""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from sandwright.image import definition, sections
from sandwright.image.definition import ONLY_DEBIAN, ImageDefinition


def definition_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of `image.yaml`, with the docstrings of fields as descriptions."""
    schema = ImageDefinition.model_json_schema(by_alias=True, mode="validation")
    _describe(schema, ImageDefinition)
    for module in (sections, definition):
        for name, model in vars(module).items():
            if name in schema["$defs"] and isinstance(model, type) and issubclass(model, BaseModel):
                _describe(schema["$defs"][name], model)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "sandwright image definition",
        "if": {"properties": {"base": {"required": ["debian"]}}},
        "then": {"required": ["configure", "packages"]},
        "else": {"properties": dict.fromkeys(ONLY_DEBIAN, False)},
    }


def _describe(schema: dict[str, Any], model: type[BaseModel]) -> None:
    for name, text in _docstrings(model):
        schema["properties"][model.model_fields[name].alias or name]["description"] = text


def _docstrings(model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """Each field with its docstring.

    Pydantic can do this too, but at import, which would slow every command down.
    """
    tree = ast.parse(textwrap.dedent(inspect.getsource(model)))
    body = next(node for node in tree.body if isinstance(node, ast.ClassDef)).body
    for field, following in itertools.pairwise(body):
        match field, following:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str() as text)),
            ) if name in model.model_fields:
                yield name, inspect.cleandoc(text)
            case _:
                pass
