"""A granted directory that a neighbour exchanges with a link while the run starts.

Tests of launcher/source/bwrap.c: a granted directory is not exchanged with a link.
Tests of launcher/source/watch.c: the first comparison under bwrap.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import threading
import time
from pathlib import Path

import pytest

from session.conftest import Project
from session.test_run_containers import busybox_root
from support.enginehosts import engine_host

AT_FDCWD, RENAME_EXCHANGE = -100, 2
HELD = 0.4
"""Seconds for which the link exists."""

METHODS = [
    pytest.param("bwrap", marks=pytest.mark.needs("bwrap")),
    pytest.param("oci", marks=pytest.mark.needs("runc", "busybox")),
    pytest.param("gvisor", marks=pytest.mark.needs("runsc", "busybox")),
]


def _exchange(one: Path, other: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    words = (AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE)
    assert libc.renameat2(*words) == 0, os.strerror(ctypes.get_errno())


@pytest.mark.parametrize("method", METHODS)
def test_a_directory_that_is_exchanged_with_a_link(
    project: Project, method: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The exchange comes right after the launcher's placeholders: no path behind the link is touched."""
    granted, link, victim = project.root / "sub", project.root / "link", project.home / "victim"
    granted.mkdir()
    victim.mkdir()
    (victim / "secret").write_text("the secret")
    link.symlink_to(victim)
    image = "" if method == "bwrap" else "image: small\nenvironment: {set: {PATH: /bin}}\n"
    policy = f"schema: 1\nmethod: {method}\n{image}filesystem: {{read: [$PROJECT], write: [$PROJECT/sub]}}\n"
    (project.root / "sandbox.yaml").write_text(policy)
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


ENGINES = [
    pytest.param("docker", marks=pytest.mark.needs("docker", "busybox")),
    pytest.param("podman", marks=pytest.mark.needs("podman", "runc", "busybox")),
    pytest.param("oci", marks=pytest.mark.needs("runc", "busybox")),
    pytest.param("gvisor", marks=pytest.mark.needs("runsc", "busybox")),
]

EXCHANGING = """#!/bin/sh
cd {project}
if [ -e exchange ] && case " $* " in *" run "*) ;; *) false ;; esac then
    rm exchange && mv sub kept && ln -s {victim} sub || exit 1
fi
cd - >/dev/null
exec {real} "$@"
"""


@pytest.mark.parametrize("method", ENGINES)
def test_no_command_starts_on_other_mounts(
    project: Project, method: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A stand-in for a race: the real client or runtime starts right after the exchange of the directory.

    A container's mounts are compared once they exist, and the command waits for that.
    """
    granted, victim, programs = (project.home / name for name in ("p/sub", "victim", "bin"))
    for folder in (granted, victim, programs):
        folder.mkdir()
    (victim / "secret").write_text("the secret")
    environment, image = {"PATH": os.environ["PATH"], "SANDWRIGHT_TRUST": "1"}, "small"
    with engine_host(method) if method in ("docker", "podman") else contextlib.nullcontext() as engine:
        if engine is None:
            root = tmp_path_factory.mktemp("root")
            busybox_root(root)
            environment["SANDWRIGHT_ROOTFS"] = str(root)
        else:
            image = engine.image
            environment |= {name: value for name, value in engine.environment.items() if name != "HOME"}
        name = {"oci": "runc", "gvisor": "runsc"}.get(method, method)
        real = shutil.which(name, path=environment["PATH"])
        project.environment |= environment | {"PATH": f"{programs}:{environment['PATH']}"}
        (project.root / "sandbox.yaml").write_text(
            f"schema: 1\nmethod: {method}\nimage: '{image}'\nenvironment: {{set: {{PATH: /bin}}}}\n"
            "filesystem: {read: [$PROJECT], write: [$PROJECT/sub]}\n"
        )
        words = {"project": project.root, "victim": victim, "real": real}
        (programs / name).write_text(EXCHANGING.format(**words))
        (programs / name).chmod(0o755)
        control = project.run("sh", "-c", "echo written >sub/made")
        assert (control.returncode, (granted / "made").exists()) == (0, True), control.stderr
        (project.root / "exchange").touch()
        ended = project.run("sh", "-c", "cat sub/secret; echo written >sub/made; sleep 1")
    assert (project.root / "kept").exists()
    assert (ended.returncode, ended.stdout) == (137, b""), ended.stderr
    assert b"was replaced on the host" in ended.stderr
    left = [path.name for path in victim.rglob("*") if not path.is_dir()]
    assert left == ["secret"], "the engines may leave empty directories, on which they would have mounted"
