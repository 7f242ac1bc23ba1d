"""No failed connection is reported as made: a signal can come before the supervisor handles connect(2).

Tests of launcher/source/broker.c.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from methods.landlock.test_landlock_sockets import LACKING
from session.conftest import Project
from support import interpreters

INSIDE = Path(__file__).with_name("interrupted.py")
CONNECTS = 20_000
ABORTED = "ECONNABORTED"


def _policy(project: Project, method: str) -> None:
    (project.root / "inside.py").write_bytes(INSIDE.read_bytes())
    accepted = ", ".join(f"{{feature: {name}, method: landlock, reason: a test}}" for name in LACKING)
    project.policy.write_text(
        f"schema: 1\nmethod: {method}\nfilesystem: {{write: [$PROJECT]}}\naccept_gaps: [{accepted}]\n"
    )


def _inside(project: Project, *words: str) -> dict[str, Any]:
    ended = project.run(interpreters.INSIDE, "inside.py", *words, options=("--trust-policy",))
    assert ended.returncode == 0, ended.stderr.decode()
    outcome: dict[str, Any] = json.loads(ended.stdout)
    return outcome


def _bare(*words: str) -> dict[str, Any]:
    argv = (interpreters.INSIDE, str(INSIDE), *words)
    outcome: dict[str, Any] = json.loads(subprocess.run(argv, capture_output=True, check=True).stdout)
    return outcome


@pytest.mark.parametrize(
    ("method", "family"),
    [
        pytest.param("bwrap", "AF_UNIX", marks=pytest.mark.needs("bwrap")),
        pytest.param("bwrap", "AF_INET", marks=pytest.mark.needs("bwrap")),
        ("landlock", "AF_UNIX"),
    ],
)
def test_interrupted_connect_is_never_success(project: Project, method: str, family: str) -> None:
    _policy(project, method)
    outcomes = _inside(project, "storm", family, str(CONNECTS))
    assert outcomes.pop("lost") == 0
    assert outcomes[ABORTED] > 0, "no signal came between call and supervisor: the storm shows nothing"
    assert outcomes["connected"] + outcomes[ABORTED] == sum(outcomes.values()) >= CONNECTS


@pytest.mark.parametrize(
    ("method", "families"),
    [pytest.param("bwrap", "all", marks=pytest.mark.needs("bwrap")), ("landlock", "unix")],
)
def test_so_error_of_other_sockets_is_the_kernels(project: Project, method: str, families: str) -> None:
    _policy(project, method)
    bare, inside = _bare(families), _inside(project, families)
    changed = {"unix": ["fresh"], "inet": ["fresh", "fresh again"]}
    for family in inside:
        for name in changed[family]:
            assert (bare[family].pop(name), inside[family].pop(name)) == ("0", ABORTED)
    if "inet" in inside:
        assert [written[0] for written in inside["inet"].pop("fresh lengths")] == [0, 0, 0, 0]
        assert bare["inet"].pop("fresh lengths")[3] == [0, 0, 4]
    assert inside == bare
