"""A run does not trust the choices of other users: command lines, names in /tmp, locks."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandwright import user_dirs
from sandwright.bridge import directory as bridges
from sandwright.errors import HostError
from sandwright.session import state
from session.conftest import Project
from session.test_run_containers import busybox_root
from support.enginehosts import EngineHost, engine_host
from support.otherusers import NOBODY, as_nobody
from support.processtrees import below, command_lines
from support.waiting import until

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="becomes another user")


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory that every user can enter."""
    with tempfile.TemporaryDirectory(prefix="sandwright-strangers-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="module")
def podman() -> Iterator[EngineHost]:
    with engine_host("podman") as found:
        yield found


@contextlib.contextmanager
def posing(*words: str | Path, user: int) -> Iterator[subprocess.Popen[bytes]]:
    """A process of a user with arguments of its own choice."""
    other = None if user == os.geteuid() else user
    groups = None if other is None else list[str | int]()
    process = subprocess.Popen(list(map(str, words)), user=other, group=other, extra_groups=groups, cwd="/")
    try:
        yield process
    finally:
        process.kill()
        process.wait(60)


def begun(project: Project, *options: str) -> subprocess.Popen[bytes]:
    """A command that runs already."""
    running = project.start("sh", "-c", "echo up; exec sleep 100", options=options)
    assert running.stdout is not None
    assert running.stdout.readline() == b"up\n", running.communicate(timeout=60)
    return running


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def in_image(project: Project, method: str, image: str) -> None:
    project.policy.write_text(
        f"schema: 1\nmethod: {method}\nimage: '{image}'\nenvironment: {{set: {{PATH: /bin}}}}\n"
        "filesystem: {write: [$PROJECT]}\n"
    )


@pytest.mark.needs("podman", "runc", "busybox")
@pytest.mark.parametrize(
    "user",
    [
        pytest.param(os.geteuid(), id="the same user"),
        pytest.param(NOBODY, id="another user", marks=needs_root),
    ],
)
def test_nothing_is_run_that_a_process_names(
    project: Project, podman: EngineHost, shared: Path, user: int
) -> None:
    """A process looks like the monitor of the run's container, and names its own runtime."""
    in_image(project, "podman", podman.image)
    project.environment |= {name: value for name, value in podman.environment.items() if name != "HOME"}
    planted = script(shared / "planted", f"touch {shared}/evil")
    monitor = script(shared / "conmon", "while :; do sleep 1; done")
    running = begun(project)
    (name,) = podman.containers()
    with posing(monitor, "-c", "x", "-r", planted, name, user=user) as pose:
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=120)
        assert running.returncode == 130
        assert not (shared / "evil").exists(), "a program was run that a command line names"
        assert pose.poll() is None, "who poses is let be"
    assert podman.containers() == []


RUNTIMES = [
    pytest.param("oci", marks=pytest.mark.needs("runc", "busybox")),
    pytest.param("gvisor", marks=pytest.mark.needs("runsc", "busybox")),
]


@pytest.fixture(scope="module")
def rootfs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("root")
    busybox_root(root)
    return root


@needs_root
@pytest.mark.parametrize("method", RUNTIMES)
def test_a_stranger_is_let_be(project: Project, rootfs: Path, shared: Path, method: str) -> None:
    """The runtime of a killed launcher is found by its command line, which other processes can have, too."""
    in_image(project, method, "small")
    project.environment["SANDWRIGHT_ROOTFS"] = str(rootfs)
    running = begun(project)
    (run,) = (project.runtime / "sandwright" / "runs").iterdir()
    (launcher,) = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
    waits = script(shared / "waits", "while :; do sleep 1; done")
    with posing(waits, "--root", run / "state", "run", run.name, user=NOBODY) as pose:
        os.kill(int(launcher), signal.SIGKILL)
        running.communicate(timeout=120)
        until(lambda: not run.exists(), "the run was not cleared up")
        assert pose.poll() is None


@pytest.mark.parametrize("method", RUNTIMES)
def test_nothing_of_a_run_is_in_tmp(project: Project, rootfs: Path, method: str) -> None:
    """This holds without a runtime directory, too: a sandbox may share /tmp, with files of a runtime."""
    in_image(project, method, "small")
    project.environment |= {"SANDWRIGHT_ROOTFS": str(rootfs), "XDG_RUNTIME_DIR": ""}
    own = "/run/sandwright" if os.geteuid() == 0 else f"{project.home}/.cache/sandwright/run"
    before = set(Path("/tmp").glob("sandwright*"))
    running = begun(project)
    try:
        lines = [command_lines().get(pid, b"").split(b"\0") for pid in below(running.pid)]
        words = [line for line in lines if b"--root" in line]
        assert words, "the runtime was not seen"
        for each in words:
            assert each[each.index(b"--root") + 1].startswith(f"{own}/runs/sandwright-".encode())
        new = {path.name for path in set(Path("/tmp").glob("sandwright*")) - before}
        assert not {name for each in words for name in new if name.encode() in b" ".join(each)}
    finally:
        running.terminate()
        running.communicate(timeout=120)


