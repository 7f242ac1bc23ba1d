"""The JSON Schema of `sandbox.yaml`, for editors: the model, its docstrings as descriptions."""

from __future__ import annotations

import ast
import inspect
from typing import Any

from sandwright.policy import model

Schema = dict[str, Any]


def policy_schema() -> Schema:
    """The JSON Schema (draft 2020-12) of one layer of a policy.

    It says what an editor can check while somebody types. Loading checks more: relations between fields, and
    what a host makes of them.
    """
    schema = model.PolicyFile.model_json_schema(by_alias=True)
    descriptions = _descriptions()
    for name, definition in (*schema.get("$defs", {}).items(), ("PolicyFile", schema)):
        for key, described in definition.get("properties", {}).items():
            _refine(described)
            text = descriptions.get(name, {}).get(key)
            if text:
                described["description"] = text
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "sandwright policy"}


def _refine(described: Schema) -> None:
    """Take out that null stands for an absent key: it is how the model says it, and never written."""
    if "default" in described and described["default"] is None:
        del described["default"]
    described.pop("title", None)
    options = [each for each in described.get("anyOf", ()) if each != {"type": "null"}]
    if len(options) == 1:
        del described["anyOf"]
        described.update(options[0])
    elif options:
        described["anyOf"] = options


def _descriptions() -> dict[str, dict[str, str]]:
    """By class and key: the docstring below the field, read when asked for; pydantic would at import."""
    tree = ast.parse(inspect.getsource(model))
    found: dict[str, dict[str, str]] = {}
    for definition in tree.body:
        if isinstance(definition, ast.ClassDef):
            fields = found.setdefault(definition.name, {})
            for statement, following in zip(definition.body, definition.body[1:], strict=False):
                text = _text(following)
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and text:
                    fields[_KEYS.get(statement.target.id, statement.target.id)] = text
    return found


_KEYS = {"pass_": "pass", "version": "schema"}
"""Fields that have another name in Python than in a document."""


def _text(statement: ast.stmt) -> str:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        value = statement.value.value
        return inspect.cleandoc(value) if isinstance(value, str) else ""
    return ""
