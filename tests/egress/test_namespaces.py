"""Entering a sandbox's network namespace as a user without rights."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from sandwright.egress.namespaces import listen_in
from support.otherusers import NOBODY, as_nobody
from support.waiting import until

HOLD = ("sh", "-c", "echo up; exec sleep 100")


@pytest.mark.needs("unshare", "setpriv")
@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user takes root")
@pytest.mark.parametrize("nested", [False, True], ids=["its user namespace", "one in it"])
def test_a_network_of_the_user(nested: bool) -> None:
    """bubblewrap moves its process to a second user namespace, which does not own the network."""
    inner = ("unshare", "--user", "--map-root-user", "--") if nested else ()
    argv = ("unshare", "--user", "--map-root-user", "--net", "--", *inner, *HOLD)
    with subprocess.Popen(
        argv, user=NOBODY, group=NOBODY, extra_groups=[], cwd="/", stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            if process.stdout.readline() != b"up\n":
                pytest.skip("this user can make no user namespaces here")
            assert as_nobody(lambda: _listened(process.pid)) == "127.0.0.1:3128"
        finally:
            process.kill()


def _listened(pid: int) -> str:
    with listen_in(pid, "127.0.0.1", 3128, raise_loopback=True) as listener:
        host, port = listener.getsockname()
        return f"{host}:{port}"


def test_a_process_that_has_gone() -> None:
    process = subprocess.Popen(["true"])
    process.wait(60)
    until(lambda: not Path(f"/proc/{process.pid}").exists())
    with pytest.raises(Exception, match=r"cannot use the network namespace .*No such file"):
        listen_in(process.pid, "127.0.0.1", 3128, raise_loopback=False)
