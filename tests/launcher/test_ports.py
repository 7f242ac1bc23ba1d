"""Ports between the host's loopback and the sandbox's: each listed one, and no other.

Tests of launcher/source/ports.c.
Tests of launcher/source/relay.c.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from sandwright import process
from sandwright.api import Policy
from sandwright.methods.registry import render
from sandwright.policy.collect import collect_facts
from sandwright.policy.facts import HostFacts
from sandwright.signalling import children_of
from support.enginehosts import engine_host
from support.goldens import write_artifacts
from support.ports import (
    WAIT,
    PortsPlace,
    ask,
    busybox_client,
    busybox_server,
    free_port,
    host_server,
    only_the_listed_is_reached,
    only_the_listed_of_the_host_is_reached,
)
from support.thorough import representative
from support.waiting import until

NOBODY = 65534
BWRAP = pytest.param("bwrap", marks=pytest.mark.needs("bwrap", "busybox"))
RUNTIMES = [
    pytest.param("oci", marks=pytest.mark.needs("runc", "busybox")),
    pytest.param("gvisor", marks=pytest.mark.needs("runsc", "busybox")),
]
ENGINES = [
    pytest.param("docker", marks=pytest.mark.needs("docker", "busybox")),
    pytest.param("podman", marks=pytest.mark.needs("podman", "runc", "busybox")),
]
WITHOUT_ROOT = [
    pytest.param("bwrap as a user", marks=pytest.mark.needs("bwrap", "busybox")),
    pytest.param("oci as a user", marks=pytest.mark.needs("runc", "busybox")),
    pytest.param("gvisor as a user", marks=pytest.mark.needs("runsc", "busybox")),
]
EVERY = [BWRAP, *RUNTIMES, *ENGINES, *WITHOUT_ROOT]
EACH = ("bwrap", "oci as a user", "gvisor", "docker")
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="other users' sandboxes are started by root here")


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A directory that every user can reach."""
    with tempfile.TemporaryDirectory(prefix="sandwright-ports-", ignore_cleanup_errors=True) as made:
        image = Path(made, "image")
        for name in ("bin", "dev", "etc", "proc", "run", "sys", "tmp", "usr", "var"):
            (image / name).mkdir(parents=True)
        shutil.copy(process.which("busybox"), image / "bin" / "busybox")
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.fixture
def place(request: pytest.FixtureRequest, folder: Path) -> Iterator[PortsPlace]:
    method, _, as_user = str(request.param).partition(" ")
    user = NOBODY if as_user else None
    with contextlib.ExitStack() as stack:
        own = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=folder)))
        (own / "p" / ".git").mkdir(parents=True)
        (own / "state").mkdir(mode=0o700)
        for path in (own, own / "state", own / "p", own / "p" / ".git"):
            os.chown(path, user or 0, user or 0)
        environment = {"PATH": os.environ["PATH"], "HOME": str(own), "XDG_RUNTIME_DIR": f"{own}/state"}
        environment["SANDWRIGHT_ROOTFS"] = f"{folder}/image"
        image = ""
        if method in ("docker", "podman"):
            host = stack.enter_context(engine_host(method))
            environment |= host.environment
            image = f"image: {host.image}\n"

        def launch(network: str) -> Path:
            text = f"schema: 1\nmethod: {method}\n{image}network: {{{network}}}\n"
            text += "filesystem: {write: [$PROJECT]}\n"
            loaded = Policy.from_text(text)
            facts = collect_facts(loaded, project=own / "p", environ={"HOME": str(own)})
            facts = facts if user is None else _of(facts, user)
            out = Path(tempfile.mkdtemp(dir=own)) / "out"
            write_artifacts(out, render(loaded.resolve(facts), method).artifacts)
            for path in (out.parent, out, *out.iterdir()):
                os.chown(path, user or 0, user or 0)
            return out / "launch"

        yield PortsPlace(launch, environment, own / "p", user)


def _of(facts: HostFacts, user: int) -> HostFacts:
    return replace(facts, uid=user, gid=user, user="nobody")


@pytest.mark.parametrize("place", EVERY, indirect=True)
def test_a_server_inside_is_reached_on_its_port_only(place: PortsPlace) -> None:
    only_the_listed_is_reached(place)


@pytest.mark.parametrize("place", [BWRAP, *RUNTIMES, *WITHOUT_ROOT], indirect=True)
def test_a_server_of_the_host_is_reached_inside_on_its_port_only(place: PortsPlace) -> None:
    only_the_listed_of_the_host_is_reached(place)


@pytest.mark.parametrize("place", [BWRAP], indirect=True)
@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "0.0.0.0"])
def test_a_port_that_is_taken_starts_nothing(place: PortsPlace, address: str) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family) as taken:
        port = taken.getsockname()[1]
        found = place.run(f"mode: none, expose: [{port}]", "echo ran >made")
    said = f"sandbox: network.expose: port {port} of this machine's localhost is taken\n"
    assert (found.returncode, found.stdout, found.stderr) == (125, "", said)
    assert not (place.directory / "made").exists()