@pytest.mark.needs("runc")
def test_cleanup_takes_no_run_directory_from_tmp(project: Project) -> None:
    """It looks just like ours, with a state that a runtime would get."""
    project.apart()
    with tempfile.TemporaryDirectory(prefix="sandwright-", dir="/tmp") as name:
        planted = Path(name).rename(f"/tmp/sandwright-{os.urandom(5).hex()}")
        try:
            state = planted / "state" / planted.name
            state.mkdir(parents=True)
            (state / "state.json").write_text("{}")
            (planted / "rootfs").mkdir()
            (planted / "config.json").write_text("{}")
            os.utime(planted, (0, 0))
            ended = project.sandwright("cleanup")
            assert planted.name not in (ended.stdout + ended.stderr).decode()
            assert (state / "state.json").exists()
        finally:
            planted.rename(name)


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("rule", ["read", "write"])
@pytest.mark.parametrize(
    "path", ["run/sandwright", "run/sandwright/runs", "home/.cache/sandwright/sessions/rendered"]
)
def test_a_policy_may_not_grant_what_is_ours(project: Project, rule: str, path: str) -> None:
    base = project.home.parent
    (base / path).mkdir(parents=True)
    project.policy.write_text(
        f"schema: 1\nmethod: bwrap\nfilesystem: {{write: [$PROJECT], {rule}: [{base / path}]}}\n"
        if rule == "read"
        else f"schema: 1\nmethod: bwrap\nfilesystem: {{write: [$PROJECT, {base / path}]}}\n"
    )
    ended = project.run("touch", "file")
    assert ended.returncode == 125, ended
    assert b"where sandwright keeps what decides over sandboxes: no policy can grant it" in ended.stderr
    assert not (project.root / "file").exists()


@pytest.mark.needs("bwrap")
def test_a_grant_of_another_runtime_directory(project: Project) -> None:
    """An earlier rendering is not valid for other directories."""
    other = project.home / "other"
    (other / "sandwright").mkdir(parents=True, mode=0o700)
    project.policy.write_text(f"schema: 1\nmethod: bwrap\nfilesystem: {{read: [{other}/sandwright]}}\n")
    assert project.run("true").returncode == 0
    project.environment["XDG_RUNTIME_DIR"] = str(other)
    assert b"no policy can grant it" in project.run("true").stderr


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("rule", ["read", "write"])
def test_runs_are_hidden_where_what_is_above_is_granted(project: Project, rule: str) -> None:
    (project.runtime / "other").write_text("shown")
    grants = f"{{write: [$PROJECT{', ' if rule == 'write' else '], read: ['}{project.runtime}]}}"
    project.policy.write_text(f"schema: 1\nmethod: bwrap\nfilesystem: {grants}\n")
    for _ in ("rendered", "rendered before"):
        ended = project.run(
            "sh", "-c", f"cat {project.runtime}/other; ls {project.runtime}/sandwright; "
            f"echo x >{project.runtime}/sandwright/x; mv {project.runtime}/sandwright {project.runtime}/y",
        )  # fmt: skip
        assert ended.stdout == b"shown", ended
        assert sorted(path.name for path in project.runtime.iterdir()) == ["other", "sandwright"]
        assert not (project.runtime / "sandwright" / "x").exists()


@needs_root
def test_a_name_made_in_tmp() -> None:
    """Another user's `/tmp/sandwright-UID` prevents no run without a runtime directory."""
    place = Path(f"/tmp/sandwright-{NOBODY}")
    made = not place.exists()
    if made:
        place.mkdir(mode=0o755)  # root's, so it does not belong to the user in its name
    try:
        with tempfile.TemporaryDirectory(prefix="sw-home-", dir="/tmp") as home:
            os.chown(home, NOBODY, NOBODY)

            def directory() -> str:
                os.environ["HOME"] = home
                os.environ.pop("XDG_RUNTIME_DIR", None)
                return state.directory()

            assert as_nobody(directory) == f"{home}/.cache/sandwright/run/sessions"
    finally:
        if made:
            place.rmdir()


@needs_root
def test_a_runtime_directory_of_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`sudo -E` leaves it like this: its owner could replace root's files there."""
    os.chown(tmp_path, NOBODY, NOBODY)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert user_dirs.runtime() == "/run/sandwright"


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize(("mode", "used"), [(0o777, False), (0o770, False), (0o1777, True), (0o755, True)])
def test_a_runtime_directory_in_which_others_rename(
    mode: int, used: bool, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They could replace our directory during a run. Launchers choose the same directory."""
    project.runtime.chmod(mode)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(project.runtime))
    assert (user_dirs.runtime() == f"{project.runtime}/sandwright") is used
    assert project.run("echo", "up").stdout == b"up\n"
    assert (project.runtime / "sandwright").exists() is used


@pytest.mark.needs("bwrap")
def test_a_lock_that_somebody_holds(project: Project) -> None:
    """A reader of a repository can lock it: the run ends and names the holder, without control characters."""
    code = (
        "import fcntl, os, sys, time; fd = os.open(sys.argv[1], os.O_RDONLY); fcntl.flock(fd, fcntl.LOCK_EX);"
        r"open('/proc/self/comm', 'wb').write(b'\x1b[31mred'); print('locked', flush=True); time.sleep(300)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(project.root / ".git")], stdout=subprocess.PIPE, cwd="/"
    ) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"locked\n"
            ended = project.run("touch", "file")
        finally:
            holder.kill()
    assert ended.returncode == 125
    assert f"process {holder.pid} (?[31mred)".encode() in ended.stderr
    assert not (project.root / "file").exists()
    assert project.run("touch", "file").returncode == 0


def test_a_lock_of_bridges_that_somebody_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program of the user can hold it."""
    monkeypatch.setattr(bridges, "LOCK_SECONDS", 0.2)
    base = tmp_path / "bridge"
    lock = base / "lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    with lock.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_SH)
        with pytest.raises(HostError, match="is locked by another process"):
            bridges.sweep_bridges(base)
    assert bridges.sweep_bridges(base) == []
