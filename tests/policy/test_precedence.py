"""The deciding rule (deny before write): the tree of rules against a naive reading of their definition.

Tests of policy/rules.py.
Tests of policy/tree.py.
"""

from __future__ import annotations

import posixpath

from hypothesis import given, settings
from hypothesis import strategies as st

from sandwright.api import Policy
from sandwright.errors import DocumentError
from sandwright.policy import load
from sandwright.policy.facts import HostEntry, HostFacts

NAMES = ["a", "b", "c"]
PATHS = ["/t", "/t/a", "/t/b", "/t/a/b", "/t/a/b/c", "/t/a/bc", "/t/b/a", "/t/c"]
KINDS = ["deny", "readonly", "write", "read"]
LINKS = {"/l": "/t/a", "/t/c": "b", "/t/b/up": "../a"}
FACTS = HostFacts(
    os="linux",
    home="/home/u",
    project="/home/u/p",
    entries={path: HostEntry("symlink", target) for path, target in LINKS.items()},
)


def _real(path: str) -> str:
    """Resolves these links only."""
    for prefix, target in (("/l", "/t/a"), ("/t/c", "/t/b"), ("/t/b/up", "/t/a")):
        if path == prefix or path.startswith(prefix + "/"):
            return _real(target + path[len(prefix) :])
    return path


def _naive(rules: list[tuple[str, str]], path: str) -> str | None:
    """The most specific path wins; at the same path deny > readonly > write > read."""
    matching = [
        (len(_real(rule)), -KINDS.index(kind), kind)
        for kind, rule in rules
        if _real(path) == _real(rule) or _real(path).startswith(_real(rule) + "/")
    ]
    return max(matching)[2] if matching else None


RULES = st.lists(
    st.tuples(st.sampled_from(KINDS), st.sampled_from([*PATHS, "/l", "/l/b", "/t/b/up"])), max_size=8
)
PROBES = [
    posixpath.join(path, *rest) for path in [*PATHS, "/l", "/t/b/up"] for rest in ((), ("x",), ("b", "c"))
]


@settings(deadline=None)
@given(RULES)
def test_the_most_specific_path_wins(rules: list[tuple[str, str]]) -> None:
    lists = {kind: [path for each, path in rules if each == kind] for kind in KINDS}
    text = "\n".join(f"  {kind}: [{', '.join(paths)}]" for kind, paths in lists.items())
    try:
        policy = Policy.from_layers([load.layer(f"extends: []\nfilesystem:\n{text}\n")]).resolve(FACTS)
    except DocumentError as refused:  # a replaceable link must not grant access to its target
        if "leads through the link" in str(refused):
            return
        raise
    for path in PROBES:
        kind = _naive(rules, path)
        assert policy.is_path_readable(path) is (kind in ("readonly", "write", "read")), path
        assert policy.is_path_writable(path) is (kind == "write"), path
