"""Named temporary files lie where no sandbox can write, unless they decide nothing on the host."""

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGES = Path(__file__).parents[2] / "builder"
NAMED = {"TemporaryDirectory", "NamedTemporaryFile", "mkdtemp", "mkstemp"}
IN_TMPDIR = {
    "sandwright_kubernetes/canary.py": "a program for the cluster's nodes",
}
"""Modules that take the directory from TMPDIR, which a policy may share with a sandbox."""


def _placeless(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in NAMED and "dir" not in {each.arg for each in node.keywords}:
                yield f"{path.relative_to(PACKAGES)}"


def test_temporary_files_have_a_place() -> None:
    found = {each for path in PACKAGES.rglob("*.py") for each in _placeless(path)}
    assert found == set(IN_TMPDIR)
