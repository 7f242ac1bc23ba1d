"""Environment variables of ours are in one table (`sandwright.environment`), which docs/commands.md shows.

Tests of environment.py.
Tests of reference/variables.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from sandwright.environment import INTERNAL, VARIABLES

ROOT = Path(__file__).parents[2]
SOURCES = ("builder", "images", "oci", "seatbelt", "seccomp")
TABLE = ROOT / "builder/sandwright/environment.py"
MOST = 20
IMPORTED = re.compile(r"from sandwright\.environment import ([^\n]+)|\benvironment\.([A-Z_]+)\.name")
NAME = re.compile(r"(?<![A-Za-z0-9_])SANDWRIGHT_[A-Z0-9_]+")


def _names() -> Iterator[tuple[str, str]]:
    """Each of our names in Python, C, shell, awk and templates, with its file."""
    for path in (each for folder in SOURCES for each in sorted((ROOT / folder).rglob("*"))):
        parts = path.relative_to(ROOT).parts
        if path.is_file() and path != TABLE and not {"programs", "__pycache__"} & set(parts):
            text = path.read_bytes().decode("utf-8", "replace")
            yield from ((name, "/".join(parts)) for name in NAME.findall(text))


def test_every_variable_is_in_the_table() -> None:
    known = {each.name for each in VARIABLES} | INTERNAL.keys()
    found = list(_names())
    assert len(found) > 50
    assert sorted({f"{file}: {name}" for name, file in found if name not in known}) == []


def test_the_table_has_nothing_else() -> None:
    """Names in Python are those of the table's constants; other languages spell them out."""
    constants = {
        match[1]: match[2]
        for match in re.finditer(r"^(\w+) = EnvironmentVariable\(\s*\"(\w+)\"", TABLE.read_text(), re.M)
    }
    assert sorted(constants.values()) == sorted(each.name for each in VARIABLES)
    spelled = {name for name, _ in _names()}
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "builder").rglob("*.py")]
    imports = [line for text in sources for found in IMPORTED.findall(text) for line in found]
    imported = {constants[name] for line in imports for name in re.findall(r"\w+", line) if name in constants}
    known = {each.name for each in VARIABLES} | INTERNAL.keys()
    assert sorted(known - spelled - imported) == []


def test_there_are_few_and_each_has_a_reason() -> None:
    assert len(VARIABLES) <= MOST
    assert len({each.name for each in VARIABLES}) == len(VARIABLES)
    assert all(each.about for each in VARIABLES)
    assert all(INTERNAL.values())
    assert not INTERNAL.keys() & {each.name for each in VARIABLES}


READERS_OF_PATH = {
    "process.py": "search_path leaves out directories that a sandbox can write",
    "policy/installation.py": "reserves the programs in them, and refuses those that a sandbox could change",
    "crossbuild.py": "builds the package in a checkout",
}


def test_one_module_decides_where_programs_of_the_host_are_found() -> None:
    """Others use `process.search_path`: `verify` once executed a program that a project had in PATH."""
    package = ROOT / "builder/sandwright"
    reading = re.compile(r"os\.environ(?:\.get\(|\[)\s*[\"']PATH[\"']|os\.getenv\(\s*[\"']PATH[\"']")
    found = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if reading.search(path.read_text(encoding="utf-8")) or 'name in ("PATH"' in path.read_text()
    }
    assert found == READERS_OF_PATH.keys()
