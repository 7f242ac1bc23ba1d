"""Sandboxes with the proxy and nothing else: real launchers, real squid, and witnesses of the ways around it.

Each refused host can be reached from the machine itself, in the same lab: the control of the refusal.

Tests of launcher/source/egress.c.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest

from sandwright import process
from sandwright.api import Policy
from sandwright.egress import Proxy, proxy
from sandwright.launcher.run_document import RunDocument
from sandwright.methods.registry import render
from sandwright.policy.collect import collect_facts
from sandwright.policy.resolved import ResolvedPolicy
from support import labworker
from support.goldens import write_artifacts
from support.netlab import MACHINE, WORLD, World, listener
from support.rundocuments import launching, proxied
from support.thorough import representative
from support.waiting import eventually

pytestmark = pytest.mark.needs("squid", "ip", "setpriv", "curl", "unshare")

METHODS = [
    pytest.param("bwrap", marks=pytest.mark.needs("bwrap")),
    pytest.param("oci", marks=pytest.mark.needs("runc")),
    pytest.param("gvisor", marks=pytest.mark.needs("runsc")),
    pytest.param("vm", marks=pytest.mark.needs("bwrap", "linux.uml")),
    pytest.param("vm-landlock", marks=pytest.mark.needs("linux.uml")),
]

FEW = representative(METHODS, "bwrap", "oci", "vm-landlock")
"""Methods with the host's files, with a runtime's, and with their own kernel, if nothing else matters."""

CURL = "curl -sS --max-time 5 -o /dev/null -w '%{http_code}\\n'"


@dataclass(frozen=True)
class Sandbox:
    """A rendered sandbox, and the proxy that runs for it."""

    form: str
    launch: str
    environment: dict[str, str]
    running: Proxy

    def run(self, script: str, *, check: bool = False) -> process.Result:
        """Run a shell script inside."""
        return process.run(
            self.launch, "sh", "-c", script, env=self.environment, timeout=60, check=check, cwd="/"
        )


def resolved(method: str, project: Path, more: str = "") -> ResolvedPolicy:
    """A policy that permits two hosts, and reading the host if the method reads it."""
    accept_gaps = "[{feature: network.other-sockets, method: bwrap, reason: a test}]"
    text = (
        f"schema: 1\nmethod: {method.partition('-')[0]}\nextends: [default]\naccept_gaps: {accept_gaps}\n"
        f"network: {{mode: proxy, allow: [web.example, '*.wild.example']}}\n{more}"
    )
    loaded = Policy.from_text(text)
    return loaded.resolve(collect_facts(loaded, project=project, environ={"HOME": str(project.parent)}))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root for containers: busybox, and curl with its libraries."""
    if process.find("busybox") is None:
        pytest.skip("busybox is not installed")
    folder = tmp_path_factory.mktemp("image")
    for name in ("bin", "etc", "proc", "dev", "sys", "tmp", "usr", "var"):
        (folder / name).mkdir()
    shutil.copy(process.which("busybox"), folder / "bin" / "busybox")
    for name in ("sh", "cat", "sleep", "sed"):
        (folder / "bin" / name).symlink_to("busybox")
    curl = process.which("curl")
    for path in [*re.findall(r"/\S+", process.run("ldd", curl).text), curl]:
        place = folder / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
    (folder / "bin" / "curl").symlink_to(curl)
    for name in ("hosts", "resolv.conf"):
        (folder / "etc" / name).touch()
    return folder


@pytest.fixture
def sandbox(request: pytest.FixtureRequest, world: World, names: Path, tmp_path: Path) -> Iterator[Sandbox]:
    """A sandbox of a method, with its own proxy."""
    del world
    method: str = request.param
    project = tmp_path / "project"
    project.mkdir()
    policy = resolved(method, project)
    folder = write_artifacts(tmp_path / "out", render(policy, method).artifacts)
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    if os.geteuid() != 0:  # runc's listener for denials needs a path of at most 107 bytes
        environment["XDG_RUNTIME_DIR"] = str(tmp_path)
    if method in ("oci", "gvisor"):
        environment["SANDWRIGHT_ROOTFS"] = str(request.getfixturevalue("root"))
    with proxy(policy, hosts_file=names) as running:
        launch = launching(folder / "launch", proxied(running))
        yield Sandbox(method, launch, environment, running)


