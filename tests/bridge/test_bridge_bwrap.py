"""The bridge from inside a rendered bubblewrap sandbox: a push with a token that is never inside."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import replace

import pytest

from sandwright import process
from sandwright.bridge.directory import Bridge
from sandwright.errors import RenderError
from sandwright.launcher.plan import parse_plan
from sandwright.methods.registry import render
from support.bridges import World, world
from support.githttp import GitServer
from support.goldens import write_artifacts
from support.rundocuments import bridged, launching
from support.thorough import THOROUGH

pytestmark = pytest.mark.needs("bwrap", "git")

TOKEN = f"sandbox-token-B-{uuid.uuid4().hex}"
HOST_TOKEN = f"host-token-A-{uuid.uuid4().hex}"
POLICY = """
environment: {pass: [PATH, HOME, "SANDBOX_*"]}
credentials:
  shims:
    git: {secrets: {GIT_TOKEN: "${SANDBOX_GIT_TOKEN}"}, allow: ["push *"]}
    show: {secrets: {SHOWN: "${SANDBOX_GIT_TOKEN}"}, allow: ["*"]}
"""
ENVIRONMENT = {"SANDBOX_GIT_TOKEN": TOKEN, "GH_TOKEN": HOST_TOKEN, "GIT_TOKEN": HOST_TOKEN}


@pytest.fixture
def place() -> Iterator[World]:
    with world() as made:
        made.commit()
        made.tool(
            "show", "case $SHOWN in sandbox-*-B-*) echo B ;; host-*) echo A ;; *) echo none ;; esac; cat"
        )
        yield made


@pytest.fixture
def server(place: World) -> Iterator[GitServer]:
    with place.git_server(TOKEN) as running:
        yield running


def _inside(
    place: World, bridge: Bridge | None, script: str, *, policy: str = POLICY, stdin: bytes = b""
) -> process.Result:
    """Run a shell's script in the rendered sandbox, on a host whose environment has both tokens."""
    argv, environment = _command(place, bridge, script, policy)
    return process.run(
        *argv, cwd=place.project, stdin=stdin, check=False, timeout=60, env=environment,
        pass_fds=(bridge.channel,) if bridge else (),
    )  # fmt: skip


@contextlib.contextmanager
def _started(place: World, bridge: Bridge, script: str) -> Iterator[subprocess.Popen[bytes]]:
    argv, environment = _command(place, bridge, script, POLICY)
    with process.start(*argv, cwd=place.project, env=environment, pass_fds=(bridge.channel,)) as sandbox:
        yield sandbox


def _command(
    place: World, bridge: Bridge | None, script: str, policy: str
) -> tuple[tuple[str, ...], dict[str, str]]:
    folder = write_artifacts(place.root / "out", render(place.policy(policy), "bwrap").artifacts)
    environment = {"PATH": os.environ["PATH"], "HOME": str(place.root / "home"), **ENVIRONMENT}
    return (launching(folder / "launch", bridged(bridge)), "sh", "-c", script), environment


def test_a_push_from_inside(place: World, server: GitServer) -> None:
    """Neither token appears inside: not in an environment, an argument or a file, nor in the output."""
    look = """
        git push origin main || exit 1
        tr '\\0' '\\n' </proc/1/environ
        for each in /proc/[0-9]*; do cat $each/environ $each/cmdline; done 2>/dev/null | tr '\\0' '\\n'
        env
        grep -r -e token-A- -e token-B- . ../b ../audit.jsonl /tmp 2>/dev/null
        echo looked
    """
    with place.bridge(POLICY, environment=ENVIRONMENT) as bridge:
        result = _inside(place, bridge, look)
    assert result.status == 0, result.stderr
    head = process.run("git", f"--git-dir={server.root}/r.git", "rev-parse", "refs/heads/main").text
    assert head == place.git("rev-parse", "HEAD")
    assert set(server.seen) == {None, TOKEN}
    told = result.stdout + result.stderr.encode() + place.log.read_bytes()
    assert b"looked" in told
    assert b"PATH=/dev/.sandwright/bin:" in told
    assert TOKEN.encode() not in told
    assert HOST_TOKEN.encode() not in told


def test_the_two_tokens(place: World) -> None:
    with place.bridge(POLICY, environment=ENVIRONMENT) as bridge:
        result = _inside(place, bridge, "show; echo $?", stdin=b"binary \0 input\n")
    assert result.stdout == b"B\nbinary \0 input\n0\n"


