"""The tracer of the launcher for the kill points delays none of its processes."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from launcher import tracing
from launcher.conftest import WAIT
from support.waiting import eventually

CHILD_WAITED_FOR = """
import os
if os.fork():
    os._exit(0)
child = os.fork()
while not child:
    os.getppid()
os.waitpid(child, 0)
open({file!r}, "w")
"""


@pytest.mark.skipif(os.getuid() != 0, reason="its processes are traced as root")
def test_who_is_killed_while_it_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until its tracer has waited for it, its parent waits forever: a run seemed to hang."""
    let_go, youngest = tracing._ptrace, 0

    def act(run: tracing.Traced) -> bool:
        nonlocal youngest
        youngest = run.processes[-1] if len(run.processes) == 3 else 0
        return bool(youngest)

    def killed_before(request: int, process: int, data: int = 0) -> bool:
        if request == tracing.DETACH and process == youngest:
            os.kill(process, signal.SIGKILL)
            deadline = time.monotonic() + WAIT
            while "Z (zombie)" not in Path(f"/proc/{process}/status").read_text():
                assert time.monotonic() < deadline
        return let_go(request, process, data)

    monkeypatch.setattr(tracing, "_ptrace", killed_before)
    tracing.become_subreaper()
    try:
        found = tracing.run(
            (sys.executable, "-S", "-c", CHILD_WAITED_FOR.format(file=str(tmp_path / "ended"))),
            dict(os.environ), tmp_path, tmp_path / "said",
            programs={Path(os.path.realpath(sys.executable)).name}, at=1, act=act, steady=lambda: False,
        )  # fmt: skip
        eventually((tmp_path / "ended").exists, within=10)
        assert (found.status, (tmp_path / "ended").exists()) == (0, True)
    finally:
        _end(found.processes)
        tracing.become_subreaper(yes=False)


def _end(processes: list[int]) -> None:
    """End the processes that are children of this process, or traced by it; others may have other owners."""
    for process in reversed(processes):
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(process, tracing.WALL | os.WNOHANG)[0] == 0:
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, tracing.WALL)