@pytest.mark.parametrize("sandbox", METHODS, indirect=True)
def test_only_what_is_listed_is_reached(sandbox: Sandbox) -> None:
    found = sandbox.run(
        f"{CURL} http://web.example/; {CURL} -p http://sub.wild.example:443/; {CURL} http://other.example/;"
        f" {CURL} -p http://other.example:443/ 2>&1; {CURL} http://inside.wild.example/"
    )
    assert found.text.splitlines() == [
        "200", "200", "403", "curl: (56) CONNECT tunnel failed, response 403", "000", "403",
    ]  # fmt: skip
    told = [(d.method, d.host, d.reason) for d in sandbox.running.decisions()]
    assert told == [
        ("GET", "web.example", ""), ("CONNECT", "sub.wild.example", ""), ("GET", "other.example", "host"),
        ("CONNECT", "other.example", "host"), ("GET", "inside.wild.example", "address"),
    ]  # fmt: skip


@pytest.mark.parametrize("sandbox", FEW, indirect=True)
def test_programs_that_know_of_no_proxy_reach_what_is_listed(sandbox: Sandbox, world: World) -> None:
    """They reach listed names on web ports. Other names get nowhere, and are not looked up."""
    before = len(world.reached), len(world.asked)
    direct = CURL.replace("curl", "curl --noproxy '*'")
    found = sandbox.run(
        f"cat /etc/resolv.conf; {direct} http://web.example/; {direct} http://sub.wild.example:443/; "
        f"{direct} http://other.example/ 2>/dev/null; {direct} http://127.77.9.9/ 2>/dev/null; "
        f"{direct} http://127.0.0.1/ 2>/dev/null; {direct} http://inside.wild.example/ 2>/dev/null; "
        f"{direct} http://web.example:8080/ 2>/dev/null; {direct} http://WEB.example/"
    )
    assert found.text.splitlines() == [
        "nameserver 127.0.0.1", "200", "200", "000", "000", "000", "000", "000", "200",
    ], found.stderr  # fmt: skip
    assert world.reached[before[0] :] == [WORLD, WORLD, WORLD]
    assert "other.example" not in world.asked[before[1] :]
    told = [(d.method, d.host, d.port, d.reason) for d in sandbox.running.decisions()]
    assert ("CONNECT", "inside.wild.example", 80, "address") in told
    assert {host for _, host, _, _ in told} <= {"web.example", "sub.wild.example", "inside.wild.example"}


@pytest.mark.parametrize("sandbox", METHODS[:1], indirect=True)
def test_bubblewrap_may_speak_before_anybody_listens(sandbox: Sandbox, tmp_path: Path) -> None:
    """Its output about the sandbox waits in a pipe for a late reader."""
    late = tmp_path / "late"
    late.mkdir()
    (late / "timeout").write_text(f'#!/bin/sh\nsleep 0.5\nexec {process.which("timeout")} "$@"\n')
    (late / "timeout").chmod(0o755)
    sandbox.environment["PATH"] = f"{late}:{sandbox.environment['PATH']}"
    assert sandbox.run(f"{CURL} http://web.example/").text == "200"


@pytest.mark.parametrize("sandbox", METHODS, indirect=True)
def test_nothing_is_reached_around_it(sandbox: Sandbox, world: World) -> None:
    """The sandbox reaches neither the world, nor this machine, nor a name server."""
    before = len(world.reached), len(world.asked)
    direct = CURL.replace("curl", "curl --noproxy '*'")
    with listener("127.0.0.1") as (port, own), listener(MACHINE) as (outer, outside):
        places = [
            f"{WORLD}:80",
            f"{MACHINE}:{outer}",
            f"127.0.0.1:{port}",
            f"127.0.0.1:{sandbox.running.port}",
        ]
        asked = "; ".join(f"{direct} http://{place}/" for place in places)
        names = f"{direct} http://other.example/"
        found = sandbox.run(f"{asked}; {names}; {CURL} http://web.example/")
        assert found.text.splitlines() == ["000"] * 5 + ["200"]
        for line in found.stderr.splitlines():
            assert re.match(r"curl: \((7\) Failed to connect|6\) Could not resolve)", line), line
        assert (own, outside, world.asked[before[1] :]) == ([], [], [])
        assert world.reached[before[0] :] == [WORLD], "the one that went through the proxy"
        for place in (places[1], places[2]):
            host, _, number = place.partition(":")
            with socket.create_connection((host, int(number)), timeout=5) as connection:
                connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
                assert connection.recv(12) == b"HTTP/1.1 200"


