"""Artifacts as text: JSON like the standard library's, templates cached where Python caches bytecode.

Tests of render/artifact.py.
Tests of render/templates.py: a value that no filter quotes is an error.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandwright import process
from sandwright.render.artifact import json_artifact, json_text
from sandwright.render.quoting import Quoted, quote_shell
from sandwright.render.templates import add_filter

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
DOCUMENTS = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4)
)


@given(DOCUMENTS)
def test_json_is_that_of_the_standard_library(document: object) -> None:
    assert json_text(document) == json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def test_names_that_are_no_utf_8_keep_their_bytes() -> None:
    made = json_artifact("a.json", {"path": "/a\udcff\n"}, "a test's")
    assert made.content == b'{\n  "path": "/a\xff\\n"\n}\n'


RENDER = """
from sandwright.render.templates import render_template
print(render_template("seatbelt", "fragments/pty.sb.j2"))
"""


def _run(folder: Path, **more: str) -> bytes:
    variables = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder), **more}
    if not more:
        variables.pop("PYTHONDONTWRITEBYTECODE", None)
    return process.run(sys.executable, "-c", RENDER, env=variables, timeout=120).stdout


def _kept(folder: Path) -> list[Path]:
    return sorted(folder.rglob("templates-*.cache"))


def test_compiled_templates_are_kept_and_used(tmp_path: Path) -> None:
    first = _run(tmp_path)
    (kept,) = _kept(tmp_path)
    before = kept.stat().st_mtime_ns
    assert _run(tmp_path) == first
    assert kept.stat().st_mtime_ns == before
    kept.write_bytes(b"no bytecode")
    assert _run(tmp_path) == first, "what is no bytecode is compiled anew"


def test_nothing_is_kept_when_python_keeps_nothing(tmp_path: Path) -> None:
    text = _run(tmp_path, PYTHONDONTWRITEBYTECODE="1")
    assert text.startswith(b"(allow")
    assert _kept(tmp_path) == []


def test_a_place_that_cannot_be_written_does_no_harm(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    _run(tmp_path)
    for path in _kept(tmp_path):
        path.unlink()
        path.parent.chmod(0o500)
    assert _run(tmp_path).startswith(b"(allow")


@pytest.mark.parametrize("name", ["sh", "tojson"], ids=["ours", "of Jinja"])
def test_a_filter_s_name_belongs_to_one_language(name: str) -> None:
    """Otherwise a launcher would be quoted like a Dockerfile when a program has imported both."""
    with pytest.raises(ValueError, match="exists already, and quotes otherwise"):
        add_filter(name, lambda value: Quoted(str(value)))
    add_filter("sh", quote_shell)
