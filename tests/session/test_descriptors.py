"""Inherited file descriptors stay outside: a directory of the host gives access to all directories above it.

Tests of launcher/source/check.c: inherited file descriptors are closed.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from sandwright import process
from support.thorough import THOROUGH

SANDWRIGHT = (sys.executable, "-P", "-c", "from sandwright.cli import main; main()")
POLICY = "method: bwrap\nfilesystem: {write: [$PROJECT]}\n"
LOOK = 'for each in /proc/[0-9]*/fd/*; do [ ! -d "$each" ] || echo "$each"; done; cat ../beside 2>/dev/null'
"""No process inside has it: neither a directory nor a file beside the project."""

pytestmark = [pytest.mark.needs("bwrap"), pytest.mark.real_start]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "beside").write_text("seen\n")
    folder = tmp_path / "p"
    folder.mkdir()
    (folder / "sandbox.yaml").write_text(POLICY)
    process.run(*SANDWRIGHT, "render", cwd=folder)
    return folder


def _look(argv: Sequence[str | Path], project: Path, opened: int, **variables: str) -> process.Result:
    """Start it with the directory above the project open under this number."""
    inside = LOOK + f"; cat /proc/self/fd/{opened}/beside /proc/1/fd/{opened}/beside 2>/dev/null; exit 7"
    words = ["bash", "-c", f'exec {opened}<..; exec "$@"', "bash", *argv, "sh", "-c", inside]
    environment = {**os.environ, **variables}
    return process.run(*words, cwd=project, env=environment, check=False, timeout=60)


@pytest.mark.parametrize("opened", [5, 9, 10, 110] if THOROUGH else [9, 110])
def test_a_launcher_closes_it(project: Path, opened: int) -> None:
    ended = _look([project / ".sandbox/bwrap/launch"], project, opened)
    assert (ended.status, ended.text, ended.stderr) == (7, "", "")


@pytest.mark.parametrize("opened", [5, 110])
def test_a_session_closes_it(project: Path, opened: int) -> None:
    ended = _look([*SANDWRIGHT, "run", "--"], project, opened)
    assert (ended.status, ended.text) == (7, ""), ended.stderr


def test_a_session_passes_nothing_on_where_no_launcher_closes_it(project: Path) -> None:
    (project / "sandbox.yaml").write_text("method: noop\nreason: a test\n")
    words = ["bash", "-c", 'exec 15<..; exec "$@"', "bash", *SANDWRIGHT, "run", "--", "ls", "/proc/self/fd"]
    ended = process.run(*words, cwd=project, check=False, timeout=60)
    assert ended.text.split() == ["0", "1", "2", "3"], "and what ls itself opens"


def test_it_needs_no_program_to_close_it(project: Path, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "bwrap").symlink_to(str(shutil.which("bwrap")))
    ended = _look(
        ["env", f"PATH={programs}", project / ".sandbox/bwrap/launch", "/usr/bin/env", "PATH=/usr/bin:/bin"],
        project,
        15,
    )
    assert (ended.status, ended.text) == (7, ""), ended.stderr


def test_a_directory_as_standard_input_is_refused(project: Path) -> None:
    launch = project / ".sandbox/bwrap/launch"
    ended = process.run("sh", "-c", 'exec "$1" true <..', "sh", launch, cwd=project, check=False, timeout=60)
    assert ended.status == 125
    assert "standard input or output is a directory" in ended.stderr