@pytest.mark.parametrize("sandbox", METHODS, indirect=True)
def test_there_is_no_device_and_no_route(sandbox: Sandbox) -> None:
    found = sandbox.run("sed 1,2d /proc/net/dev | sed 's/:.*//'; sed 1d /proc/net/route")
    assert found.text.split() == ["lo"]


@pytest.mark.parametrize("sandbox", FEW, indirect=True)
def test_the_proxy_is_killed(sandbox: Sandbox, world: World) -> None:
    """In the middle of a run, requests that worked before fail, and nothing takes the proxy's place."""
    before = len(world.reached)
    script = f"{CURL} http://web.example/; sleep 2; {CURL} http://web.example/; echo $?"
    with process.start(sandbox.launch, "sh", "-c", script, env=sandbox.environment) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"200\n"
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and _is_squid(entry, sandbox.running.directory):
                os.kill(int(entry.name), signal.SIGKILL)
        rest, _ = started.communicate(timeout=30)
    status, error = rest.split()
    assert status == b"000"
    # Inside vm's kernel a connection may succeed before the kernel knows that no server listens outside.
    assert error in ((b"7", b"55", b"56") if sandbox.form.startswith("vm") else (b"7",))
    assert len(world.reached) == before + 1


def _is_squid(entry: Path, directory: Path) -> bool:
    try:
        command = (entry / "cmdline").read_bytes()
    except OSError:
        return False
    return b"/squid" in command.split(b"\0")[0] and os.fsencode(directory) in command


@pytest.mark.parametrize("sandbox", FEW, indirect=True)
def test_nothing_runs_without_a_proxy(sandbox: Sandbox, tmp_path: Path) -> None:
    """The proxy was not started, or is gone: the launcher refuses."""
    touch = f"touch {tmp_path}/project/ran"
    for document in (RunDocument(), RunDocument(egress=str(tmp_path))):
        launch = launching(tmp_path / "out/launch", document)
        refused = process.run(launch, "sh", "-c", touch, env=sandbox.environment, timeout=60, check=False)
        assert (refused.status, refused.text) == (125, "")
        assert "the policy needs a proxy" in refused.stderr
    assert not (tmp_path / "project" / "ran").exists()


@pytest.mark.parametrize("sandbox", METHODS[:2], indirect=True)
def test_a_supervisor_that_does_not_answer(sandbox: Sandbox, tmp_path: Path) -> None:
    dead = tmp_path / "dead"
    dead.mkdir()
    os.mkfifo(dead / "ask")
    launch = launching(tmp_path / "out/launch", RunDocument(egress=str(dead)))
    touch = f"touch {tmp_path}/project/ran"
    refused = process.run(launch, "sh", "-c", touch, env=sandbox.environment, timeout=60, check=False)
    assert refused.status == 125
    assert "sandbox: cannot reach the proxy: no answer" in refused.stderr
    assert not (tmp_path / "project" / "ran").exists()
    assert [path.name for path in dead.iterdir()] == ["ask"]