def test_the_bridges_own_socket_stays_refused(place: World) -> None:
    """Programs inside reach the bridge only through the sandbox's own loopback."""
    script = """
        python3 -c 'import socket as s; s.socket(s.AF_UNIX).connect("/dev/.sandwright/socket")' 2>&1 | tail -1
        ls /dev/.sandwright; touch /dev/.sandwright/x 2>&1; mv /dev/.sandwright /dev/y 2>&1; show </dev/null
    """
    with place.bridge(POLICY, environment=ENVIRONMENT) as bridge:
        said = _inside(place, bridge, script).stdout.decode()
    assert "PermissionError" in said
    assert "port" in said
    assert "Read-only file system" in said
    assert "cannot move" in said
    assert said.endswith("B\n")


def test_the_socket_where_the_policy_lists_sockets(place: World) -> None:
    policy = (
        POLICY
        + f"""
network: {{unix_sockets: [{place.root}/some.sock]}}
accept_gaps: [{{feature: network.other-sockets, method: bwrap, reason: a test}}]
"""
    )
    with place.bridge(policy, environment=ENVIRONMENT) as bridge:
        result = _inside(place, bridge, "show </dev/null; ls /dev/.sandwright", policy=policy)
    assert result.stdout == b"B\nbin\nlisten\nsandwright-enter\nshim\nsocket\n", result.stderr


def test_without_a_bridge_nothing_starts(place: World) -> None:
    result = _inside(place, None, "echo started")
    assert (result.status, result.stdout) == (125, b"")
    assert "the policy has shims, and no bridge is running" in result.stderr


def test_a_bridge_that_dies(place: World) -> None:
    """Programs inside get an error, and never the host's own program, which is on PATH behind the shim."""
    script = "show </dev/null; until [ -e dead ]; do sleep 0.05; done; git push; echo $?; command -v git"
    with (
        place.bridge(POLICY, environment=ENVIRONMENT) as bridge,
        _started(place, bridge, script) as sandbox,
    ):
        assert sandbox.stdout is not None
        assert sandbox.stderr is not None
        assert sandbox.stdout.readline() == b"B\n"
        os.kill(bridge.pid, signal.SIGKILL)
        os.waitid(os.P_PID, bridge.pid, os.WEXITED | os.WNOWAIT)
        (place.project / "dead").touch()
        assert sandbox.stdout.read() == b"125\n/dev/.sandwright/bin/git\n"
        assert b"git: there is no bridge to the host" in sandbox.stderr.read()


def test_a_network_that_is_the_hosts(place: World) -> None:
    with pytest.raises(RenderError, match="neither Unix sockets nor a separate loopback"):
        render(place.policy(POLICY + "network: {mode: host}\n"), "bwrap")


SHOWN = "credentials: {shims: {show: {allow: ['*']}}}\n"


def _through(place: World, number: int, policy: str = SHOWN) -> process.Result:
    """Call a shim in a sandbox that gets the bridge's channel under this number, or the next free one."""
    with place.bridge(policy) as bridge:
        channel = fcntl.fcntl(bridge.channel, fcntl.F_DUPFD_CLOEXEC, number)
        try:
            return _inside(place, replace(bridge, channel=channel), "show </dev/null", policy=policy)
        finally:
            os.close(channel)


@pytest.mark.parametrize(
    "number", [3, 9, 63, 64, 80, 99, 100, 103, 104, 900] if THOROUGH else [3, 64, 100, 900]
)
def test_the_channel_may_have_any_number(place: World, number: int) -> None:
    """The caller may have many open files: channels from 64 on arrived closed, 100 to 103 were changed."""
    result = _through(place, number)
    assert (result.status, result.stdout) == (0, b"none\n"), result.stderr


def test_the_channel_is_beside_what_bubblewrap_is_given_for_git(place: World) -> None:
    """bubblewrap gets a descriptor for the `.gitignore` in each mount point that did not exist before."""
    absent = ", ".join(f"{place.project}/absent-{number}/" for number in range(64))
    policy = f"{SHOWN}filesystem: {{readonly: [{absent}]}}\n"
    _command(place, None, "true", policy)
    assert len(parse_plan((place.root / "out/launch.plan").read_bytes()).ignored) == 64
    result = _through(place, 40, policy)
    assert (result.status, result.stdout) == (0, b"none\n"), result.stderr
