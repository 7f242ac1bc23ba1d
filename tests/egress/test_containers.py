"""Docker and Podman with the proxy: real engines, our image `proxy`, and witnesses of the ways around it.

The image is built from its lock, as users build it; the sandbox may reach a server in a container on a
network of the test's own, whose addresses look public.

Tests of launcher/source/engine_proxy.c.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sandwright import process
from support.dockerhost import no_way_from
from support.enginehosts import EngineHost, engine_host
from support.launchers import launcher_of
from support.netlab import listener
from support.thorough import representative
from support.waiting import eventually

IMAGE = "sandwright/proxy:latest"
pytestmark = pytest.mark.exclusive("proxy-image")  # an engine has one, and one network of these addresses

ENGINES = [
    pytest.param("docker", marks=pytest.mark.needs("docker", "busybox")),
    pytest.param("podman", marks=pytest.mark.needs("podman", "runc", "busybox")),
]
DOCKER = pytest.mark.parametrize("host", representative(ENGINES, "docker"), indirect=True, scope="module")
PODMAN = pytest.mark.parametrize("host", representative(ENGINES, "podman"), indirect=True, scope="module")
"""For tests in which the launcher does the same for both. Each tries reachable and unreachable hosts."""

ASK = """
ask() {
    { printf "GET http://$3/ HTTP/1.0\\r\\n\\r\\n"; sleep 1; } | nc -w 5 "$1" "$2" | head -n 1
}
proxy=$(sed -n 's/\tproxy$//p' /etc/hosts)
"""


@dataclass
class Sandbox:
    """A rendered sandbox in an engine, and how it is started."""

    host: EngineHost
    launch: str
    net: str
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def world(self) -> str:
        """The address of the server that the sandbox may reach."""
        return f"{self.net}.2"

    @property
    def other(self) -> str:
        """An address beside it, which the sandbox may not reach."""
        return f"{self.net}.3"

    def sh(self, script: str) -> process.Result:
        """Run a script inside."""
        words = (self.launch, "sh", "-c", ASK + script)
        return process.run(*words, env=self.environment, timeout=120, check=False)

    def left(self) -> list[str]:
        """Remaining containers and networks of this sandbox's runs, without those of other workers."""
        ours = ("--filter", f"label=sandwright.session={self.environment['SANDWRIGHT_SESSION']}")
        containers = self.host.run("ps", "--all", *ours, "--format", "{{.Names}}").text.splitlines()
        networks = self.host.run("network", "ls", *ours, "--format", "{{.Name}}").text.splitlines()
        return [*containers, *networks]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our image `proxy`, in the form of `docker load`."""
    folder = tmp_path_factory.mktemp("proxy")
    here = "linux/arm64" if os.uname().machine == "aarch64" else "linux/amd64"
    sandwright = (sys.executable, "-P", "-c", "from sandwright.cli import main; main()")
    words = ("build-images", "--name", "proxy", "--platform", here, "--no-smoke", "--frozen")
    process.run(*sandwright, *words, "--output", folder, timeout=600)
    archive = folder / "proxy.tar"
    process.run(
        *sandwright, "export-image", "--name", "proxy", "--output", folder, "--to", archive, timeout=60
    )
    return archive


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No other process of this run loads or removes the image meanwhile: a daemon has one image of a name."""
    shared = tmp_path_factory.getbasetemp().parent / "proxy-image.lock"
    with shared.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="module")
def net() -> str:
    """The first three numbers of a network that looks public, and that no other run has."""
    number = uuid.uuid4().bytes
    return f"45.{number[0]}.{number[1]}"


