"""The documented Python API: the example runs, and every method answers like the command line.

Tests of api.py.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

import sandwright
from sandwright import HostFacts, Policy, SandwrightError, process
from sandwright.errors import RenderError, UsageError
from sandwright.methods.registry import render

POLICY = "method: bwrap\nnetwork: {mode: none}\nfilesystem: {deny: [$PROJECT/secrets]}\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "p"
    (folder / "secrets").mkdir(parents=True)
    (folder / "sandbox.yaml").write_text(POLICY)
    return folder


def test_the_documented_example_runs(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    assert sandwright.__doc__ is not None
    example = re.findall(r"^    (.*)$", sandwright.__doc__, re.MULTILINE)
    assert len(example) == 5
    found: dict[str, object] = {}
    values = []
    for line in example:
        tree = ast.parse(line.strip(), mode="exec")
        if isinstance(tree.body[0], ast.Expr):
            values.append(eval(compile(line.strip(), "example", "eval"), found))
        else:
            exec(compile(tree, "example", "exec"), found)
    writable, arguments, agree = values
    assert writable is False
    assert isinstance(arguments, bytes)
    assert b"--unshare-pid\0" in arguments
    assert agree is True


def test_names_are_there_and_no_others() -> None:
    for name in sandwright.__all__:
        assert getattr(sandwright, name) is not None
    with pytest.raises(AttributeError, match="module 'sandwright' has no attribute 'Polcy'"):
        sandwright.Polcy  # noqa: B018


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = "import sys, sandwright; print([m for m in ('jinja2', 'yaml') if m in sys.modules])"
    assert process.run(sys.executable, "-c", code, timeout=60).text.strip() == "[]"


def test_rendering_is_what_the_renderers_make(project: Path) -> None:
    policy = Policy.load(project / "sandbox.yaml")
    facts = policy.facts()
    rendered = policy.render("bwrap", facts)
    assert rendered == render(policy.resolve(facts), "bwrap")
    assert policy.render("bwrap") == rendered, "this host, as it is"
    assert policy.render("oci", HostFacts.from_json(facts.to_json())).method == "oci"


def test_errors_are_ours(project: Path) -> None:
    policy = Policy.load(project / "sandbox.yaml")
    with pytest.raises(UsageError, match="there is no method 'bwarp'"):
        policy.render("bwarp")
    text = POLICY + "resources: {pids: 9}\n"
    with pytest.raises(RenderError, match=r"landlock cannot enforce resources\.pids") as caught:
        Policy.from_text(text).render("landlock", policy.facts())
    assert isinstance(caught.value, SandwrightError)


def test_questions(project: Path) -> None:
    policy = Policy.load(project / "sandbox.yaml")
    facts = policy.facts()
    assert policy.is_path_writable("$PROJECT/x", facts)
    assert not policy.is_path_writable("$PROJECT/secrets/x", facts)
    assert not policy.is_path_readable(str(project / "secrets" / "x"))
    own = policy.explain("read", "$PROJECT/secrets/x", facts)
    assert (own.allowed, own.rows) == (False, ())
    assert str(own.answer.ground.source) == f"project {project}/sandbox.yaml:3:21"
    both = policy.explain("read", "$PROJECT/secrets/x", facts, methods=["bwrap", "seatbelt"])
    assert [(row.method, row.decision) for row in both.rows] == [("bwrap", "deny"), ("seatbelt", "deny")]
    assert both.row("bwrap").position is not None
    with pytest.raises(KeyError):
        both.row("docker")


@pytest.mark.parametrize("method", ["bwrap", "docker", "seatbelt", "kubernetes"])
def test_a_method_may_be_asked_what_it_lets(project: Path, method: str) -> None:
    policy = Policy.load(project / "sandbox.yaml")
    facts = policy.facts()
    assert policy.is_path_writable("$PROJECT/.git", facts)
    assert not policy.is_path_writable("$PROJECT/.git", facts, method=method)
    assert policy.is_path_writable("$PROJECT/new", facts, method=method)
    assert policy.is_path_readable("$PROJECT/sandbox.yaml", facts, method=method)
    assert not policy.is_path_readable("$PROJECT/secrets", facts, method=method)


def test_a_method_that_enforces_nothing_of_a_policy_lets_nothing_be_known(project: Path) -> None:
    policy = Policy.from_text(POLICY)
    facts = Policy.load(project / "sandbox.yaml").facts()
    with pytest.raises(RenderError, match=r"landlock cannot enforce filesystem\.deny-inside"):
        policy.is_path_writable("$PROJECT/x", facts, method="landlock")
    with pytest.raises(UsageError, match="there is no method 'nope'"):
        policy.is_path_writable("$PROJECT/x", method="nope")
