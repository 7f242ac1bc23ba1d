"""Every path and name in docs/architecture.md exists, no room is missing there, and a test names each module.

The line "Tests of MODULE." in a test's docstring leads from a module to the test that fails when it errs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "builder" / "sandwright"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
WORDS = sorted(set(re.findall(r"`([\w./<>-]+/|[\w./<>-]+\.\w+(?::[\w.]+)?)`", PAGE)))
OWN_FILES = {"__init__.py", "support.py", "render.py", "backend.py", "explain.py", "expected.py"}
"""Files of a method's folder that the page lists without the folder."""


def _paths(word: str) -> Iterator[Path]:
    pattern = word.replace("<name>", "*").replace("NAME", "*").rstrip("/")
    for base in (PACKAGE, ROOT):
        yield from base.glob(pattern)


def _names(tree: ast.AST) -> dict[str, ast.AST]:
    return {each.name: each for each in ast.iter_child_nodes(tree) if isinstance(each, _NAMED)}


_NAMED = (ast.FunctionDef, ast.ClassDef)


@pytest.mark.parametrize("word", [word for word in WORDS if word not in {".sandbox", "file.py:name"}])
def test_what_the_page_names_exists(word: str) -> None:
    path, _, name = word.partition(":")
    found = list(_paths(f"methods/<name>/{path}" if path in OWN_FILES else path))
    assert found, f"{path} is not there"
    if name:
        tree: ast.AST = ast.parse(found[0].read_text(encoding="utf-8"))
        for part in name.split("."):
            assert part in _names(tree), f"{word}: no {part}"
            tree = _names(tree)[part]


def test_every_room_is_on_the_page() -> None:
    rooms = {path.name + "/" for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    rooms |= {path.name for path in PACKAGE.glob("[a-z]*.py")}
    assert sorted(room for room in rooms if f"`{room}`" not in PAGE) == []


MODULES = {word.partition(":")[0] for word in WORDS} - OWN_FILES
"""The modules on the page; `_SOURCE` omits directories, tests, and files without decisions."""

_SOURCE = re.compile(r"(?!tests/|docs/|images/|\.)[\w./]+\.(py|c|h|sh|j2|yaml)")


def _tested() -> set[str]:
    texts = (path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    return {found for text in texts for found in re.findall(r"(?m)^Tests of ([\w./<>]+\.\w+)", text)}


def test_each_module_of_the_page_is_named_by_a_test() -> None:
    modules = {path for path in MODULES if _SOURCE.fullmatch(path) and path != "file.py"}
    assert sorted(modules - _tested()) == []


def test_what_tests_name_exists() -> None:
    assert sorted(module for module in _tested() if not list(_paths(module))) == []
