"""A review starts from the render cache, and is prepared again once one of its inputs changes.

Tests of session/review_plan.py: the policy's rules for the project itself, which are read at each start.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from session.conftest import Project

pytestmark = pytest.mark.needs("bwrap")

POLICY = """schema: 1
method: bwrap
workspace: review
filesystem: {write: [$PROJECT], deny: [$PROJECT/secrets]}
"""


@pytest.fixture
def reviewed(project: Project) -> Project:
    project.policy.write_text(POLICY)
    (project.root / "notes").write_text("one\n")
    return project


def _run(project: Project, *words: str, options: tuple[str, ...] = ()) -> tuple[bool, Any]:
    """Whether the rendering is used again, and the run."""
    file = project.home / "events"
    file.unlink(missing_ok=True)
    ended = project.run(*words, options=("--telemetry", str(file), *options))
    event = json.loads(file.read_text().splitlines()[-1]) if file.exists() else {"rendered": "never"}
    return event["rendered"] == "before", ended


def _is_cached(project: Project, options: tuple[str, ...] = ()) -> bool:
    """Whether one of several runs after the first is cached. Other processes may have opened a socket."""
    _run(project, "true", options=options)
    return any(_run(project, "true", options=options)[0] for _ in range(4))


@pytest.mark.parametrize("options", [(), ("--review",), ("--workspace", "other")], ids=" ".join)
def test_a_second_run_renders_nothing(reviewed: Project, options: tuple[str, ...]) -> None:
    if options:
        reviewed.policy.write_text(POLICY.replace("review", "live"))
    assert not _run(reviewed, "true", options=options)[0]
    assert _is_cached(reviewed, options)


def test_a_cached_run_changes_the_copy_alone(reviewed: Project) -> None:
    assert _is_cached(reviewed)
    was_cached, ended = _run(reviewed, "sh", "-c", "echo two >>notes; cat notes")
    assert (was_cached, ended.stdout) == (True, b"one\ntwo\n")
    assert b"1 change to review" in ended.stderr
    assert (reviewed.root / "notes").read_text() == "one\n"
    live = reviewed.run("sh", "-c", "echo two >>notes", options=("--set", "workspace=live"))
    assert live.returncode == 0
    assert (reviewed.root / "notes").read_text() == "one\ntwo\n"


def test_a_live_run_is_no_cached_review(reviewed: Project) -> None:
    """Each has a separate entry, whichever comes first."""
    reviewed.policy.write_text(POLICY.replace("review", "live"))
    for options in ((), ("--review",), (), ("--review",)):
        before = (reviewed.root / "notes").read_text()
        reviewed.run("sh", "-c", "echo x >>notes", options=options)
        assert ((reviewed.root / "notes").read_text() == before) == bool(options)
        (reviewed.root / "notes").write_text("one\n")
        reviewed.sandwright("discard", "--yes")


CHANGES: dict[str, tuple[Callable[[Project], object], str]] = {
    "what is denied by now": (
        lambda p: p.policy.write_text(POLICY.replace("secrets]", "secrets, $PROJECT/notes]")),
        "! cat notes",
    ),
    "a protected name of the project": (
        lambda p: (p.root / ".envrc").write_text("x\n"),
        "! sh -c 'echo y >>.envrc'",
    ),
    "a repository in the copy": (lambda p: (_copy(p) / "sub/.git").mkdir(parents=True), "true"),
    "a protected name in the copy": (lambda p: (_copy(p) / ".vscode").mkdir(), "true"),
    "an artifact in the project": (lambda p: (p.root / ".sandbox").mkdir(), "true"),
}


def _copy(project: Project) -> Path:
    (found,) = project.home.glob(".local/state/sandwright/workspaces/*/default/tree")
    return found


@pytest.mark.parametrize("name", CHANGES)
def test_what_decides_it_is_asked_at_each_start(reviewed: Project, name: str) -> None:
    change, script = CHANGES[name]
    assert _is_cached(reviewed)
    change(reviewed)
    was_cached, ended = _run(reviewed, "sh", "-c", script)
    assert not was_cached
    assert ended.returncode == 0, ended.stderr.decode()


def test_an_ordinary_edit_on_either_side_renders_nothing(reviewed: Project) -> None:
    assert _is_cached(reviewed)
    (reviewed.root / "notes").write_text("of the host\n")
    was_cached, ended = _run(reviewed, "sh", "-c", "cat notes; echo new >new")
    assert (was_cached, ended.stdout) == (True, b"of the host\n")
    assert _run(reviewed, "cat", "new")[0]


def test_another_project_at_the_path_is_refused(reviewed: Project) -> None:
    assert _is_cached(reviewed)
    moved = reviewed.root.with_name("moved")
    reviewed.root.rename(moved)
    reviewed.root.mkdir()
    for each in moved.iterdir():
        each.rename(reviewed.root / each.name)
    ended = reviewed.run("true")
    assert ended.returncode == 125
    assert b"another directory than the one that the workspace default has" in ended.stderr


def test_a_method_without_copies_is_refused_each_time(reviewed: Project) -> None:
    for _ in range(3):
        ended = reviewed.run("sh", "-c", "echo two >>notes", options=("--method", "user"))
        assert ended.returncode == 125
    assert (reviewed.root / "notes").read_text() == "one\n"


def test_a_policy_that_is_approved_for_one_run_is_asked_about_again(reviewed: Project) -> None:
    reviewed.policy.write_text(POLICY.replace("[$PROJECT]", f"[$PROJECT, {reviewed.home}/live]"))
    reviewed.environment["SANDWRIGHT_TRUST"] = ""
    (reviewed.home / "live").mkdir()
    for _ in range(2):
        assert reviewed.run("true", options=("--trust-policy",)).returncode == 0
    ended = reviewed.run("true")
    assert ended.returncode == 125
    assert b"sandwright trust" in ended.stderr


def test_rendered_artifacts_are_compared_each_time(reviewed: Project) -> None:
    assert reviewed.sandwright("render").returncode == 0
    assert any(_run(reviewed, "true", options=("--rendered",))[0] for _ in range(4))
    artifact = next(reviewed.root.glob(".sandbox/*/launch.plan"))
    artifact.chmod(0o600)
    artifact.write_text(artifact.read_text() + " ")
    ended = reviewed.run("true", options=("--rendered",))
    assert ended.returncode == 125, ended.stderr.decode()
