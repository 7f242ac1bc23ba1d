"""Imports stand at the top of a file; the exceptions are listed, with their reasons."""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter
from collections.abc import Iterator

from project.test_architecture import modules

MOST = 30
"""The maximum number of late imports in the whole package."""

ELSEWHERE = {"verify/smoke/in_image_checks.py"}
"""Run by the Python of an image, which may lack parts of the library, and is older."""


def _late(node: ast.AST, *, in_function: bool = False) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports in functions."""
    if in_function and isinstance(node, ast.Import | ast.ImportFrom):
        yield node
    in_function = in_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    for each in ast.iter_child_nodes(node):
        if isinstance(each, ast.stmt | ast.excepthandler | ast.match_case):
            yield from _late(each, in_function=in_function)


@functools.cache
def _found() -> dict[str, list[int]]:
    found = {module.name: sorted({each.lineno for each in _late(module.tree)}) for module in modules()}
    return {name: lines for name, lines in found.items() if lines and name not in ELSEWHERE}


def test_late_imports_are_few() -> None:
    counted = Counter({name: len(lines) for name, lines in _found().items()})
    assert counted.total() <= MOST, counted


def test_each_late_import_says_why() -> None:
    faults = []
    paths = {module.name: module.path for module in modules()}
    for name, lines in _found().items():
        text = paths[name].read_text(encoding="utf-8").splitlines()
        for number in lines:
            if not re.search(r"# noqa: PLC0415 - \w", text[number - 1]):
                faults.append(f"{name}:{number}: {text[number - 1].strip()}")
    assert not faults, "\n".join(faults)


def test_types_are_imported_as_anything_else() -> None:
    """`TYPE_CHECKING` is that of `typing`: no module sets it to false."""
    assigned = [
        module.name
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "TYPE_CHECKING"
    ]
    assert not set(assigned) - ELSEWHERE, assigned


def test_no_private_module_of_the_library_is_imported() -> None:
    private = {
        f"{module.name}: {each.module}"
        for module in modules()
        for each in module.imports
        if re.match(r"_(?!_)", each.module)
    }
    assert private == {"session/cache_key.py: _operator"}
