"""The floors of the package: imports between rooms, cycles, and modules that pure rooms never import."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "builder" / "sandwright"
SEPARATE = PACKAGE.with_name("sandwright_kubernetes")
"""A method in a separate package: the rules for a method's folder apply to it, too."""

FLOORS = (
    {
        "errors",
        "visible",
        "folding",
        "resources",
        "prebuilt",
        "progress",
        "documents",
        "mount_aliases",
        "nested",
        "digests",
        "environment",
        "landlock",
        "lazy",
        "sarif",
    },
    {
        "checked",
        "locking",
        "process",
        "streams",
        "foreground",
        "inputs",
        "reading",
        "sockets",
        "host",
        "git",
        "outputs",
        "user_dirs",
        "questions",
        "signalling",
        "requirements",
        "setup",
        "watchdog",
        "mountinfo",
        "crossbuild",
        "launcher",
        "front",
        "mcp",
    },
    {"policy"},
    {"seccomp"},
    {"render"},
    {"evaluate"},
    {"engines"},
    {"rootfs", "registry", "image"},
    {"runtime"},
    {"methods"},
    {"bridge", "egress", "workspace"},
    {"sandwright_kubernetes"},
    {"session"},
    {"verify"},
    {"release", "init", "reference", "check", "change", "learn"},
    {"api"},
    {"cli"},
)
"""From the ground up. A room is a package or module of `sandwright`; it imports rooms of lower floors."""

SIDEWAYS = {
    "errors": {"visible"},
    "nested": {"errors", "folding"},
    "documents": {"errors"},
    "resources": {"documents"},
    "crossbuild": {"process"},
    "foreground": {"streams"},
    "git": {"process"},
    "front": {"launcher"},
    "launcher": {"crossbuild"},
    "outputs": {"process"},
    "inputs": {"git", "questions"},
    "questions": {"git"},
    "user_dirs": {"questions", "reading"},
    "host": {"process"},
    "setup": {"host", "process"},
    "process": {"signalling"},
    "watchdog": {"process", "signalling"},
    "mountinfo": {"process"},
    "locking": {"user_dirs"},
    "image": {"registry", "rootfs"},
    "registry": {"rootfs"},
    "check": {"release"},
}
"""The imports that a package may take from its own layer."""

PURE = (
    "documents/",
    "launcher/plan.py",
    "policy/",
    "render/",
    "evaluate/",
    "image/definition.py",
    "rootfs/bundles/convert.py",
)
"""Modules without effects, by the beginning of their name."""

PURE_PARTS = ("/support.py", "/render.py", "/explain.py", "/expected.py")
"""The parts of a method that are pure; its backend starts sandboxes."""

IMPURE = {
    "policy/collect.py",
    "policy/machine_facts.py",
    "policy/own_directories.py",
    "policy/installation.py",
    "policy/trusted.py",
    "policy/load.py",
    "policy/git_repositories.py",
    "policy/git_worktree.py",
    "evaluate/sbpl/command.py",
}
"""The exceptions: these look at the host."""

EFFECTS = {"os", "subprocess", "socket", "docker", "requests", "shutil", "tempfile", "time", "random"}


@dataclass(frozen=True)
class Import:
    """One import: the imported module, or the module of the imported name, and the kind of import."""

    module: str
    line: int
    is_for_types: bool

    @property
    def room(self) -> str:
        """The room of the imported module; empty for foreign modules."""
        top, _, rest = self.module.partition(".")
        return rest.partition(".")[0] if top == "sandwright" else top if top == SEPARATE.name else ""


@dataclass(frozen=True)
class Module:
    """One module of the package, parsed. `name` is its path in `sandwright`, `dotted` its import name."""

    name: str
    dotted: str
    path: Path
    tree: ast.Module
    imports: tuple[Import, ...]

    @property
    def room(self) -> str:
        """The package or module right below `sandwright`."""
        return self.name.split("/")[0].removesuffix(".py")