@pytest.mark.parametrize("sandbox", METHODS[:1], indirect=True)
def test_a_sandbox_that_ends_before_it_has_its_way_is_started_once_more(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    """bubblewrap fails like this when a mount disappears while it reads them; a stand-in fails so once."""
    programs, failed = tmp_path / "bin", tmp_path / "failed"
    programs.mkdir()
    (programs / "bwrap").write_text(
        f"#!{sys.executable} -IS\n"
        "import os, sys, time\n"
        f"if os.path.exists('{failed}'):\n"
        f"    os.execv('{process.which('bwrap')}', sys.argv)\n"
        "if '--json-status-fd' not in sys.argv:\n"  # it is executed for the reason of the failure
        f"    open('{failed}', 'w')\n"
        "    sys.exit('bwrap: Unable to apply mount flags')\n"
        "child = os.fork() or os._exit(1)\n"
        "os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)\n"
        "os.write(7, b'{ \"child-pid\": %d }\\n' % child)\n"
        "time.sleep(1)\n"
        "sys.exit(1)\n"
    )
    (programs / "bwrap").chmod(0o755)
    environment = {**sandbox.environment, "PATH": f"{programs}:{os.environ['PATH']}"}
    found = process.run(
        sandbox.launch, "sh", "-c", f"{CURL} http://web.example/", env=environment, timeout=60, check=False
    )
    assert (found.status, found.text) == (0, "200"), found.stderr
    assert "did not start (mounts changed on the host); retrying" in found.stderr
    assert "no way to the proxy" not in found.stderr
    assert failed.exists()


@pytest.mark.parametrize("sandbox", representative(METHODS, "gvisor", "vm-landlock"), indirect=True)
def test_status_and_streams_are_the_commands(sandbox: Sandbox) -> None:
    found = sandbox.run("echo out; echo err >&2; exit 42")
    assert (found.status, found.text, found.stderr.strip()) == (42, "out", "err")
    assert not list(sandbox.running.directory.glob("way-*"))


def test_several_sandboxes_share_a_proxy(world: World, names: Path, tmp_path: Path) -> None:
    del world
    project = tmp_path / "project"
    project.mkdir()
    policy = resolved("bwrap", project)
    folder = write_artifacts(tmp_path / "out", render(policy, "bwrap").artifacts)
    with proxy(policy, hosts_file=names) as running:
        launch, environment = launching(folder / "launch", proxied(running)), {"PATH": os.environ["PATH"]}
        one = _started(
            launch, environment, f"{CURL} http://web.example/; sleep 1; {CURL} http://web.example/"
        )
        other = _started(launch, environment, f"{CURL} http://web.example/")
        with one as first, other as second:
            assert second.communicate(timeout=30)[0] == b"200\n"
            assert first.communicate(timeout=30)[0] == b"200\n200\n"
        eventually(lambda: not _listeners(running), within=5)
        assert _listeners(running) == 0, "a sandbox that ended has no listener left"


def _started(
    launch: str, environment: dict[str, str], script: str
) -> AbstractContextManager[subprocess.Popen[bytes]]:
    return process.start(launch, "sh", "-c", script, env=environment)


def _listeners(running: Proxy) -> int:
    """Sockets of the supervisor in addition to its own: one for each sandbox."""
    supervisor = running._supervisor.pid  # type: ignore[attr-defined]
    opened = Path(f"/proc/{supervisor}/fd").iterdir()
    return sum(str(path.readlink()).startswith("socket:") for path in opened)


@pytest.mark.parametrize("sandbox", [METHODS[0], *METHODS[3:]], indirect=True)
def test_names_in_the_hosts_of_this_machine(sandbox: Sandbox, tmp_path: Path) -> None:
    """A listed name still leads through the proxy, and an unlisted one does not resolve."""
    hosts = tmp_path / "hosts"
    hosts.write_text("203.0.113.9 web.example hidden.example\n")
    script = (
        f"getent hosts web.example; getent hosts hidden.example; {CURL} --noproxy '*' http://web.example/"
    )
    mounted = 'mount --bind "$0" /etc/hosts && getent hosts hidden.example >&2 && exec "$@"'
    enter, drop = labworker.mount_namespace()
    words = (*enter, "sh", "-c", mounted, str(hosts), *drop, sandbox.launch, "sh", "-c", script)
    found = process.run(*words, env=sandbox.environment, timeout=60, check=False, cwd="/")
    assert "203.0.113.9" in found.stderr, "the control: the host has the name"
    assert found.text.split() == ["127.77.0.1", "web.example", "200"], found.stderr
