"""The reference of `sandbox.yaml`, from the model: each key, its values, and its docstring."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sandwright.policy import autorun, secretplaces
from sandwright.policy.load import preset_text
from sandwright.policy.names import FRAGMENTS, PRESETS
from sandwright.policy.schema import policy_schema
from sandwright.reference.markdown import code, table

Schema = Mapping[str, Any]


def texts() -> dict[str, str]:
    """The generated parts of the page about policies, by name."""
    schema = policy_schema()
    fragments = table(
        ["fragment", "what it opens"], [[code(name), about] for name, about in FRAGMENTS.items()]
    )
    return {
        "policy": "\n".join(_key_sections(schema, schema, "")),
        "fragments": fragments,
        "autorun": table(["name", "tool", "what it runs", "decision", "why"], list(_autorun())),
        "secrets": table(
            ["denied", "why"],
            [[", ".join(map(code, paths)), why] for why, paths in secretplaces.DENIED.items()],
        ),
        "secrets left": table(
            ["left", "why"], [[code(path), why] for path, why in secretplaces.LEFT.items()]
        ),
        **{f"preset {name}": f"```yaml\n{preset_text(name)}```\n" for name in PRESETS},
    }


def _autorun() -> Iterator[list[str]]:
    for each in autorun.NAMES:
        condition = f" (where {code(each.metadata)} is)" if each.metadata else ""
        yield [code(each.path) + condition, each.tool, each.runs, each.decision, each.reason]


def _key_sections(node: Schema, root: Schema, prefix: str) -> Iterator[str]:
    """A heading and the description of each key, sections before their keys."""
    for name, described in node.get("properties", {}).items():
        inner = _resolve_reference(described, root)
        path = f"{prefix}{name}"
        yield f"{'###' if prefix else '##'} `{path}`"
        yield ""
        yield f"{_describe_type(described, root)}."
        yield ""
        yield described.get("description") or inner.get("description", "")
        yield ""
        for part in _nested_mappings(inner, root):
            yield from _key_sections(part, root, f"{path}.")


def _nested_mappings(inner: Schema, root: Schema) -> Iterator[Schema]:
    """Mappings with fixed keys that a key holds: itself, its items, or its values."""
    for each in (inner, inner.get("items"), inner.get("additionalProperties")):
        if isinstance(each, dict):
            for one in [each, *each.get("anyOf", ())]:
                found = _resolve_reference(one, root)
                if "properties" in found:
                    yield found


def _describe_type(described: Schema, root: Schema) -> str:
    """The values that a key takes, in a few words."""
    node = _resolve_reference(described, root)
    if "enum" in node or "const" in node:
        names = [code(str(each)) for each in node.get("enum", [node.get("const")])]
        return ("One of " if len(names) > 1 else "") + ", ".join(names)
    if options := node.get("anyOf"):
        kinds = list(dict.fromkeys(_describe_type(each, root) for each in options))
        return " or ".join([kinds[0], *map(_lower, kinds[1:])])
    if node.get("type") == "array":
        return f"A list of {_PLURALS.get(kind := _describe_type(node['items'], root), _lower(kind))}"
    if node.get("type") == "object" and "properties" in node:
        return "A mapping"
    return _TYPES[str(node.get("type"))]


_TYPES = {
    "object": "A mapping",
    "string": "A string",
    "boolean": "`true` or `false`",
    "integer": "An integer",
    "number": "A number",
    "null": "null",
}
_PLURALS = {"A string": "strings", "A mapping": "mappings", "An integer": "integers"}


def _lower(kind: str) -> str:
    return kind[:1].lower() + kind[1:]


def _resolve_reference(node: Schema, root: Schema) -> Schema:
    reference = node.get("$ref", "")
    if not reference:
        return node
    target: Any = root
    for part in reference.removeprefix("#/").split("/"):
        target = target[part]
    return {**target, **{key: value for key, value in node.items() if key != "$ref"}}
