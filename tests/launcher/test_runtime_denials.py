"""Denied calls of the filter of runc and crun are reported: only the launcher gets its listener."""

from __future__ import annotations

import contextlib
import os
import platform
import socket
import subprocess
from pathlib import Path

import pytest

from launcher.test_runtime import WAIT, Launcher, Make, _busybox, make
from sandwright import process
from sandwright.launcher.run_document import RunDocument
from sandwright.session.events import DeniedCall, RunDenied, read_events
from support import plantedcalls
from support.rundocuments import launching
from support.thorough import covering
from support.waiting import until

__all__ = ["make"]

NUMBERS = {
    "x86_64": {"unshare": 272, "mount": 165, "sethostname": 170, "chroot": 161},
    "aarch64": {"unshare": 97, "mount": 40, "sethostname": 161, "chroot": 51},
}[platform.machine()]
RUNTIMES = [pytest.param(each, marks=pytest.mark.needs(each, "busybox")) for each in ("runc", "crun")]
REFUSED = """
busybox unshare -m busybox true
busybox hostname other
busybox hostname another
busybox mount -t tmpfs none /tmp
busybox chroot / busybox true
exit 0
"""
ALLOWED = (
    "busybox ls /; busybox ps; echo x >/tmp/x; busybox cat /proc/self/status; cat /absent; kill -0 99; exit 0"
)


def _with(runtime: str, launcher: Launcher) -> Path:
    """Let it find one runtime only, and give it a writable directory."""
    _busybox(launcher.scratch / "image")
    (launcher.scratch / "only").mkdir()
    (launcher.scratch / "only" / runtime).symlink_to(process.which(runtime))
    for name in ("newuidmap", "newgidmap"):
        (launcher.scratch / "only" / name).symlink_to(f"/usr/bin/{name}")
    file = launcher.scratch / "state" / "denials"
    launcher.environment |= {"PATH": f"{launcher.scratch}/only"}
    return file


def _handed(launcher: Launcher) -> str:
    denials = str(launcher.scratch / "state" / "denials")
    return launching(launcher.folder / "launch", RunDocument(denials=denials))


def _run(runtime: str, launcher: Launcher, script: str) -> subprocess.CompletedProcess[str]:
    """crun refuses hybrid cgroups, so the second hierarchy is hidden from it."""
    words = [_handed(launcher), "/bin/sh", "-c", script]
    if runtime == "crun" and os.path.ismount("/sys/fs/cgroup/unified"):
        if os.geteuid() != 0:
            pytest.skip("crun refuses hybrid cgroups, and only root can hide them")
        hiding = '/bin/umount /sys/fs/cgroup/unified && exec "$@"'
        words = [process.which("unshare"), "--mount", "/bin/sh", "-c", hiding, "sh", *words]
    return subprocess.run(
        words, env=launcher.environment, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=WAIT, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("runtime", "policy"),
    covering(RUNTIMES, ["", "network: {mode: host}\n", "process: {sandbox_root: true}\n"]),
)
def test_what_the_filter_refuses_is_told(runtime: str, policy: str, make: Make) -> None:
    launcher = make("oci", policy)
    file = _with(runtime, launcher)
    ended = _run(runtime, launcher, REFUSED)
    assert ended.returncode == 0, ended.stderr
    told = [each for each in read_events(file) if isinstance(each, RunDenied)]
    calls = {each.what.number: (each.what, each.count) for each in told if isinstance(each.what, DeniedCall)}
    found = {number: (what.socket, what.error, count) for number, (what, count) in calls.items()}
    counts = {"unshare": 1, "mount": 1, "sethostname": 2, "chroot": 1}
    assert found == {NUMBERS[name]: ("", 1, count) for name, count in counts.items()}
    file.unlink()
    ended = _run(runtime, launcher, ALLOWED)
    assert ended.returncode == 0, ended.stderr
    assert not file.exists(), file.read_text()


@pytest.mark.needs("busybox")
def test_nobody_else_hands_over_a_listener(make: Make) -> None:
    """A runtime waits; another process of the user connects first, and its data are ignored."""
    launcher = make("oci")
    launcher.fake("touch {made}/waits; sleep 5; exit 0".replace("{made}", str(launcher.made)))
    file = launcher.scratch / "state" / "denials"
    with subprocess.Popen(
        [_handed(launcher), "/bin/true"],
        env=launcher.environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
    ) as running:  # fmt: skip
        until((launcher.made / "waits").exists, within=WAIT)
        (run,) = launcher.runs()
        assert run.stat().st_mode & 0o777 == 0o700
        folder = os.open(run, os.O_PATH)
        with socket.socket(socket.AF_UNIX) as other, Path(os.devnull).open() as nothing:
            other.connect(f"/proc/self/fd/{folder}/listener")
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                socket.send_fds(other, [b"{}"], [nothing.fileno()])
                assert other.recv(1) == b"", "it is let go"
        os.close(folder)
        said = running.communicate(timeout=WAIT)[1].decode()
    assert f"process {os.getpid()} connected, which does not belong to the run" in said
    assert not file.exists()


@pytest.mark.parametrize(
    "runtime",
    [pytest.param(each, marks=pytest.mark.needs(each, "busybox", "cc")) for each in ("runc", "crun")],
)
def test_planted_calls(runtime: str, make: Make) -> None:
    launcher = make("oci")
    file = _with(runtime, launcher)
    plantedcalls.build(launcher.scratch / "image" / "bin" / "planted")
    ended = _run(runtime, launcher, f"/bin/planted {' '.join(plantedcalls.arguments())}")
    assert ended.returncode == 0, ended.stderr
    assert plantedcalls.check(file) == len(plantedcalls.PLANTED)