@functools.cache
def modules() -> tuple[Module, ...]:
    """All modules of the package. Each file is parsed once."""
    paths = {_dotted(path): path for each in (PACKAGE, SEPARATE) for path in sorted(each.rglob("*.py"))}
    trees = {dotted: ast.parse(path.read_text(encoding="utf-8")) for dotted, path in paths.items()}
    return tuple(
        Module(
            _name(paths[dotted]),
            dotted,
            paths[dotted],
            tree,
            tuple(_imports(tree, frozenset(paths), is_for_types=False)),
        )
        for dotted, tree in trees.items()
    )


def _name(path: Path) -> str:
    return path.relative_to(PACKAGE if path.is_relative_to(PACKAGE) else PACKAGE.parent).as_posix()


def _dotted(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(node: ast.AST, known: frozenset[str], *, is_for_types: bool) -> Iterator[Import]:
    """The imports in a tree, including those in functions and under TYPE_CHECKING."""
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, ast.Import):
            yield from (Import(alias.name, inner.lineno, is_for_types) for alias in inner.names)
        elif isinstance(inner, ast.ImportFrom):
            assert inner.module, f"line {inner.lineno}: relative import"
            assert inner.level == 0, f"line {inner.lineno}: relative import"
            members = [f"{inner.module}.{alias.name}" for alias in inner.names]
            targets = [member if member in known else inner.module for member in members]
            yield from (Import(target, inner.lineno, is_for_types) for target in dict.fromkeys(targets))
        else:
            typing = isinstance(inner, ast.If) and ast.unparse(inner.test) == "TYPE_CHECKING"
            yield from _imports(inner, known, is_for_types=is_for_types or typing)


def _floor(room: str) -> int | None:
    return next((number for number, rooms in enumerate(FLOORS) if room in rooms), None)


def _listed(faults: list[str]) -> str:
    return "\n" + "\n".join(faults)


def test_every_room_has_a_floor() -> None:
    rooms = {module.room for module in modules()} - {"__init__"}
    assert {room for room in rooms if _floor(room) is None} == set()


def test_imports_point_down() -> None:
    """Late imports and imports for types count, too; rooms of one floor follow `SIDEWAYS`."""
    faults = []
    for module in modules():
        own = _floor(module.room)
        for each in module.imports:
            floor = _floor(each.room)
            allowed = (
                own is None
                or floor is None
                or floor < own
                or each.room == module.room
                or each.room in SIDEWAYS.get(module.room, ())
            )
            if not allowed:
                faults.append(f"{module.name}:{each.line}: {module.room} imports {each.module}")
    assert not faults, _listed(faults)


def test_the_core_imports_no_package_of_a_method() -> None:
    """The package is found by its entry point, like a third party's."""
    separate = [module for module in modules() if module.room == SEPARATE.name]
    assert separate
    faults = [
        f"{module.name}:{each.line} imports {each.module}"
        for module in modules()
        if module.room != SEPARATE.name
        for each in module.imports
        if each.room == SEPARATE.name
    ]
    faults += [
        f"{module.name}:{node.lineno} names {node.value}"
        for module in modules()
        if module.room != SEPARATE.name
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and SEPARATE.name in node.value
    ]
    assert not faults, _listed(faults)