@pytest.mark.parametrize("place", representative(EVERY, *EACH), indirect=True)
def test_a_port_that_another_run_exposes_is_left_to_it(place: PortsPlace) -> None:
    port, other = free_port(), free_port()
    with place.running(f"mode: none, expose: [{port}]", f"{busybox_server(port)} busybox sleep 60"):
        until(lambda: b"404" in ask("127.0.0.1", port), "the first run's server is not reached")
        found = place.run(f"mode: none, expose: [{port}, {other}]", "echo ran; sleep 1")
        assert (found.returncode, found.stdout) == (0, "ran\n"), found.stderr
        said = rf"sandbox: port {port} is already exposed by run [\w-]+; this run does not expose it\n"
        assert re.fullmatch(said, found.stderr)
        until(lambda: b"404" in ask("127.0.0.1", port), "the first run's server is reached no more")
    again = place.run(f"mode: none, expose: [{port}]", "echo ran; sleep 1")
    assert (again.returncode, again.stdout, again.stderr) == (0, "ran\n", ""), "its end frees the port"


@pytest.mark.parametrize(
    "place", [pytest.param("docker as a user", marks=pytest.mark.needs("docker", "busybox"))], indirect=True
)
def test_docker_without_root_starts_nothing(place: PortsPlace) -> None:
    """The network of its containers belongs to root, and cannot be entered."""
    found = place.run(f"mode: none, expose: [{free_port()}]", "true")
    said = "sandbox: network.expose needs to enter the container's network: root, with Docker\n"
    assert (found.returncode, found.stdout, found.stderr) == (125, "", said)


@pytest.mark.parametrize("place", [BWRAP], indirect=True)
@pytest.mark.parametrize("role", ["launcher", "monitor", "both"])
def test_the_port_is_free_when_the_run_was_killed(place: PortsPlace, role: str) -> None:
    port = free_port()
    with place.running(f"mode: none, expose: [{port}]", busybox_server(port) + "wait") as running:
        until(lambda: ask("127.0.0.1", port), "the server is there")
        monitors = children_of(running.pid)
        if role == "both":
            running.send_signal(signal.SIGSTOP)  # so that neither sees the other's end and exits
        for process_ in {"launcher": [], "monitor": monitors, "both": monitors}[role]:
            os.kill(process_, signal.SIGKILL)
        if role != "monitor":
            running.kill()
        until(lambda: _is_free(port), "the port is free")
        until(lambda: not any(Path(f"/proc/{each}/exe").exists() for each in monitors), "it has cleaned up")


def _is_free(port: int) -> bool:
    try:
        with socket.create_server(("127.0.0.1", port)):
            return True
    except OSError:
        return False


@pytest.mark.parametrize("place", [BWRAP], indirect=True)
def test_what_is_carried_is_what_was_sent(place: PortsPlace) -> None:
    """Bytes go both ways, at once, in many connections, of which some close one direction first."""
    port = free_port()
    sent = [random.randbytes(1 + 300_000 * index) for index in range(12)]
    echo = f"{sys.executable} -c '{ECHO}' {port} & wait"
    with place.running(f"mode: none, expose: [{port}]", echo):
        until(lambda: ask("127.0.0.1", port, b"x") == b"x", "the server is there")
        with ThreadPoolExecutor(12) as pool:
            found = list(pool.map(lambda each: _echoed(port, each), sent))
    digests = [hashlib.sha256(each).hexdigest() for each in sent]
    assert [hashlib.sha256(each).hexdigest() for each in found] == digests


ECHO = """\
import shutil, socketserver, sys
class Echo(socketserver.StreamRequestHandler):
    def handle(self): shutil.copyfileobj(self.rfile, self.wfile)
class Server(socketserver.ThreadingTCPServer): request_queue_size = 64
Server(("127.0.0.1", int(sys.argv[1])), Echo).serve_forever()
"""


def _echoed(port: int, sent: bytes) -> bytes:
    said = b""
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT) as end, ThreadPoolExecutor(1) as pool:

        def send() -> None:
            end.sendall(sent)
            end.shutdown(socket.SHUT_WR)

        done = pool.submit(send)
        while block := end.recv(1 << 16):
            said += block
        done.result(WAIT)
    return said


@pytest.mark.parametrize("place", [BWRAP], indirect=True)
def test_a_failure_is_told_on_the_other_side(place: PortsPlace) -> None:
    """Without a server inside, the client gets a reset, not silence or an ordinary end."""
    port = free_port()
    with (
        place.running(f"mode: none, expose: [{port}]", "sleep 100 & wait"),
        pytest.raises(ConnectionResetError),
    ):
        _first(port)


def _first(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT) as end:
        return end.recv(1)


@pytest.mark.parametrize("place", [BWRAP], indirect=True)
def test_a_sandbox_gets_no_descriptor_and_sees_no_process(place: PortsPlace) -> None:
    script = (
        "ls /proc/self/fd | wc -l; busybox ps -o comm | grep -c launch; tail -n +2 /proc/net/unix | wc -l"
    )
    found = place.run(f"mode: none, expose: [{free_port()}], localhost: [{free_port()}]", script)
    plain = place.run("mode: none", script)
    assert (found.returncode, found.stdout) == (0, plain.stdout), found.stderr


@pytest.mark.parametrize("place", [BWRAP], indirect=True)
def test_a_run_with_ports_ends_with_its_command(place: PortsPlace) -> None:
    """The relays do not hold the command's standard output open."""
    with host_server(b"x") as (port, _):
        words = [
            str(place.launch(f"mode: none, localhost: [{port}]")),
            "sh",
            "-c",
            f"{busybox_client(port)}exit 7",
        ]
        ended = subprocess.run(
            words, env=place.environment, cwd=place.directory, capture_output=True, timeout=WAIT, check=False
        )
    assert (ended.returncode, ended.stdout, ended.stderr) == (7, b"x", b"")
