"""Any text as a policy (fuzz) is accepted or refused with a position; there is no other outcome."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from sandwright.api import Policy
from sandwright.errors import DocumentError, RenderError, UsageError
from sandwright.methods import registry
from sandwright.policy import load
from sandwright.policy.explain import QUESTIONS, explain
from sandwright.policy.facts import HostEntry, HostFacts
from sandwright.policy.names import METHODS
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.uses import check_expressible
from sandwright.render.mounts import mount_plan
from support.thorough import examples

T = TypeVar("T")
FACTS = HostFacts(
    os="linux",
    home="/home/u",
    project="/home/u/p",
    environment={"DATA": "/data", "ODD": "x\udcff"},
    entries={
        "/home/u/p": HostEntry("directory"),
        "/loop": HostEntry("symlink", "loop"),
        "/l": HostEntry("symlink", ".."),
    },
)
SECTIONS = ["filesystem", "network", "process", "environment", "credentials", "user", "resources", "gvisor"]
LISTS = ["macos", "accept_gaps"]
KEYS = [
    "schema", "method", "methods", "reason", "extends", *SECTIONS, "macos", "image", "accept_gaps", "read",
    "write", "readonly", "deny", "protect", "unprotect", "tmp", "mode", "allow", "unix_sockets",
    "localhost", "expose", "sandbox_root", "seccomp", "pass", "set", "cloud", "shims", "mapping", "memory",
    "cpus", "pids", "files", "time", "path", "feature", "gh", "secrets", "A", "engine", "nonsense",
    "outer", "degrade", "prefer", "privileged",
]  # fmt: skip
WORDS = [
    "bwrap", "noop", "default", "strict", "...", "/", "$PROJECT", "~", "~/x", "/loop/x", "/l/x", "${DATA}/y",
    "${ODD}", "/a/../b", "private", "proxy", "host", "github.com", "*.x.org:8443", "127.1", "[::1]:1", "LC_*",
    "pty", "${TOKEN}", "2GiB", "30m", "unlimited", "", "a\x00b", "-rf", ".git/hooks", "filesystem.absent",
]  # fmt: skip
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-5, 70000)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(WORDS)
    | st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8)
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=5)
QUIET = settings(max_examples=examples(100), deadline=None)


@QUIET
@given(DOCUMENTS, DOCUMENTS)
def test_any_two_layers(floor: dict[str, Any], project: dict[str, Any]) -> None:
    policy = _taken(lambda: _resolved(floor, project))
    if policy is None:
        return
    assert not policy.is_path_readable("/run/docker.sock")
    assert policy == _resolved(floor, project)
    mount_plan(policy, root="host")
    for method in METHODS:
        _taken(lambda method=method: check_expressible(policy, registry.declaration(method)))  # type: ignore[misc]


@QUIET
@given(st.fixed_dictionaries({}, optional=dict.fromkeys((*SECTIONS, *LISTS), DOCUMENTS | VALUES)))
def test_any_sections(data: dict[str, Any]) -> None:
    _taken(lambda: _resolved({}, data))


@QUIET
@given(st.binary(max_size=60))
def test_any_bytes(raw: bytes) -> None:
    _taken(lambda: load.layer(raw))


@QUIET
@given(st.sampled_from(QUESTIONS), st.text(max_size=20) | st.sampled_from(WORDS))
def test_any_question(question: str, subject: str) -> None:
    policy = Policy.from_text("network: {mode: proxy, allow: [github.com]}").resolve(FACTS)
    answer = _taken(lambda: explain(policy, question, subject))
    assert answer is None or answer.as_data()["decision"] in ("allow", "deny")


def _taken(make: Callable[[], T]) -> T | None:
    """The result of `make`, or None when it was refused with a message."""
    try:
        return make()
    except (DocumentError, UsageError, RenderError) as error:
        refusal = str(error)
    assert refusal
    return None


def _resolved(floor: Any, project: Any) -> ResolvedPolicy:
    layers = [_layer(floor, "floor"), _layer(project, "project")]
    return Policy.from_layers(layers).resolve(FACTS)


def _layer(data: Any, kind: load.LayerKind) -> load.Layer:
    return load.layer(json.dumps(data, ensure_ascii=False).replace("\x7f", ""), kind=kind)