def test_there_is_no_circle_of_imports() -> None:
    """Late imports count; imports for types do not."""
    graph = {
        module.dotted: {
            each.module for each in module.imports if not each.is_for_types and each.module != module.dotted
        }
        for module in modules()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(" is imported by\n".join(error.args[1])) from None


def test_pure_modules_have_no_effects() -> None:
    faults = [
        f"{module.name}:{each.line} imports {each.module}"
        for module in modules()
        if _is_pure(module.name)
        for each in module.imports
        if each.module.split(".")[0] in EFFECTS
    ]
    assert not faults, _listed(faults)


def _is_pure(name: str) -> bool:
    part = name.startswith(("methods/", "sandwright_kubernetes/")) and name.endswith(PURE_PARTS)
    return (part or name.startswith(PURE)) and name not in IMPURE


def test_programs_are_started_in_one_module() -> None:
    starters = {
        module.name
        for module in modules()
        for each in module.imports
        if each.module.split(".")[0] == "subprocess"
    }
    assert starters == {"process.py", "verify/smoke/in_image_checks.py"}, (
        "the second runs inside a sandbox, with its Python"
    )


ENGINES = {"docker", "podman", "buildah"}


def test_engines_are_driven_in_one_room() -> None:
    """Only `engines/` imports the Docker SDK and starts a client of an engine."""
    faults = [
        fault for module in modules() if module.room != "engines" for fault in _engine_faults(module.tree)
    ]
    assert not faults, _listed(faults)


@pytest.mark.parametrize(
    "text",
    [
        "import docker",
        "from docker.errors import APIError",
        "def f():\n    import docker.types",
        "process.run('docker', 'ps')",
        "process.run(*('podman', 'ps'), timeout=1)",
        "run_bounded(['buildah', 'images'])",
        "process.run(engine, 'ps')",
        "process.start(self.engine, 'ps')",
        "process.run(*(self.engine, *words))",
        "process.run(policy.gvisor_engine, 'exec')",
    ],
)
def test_a_second_adapter_of_an_engine_is_found(text: str) -> None:
    assert list(_engine_faults(ast.parse(text)))


def _engine_faults(tree: ast.Module) -> Iterator[str]:
    for each in _imports(tree, frozenset(), is_for_types=False):
        if each.module.partition(".")[0] == "docker":
            yield f"line {each.line} imports {each.module}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in STARTERS:
            first = _first_word(node.args[0]) if node.args else None
            if first is not None and _names_engine(first):
                yield f"line {node.lineno} starts {ast.unparse(first)}"


STARTERS = {"run", "start", "run_bounded", "Popen", "which"}


def _first_word(argument: ast.expr) -> ast.expr:
    """The program in the first argument of a start, which may be a list of words."""
    while isinstance(argument, ast.Starred) or (isinstance(argument, ast.List | ast.Tuple) and argument.elts):
        argument = argument.value if isinstance(argument, ast.Starred) else argument.elts[0]
    return argument


def _names_engine(word: ast.expr) -> bool:
    if isinstance(word, ast.Constant):
        return word.value in ENGINES
    return ast.unparse(word).rpartition(".")[2] in {"engine", "gvisor_engine"}


def test_git_is_started_in_two_rooms() -> None:
    """`git/` starts it to read a work tree, and the bridge for a call."""
    starters = {
        module.room
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in STARTERS and node.args
        if (word := _first_word(node.args[0])) and isinstance(word, ast.Constant) and word.value == "git"
    }
    assert starters == {"bridge"}, "`git/command.py` starts an argv that it has made"


def test_one_module_spells_bubblewraps_options() -> None:
    """Another module reads them back, to check the rendered artifacts."""
    options = ("--unshare-", "--bind", "--ro-bind", "--die-with-parent", "--remount-ro")
    writers = {
        module.name
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant) and str(node.value).startswith(options)
    }
    assert writers == {"render/bubblewrap.py", "methods/bwrap/explain.py"}


def test_only_the_command_line_prints_and_exits() -> None:
    faults = [
        f"{module.name}:{node.lineno} calls {ast.unparse(node.func)}"
        for module in modules()
        if module.room != "cli"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"print", "sys.exit", "exit", "input"}
    ]
    assert not faults, _listed(faults)


def test_every_module_and_public_name_has_a_docstring() -> None:
    missing = [module.name for module in modules() if not ast.get_docstring(module.tree)]
    missing += [
        f"{module.name}:{node.name}"
        for module in modules()
        for node in module.tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
    ]
    assert not missing, _listed(missing)


def test_public_classes_have_unique_names() -> None:
    homes: dict[str, list[str]] = {}
    for module in modules():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(module.name)
    shared = [f"{name}: {', '.join(found)}" for name, found in homes.items() if len(found) > 1]
    assert not shared, _listed(shared)


def test_files_of_tests_have_unique_names() -> None:
    """They are modules of one name space: of two with the same name, pytest collects one."""
    names = sorted(path.name for path in Path(__file__).parents[1].rglob("test_*.py"))
    assert [name for name in set(names) if names.count(name) > 1] == []
