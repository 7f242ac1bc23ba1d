"""A closed window or ssh connection ends a run in the foreground, but not one that has left the terminal.

Tests of launcher/source/monitor.c, launcher/source/terminal.c: SIGHUP.
"""

from __future__ import annotations

import os
import shlex
import signal
from pathlib import Path

import pytest

from session.jobs import NOBODY, place
from session.terminals import terminal
from session.test_keys import METHODS
from support.thorough import representative
from support.waiting import until

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="becomes other users"),
    pytest.mark.needs("bash", "busybox", "setpriv"),
]
CELLS = [
    pytest.param(method, uid, marks=METHODS[method], id=f"{method}-{'user' if uid else 'root'}")
    for uid in (0, NOBODY)
    for method in METHODS
    if not uid or method not in ("docker", "podman", "user")
]
EACH = representative(
    CELLS,
    *("bwrap-root", "oci-user", "gvisor-root", "docker-root", "podman-root", "landlock-user", "vm-root"),
    "user-root",
)


def _has_ended(pid: int) -> bool:
    """Whether a child has ended; it stays a zombie."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


@pytest.mark.parametrize(("method", "uid"), EACH)
def test_it_ends_a_run_in_the_foreground(method: str, uid: int) -> None:
    """No process remains, which `place` checks; a run that ignores the hangup ends after a while."""
    with place(method, uid) as at:
        script = "trap 'echo told > told; exit 3' HUP; echo u''p; while :; do sleep 0.1; done"
        words = [*at.before, str(at.launcher), "sh", "-c", script]
        with terminal(words, at.root, dict(at.environ)) as shown:
            shown.read_until(b"up")
            shown.hang_up()
            until(lambda: _has_ended(shown.pid), "it goes on", within=30)
        until((at.root / "told").exists, "the command was not told")


@pytest.mark.parametrize(("method", "uid"), EACH)
def test_it_does_not_end_one_that_has_left_it(method: str, uid: int) -> None:
    """`run --detach` does this: a separate session, with other streams."""
    with place(method, uid) as at:
        (at.root / "pid").touch()
        (at.root / "pid").chmod(0o666)
        script = "touch up; while [ ! -e go ]; do sleep 0.1; done; touch over"
        launcher = shlex.join([*at.before, str(at.launcher), "sh", "-c", script])
        begins = shlex.quote(f"echo $$ > pid; exec {launcher}")
        outer = f"setsid sh -c {begins} </dev/null >/dev/null 2>&1 & sleep 300"
        with terminal(["/bin/sh", "-c", outer], at.root, dict(at.environ)) as shown:
            until((at.root / "up").exists, "it does not start")
            shown.hang_up()
            until(lambda: _has_ended(shown.pid), "the shell goes on", within=30)
        pid = int((at.root / "pid").read_text())
        assert Path(f"/proc/{pid}").exists()
        (at.root / "go").touch()
        until((at.root / "over").exists, "it was ended")
        until(lambda: not Path(f"/proc/{pid}").exists(), "it goes on")


def test_the_signal_is_the_kernels() -> None:
    """The control: a program without a handler ends by it."""
    with terminal(["/bin/sleep", "300"], Path("/"), {}) as shown:
        shown.hang_up()
        until(lambda: _has_ended(shown.pid), "it goes on")
        _, status = os.waitpid(shown.pid, 0)
        shown.pid = 0
        assert os.waitstatus_to_exitcode(status) == -signal.SIGHUP
