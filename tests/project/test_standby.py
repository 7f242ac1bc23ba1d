"""The forked command answers like the real one, and its servers end with the run."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from sandwright import process
from support import standby
from support.waiting import eventually

REAL = (sys.executable, "-P", "-c", "from sandwright.cli import main; main()")
TESTS = Path(__file__).parents[1]
RUN = """
import contextlib, sys, time
sys.path.insert(0, sys.argv[1])
from support import standby
with contextlib.ExitStack() as stack:
    standby.start(stack)
    print("up", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize(
    "words",
    [
        ("--version",),
        ("lint", "no.yaml"),
        ("render", "--policy", "p.yaml"),
        ("frobnicate",),
        ("explain", "x"),
    ],
    ids=lambda words: words[0],
)
def test_it_answers_as_the_real_program(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("schema: 1\nmethod: bwrap\nbogus: 1\n")
    real, forked = (
        process.run(*command, *words, cwd=tmp_path, check=False, timeout=60)
        for command in (REAL, standby.COMMAND)
    )
    assert (forked.status, forked.stdout, forked.stderr) == (real.status, real.stdout, real.stderr)


def test_its_servers_end_with_a_run_that_is_killed(tmp_path: Path) -> None:
    environ = {**os.environ, "TESTS_STANDBY": str(tmp_path / "s")}
    with process.start(sys.executable, "-P", "-c", RUN, str(TESTS), env=environ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"up\n"
        children = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
        assert len(children) == len(standby.FLAGS)
        os.kill(run.pid, signal.SIGKILL)
        eventually(lambda: not any(Path("/proc", each).exists() for each in children))
        assert not [each for each in children if Path("/proc", each).exists()]
