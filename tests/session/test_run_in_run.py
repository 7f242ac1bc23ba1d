"""`sandwright run` inside a sandbox (nested)."""

from __future__ import annotations

import pytest

from session.conftest import SANDWRIGHT, Project

pytestmark = pytest.mark.needs("bwrap")

WORDS = b"already inside a sandwright sandbox: run the command without `sandwright run`"


@pytest.mark.parametrize("cache", ["", "XDG_CACHE_HOME=cache"], ids=["closed", "writable"])
def test_a_run_inside_a_run_says_so(project: Project, cache: str) -> None:
    """This holds even if its directories can be made: the method doesn't work there."""
    variables = [f"XDG_CACHE_HOME={project.root}/cache"] if cache else []
    ended = project.run("env", *variables, *SANDWRIGHT, "run", "--", "echo", "nested")
    assert (ended.returncode, ended.stdout) == (125, b"")
    assert WORDS in ended.stderr


@pytest.mark.parametrize("extends", ["[default]", "[]"])
def test_a_variable_tells_programs_that_they_are_inside(project: Project, extends: str) -> None:
    with project.policy.open("a") as policy:
        policy.write(f"extends: {extends}\n")
    script = "echo $SANDWRIGHT_INSIDE; test -e /dev/.sandwright-init && echo file"
    assert project.run("sh", "-c", script).stdout == b"1\nfile\n"


def test_the_variable_is_enough(project: Project) -> None:
    """Some methods have no file for this."""
    project.environment |= {"XDG_CACHE_HOME": "/proc/none", "SANDWRIGHT_INSIDE": "1"}
    assert WORDS in project.run("true").stderr


def test_outside_it_is_not_said(project: Project) -> None:
    project.environment["XDG_CACHE_HOME"] = "/proc/none"
    ended = project.run("true")
    assert ended.returncode == 125
    assert b"cannot create " in ended.stderr
    assert WORDS not in ended.stderr
