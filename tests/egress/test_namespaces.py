"""The way into a sandbox's network namespace, as a user without rights."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sandwright.egress.namespaces import listen_in
from support.waiting import until

NOBODY = 65534
HOLD = ("sh", "-c", "echo up; exec sleep 100")


@pytest.mark.needs("unshare", "setpriv")
@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user takes root")
@pytest.mark.parametrize("nested", [False, True], ids=["its user namespace", "one in it"])
def test_a_network_of_the_user(nested: bool) -> None:
    """bubblewrap moves its process on into a second user namespace, which does not own the network."""
    inner = ("unshare", "--user", "--map-root-user", "--") if nested else ()
    argv = ("unshare", "--user", "--map-root-user", "--net", "--", *inner, *HOLD)
    with subprocess.Popen(
        argv, user=NOBODY, group=NOBODY, extra_groups=[], cwd="/", stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            if process.stdout.readline() != b"up\n":
                pytest.skip("this user can make no user namespaces here")
            assert _as_nobody(lambda: _listened(process.pid)) == "127.0.0.1:3128"
        finally:
            process.kill()


def _listened(pid: int) -> str:
    with listen_in(pid, "127.0.0.1", 3128, raise_loopback=True) as listener:
        host, port = listener.getsockname()
        return f"{host}:{port}"


def _as_nobody(ask: Callable[[], str]) -> str:
    """What a function gives another user, or what is wrong."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            _dumpable()
            os.write(write, ask().encode())
        except BaseException as fault:  # noqa: BLE001 - nothing above may run twice
            os.write(write, repr(fault).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as said:
        text = said.read()
    os.waitpid(child, 0)
    return text


def _dumpable() -> None:
    """A process that changed its user is closed to itself in /proc, as one that was started so is not."""
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)


def test_a_process_that_has_gone() -> None:
    process = subprocess.Popen(["true"])
    process.wait(60)
    until(lambda: not Path(f"/proc/{process.pid}").exists())
    with pytest.raises(Exception, match=r"can't be used: .*No such file"):
        listen_in(process.pid, "127.0.0.1", 3128, raise_loopback=False)
