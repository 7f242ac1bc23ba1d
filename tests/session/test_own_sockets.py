"""Unix sockets of the sandbox's own, and none of the host's: the host's servers get no connection.

Tests of launcher/source/broker.c: the Unix sockets that can be reached.
Tests of launcher/source/notify_threads.c: a connection that waits holds up no other.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import platform
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sandwright import process
from sandwright.seccomp import compile_profile, profile
from sandwright.seccomp.abi import Architecture
from session.conftest import SANDWRIGHT, WAIT, Project
from session.hostsockets import Host
from support import interpreters
from support.waiting import until

INSIDE = Path(__file__).with_name("own_sockets.py")
PYTHON = "/usr/bin/python3"
"""An interpreter that other users reach."""
RUN = (*SANDWRIGHT, "run", "--trust-policy", "--", interpreters.INSIDE, "-P", "inside.py")

pytestmark = [pytest.mark.needs("bwrap"), pytest.mark.real_start]


@pytest.fixture
def shown(project: Project) -> Path:
    """A readable directory; the project is writable."""
    made = project.home.parent / "shown"
    made.mkdir()
    _policy(project, made)
    return made


def _policy(project: Project, shown: Path, more: str = "") -> None:
    (project.root / "inside.py").write_bytes(INSIDE.read_bytes())
    project.policy.write_text(
        f"schema: 1\nmethod: bwrap\nfilesystem: {{read: [..., {shown}], write: [$PROJECT]}}\n{more}"
    )


@contextmanager
def _open_project() -> Iterator[Project]:
    """A project that other users reach."""
    with tempfile.TemporaryDirectory(prefix="sandwright-test-") as directory:
        project = Project(
            Path(directory, "home", "p"), Path(directory, "home"), Path(directory, "run"), forked=()
        )
        project.root.mkdir(parents=True)
        project.runtime.mkdir(mode=0o700)
        _policy(project, project.runtime)
        Path(directory).chmod(0o755)
        yield project


@contextmanager
def _filter(missing: str) -> Iterator[int]:
    """The filter of a container in which bubblewrap can run, as a descriptor, without one of its groups."""
    full = profile("bwrap-in-container")
    grants = tuple(each for each in full.grants if each != missing)
    if missing.startswith("socket-families"):
        grants += ("socket-families",)
    less = dataclasses.replace(full, grants=grants)
    arch: Architecture = "arm64" if platform.machine() == "aarch64" else "amd64"
    with tempfile.TemporaryFile() as file:
        file.write(compile_profile(less.expand(caps=(), arch=(arch,)), arch=arch))
        file.seek(0)
        yield file.fileno()


def _inside(project: Project, what: str, *hosts: str) -> dict[str, str]:
    """Run it inside, and again if another test's socket, which the policy had to hide, has disappeared."""
    for _ in range(5):
        ended = project.run(interpreters.INSIDE, "-P", "inside.py", what, *hosts, options=("--trust-policy",))
        if b"was removed after this was rendered" not in ended.stderr:
            break
    assert ended.returncode == 0, ended.stderr.decode()
    told: dict[str, str] = json.loads(ended.stdout)
    return told


def test_own_ones_work_and_the_hosts_are_closed(project: Project, shown: Path, host: Host) -> None:
    root = project.root
    hosts = [
        host.listen(f"{root}/known"),
        host.listen(f"{root}/later", known_as=f"{project.home}/unknown"),
        host.listen(f"{shown}/readable", known_as=f"{project.home}/unknown"),
        host.listen(f"@{root}/none"),
    ]
    own = ("temporary", "project", "relative", "packets", "abstract", "long", "up", "link")
    assert _inside(project, "sockets", *hosts) == {
        **dict.fromkeys(own, "ok"),
        "datagrams": "EPERM",
        "stale": "ECONNREFUSED",
        "absent": "ENOENT",
        "no socket": "ECONNREFUSED",
        "host known": "ECONNREFUSED",  # a mount covers it
        "host later": "EACCES",
        "host readable": "EACCES",
        "host none": "ECONNREFUSED",
        **dict.fromkeys(("symlink", "hardlink", "renamed"), "EACCES"),
        "tcp": "ok",
        "at once": "EINPROGRESS",
        "again": "ok",
        "refused": "ECONNREFUSED",
        "out": "ENETUNREACH",
        "closed": "EISCONN",
    }
    assert host.heard == set()
    for path in (f"{root}/later", f"@{root}/none"):  # it would have
        with socket.socket(socket.AF_UNIX) as end:
            end.connect(path.replace("@", "\0"))
            assert end.recv(1) == b""
        until(lambda path=path: path in host.heard, path)  # type: ignore[misc]


def test_no_race_leads_to_the_host(project: Project, shown: Path, host: Host) -> None:
    path = host.listen(f"{project.root}/later", known_as=f"{project.home}/unknown")
    counts = _inside(project, "race", path)
    assert shown.exists()
    assert int(counts["own"]) > 0
    assert int(counts["refused"]) > 0
    assert host.heard == set()


