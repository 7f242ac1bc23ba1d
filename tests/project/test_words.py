"""Words of docs/glossary.md: retired names are gone, and the number of remaining private names goes down.

A retired name was renamed to the field's word (the review's table). Words of everyday English as whole names
(`told`, `kept`, `place`) say nothing to a reader. The remaining ones are counted; the count goes down.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from project.test_architecture import modules
from sandwright.cli.commands.table import COMMANDS
from sandwright.documents.document import field_name
from sandwright.environment import INTERNAL, VARIABLES
from sandwright.policy.load import layer
from sandwright.policy.retired_keys import RETIRED_KEYS

ROOT = Path(__file__).parents[2]

RETIRED = {
    "Cover": "Placeholder",
    "Degrade": "AcceptedGap",
    "covers": "placeholders",
    "HeldMembers": "MemoryBudget",
    "Outer": "GvisorEngine",
    "ReadAhead": "Prefetch",
    "RefusedCall": "DeniedCall",
    "RefusedConnection": "DeniedConnection",
    "RefusedHost": "DeniedHost",
    "RefusedPath": "DeniedPath",
    "RunRefused": "RunDenied",
    "Say": "Notify",
    "attend": "run_supervised",
    "bring_back": "download",
    "carriers": "sync_containers",
    "degrade": "accept_gaps",
    "is_cover": "is_placeholder",
    "journey": "transfer",
    "kernel_bug": "kernel_exploit_impact",
    "left_behind": "scan",
    "outer": "gvisor_engine",
    "prefer": "methods",
    "privileged": "sandbox_root",
    "remarks": "collect_warnings",
    "suspected": "candidate_denials",
    "Trail": "AuditWriter",
    "travels": "copies_project",
    "unguarded": "unprotected_names",
    "unheld": "open_reserved_paths",
    "unkept": "why_left_out",
    "walls": "isolation_layers",
}
"""Retired names of functions, classes, fields and parameters, with their new names."""

RETIRED_MODULES = frozenset(
    [
        "adopt",
        "after",
        "ahead",
        "apart",
        "beside",
        "covers",
        "deciding",
        "elsewhere",
        "held",
        "inroot",
        "left_behind",
        "places",
        "remarks",
        "suspected",
        "trail",
        "travel",
        "uncovered",
        "wall",
        "watched",
        "wording",
    ]
)
"""Retired names of modules and rooms."""

PRIVATE = frozenset(
    [
        "asked",
        "beside",
        "elsewhere",
        "given",
        "kept",
        "known",
        "left",
        "looked",
        "meant",
        "nobody",
        "own",
        "place",
        "said",
        "shown",
        "told",
        "wanted",
    ]
)
"""Everyday words that describe nothing as names."""

MOST_SHARED = 20
"""The number of private function names in several modules. Lower it when some are renamed."""

MOST_PRIVATE = 59
"""The number of definitions, parameters and variables with such a name. Lower it when some are renamed."""

EXCEPTIONS = {
    *(
        (name, "covers")  # a pattern covers the values that match it
        for name in ("check/finding.py", "policy/floor.py", "policy/hosts.py", "policy/values.py")
    ),
    ("check/structure.py", "privileged"),  # a key of container-structure-test
    ("session/session_record.py", "privileged"),  # a field of session records and telemetry
    ("evaluate/sbpl/machine.py", "outer"),  # the environment around one of Scheme's
    ("methods/shared/engine/plan.py", "outer"),  # the outer container
    ("session/doctor.py", "outer"),
    ("verify/outer.py", "outer"),
}


def _defined(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def test_retired_names_are_gone() -> None:
    faults = [
        f"{module.name}: {name} is {RETIRED[name]} now"
        for module in modules()
        for name in _defined(module.tree)
        if name in RETIRED and (module.name, name) not in EXCEPTIONS
    ]
    assert not faults, "\n".join(faults)


def _spellings() -> Iterator[re.Pattern[str]]:
    """A retired key as pages show it: in a policy, or between backticks."""
    for old in RETIRED_KEYS:
        margin, key = "  " * (len(old) - 1), re.escape(str(old[-1]))
        yield re.compile(rf"`{re.escape(field_name(old))}[`:]|^{margin}{key}:", re.MULTILINE)


def test_pages_have_no_retired_key() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    table = re.compile(r"^\| (key|feature) \|.*", re.MULTILINE)
    texts = {page: table.sub("", page.read_text(encoding="utf-8")) for page in pages}
    assert len(texts) > 30
    found = [
        f"{page.relative_to(ROOT)}: {match[0]}"
        for page, text in texts.items()
        for spelling in _spellings()
        for match in spelling.finditer(text)
    ]
    assert found == []


def test_policies_have_no_retired_key() -> None:
    presets = (ROOT / "builder/sandwright/policy/presets").glob("*.yaml")
    files = [*presets, *(ROOT / "tests").glob("*/*/sandbox.yaml")]
    assert len(files) > 20
    retired = [each.render(str(file)) for file in files for each in layer(file.read_bytes()).retired]
    assert retired == []


def test_no_variable_of_the_environment_has_a_retired_word() -> None:
    options = {name for each in COMMANDS for option in each.options for name in option.retired}
    words = {"_".join(map(str, old)) for old in RETIRED_KEYS} | {each.replace("-", "_") for each in options}
    names = {each.name.removeprefix("SANDWRIGHT_").lower() for each in VARIABLES} | {
        name.removeprefix("SANDWRIGHT_").lower() for name in INTERNAL
    }
    assert len(words) > 10
    assert not names & (words | RETIRED.keys())


def test_c_sources_have_no_retired_word() -> None:
    """`monitor`, `stop_fd`, and names for the event that a loop waits for replace them (docs/glossary.md)."""
    retired = re.compile(r"\b\w*(?:keeper|KEEPER|bell|BELL)\w*\b|\b(?:attend|ring)\b")
    sources = [path for ending in ("*.c", "*.h") for path in (ROOT / "builder").rglob(ending)]
    assert len(sources) > 100
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in sources
        for match in retired.finditer(re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL))
    ]
    assert found == []


def test_retired_modules_are_gone() -> None:
    parts = {part for module in modules() for part in module.name.removesuffix(".py").split("/")}
    assert len(parts) > 300
    assert not parts & RETIRED_MODULES


def test_private_names_become_fewer() -> None:
    found = Counter(
        name.strip("_")
        for module in modules()
        for name in _defined(module.tree)
        if name.strip("_") in PRIVATE
    )
    assert found.total() <= MOST_PRIVATE, found


def _sources() -> Iterator[tuple[str, ast.Module]]:
    """The package, the tasks, the scripts of CI, and the scripts for the pictures."""
    yield from ((module.name, module.tree) for module in modules())
    for path in (ROOT / "tasks.py", *(ROOT / ".ci").glob("*.py"), *(ROOT / "docs/pictures").glob("*.py")):
        yield str(path.relative_to(ROOT)), ast.parse(path.read_text(encoding="utf-8"))


def _private_functions(tree: ast.Module) -> Iterator[str]:
    """Functions and methods of a module whose names begin with one underscore."""
    for node in tree.body:
        for each in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(each, ast.FunctionDef) and re.match("_[^_]", each.name):
                yield each.name


def _shared(sources: Iterable[tuple[str, ast.Module]]) -> set[str]:
    """Names of private functions in several modules."""
    counts = Counter(name for _, tree in sources for name in {*_private_functions(tree)})
    return {name for name, count in counts.items() if count > 1}


def test_a_private_name_in_two_modules_is_shared() -> None:
    one = "def _read(): ...\nclass A:\n    def _find(self): ...\n    def __len__(self): ..."
    other = "def _find(): ...\ndef __len__(): ...\ndef _list(): ...\ndef _list(): ..."
    assert _shared([("a.py", ast.parse(one)), ("b.py", ast.parse(other))]) == {"_find"}


def test_private_functions_have_names_of_their_own() -> None:
    sources = list(_sources())
    assert len({name for _, tree in sources for name in _private_functions(tree)}) > 1500
    shared = _shared(sources)
    assert len(shared) <= MOST_SHARED, sorted(shared)


_PASSIVE = re.compile(
    r" cannot be (changed|copied|created|joined|listed|loaded|opened|read|removed|started|used|written): "
)
"""A failed attempt behind its object: C, GNU tools and runc say "cannot read FILE: REASON"."""


def _texts(tree: ast.AST) -> Iterator[ast.Constant | ast.JoinedStr]:
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.JoinedStr) or (
            isinstance(node, ast.Constant) and isinstance(node.value, str)
        )
        if is_text and id(node) not in docstrings:
            assert isinstance(node, ast.Constant | ast.JoinedStr)
            yield node


def _wrong_texts(tree: ast.AST) -> Iterator[str]:
    for node in _texts(tree):
        if isinstance(node, ast.Constant) and "can't" in str(node.value):
            yield f"{node.lineno}: messages say cannot"
        for before, after in pairwise(node.values) if isinstance(node, ast.JoinedStr) else ():
            text = str(after.value) if isinstance(after, ast.Constant) else ""
            if isinstance(before, ast.FormattedValue) and _PASSIVE.match(text):
                yield f"{node.lineno}: cannot VERB OBJECT: REASON"


def test_messages_name_the_attempt_first() -> None:
    faults = [f"{each.name}:{fault}" for each in modules() for fault in _wrong_texts(each.tree)]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("text", ['"it can\'t be"', 'f"{file} cannot be read: {error}"'])
def test_a_wrong_message_is_found(text: str) -> None:
    assert list(_wrong_texts(ast.parse(f"raise HostError({text})")))
