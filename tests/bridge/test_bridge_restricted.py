"""git on the host parses data from the sandbox, so it starts restricted: files, programs, ports.

Tests of launcher/init/source/restrict.c.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from sandwright import process
from sandwright.bridge.repository import bare_environment
from sandwright.bridge.restricted import RestrictedGit, write_restriction
from sandwright.landlock import landlock_version
from sandwright.launcher.restrict import PORTS
from support.bridges import world

pytestmark = pytest.mark.needs("git")

POLICY = 'credentials: {shims: {git: {secrets: {}, allow: ["ls-remote *", "push *"]}}}'


@pytest.fixture(autouse=True)
def landlock() -> None:
    """The kernel's Landlock restricts files and ports."""
    if sys.platform != "linux" or landlock_version() < PORTS:
        pytest.skip("this kernel's Landlock restricts no ports")


@pytest.fixture
def restricted(tmp_path: Path) -> RestrictedGit:
    return RestrictedGit(write_restriction(tmp_path))


def test_a_local_git_reads_and_writes_its_own_directories(tmp_path: Path, restricted: RestrictedGit) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    for each in (own, other):
        each.mkdir()
        (each / "config").write_text("[a]\n\tb = c\n")
    environment = bare_environment()
    listed = ("config", "--list", "--file")
    found = process.run(*restricted.local(own), *listed, own / "config", env=environment, cwd=own)
    assert found.text == "a.b=c"
    refused = process.run(
        *restricted.local(own), *listed, other / "config", env=environment, cwd=own, check=False
    )
    assert refused.status != 0
    assert "Permission denied" in refused.stderr
    changed = ("config", "--file", other / "config", "a.b", "d")
    assert not process.run(*restricted.local(own), *changed, env=environment, cwd=own, check=False)
    assert (other / "config").read_text() == "[a]\n\tb = c\n"


@pytest.mark.parametrize("listed", [True, False])
def test_a_remote_git_reaches_the_ports_of_its_addresses(
    tmp_path: Path, restricted: RestrictedGit, *, listed: bool
) -> None:
    """For a local remote, git reaches no port. The server sends nothing: only the connection counts."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        server.settimeout(3)
        url = f"http://127.0.0.1:{server.getsockname()[1]}/r.git"
        allowed = url if listed else "https://web.example/r.git"
        words = restricted.remote(process.which("git"), tmp_path, urls=[allowed], environment={})
        with process.start(*words, "ls-remote", url, env=bare_environment(), cwd=tmp_path) as git:
            try:
                connection, _ = server.accept()
                connection.close()
                reached = True
            except TimeoutError:
                reached = False
            process.kill(git)
    assert reached == listed


@pytest.mark.parametrize(
    ("environment", "restricts"),
    [
        ({}, True),
        ({"https_proxy": "http://proxy.example:3128"}, True),
        ({"https_proxy": "proxy.example:3128"}, True),
        ({"https_proxy": "odd://proxy.example"}, False),
        ({"https_proxy": "http://proxy.example:many"}, False),
    ],
)
def test_the_ports_of_the_host_s_proxy(
    restricted: RestrictedGit, environment: dict[str, str], *, restricts: bool
) -> None:
    """If a port is unknown, ports are not restricted, so that no remote becomes unreachable."""
    words = restricted.remote("/usr/bin/git", urls=["https://web.example/r.git"], environment=environment)
    ports = {each.partition("=")[2] for each in words if each.startswith("connect=")}
    assert ports == ({"53", "443", *(["3128"] if environment else [])} if restricts else set())


def test_the_git_of_a_call_reads_nothing_of_the_host_s(tmp_path: Path) -> None:
    """A stand-in for git reads a file when it has to contact the remote, and passes other calls to git."""
    with world() as place:
        secret = tmp_path / "secret"
        secret.write_text("of the host's")
        git = os.path.realpath(process.which("git"))
        place.tool("git", f'case "$*" in *ls-remote*) cat {secret} 2>&1;; *) exec {git} "$@";; esac')
        place.git("init", "-q", "-b", "main")
        place.git("remote", "add", "origin", "https://web.example/r.git")
        with place.bridge(POLICY) as bridge:
            said = place.call(bridge, "git", "ls-remote", "origin")
    assert f"cat: {secret}: Permission denied" in said.text, said.stderr
