"""Nothing of a run remains, whichever of its processes is killed (SIGKILL), and when; also with many runs at
once.

Tests of launcher/source/monitor.c.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.thorough import THOROUGH

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="its processes are traced and looked for as root"),
    pytest.mark.timeout(8 * 3600 if THOROUGH else 600),
]
THOROUGHLY = pytest.mark.skipif(not THOROUGH, reason="only `invoke test --thorough` has time for it")
METHODS = [
    pytest.param("bwrap", marks=pytest.mark.needs("bwrap")),
    pytest.param("oci", marks=[THOROUGHLY, pytest.mark.needs("runc", "busybox")]),
    pytest.param("gvisor", marks=[THOROUGHLY, pytest.mark.needs("runsc", "busybox")]),
    pytest.param("docker", marks=[THOROUGHLY, pytest.mark.needs("docker", "busybox")]),
    pytest.param("podman", marks=[THOROUGHLY, pytest.mark.needs("podman", "runc", "busybox")]),
]
"""`test_runtime.py` and `test_engine.py` try a few points of the other methods in the normal suite."""


def _finds_no_fault(*words: str) -> None:
    ended = subprocess.run(
        (sys.executable, "-m", *words),
        cwd=Path(__file__).parent.parent,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-4000:]


@pytest.mark.parametrize("method", METHODS)
def test_killed_at_any_point_a_run_leaves_nothing_after_the_next(method: str) -> None:
    _finds_no_fault("launcher.killpoints", method, "1000" if THOROUGH else "5")


@pytest.mark.needs("bwrap")
def test_many_at_once_keep_their_placeholders_and_leave_nothing() -> None:
    _finds_no_fault("launcher.crowd", "bwrap", *(("300", "50") if THOROUGH else ("1", "8")))
