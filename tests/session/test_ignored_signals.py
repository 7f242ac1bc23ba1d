"""Signals that the caller ignores, as with `nohup` and `&`: the command ignores them, too."""

from __future__ import annotations

import shlex
import signal
import subprocess

import pytest

from session.conftest import SANDWRIGHT, WAIT, Project
from support.thorough import covering

pytestmark = [pytest.mark.needs("bwrap"), pytest.mark.real_start]

IGNORED = ("HUP", "INT", "QUIT", "TERM", "USR1", "USR2", "ALRM")


def _ignored(project: Project, script: str) -> set[str]:
    """The signals that `grep` ignores at the end of a shell's script (proc_pid_status(5))."""
    words = ["bash", "-c", f"{script} grep SigIgn /proc/self/status"]
    said = subprocess.run(
        words, cwd=project.root, env=project.environ, capture_output=True, timeout=WAIT, check=True
    )
    mask = int(said.stdout.split()[1], 16)
    return {name for name in IGNORED if mask >> (signal.Signals[f"SIG{name}"] - 1) & 1}


@pytest.mark.parametrize(
    ("way", "names"),
    covering(["run", "launch"], ["", "HUP", "INT QUIT", "HUP INT QUIT TERM USR1 USR2 ALRM"]),
)
def test_the_command_ignores_what_the_caller_does(project: Project, way: str, names: str) -> None:
    start = shlex.join([*SANDWRIGHT, "run", "--"])
    if way == "launch":
        assert project.sandwright("render").returncode == 0
        start = ".sandbox/bwrap/launch"
    before = f"trap '' {names};" if names else ""
    assert _ignored(project, f"{before} exec {start}") == set(names.split())
    assert _ignored(project, f"{before} exec") == set(names.split()), "as without a sandbox"
