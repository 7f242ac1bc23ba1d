"""What the launcher becomes at its end: a program that the caller names, once, with the exit status."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from sandwright.launcher import LAUNCH

MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
SHOW = 'echo "$@"; env; exit "$1"'


@pytest.fixture
def launcher(tmp_path: Path) -> Path:
    """The launcher, without a plan: it refuses."""
    return Path(shutil.copy(LAUNCH.path(f"linux/{MACHINES[platform.machine()]}"), tmp_path / "launch"))


def _ended(launcher: Path, after: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [launcher, "true"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"PATH": os.environ["PATH"], "SANDWRIGHT_AFTER": after},
    )


def test_it_gets_the_status(launcher: Path) -> None:
    ended = _ended(launcher, "\n".join(["/bin/sh", "-c", SHOW, "sh"]))
    shown = ended.stdout.splitlines()
    assert (ended.returncode, shown[0]) == (125, "125")
    assert ended.stderr.startswith("sandbox: ")
    assert f"PATH={os.environ['PATH']}" in shown
    assert "AFTER" not in ended.stdout


@pytest.mark.parametrize("after", ["", "sh", "-c\n/bin/echo", "bin/echo"])
def test_only_a_path_is_taken(launcher: Path, after: str) -> None:
    ended = _ended(launcher, after)
    assert (ended.returncode, ended.stdout) == (125, "")


def test_one_that_cant_be_started_leaves_the_status(launcher: Path) -> None:
    ended = _ended(launcher, "/nonexistent\nx")
    assert (ended.returncode, ended.stdout) == (125, "")
    assert "sandbox: /nonexistent can't be started: No such file or directory" in ended.stderr
