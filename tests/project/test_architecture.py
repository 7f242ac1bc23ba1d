"""The rooms of the house: who may import whom, and what pure rooms never touch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "builder" / "sandwright"
MODULES = sorted(PACKAGE.rglob("*.py"))

LAYERS = [
    {"errors", "visible", "resources", "progress", "yamltree", "document", "validation", "gitindex"},
    {
        "process",
        "streams",
        "foreground",
        "looks",
        "reading",
        "host",
        "places",
        "signalling",
        "requirements",
        "setup",
        "crossbuild",
        "mountwatch",
    },
    {"policy"},
    {"render"},
    {"evaluate"},
    {"rootfs"},
    {"registry"},
    {"image"},
    {"smoke"},
    {"methods", "dedicated", "bridge", "egress", "outer"},
    {"session"},
    {"verify"},
    {"release", "adopt", "reference", "check"},
    {"cli"},
]
"""From the ground up. A room imports rooms of its own layer and of those below it."""

DOORS = {"policy/policy.py": {"render", "evaluate"}}
"""The Python API: methods of `Policy` reach up for what they do, but only once they are called."""

PURE = ("document.py", "policy/", "render/", "evaluate/", "image/definition.py", "rootfs/bundles/convert.py")
PURE_BUT = {
    "policy/collect.py",
    "policy/installation.py",
    "policy/load.py",
    "policy/repositories.py",
    "evaluate/sbpl/command.py",
}
EFFECTS = {"os", "subprocess", "socket", "docker", "requests", "shutil", "tempfile", "time", "random"}


def _imports(module: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno}: relative import"
            yield node.module or "", node.lineno
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


def _room(dotted: str) -> str | None:
    parts = dotted.split(".")
    return parts[1] if parts[0] == "sandwright" and len(parts) > 1 else None


def _height(room: str) -> int | None:
    return next((height for height, rooms in enumerate(LAYERS) if room in rooms), None)


def _name(module: Path) -> str:
    return module.relative_to(PACKAGE).as_posix()


@pytest.mark.parametrize("module", MODULES, ids=_name)
def test_imports_point_down(module: Path) -> None:
    own = _name(module).split("/")[0].removesuffix(".py")
    if own == "__init__":
        return
    height = _height(own)
    assert height is not None, f"{own} has no layer"
    for dotted, line in _imports(module):
        if _room(dotted) in DOORS.get(_name(module), ()):
            continue
        below = _height(_room(dotted) or "")
        assert below is None or below <= height, f"{module}:{line}: {own} imports {dotted}"


@pytest.mark.parametrize("module", MODULES, ids=_name)
def test_pure_rooms_have_no_effects(module: Path) -> None:
    name = _name(module)
    if not name.startswith(PURE) or name in PURE_BUT:
        return
    for dotted, line in _imports(module):
        assert dotted.split(".")[0] not in EFFECTS, f"{name}:{line} imports {dotted}"


def test_programs_are_started_in_one_module() -> None:
    starters = {
        _name(m) for m in MODULES for dotted, _ in _imports(m) if dotted.split(".")[0] == "subprocess"
    }
    assert starters == {"process.py", "smoke/inside.py"}, "the second runs inside a sandbox, with its Python"


def test_only_the_command_line_prints_and_exits() -> None:
    for module in MODULES:
        if _name(module).startswith("cli/"):
            continue
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in {"print", "sys.exit", "exit", "input"}, f"{module}:{node.lineno}"


def test_no_import_cycles() -> None:
    graph = {_dotted(m): {d for d, _ in _top_level(m) if d.startswith("sandwright")} for m in MODULES}
    for start, imported in graph.items():
        seen: set[str] = set()
        stack = list(imported)
        while stack:
            current = stack.pop()
            assert current != start, f"{start} imports itself through others"
            if current not in seen:
                seen.add(current)
                stack.extend(graph.get(current, ()))


def _top_level(module: Path) -> Iterator[tuple[str, int]]:
    for node in ast.parse(module.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            submodules = [f"{node.module}.{alias.name}" for alias in node.names]
            known = [s for s in submodules if _exists(s)]
            yield from ((s, node.lineno) for s in known or [node.module or ""])


def _exists(dotted: str) -> bool:
    path = PACKAGE.parent.joinpath(*dotted.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def _dotted(module: Path) -> str:
    parts = module.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_every_module_and_public_name_says_what_it_is() -> None:
    missing = []
    for module in MODULES:
        tree = ast.parse(module.read_text(encoding="utf-8"))
        if not ast.get_docstring(tree):
            missing.append(_name(module))
        missing += [
            f"{_name(module)}:{node.name}"
            for node in tree.body
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
            and not node.name.startswith("_")
            and not ast.get_docstring(node)
        ]
    assert missing == []


def test_files_of_tests_have_names_of_their_own() -> None:
    """They are modules of one name space: of two with the same name pytest collects one."""
    names = sorted(path.name for path in Path(__file__).parents[1].rglob("test_*.py"))
    assert [name for name in set(names) if names.count(name) > 1] == []
