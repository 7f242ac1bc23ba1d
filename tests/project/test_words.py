"""Words of docs/glossary.md: retired names are gone, and the private ones that are left become fewer.

A retired name was renamed to the field's word (the review's table). Words of everyday English as whole
names (`told`, `kept`, `place`) say nothing to a reader. Those that are left are counted; the count goes down.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from project.test_architecture import modules

RETIRED = {
    "Cover": "Placeholder",
    "covers": "placeholders",
    "HeldMembers": "MemoryBudget",
    "ReadAhead": "Prefetch",
    "Say": "Notify",
    "attend": "run_supervised",
    "bring_back": "download",
    "carriers": "sync_containers",
    "is_cover": "is_placeholder",
    "journey": "transfer",
    "kernel_bug": "kernel_exploit_impact",
    "left_behind": "scan",
    "suspected": "candidate_denials",
    "Trail": "AuditWriter",
    "travels": "copies_project",
    "walls": "isolation_layers",
}
"""Names of functions, classes, fields and parameters, and what they are called now."""

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
"""Modules and rooms that have other names now."""

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
"""Everyday words that are no name for a thing."""

MOST_PRIVATE = 1220
"""How many definitions, parameters and variables have such a name. Lower it when some are renamed."""

EXCEPTIONS = {
    (name, "covers")
    for name in ("check/finding.py", "policy/floor.py", "policy/hosts.py", "policy/values.py")
}
"""Here a pattern covers what it matches."""


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
