"""A granted directory that a neighbour exchanges with a link while the run starts."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from pathlib import Path

import pytest

from session.conftest import Project
from session.test_run_containers import busybox_root

AT_FDCWD, RENAME_EXCHANGE = -100, 2
HELD = 0.4
"""Seconds for which the link is there."""

METHODS = [
    pytest.param("bwrap", marks=pytest.mark.needs("bwrap")),
    pytest.param("oci", marks=pytest.mark.needs("runc", "busybox")),
    pytest.param("gvisor", marks=pytest.mark.needs("runsc", "busybox")),
]

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="these are started as root here")


def _exchange(one: Path, other: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    words = (AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE)
    assert libc.renameat2(*words) == 0, os.strerror(ctypes.get_errno())


@pytest.mark.parametrize("method", METHODS)
def test_a_directory_that_is_exchanged_with_a_link(
    project: Project, method: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """As soon as the launcher has made its placeholders there: nothing behind the link is read or written."""
    granted, link, victim = project.root / "sub", project.root / "link", project.home / "victim"
    granted.mkdir()
    victim.mkdir()
    (victim / "secret").write_text("the secret")
    link.symlink_to(victim)
    policy = f"schema: 1\nmethod: {method}\nimage: small\nfilesystem: {{write: [$PROJECT/sub]}}\n"
    (project.root / "sandbox.yaml").write_text(
        policy if method != "bwrap" else policy.replace("image: small\n", "")
    )
    project.environment["SANDWRIGHT_TRUST"] = "1"
    if method != "bwrap":
        root = tmp_path_factory.mktemp("root")
        busybox_root(root)
        project.environment["SANDWRIGHT_ROOTFS"] = str(root)
    assert project.run("true").returncode == 0, "rendered, so that the next start is short"
    exchanged = threading.Event()

    def neighbour() -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not os.path.lexists(granted / ".zshrc"):
            pass
        _exchange(granted, link)
        exchanged.set()
        time.sleep(HELD)
        _exchange(granted, link)

    thread = threading.Thread(target=neighbour)
    thread.start()
    ended = project.run("sh", "-c", "cat sub/secret; echo written >sub/made; sleep 1")
    thread.join()
    assert exchanged.is_set()
    worked = (granted / "made").exists()  # the link came too late, and the run kept the directory that it had
    assert ended.returncode in (125, 137) or worked, ended.stderr
    assert b"the secret" not in ended.stdout
    assert (victim / "secret").read_text() == "the secret"
    left = [path.name for path in victim.rglob("*") if not path.is_dir()]
    assert left == ["secret"], "the runtimes may leave empty directories, on which they would have mounted"
