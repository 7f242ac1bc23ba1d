"""The cgroup of a normal user's OCI runtime: in a scope that systemd makes for the run, or refused.

This machine has no systemd. So a bus of the test answers the launcher, and presents the scope as files: the
kernel's hierarchy is not behind them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandwright import process
from sandwright.runtime.scratch import scratch_directory
from support.launchers import launcher_of

pytestmark = [
    pytest.mark.needs("unshare", "nsenter", "setpriv"),
    pytest.mark.skipif(os.getuid() != 0, reason="only root can start others in a mount namespace"),
]
NOBODY, WAIT = 65534, 60
RUNC = '#!/bin/sh\nwhile [ "$1" != --bundle ]; do shift; done\ncat "$2/config.json"\n'
NEW = """mount --make-rprivate / && mount --bind "$1" /sys/fs/cgroup && shift &&
exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"
"""
PEER = struct.Struct("3i")


@pytest.fixture
def folder() -> Iterator[Path]:
    """An image, the user's `state`, a `cgroup` of version 2, and the launcher with limits."""
    with scratch_directory(Path("/tmp")) as made:
        made.chmod(0o755)
        for name in ("dev", "etc", "proc", "run", "sys", "tmp", "usr", "var"):
            (made / "image" / name).mkdir(parents=True)
        for name in ("state", "home/p", "bin", "cgroup/user.slice"):
            (made / name).mkdir(parents=True)
        (made / "bin/runc").write_text(RUNC)
        (made / "bin/runc").chmod(0o755)
        (made / "cgroup/cgroup.controllers").write_text("memory pids\n")
        out, project = made / "out", made / "home/p"
        text = "schema: 1\nmethod: oci\nresources: {memory: 1GiB, pids: 40}\n"
        launcher_of(text, "oci", out, project=project, uid=NOBODY, gid=NOBODY, user="nobody")
        for each in (made / "state", made / "home/p", made / "cgroup/user.slice"):
            shutil.chown(each, NOBODY, NOBODY)
        yield made


def _run(folder: Path) -> subprocess.CompletedProcess[str]:
    launch = [f"{folder}/out/launch", "true"]
    return subprocess.run(
        ["unshare", "-m", "sh", "-c", NEW, "sh", folder / "cgroup", *launch],
        env={
            "PATH": f"{folder}/bin:{os.environ['PATH']}",
            "SANDWRIGHT_ROOTFS": f"{folder}/image",
            "XDG_RUNTIME_DIR": f"{folder}/state",
        },
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT, check=False,
    )  # fmt: skip


def _answer(listener: socket.socket, folder: Path, named: list[str]) -> None:
    """Authenticate the launcher, and report that it is in the requested scope."""
    link = listener.accept()[0]
    with link:
        pid = PEER.unpack(link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size))[0]
        asked = b""
        while (found := re.search(rb"(sandwright-\w+)\.scope", asked)) is None:
            asked += link.recv(1 << 16)
        named.append(found[1].decode())
        (folder / "cgroup/user.slice" / f"{named[0]}.scope").mkdir()
        own = folder / "own"
        own.write_text(f"0::/user.slice/{named[0]}.scope\n")
        own.chmod(0o644)
        process.run("nsenter", "-t", str(pid), "-m", "mount", "--bind", own, f"/proc/{pid}/cgroup")
        returned = bytes([ord("l"), 2, 1, 1]) + struct.pack("<3I", 0, 1, 0)
        link.sendall(b"OK 0123\r\n" + returned + returned)
        link.recv(1)


def test_in_a_scope(folder: Path) -> None:
    """The runtime's cgroup is beside the monitor's: a cgroup with processes can have none below it."""
    (folder / "cgroup/user.slice/cgroup.subtree_control").write_text("memory pids\n")
    named: list[str] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{folder}/state/bus")
        listener.listen()
        shutil.chown(folder / "state/bus", NOBODY, NOBODY)
        listener.settimeout(WAIT)
        bus = threading.Thread(target=_answer, args=(listener, folder, named))
        bus.start()
        ended = _run(folder)
        bus.join(WAIT)
    assert ended.returncode == 0, ended.stderr
    linux = json.loads(ended.stdout)["linux"]
    assert linux["cgroupsPath"] == f"/user.slice/{named[0]}"
    assert linux["resources"]["pids"] == {"limit": 40}


def test_without_a_scope(folder: Path) -> None:
    """No command starts, and the reason is our own message: runc's is `mkdir …: permission denied`."""
    ended = _run(folder)
    assert (ended.returncode, ended.stdout) == (125, "")
    assert ended.stderr == (
        "sandbox: resources.memory, cpus and pids need a cgroup, which root can create, or with cgroup "
        "version 2 a user of systemd\n"
    )
