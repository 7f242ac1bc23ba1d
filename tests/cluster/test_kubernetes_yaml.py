"""A YAML document means the same to every reader: of YAML 1.1 and 1.2, in Python and in Go.

Tests of methods/shared/yamltext.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from sandwright import process
from sandwright.documents.yaml import parse_yaml
from sandwright.errors import RenderError
from sandwright.methods.shared.yamltext import yaml_text
from support.thorough import examples

MEANT_OTHERWISE = [
    "", " ", "no", "No", "y", "n", "on", "off", "true", "null", "~", "1", "012", "0x1f", "0o17", "1_000",
    "1:30", "1e3", ".5", "+1", ".inf", ".nan", "2001-01-01", "=", "<<", "-", "- a", "? a", ": a", "a: b",
    "a:", "a #b", "#a", "&a", "*a", "!a", "|", ">", "%a", "@a", "`a`", "{a}", "[a]", "a, b", '"a"', "'a'",
    "\\", "\\n", "a\nb", "\ttab", "end ", "...", "---", "\r", "\x00", "\x07", "\x7f", "\x85", "\xa0",
    "\u2028", "\ufeff", "\ufffe", "\U0001f600",
]  # fmt: skip
"""Texts that a reader would misread or reject if they were not quoted."""

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=9) | st.sampled_from(MEANT_OTHERWISE)
VALUES = st.recursive(
    TEXTS | st.integers(-(10**9), 10**9) | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


def _flat(value: Any) -> Any:
    """Values without lists in lists, which no manifest has."""
    if isinstance(value, dict):
        return {key: _flat(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_flat(each) for each in value if not isinstance(each, list)]
    return value


@pytest.mark.parametrize("text", MEANT_OTHERWISE, ids=ascii)
def test_text_is_text(text: str) -> None:
    written = yaml_text({"a": text, "b": [text, {text: 1}]})
    meant = {"a": text, "b": [text, {text: 1}]}
    assert yaml.safe_load(written) == meant
    if "\0" not in text:
        assert parse_yaml(written, file="made.yaml").data == meant


@settings(max_examples=examples(200))
@given(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=4))
def test_what_is_read_is_what_was_meant(document: dict[str, Any]) -> None:
    meant = _flat(document)
    assert yaml.safe_load(yaml_text(meant)) == meant


@pytest.mark.needs("kubectl")
def test_kubernetes_own_reader_agrees(tmp_path: Path) -> None:
    """Kustomize reads them all and writes them again, but some in a form that PyYAML does not read."""
    texts = [
        text for text in MEANT_OTHERWISE if text not in ("\0", "\x07", "\x7f", "\x85", "\ufffe", "=", "<<")
    ]
    data = {f"k{index}": text for index, text in enumerate(texts)}
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made"}, "data": data}
    (tmp_path / "made.yaml").write_text(yaml_text(document))
    (tmp_path / "kustomization.yaml").write_text(yaml_text({"resources": ["made.yaml"]}))
    printed = process.run("kubectl", "kustomize", tmp_path, env={"HOME": str(tmp_path)}).text
    assert yaml.safe_load(printed)["data"] == data


def test_blocks() -> None:
    document = {"kind": "Pod", "a": {"b": [], "c": {}}, "l": [{"x": 1, "y": [True, "z"]}, {}, "end"]}
    assert yaml_text(document, note=["said"]) == (
        '# said\nkind: Pod\na:\n  b: []\n  c: {}\nl:\n- x: 1\n  "y":\n  - true\n  - z\n- {}\n- end\n'
    )


def test_what_has_no_place() -> None:
    with pytest.raises(
        RenderError, match="a name is not UTF-8 and cannot be written to a manifest: byte 0xff"
    ):
        yaml_text({"a": "\udcff"})
    for value in (None, 1.5, b"x", [[1]]):
        with pytest.raises(TypeError, match="cannot be written to a manifest"):
            yaml_text({"a": value})


FILES = ["a\nb\n", "a: b\n\n  c # d\n", "---\n...\n- x\n", "%a\n  \nz\n"]


@pytest.mark.parametrize("text", FILES)
def test_files_stand_in_lines_of_their_own(text: str) -> None:
    written = yaml_text({"data": {"file": text}, "after": 1})
    assert written.startswith("data:\n  file: |\n    ")
    for read in (yaml.safe_load(written), parse_yaml(written, file="made.yaml").data):
        assert read == {"data": {"file": text}, "after": 1}


@pytest.mark.parametrize(
    "text", ["a\nb", "a\n", "a\nb\n\n", " a\nb\n", "\na\n", "a\r\nb\n", "a\n\tb\n", "a\n\x85b\n"]
)
def test_other_texts_stand_in_quotes(text: str) -> None:
    written = yaml_text({"data": {"file": text}})
    assert "|" not in written
    assert yaml.safe_load(written) == {"data": {"file": text}}
