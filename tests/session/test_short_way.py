"""The short way of `run`, by the render cache: an entry is used only while every answer is the same.

Tests of inputs.py: each kind of answer that changed makes an entry stale.
Tests of session/prepare.py: a method that is preferred is tried.
"""

from __future__ import annotations

import json
import shutil

import pytest

from sandwright.questions import KINDS
from session.conftest import Project
from session.entries import entry, with_answer, write

pytestmark = pytest.mark.needs("bwrap", "git")


def _asked(project: Project) -> set[str]:
    """The kinds of questions that were asked."""
    return {question[0] for question, _ in entry(project)[1].recording()}


def _another(project: Project, kind: str) -> None:
    """Pretend that one answer of a kind was another when it was stored."""
    path, data = entry(project)
    write(project, path, with_answer(data, kind, ("another",)))


ELSEWHERE = {"minute"}
"""The kinds of questions that only other policies need."""


def test_rendered_anew_for_another_answer_of_any_kind(project: Project) -> None:
    """For each kind, one answer pretends to have been another when it was stored."""
    events = project.home / "events"

    def rendered() -> str:
        assert project.run("true", options=("--telemetry", str(events))).returncode == 0
        return str(json.loads(events.read_text().splitlines()[-1])["rendered"])

    assert rendered() == "now"
    assert "before" in [rendered() for _ in range(4)]  # other processes of this machine may open a socket
    for kind in sorted({*KINDS, "entries"} - ELSEWHERE):
        _another(project, kind)
        assert rendered() == "now", kind
    assert "before" in [rendered() for _ in range(4)]


PREFERRED = "schema: 1\nmethods: [docker, bwrap]\nfilesystem: {write: [$PROJECT]}\n"


@pytest.mark.needs("docker")
def test_a_method_that_is_preferred_is_tried_when_it_is_there(project: Project) -> None:
    """Without its program it is tried once that is found; otherwise each minute, because of daemons."""
    programs = project.home / "programs"
    programs.mkdir()
    for name in ("bwrap", "git", "sh", "true"):
        (programs / name).symlink_to(str(shutil.which(name)))
    project.environment |= {"PATH": str(programs), "DOCKER_HOST": f"unix://{project.home}/none.sock"}
    project.policy.write_text(PREFERRED)

    def told() -> str:
        ended = project.run("/usr/bin/true")
        assert ended.returncode == 0, ended
        return ended.stderr.decode()

    assert "method: bwrap (docker: docker is not installed" in told()
    assert not all("method: bwrap" in told() for _ in range(4))  # the host may change between two of them
    assert "minute" not in _asked(project)
    (programs / "docker").symlink_to(str(shutil.which("docker")))
    assert "method: bwrap (docker: no daemon answers" in told()
    _another(project, "minute")
    assert "method: bwrap (docker: no daemon answers" in told()