@pytest.fixture(scope="module", params=ENGINES)
def host(request: pytest.FixtureRequest, archive: Path, alone: None, net: str) -> Iterator[EngineHost]:
    """An engine with our image, and a server on a separate network."""
    with engine_host(request.param) as found, contextlib.ExitStack() as stack:
        if not found.run("image", "inspect", IMAGE, check=False):
            found.run("load", "--input", str(archive))
            stack.callback(found.run, "rmi", "--force", IMAGE, check=False)
        name = f"sandwright-world-{uuid.uuid4().hex[:12]}"
        found.run("network", "create", f"--subnet={net}.0/24", name)
        stack.callback(found.run, "network", "rm", name, check=False)
        if found.name == "docker":
            identity = found.run("network", "inspect", "--format={{.Id}}", name).text.strip()
            if closed := no_way_from(f"br-{identity[:12]}"):
                pytest.skip(closed)
        limits = ("--ulimit=nofile=1024:1024", "--ulimit=nproc=1000:1000")
        serve = "mkdir /tmp/w; echo hello >/tmp/w/index.html; exec httpd -f -p 80 -h /tmp/w"
        where = (f"--network={name}", f"--ip={net}.2", f"--name={name}-server", "--network-alias=web.example")
        found.run(
            "run",
            "--detach",
            "--rm",
            "--user=0:0",
            "--entrypoint=",
            *limits,
            *where,
            found.image,
            "sh",
            "-c",
            serve,
        )
        stack.callback(found.run, "rm", "--force", f"{name}-server", check=False)
        yield EngineHost(
            found.name, found.program, found.image, {**found.environment, "SANDWRIGHT_NETWORK": name}
        )


_MIRROR = "{host: mirror.invalid, private: true}"
"""A name without a host; with it the proxy has to know the addresses of its machine."""


@pytest.fixture
def sandbox(host: EngineHost, net: str, tmp_path: Path) -> Iterator[Sandbox]:
    """A sandbox that may reach the server, with something to watch on the host."""
    project = tmp_path / "home" / "p"
    project.mkdir(parents=True)
    (project / ".env").touch()
    text = (
        f"schema: 1\nmethod: {host.name}\nextends: [default]\nimage: {host.image}\n"
        f"network: {{mode: proxy, allow: ['{net}.2:80', '{net}.1:*', web.example, {_MIRROR}]}}\n"
        "filesystem: {write: [$PROJECT], deny: [$PROJECT/.env]}\n"
    )
    folder = launcher_of(text, host.name, tmp_path / "out", project=project).parent
    own = {"SANDWRIGHT_SESSION": f"test-{uuid.uuid4().hex}"}
    if os.geteuid() == 0:  # without root, Podman has one network namespace for each such directory
        own["XDG_RUNTIME_DIR"] = str(tmp_path)
    environment = {**host.environment, **_names(host, net, tmp_path), **own}
    made = Sandbox(host, f"{folder}/launch", net, environment)
    yield made
    assert made.left() == []


def _names(host: EngineHost, net: str, folder: Path) -> dict[str, str]:
    """Without a name server, Podman's containers know no alias: the proxy's hosts(5) has it instead."""
    if host.name != "podman":
        return {}
    names, configuration = folder / "hosts", folder / "containers.conf"
    names.write_text(f"{net}.2 web.example\n")
    known = Path(host.environment["CONTAINERS_CONF"]).read_text()
    own = f'[containers]\nbase_hosts_file = "{names}"\n'
    configuration.write_text(known.replace("[containers]\n", own))
    return {"CONTAINERS_CONF": str(configuration)}


def test_only_what_is_listed_is_reached(sandbox: Sandbox) -> None:
    found = sandbox.sh(
        f'ask "$proxy" 3128 {sandbox.world}; ask "$proxy" 3128 {sandbox.other}; '
        'ask "$proxy" 3128 127.0.0.1; exit 7'
    )
    assert found.text.split("\r\n") == [
        "HTTP/1.1 200 OK",
        "HTTP/1.1 403 Forbidden",
        "HTTP/1.1 403 Forbidden",
    ], found.stderr
    assert found.status == 7


DIRECT = """
direct() { { printf 'GET / HTTP/1.0\\r\\n\\r\\n'; sleep 1; } | nc -w 5 "$1" "$2" 2>&1 | head -n 1; }
"""


def test_programs_that_know_of_no_proxy_reach_what_is_listed(sandbox: Sandbox) -> None:
    """They reach listed names on web ports, and nothing else; the first command already resolves names."""
    found = sandbox.sh(
        DIRECT + "cat /etc/resolv.conf; direct web.example 80; direct WEB.example 8080; "
        "direct other.example 80; "
        f"direct 127.77.9.9 80; direct 127.0.0.1 80; direct {sandbox.world} 80"
    )
    lines = found.text.replace("\r", "").splitlines()
    assert lines[:2] == ["nameserver 127.0.0.1", "HTTP/1.1 200 OK"], (found.text, found.stderr)
    assert not [line for line in lines[2:] if "HTTP/" in line], lines
    assert "nc: bad address 'other.example'" in lines


