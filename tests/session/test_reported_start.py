"""Each method reports that the command was executed, as root and as another user, for `run --detach`."""

from __future__ import annotations

import os
import subprocess

import pytest

from sandwright.launcher.run_document import RunDocument, open_run_document, with_document
from session.conftest import WAIT
from session.jobs import Place, place
from session.test_keys import SOME

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="becomes other users"),
    pytest.mark.needs("bash", "busybox", "setpriv"),
]


def _start(at: Place, *words: str) -> tuple[bool, int, str]:
    """Whether it was reported as executed, the exit status and standard error."""
    started, starts = os.pipe()
    document = open_run_document(RunDocument(started=starts))
    try:
        ended = subprocess.run(
            [*at.before, *with_document([str(at.launcher), *words], document)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            cwd=at.root,
            env=dict(at.environ),
            pass_fds=(document, starts),
            timeout=WAIT,
        )
        os.close(starts)
        return os.read(started, 2) == b"\0", ended.returncode, ended.stderr.decode()
    finally:
        os.close(document)
        os.close(started)


@pytest.mark.parametrize(("method", "uid"), SOME)
def test_a_start_is_reported_once_the_command_was_executed(method: str, uid: int) -> None:
    with place(method, uid) as at:
        reported, status, said = _start(at, "/nowhere")
        assert (reported, status) == (False, 127), said
        assert "/nowhere: not found" in said
        reported, status, said = _start(at, "/etc")
        assert (reported, status) == (False, 126), said
        assert "/etc: " in said
        for code in (0, 126, 127):
            reported, status, said = _start(at, "sh", "-c", f"exit {code}")
            assert (reported, status) == (True, code), said
