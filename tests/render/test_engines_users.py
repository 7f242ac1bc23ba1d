"""Docker and Podman started by a user other than root: the owner of new files, and the user inside.

Tests of launcher/source/engine_check.c: limits that Podman can't keep without root.
Tests of methods/shared/engine/container.py: uid and gid inside.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from sandwright import process
from sandwright.engines.podman import containers_conf
from sandwright.host import collect_host
from support.enginehosts import EngineHost, archive, engine_host
from support.launchers import launcher_of

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="becomes another user")

WHO = (
    "id -un; id -gn; id -u; id -g; echo $HOME; touch made; stat -c %U:%G made; cut -c1-40 /proc/self/uid_map;"
    "while IFS=: read -r n p u g c h s; do [ $u != $(id -u) ] || { echo $h; break; }; done </etc/passwd"
)
"""The last line is the home in the account file's first line for its number."""


@contextlib.contextmanager
def _home(engine: str, image: str, who: tuple[int, int, str], text: str = "") -> Iterator[Path]:
    """A home of a user (two numbers and a name), with a project `p` and rendered artifacts in `out`."""
    uid, gid, user = who
    with tempfile.TemporaryDirectory(prefix="sandwright-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        for name in ("p", "run", "bin"):
            (home / name).mkdir()
        policy = f"schema: 1\nmethod: {engine}\nimage: {image}\n{text}"
        launcher_of(policy, engine, home / "out", project=home / "p", uid=uid, gid=gid, user=user)
        for path in (home, *home.rglob("*")):
            os.chown(path, uid, gid, follow_symlinks=False)
        (home / "run").chmod(0o700)
        home.chmod(0o755)
        yield home


def _as(uid: int, gid: int, *groups: int) -> list[str]:
    several = ("--groups", ",".join(map(str, groups))) if groups else ("--clear-groups",)
    return ["setpriv", "--reuid", str(uid), "--regid", str(gid), *several, "--"]


@pytest.fixture(scope="module")
def docker() -> Iterator[EngineHost]:
    with engine_host("docker") as found:
        yield found


@pytest.mark.needs("docker", "busybox", "setpriv")
@pytest.mark.parametrize(
    ("who", "name", "group"),
    [
        ((1000, 1000, "ada"), "ada", "ada"),
        ((501, 20, "ada"), "ada", "ada"),
        ((100000, 100000, "dom\\ada"), "dom\\ada", "dom\\ada"),
        ((65534, 65534, "nobody"), "nobody", "nogroup"),
        ((1000, 5, "+"), "user", "tty"),
        ((1001, 0, "root"), "user", "root"),
    ],
)
def test_docker(docker: EngineHost, who: tuple[int, int, str], name: str, group: str) -> None:
    """A user of the daemon's socket owns the new files, with any numbers."""
    uid, gid, _ = who
    address = docker.environment.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    socket = Path(address.removeprefix("unix://")).stat()
    assert stat.S_ISSOCK(socket.st_mode)
    with _home("docker", docker.image, who) as home:
        env = {**docker.environment, "HOME": str(home), "XDG_RUNTIME_DIR": f"{home}/run"}
        argv = [*_as(uid, gid, socket.st_gid), f"{home}/out/launch", "sh", "-c", WHO]
        result = process.run(*argv, env=env, timeout=60, check=False)
        said = result.text.splitlines()
        assert said[:6] == [name, group, str(uid), str(gid), str(home), f"{name}:{group}"], result.stderr
        assert said[-1] == str(home)
        made = (home / "p" / "made").stat()
        assert (made.st_uid, made.st_gid) == (uid, gid)


@contextlib.contextmanager
def _podman(home: Path, uid: int, gid: int, *before: str) -> Iterator[tuple[list[str], Mapping[str, str]]]:
    """The beginning of a command line, and an environment, with which Podman works for a user."""
    conf = home / "containers.conf"
    conf.write_text(containers_conf(collect_host()) + 'runtime = "runc"\n')
    program = home / "bin" / "podman"
    options = f"--root {home}/store --runroot {home}/run/r --tmpdir {home}/run/t --storage-driver vfs"
    program.write_text(f'#!/bin/sh\nexec {process.which("podman")} {options} "$@"\n')
    program.chmod(0o755)
    env = {"HOME": str(home), "XDG_RUNTIME_DIR": f"{home}/run", "CONTAINERS_CONF": str(conf)}
    env["PATH"] = f"{program.parent}:{os.environ['PATH']}"
    argv = [*before, *_as(uid, gid)]
    process.run(
        *argv, program, "import", "-", "sandwright-engines:latest", stdin=archive(), env=env, timeout=90
    )
    try:
        yield argv, env
    finally:
        removal = ("unshare", "rm", "-rf", f"{home}/store")
        process.run(*argv, program, *removal, env=env, timeout=60, check=False)
        for note in home.glob("**/pause.pid"):
            with contextlib.suppress(ValueError, ProcessLookupError):
                os.kill(int(note.read_text()), signal.SIGKILL)


@pytest.mark.needs("podman", "runc", "busybox", "setpriv", "unshare", "newuidmap")
@pytest.mark.parametrize("given", [True, False], ids=["numbers", "no-numbers"])
def test_podman_without_root(tmp_path: Path, *, given: bool) -> None:
    """With subordinate ids the user inside is the usual one; otherwise it is root, and the caller outside."""
    uid, name = 65534, "nobody"
    table = tmp_path / "subuid"
    table.write_text(f"{name}:300000:65536\n" if given else "")
    table.chmod(0o644)
    over = f'for f in /etc/subuid /etc/subgid; do mount --bind {table} $f || exit 1; done; exec "$@"'
    before = ("unshare", "--mount", "sh", "-c", over, "sh")
    with (
        _home("podman", "sandwright-engines:latest", (uid, uid, name)) as home,
        _podman(home, uid, uid, *before) as (argv, env),
    ):
        result = process.run(*argv, f"{home}/out/launch", "sh", "-c", WHO, env=env, timeout=60, check=False)
        said = result.text.splitlines()
        if given:
            assert said[:6] == [name, "nogroup", str(uid), str(uid), str(home), f"{name}:nogroup"], (
                result.stderr
            )
        else:
            assert (said[2], said[3], said[4]) == ("0", "0", str(home)), result.stderr
        assert said[-1] == str(home)
        assert (home / "p" / "made").stat().st_uid == uid


@pytest.mark.needs("podman", "setpriv")
def test_limits_that_podman_would_leave_out(tmp_path: Path) -> None:
    """Without root, and without a cgroup of the user's own, Podman would only warn."""
    if Path("/sys/fs/cgroup/cgroup.controllers").exists():
        pytest.skip("cgroups of version 2 may have been given to the user")
    text = "resources: {pids: 20}\n"
    with _home("podman", "sandwright-engines:latest", (1234, 1234, "ada"), text) as home:
        env = {"HOME": str(home), "XDG_RUNTIME_DIR": f"{home}/run", "PATH": os.environ["PATH"]}
        argv = [*_as(1234, 1234), f"{home}/out/launch", "true"]
        refused = process.run(*argv, env=env, timeout=60, check=False)
        assert refused.status == 125
        assert "Podman has no cgroup for pids without root here" in refused.stderr
        for note in home.glob("**/pause.pid"):
            with contextlib.suppress(ValueError, ProcessLookupError):
                os.kill(int(note.read_text()), signal.SIGKILL)