@PODMAN
def test_where_the_network_can_not_be_entered_programs_use_the_proxy(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    """A client that reports a remote engine stands in for one on another machine."""
    plan = Path(f"{sandbox.launch}.plan")
    plan.write_bytes(plan.read_bytes().replace(b"engine.proxy_private\x000\0", b""))
    _elsewhere(sandbox, tmp_path)
    found = sandbox.sh(f'cat /etc/resolv.conf; ask "$proxy" 3128 {sandbox.world}')
    assert found.text.splitlines() == ["# Names do not resolve here.", "HTTP/1.1 200 OK"], found.stderr


def test_nothing_is_reached_around_it(sandbox: Sandbox) -> None:
    """The sandbox reaches neither the server, nor the host by any address, nor a name server."""
    addresses = process.run("sh", "-c", "ip -o -4 addr show | sed 's/.* inet //;s,/.*,,'").text.split()
    with listener("0.0.0.0") as (port, reached):
        outside = [each for each in addresses if not each.startswith("127.")]
        asks = " & ".join(f"ask {each} {port} x 2>&1" for each in ("127.0.0.1", *outside))
        found = sandbox.sh(
            f"{asks} & ask {sandbox.world} 80 x 2>&1 & "
            f'gateway=${{proxy%.*}}.1; ask "$gateway" {port} x 2>&1; wait; '
            f'ask "$proxy" 3128 {sandbox.world}; cat /etc/resolv.conf; '
            "ls /proc/sys/net/ipv6/conf >/dev/null && cat /proc/sys/net/ipv6/conf/eth0/disable_ipv6"
        )
        assert reached == [], found.text
        lines = found.text.splitlines()
        assert [line for line in lines if "HTTP/" in line] == ["HTTP/1.1 200 OK"], found.text
        assert [line for line in lines if line.startswith("nameserver")] == ["nameserver 127.0.0.1"]
        assert lines[-1] == "1"
        for each in outside[:2]:
            with socket.create_connection((each, port), 5) as control:
                control.sendall(b"GET / HTTP/1.0\r\n\r\n")
                assert control.recv(12) == b"HTTP/1.1 200", "it answers who is not inside"


def _require_bridge_on_host(sandbox: Sandbox) -> None:
    """Skip where the sandbox's networks cannot be seen from the host."""
    if sandbox.host.name == "podman" and os.geteuid() != 0:
        pytest.skip("without root, Podman's bridges are in a network namespace of their own")


def test_the_machine_is_not_reached_though_its_address_is_listed(sandbox: Sandbox) -> None:
    _require_bridge_on_host(sandbox)
    with listener("0.0.0.0") as (port, reached):
        found = sandbox.sh(f'ask "$proxy" 3128 {sandbox.net}.1:{port}; ask "$proxy" 3128 {sandbox.world}')
        assert found.text.split("\r\n") == ["HTTP/1.1 403 Forbidden", "HTTP/1.1 200 OK"], found.stderr
        assert reached == []
        with socket.create_connection((f"{sandbox.net}.1", port), 5) as control:
            control.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert control.recv(12) == b"HTTP/1.1 200", "it answers who is not inside"


@DOCKER
def test_private_names_need_an_engine_of_this_machine(sandbox: Sandbox, tmp_path: Path) -> None:
    """The addresses of another machine are unknown here."""
    _elsewhere(sandbox, tmp_path)
    found = sandbox.sh("echo ran")
    assert (found.status, found.text) == (125, ""), found.stderr
    assert "network.allow has private names, and the engine runs on another machine" in found.stderr


def _elsewhere(sandbox: Sandbox, tmp_path: Path) -> None:
    """A client that reports its engine as running on another machine."""
    client = tmp_path / "bin" / sandbox.host.name
    real = sandbox.environment.get("DOCKER_HOST", "")
    client.parent.mkdir()
    client.write_text(
        "#!/bin/sh\nunset DOCKER_HOST CONTAINER_CONNECTION\n"
        f"{f'export DOCKER_HOST={real}' if real else ''}\n"
        'case "$*" in *State.Pid*) echo 0123456789abcdef 1; exit ;; esac\n'
        f'exec {sandbox.host.program} "$@"\n'
    )
    client.chmod(0o755)
    path = f"{client.parent}:{sandbox.environment.get('PATH', os.environ['PATH'])}"
    elsewhere = {"DOCKER_HOST": "tcp://192.0.2.1:2375", "CONTAINER_CONNECTION": "elsewhere"}
    sandbox.environment.update(elsewhere | {"PATH": path})


def test_it_serves_its_sandbox_alone(sandbox: Sandbox) -> None:
    """Neither users of the host nor other containers of the outer network can use the proxy."""
    _require_bridge_on_host(sandbox)
    script = f'ask "$proxy" 3128 {sandbox.world}; echo up; sleep 100'
    words = (sandbox.launch, "sh", "-c", ASK + script)
    with process.start(*words, env=sandbox.environment) as started:
        try:
            assert started.stdout is not None
            assert started.stdout.readline() == b"HTTP/1.1 200 OK\r\n"
            assert started.stdout.readline() == b"up\n"
            (proxy,) = (each for each in sandbox.left() if each.endswith("-proxy"))
            form = "{{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}"
            addresses = sandbox.host.run("inspect", "--format", form, proxy).text.split()
            assert len(addresses) == 2
            for address in addresses:
                assert _served(address, sandbox.world) != b"HTTP/1.1 200", address
            outer = next(each for each in addresses if each.startswith(f"{sandbox.net}."))
            assert _served(outer, sandbox.world) == b"HTTP/1.1 403", "another user of the host"
            beside = _from_beside(sandbox, outer)
            assert "403" in beside, beside
        finally:
            started.terminate()
            started.communicate(timeout=120)


def _served(proxy: str, host: str) -> bytes | None:
    """The beginning of the answer to a user of the host; None without a connection."""
    try:
        with socket.create_connection((proxy, 3128), 5) as connection:
            connection.sendall(f"GET http://{host}/ HTTP/1.0\r\n\r\n".encode())
            return connection.recv(12)
    except OSError:
        return None


def _from_beside(sandbox: Sandbox, proxy: str) -> str:
    """The answer to a container that is on the outer network, like the server."""
    server = sandbox.environment["SANDWRIGHT_NETWORK"] + "-server"
    script = f"{ASK} ask {proxy} 3128 {sandbox.world} 2>&1"
    return sandbox.host.run("exec", server, "sh", "-c", script, check=False).text


@PODMAN
def test_a_killed_launcher_leaves_nothing(sandbox: Sandbox) -> None:
    """Its clean-up does not wait for another container whose name begins with the proxy's."""
    with process.start(sandbox.launch, "sh", "-c", "echo up; sleep 300", env=sandbox.environment) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"up\n"
        assert sandbox.left() != []
        os.kill(started.pid, signal.SIGKILL)
    eventually(lambda: not sandbox.left(), within=30)
    assert sandbox.left() == []


@PODMAN
def test_without_the_image_nothing_runs(sandbox: Sandbox, tmp_path: Path) -> None:
    plan = Path(f"{sandbox.launch}.plan")
    plan.write_bytes(plan.read_bytes().replace(b"sandwright/proxy:latest", b"sandwright/no-proxy:latest"))
    found = sandbox.sh("touch ran")
    assert (found.status, found.text) == (125, "")
    assert (
        "sandbox: the image sandwright/no-proxy:latest is not here: sandwright build-images" in found.stderr
    )
    assert not (tmp_path / "home" / "p" / "ran").exists()


def test_a_proxy_that_gets_no_network_is_refused(sandbox: Sandbox) -> None:
    """Docker starts a container on its network `bridge` even if its daemon has none, and reports nothing."""
    usual = {"docker": "bridge", "podman": "podman"}[sandbox.host.name]
    there = bool(sandbox.host.run("network", "inspect", usual, check=False))
    del sandbox.environment["SANDWRIGHT_NETWORK"]
    found = sandbox.sh(f"ask $proxy 3128 {sandbox.other}")
    if there:
        assert (found.status, "403" in found.text) == (0, True), found.stderr
    else:
        assert (found.status, found.text) == (125, "")
        assert f"cannot connect the proxy to the engine's network {usual}" in found.stderr
