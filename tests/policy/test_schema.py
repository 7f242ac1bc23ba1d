"""The JSON Schema for editors: it accepts valid files, refuses misspelt keys, and describes every key.

Tests of documents/schema.py.
Tests of policy/model.py: each key has its text.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from sandwright.documents.yaml import parse_yaml
from sandwright.policy.schema import policy_schema

SCHEMA = policy_schema()
EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*/sandbox.yaml"))


def _check(data: Any) -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(data)


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert json.loads(json.dumps(SCHEMA)) == SCHEMA


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.parent.name))
def test_examples_fit(path: Path) -> None:
    _check(parse_yaml(path.read_text(), file=path.name).data)


@pytest.mark.parametrize(
    "data",
    [
        {"metod": "bwrap"},
        {"method": "chroot"},
        {"filesystem": {"wirte": []}},
        {"filesystem": {"write": "x"}},
        {"filesystem": {"write": ["src"]}},
        {"filesystem": {"deny": None}},
        {"network": {"mode": "off"}},
        {"network": {"localhost": [0]}},
        {"environment": {"set": {"A": 1}}},
        {"environment": {"pass_": []}},
        {"credentials": {"shims": {"gh": {}}}},
        {"credentials": {"shims": {"gh": {"allow": [], "secrets": {"A": "ghp_x"}}}}},
        {"resources": {"pids": 0}},
        {"accept_gaps": [{"feature": "x", "method": "bwrap", "reason": "y"}]},
        {"macos": ["everything"]},
        [],
    ],
    ids=str,
)
def test_what_does_not_load_does_not_fit(data: Any) -> None:
    with pytest.raises(jsonschema.ValidationError):
        _check(data)


def _keys(schema: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        f"{name}.{key}": described
        for name, definition in [("", SCHEMA), *SCHEMA["$defs"].items()]
        for key, described in definition["properties"].items()
    }


def test_every_key_says_what_it_means() -> None:
    assert [key for key, described in _keys(SCHEMA).items() if not described.get("description")] == []


def test_every_key_that_may_be_absent_says_what_that_means() -> None:
    optional = {
        f"{name}.{key}": described["description"]
        for name, definition in [("", SCHEMA), *SCHEMA["$defs"].items()]
        for key, described in definition["properties"].items()
        if key not in definition.get("required", ())
    }
    sections = {
        ".filesystem",
        ".network",
        ".process",
        ".environment",
        ".credentials",
        ".user",
        ".resources",
        ".gvisor",
    }
    exclusive = {".methods", ".reason"}
    silent = {key for key, text in optional.items() if "Absent" not in text} - sections - exclusive
    assert silent == set()


def test_descriptions_are_the_models() -> None:
    described = _keys(SCHEMA)
    assert described["Filesystem.deny"]["description"].startswith(
        "Restrictions: paths that can be neither read"
    )
    assert described[".schema"]["description"] == "The version of this format. Absent: 1."
    assert described["Environment.pass"]["description"].startswith("Grants: variables passed from the host")
