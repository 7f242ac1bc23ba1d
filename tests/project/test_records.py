"""Data between modules has a type: no public signature has `dict[str, object]`, except for listed reasons."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from project.test_architecture import modules

ENCODERS = {"as_data", "as_dict", "as_json", "to_json"}
"""These return the value of a `--json` option or of a report, for the module that writes it."""

ALLOWED = {
    "documents/": "the readers themselves",
    "engines/archive.py": "the configuration of an image",
    "image/": "documents of the OCI image specification",
    "registry/": "the same",
    "rootfs/": "the same, and of the runtime specification",
    "runtime/": "the same",
    "methods/gvisor/outer/render.py": "the same",
    "methods/shared/runtime_spec/render.py": "the same",
    "sandwright_kubernetes/cel.py": "objects of Kubernetes",
    "methods/shared/yamltext.py": "any value, as YAML",
    "release/": "attestations: in-toto, SLSA, CycloneDX, SPDX",
    "sarif.py": "SARIF",
    "evaluate/sbpl/finding.py": "a finding as JSON",
    "check/structure.py": "the configuration of an image",
    "cli/": "options, before they have types",
    "learn/proposal.py": "a value of a policy, before it is one",
    "host.py": "the machine's part of a facts file",
    "verify/foreign/claims.py": "parts of a policy, before it is one",
    "verify/smoke/": "runs in the Python of an image, and what that answers",
}


def _is_untyped(annotation: ast.expr | None) -> bool:
    """Whether a type contains a mapping from text to any value."""
    for node in ast.walk(annotation) if annotation is not None else ():
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) in ("dict", "Mapping"):
            form = node.slice
            if isinstance(form, ast.Tuple) and ast.unparse(form) in ("(str, object)", "(str, Any)"):
                return True
    return False


def _annotations(node: ast.stmt) -> Iterator[ast.expr | None]:
    if isinstance(node, ast.AnnAssign):
        yield node.annotation
    elif isinstance(node, ast.FunctionDef):
        every = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        yield from (each.annotation for each in every)
        if node.name not in ENCODERS:
            yield node.returns


def _public(body: list[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    """Functions and fields, including those of classes."""
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from ((f"{node.name}.{name}", each) for name, each in _public(node.body))
        elif isinstance(node, ast.FunctionDef) and (node.name == "__init__" or node.name[0] != "_"):
            yield node.name, node
        elif isinstance(node, ast.AnnAssign):
            yield ast.unparse(node.target), node


def _found() -> Iterator[tuple[str, str]]:
    for module in modules():
        for name, node in _public(module.tree.body):
            if any(map(_is_untyped, _annotations(node))):
                yield module.name, name


def test_records_have_types() -> None:
    faults = [f"{module}: {name}" for module, name in _found() if not module.startswith(tuple(ALLOWED))]
    assert not faults, "\n".join(faults)


def test_each_exception_is_needed() -> None:
    found = [module for module, _ in _found()]
    assert [each for each in ALLOWED if not any(module.startswith(each) for module in found)] == []


def test_no_record_of_a_session_is_an_exception() -> None:
    assert not [each for each in ALLOWED if each.startswith(("session/", "egress/", "bridge/"))]