def test_a_connection_that_has_to_wait(project: Project, shown: Path) -> None:
    assert shown.exists()
    assert _inside(project, "full") == {"signal": "interrupted", "beside": "ok", "in the end": "True"}


def _supervisor(starter: int) -> int:
    """The monitor's child without standard output, and with threads."""
    found: list[int] = []
    below = [starter]
    while below:
        each = below.pop()
        children = Path(f"/proc/{each}/task/{each}/children").read_text().split()
        below += [int(child) for child in children]
        threads = len(list(Path(f"/proc/{each}/task").iterdir()))
        if threads > 1 and Path(f"/proc/{each}/comm").read_text() == "launch\n":
            found.append(each)
    (one,) = found
    return one


def test_without_its_supervisor_nothing_is_connected(project: Project, shown: Path) -> None:
    """No other process can answer in its place: the first process asks only this one."""
    assert shown.exists()
    with subprocess.Popen(
        [*RUN, "waits"], cwd=project.root, env=project.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"up\n"
        os.kill(_supervisor(running.pid), signal.SIGKILL)
        output, _ = running.communicate(b"\n", timeout=WAIT)
        expected = {"before": "ok", "after": "ENOSYS", "listener": "EBUSY", "filters": "2"}
        assert json.loads(output) == expected
        assert running.returncode == 0


def test_a_socket_that_was_open_before_leads_nowhere(project: Project, shown: Path, host: Host) -> None:
    name = host.listen(f"@{shown}/none")
    with socket.socket(socket.AF_UNIX) as given:
        ended = subprocess.run(
            [*RUN, "inherited", name],
            cwd=project.root,
            env=project.environ,
            stdin=given.fileno(),
            capture_output=True,
            timeout=WAIT,
            check=False,
        )
    assert json.loads(ended.stdout) == {"inherited": "no socket"}, ended.stderr
    assert host.heard == set()


def test_none_are_had_in_the_hosts_network(project: Project, shown: Path) -> None:
    """If the namespace is missing, no command runs."""
    assert project.sandwright("render", "--out", f"{shown}/out").returncode == 0
    arguments, plan = Path(shown, "out/bwrap/args"), Path(shown, "out/bwrap/launch.plan")
    old, new = arguments.read_bytes(), arguments.read_bytes().replace(b"--unshare-net\0", b"")
    before, after = (hashlib.sha256(each).hexdigest().encode() for each in (old, new))
    arguments.write_bytes(new)
    plan.write_bytes(plan.read_bytes().replace(before, after))
    words = [f"{shown}/out/bwrap/launch", "echo", "ran"]
    ended = subprocess.run(
        words, cwd=project.root, env=project.environ, capture_output=True, timeout=WAIT, check=False
    )
    assert (ended.returncode, ended.stdout) == (125, b"")
    assert b"the sandbox has no separate network namespace, which identifies its Unix sockets" in ended.stderr


def test_the_policy_can_have_none(project: Project, shown: Path) -> None:
    _policy(project, shown, "network: {own_sockets: false}\n")
    assert _inside(project, "which") == {"own": "EPERM"}


def test_a_listed_one_is_reached_and_nothing_in_its_place(project: Project, shown: Path, host: Host) -> None:
    root = project.root
    listed = host.listen(f"{root}/listed")
    other = host.listen(f"{root}/other", known_as=f"{project.home}/unknown")
    _policy(project, shown, f"network: {{unix_sockets: [{listed}]}}\n")
    assert _inside(project, "which", listed, other) == {"own": "ok", "listed": "ok", "other": "EACCES"}
    assert host.heard == {listed}


@pytest.mark.needs("setpriv", PYTHON)
@pytest.mark.skipif(os.getuid() != 0, reason="becomes another user")
@pytest.mark.parametrize(
    "missing", ["", "enter-own-namespaces", "take-descriptors", "socket-families-with-diagnosis"]
)
def test_in_a_container_it_needs_what_its_profile_grants(missing: str) -> None:
    with _open_project() as project, _filter(missing) as filter_:
        rendered = project.sandwright("render", "--out", f"{project.runtime}/out")
        assert rendered.returncode == 0, rendered.stderr
        process.run("chown", "--recursive", "65534:65534", project.home.parent)
        outer = ("bwrap", "--dev-bind", "/", "/", "--seccomp", str(filter_))
        user = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--no-new-privs")
        ended = subprocess.run(
            [*outer, *user, f"{project.runtime}/out/bwrap/launch", PYTHON, "-P", "inside.py", "which"],
            cwd=project.root,
            env=project.environ,
            pass_fds=[filter_],
            capture_output=True,
            timeout=WAIT,
            check=False,
        )
    if missing:
        assert (ended.returncode, ended.stdout) == (125, b"")
        why = (
            "cannot make the sandbox's mounts private"
            if missing == "enter-own-namespaces"
            else "cannot supervise connections"
        )
        assert why in ended.stderr.decode()
        return
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == {"own": "ok"}
