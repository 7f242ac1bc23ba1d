"""Root's sandbox of bubblewrap has no rights over other users' files: it can mount nothing among them."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sandwright.inputs import LiveHost
from sandwright.policy.collect import is_passable
from session.conftest import WAIT, Project

pytestmark = [
    pytest.mark.needs("bwrap"),
    pytest.mark.skipif(os.getuid() != 0, reason="root sees what other users close"),
]
PYTHON = "/usr/bin/python3"
"""An interpreter that other users reach."""
SOMEBODY = 12345
LISTEN = """import socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
print(flush=True)
sys.stdin.read()
"""


@dataclass
class Neighbour:
    """Another user, with a directory that is closed to all others, and a socket in it."""

    project: Project
    directory: Path

    @property
    def socket(self) -> Path:
        return self.directory / "S.agent"

    def run(self, policy: str, script: str) -> tuple[int, str, str]:
        self.project.policy.write_text(f"schema: 1\nmethod: bwrap\n{policy}\n")
        ended = self.project.run("sh", "-c", script, options=("--trust-policy", "--quiet"))
        return ended.returncode, ended.stdout.decode(), ended.stderr.decode()


@pytest.fixture
def neighbour() -> Iterator[Neighbour]:
    with tempfile.TemporaryDirectory(prefix="sandwright-test-", dir="/var/tmp") as base:
        project = Project(Path(base, "home", "p"), Path(base, "home"), Path(base, "run"), forked=())
        project.root.mkdir(parents=True)
        project.runtime.mkdir(mode=0o700)
        found = Neighbour(project, Path(base, "shared", "theirs"))
        (found.directory / "inner").mkdir(parents=True)
        (found.directory / "secret").write_text("secret")
        for path in (found.directory / "inner", found.directory / "secret", found.directory):
            os.chown(path, SOMEBODY, SOMEBODY)
        Path(base).chmod(0o755)
        found.directory.chmod(0o700)
        with subprocess.Popen(
            (PYTHON, "-c", LISTEN, found.socket),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            user=SOMEBODY,
            group=SOMEBODY,
            extra_groups=(),
            cwd="/",
        ) as listener:
            assert listener.stdout is not None
            assert listener.stdout.readline() == b"\n"
            yield found
            listener.communicate(timeout=WAIT)


def _with_sockets(neighbour: Neighbour) -> str:
    """A policy under which the sandbox sees the whole host, and may connect to a socket of it."""
    return f"filesystem: {{read: [/]}}\nnetwork: {{unix_sockets: [{neighbour.project.home}/none]}}"


def test_a_socket_of_another_user_s(neighbour: Neighbour) -> None:
    """Its directory is hidden as a whole, or only the socket if others may pass."""
    closed = neighbour.directory
    tried = f"ls -A {closed} && cat {closed}/secret || true; id -u"
    status, output, said = neighbour.run(_with_sockets(neighbour), tried)
    assert (status, output) == (0, "0\n"), said
    closed.chmod(0o755)
    status, output, said = neighbour.run(
        _with_sockets(neighbour), f"ls -A {closed}; test -S {closed}/S.agent"
    )
    assert (status, output) == (1, "S.agent\ninner\nsecret\n"), f"the socket alone is hidden: {said}"


def test_a_directory_that_is_opened_during_the_run(neighbour: Neighbour) -> None:
    neighbour.project.policy.write_text(f"schema: 1\nmethod: bwrap\n{_with_sockets(neighbour)}\n")
    script = f"echo up; until [ -e go ]; do sleep 0.05; done; ls -A {neighbour.directory}"
    with neighbour.project.start("sh", "-c", script, options=("--trust-policy",)) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"up\n"
        neighbour.directory.chmod(0o755)
        (neighbour.project.root / "go").touch()
        output, said = running.communicate(timeout=WAIT)
    assert (running.returncode, output) == (0, b""), said


@pytest.mark.parametrize("name", ["inner", "secret"])
def test_a_denied_path_of_another_user_s(neighbour: Neighbour, name: str) -> None:
    """A file cannot be written in its place either if its surroundings are writable."""
    base = neighbour.directory.parent
    policy = f"filesystem: {{read: [/], write: [$PROJECT, {base}], deny: [{neighbour.directory}/{name}]}}"
    tried = f"cat {neighbour.directory}/{name}; mv {neighbour.directory} {base}/other; ls -A {base}/theirs"
    status, output, said = neighbour.run(policy, tried)
    assert (status, output) == (0, ""), said
    assert "busy" in said
    assert neighbour.directory.exists()


def test_bubblewrap_itself_can_not_mount_there(neighbour: Neighbour) -> None:
    """The fix relies on this: in the user namespace, root has no capabilities over the files of others."""
    words = ("bwrap", "--unshare-user", "--ro-bind", "/", "/")
    for mount, status in (
        (("--tmpfs", neighbour.directory / "inner"), 1),
        (("--tmpfs", neighbour.directory), 0),
    ):
        ended = subprocess.run((*words, *mount, "true"), capture_output=True, check=False, timeout=WAIT)
        assert ended.returncode == status, ended.stderr
    read = (*words, "cat", neighbour.directory / "secret")
    assert subprocess.run(read, capture_output=True, check=False, timeout=WAIT).returncode == 1


@pytest.mark.parametrize(
    ("mode", "owner", "group", "passable"),
    [
        (0o700, SOMEBODY, SOMEBODY, 0),
        (0o750, SOMEBODY, 0, 1),
        (0o701, SOMEBODY, SOMEBODY, 1),
        (0o701, SOMEBODY, 0, 0),
        (0o070, 0, SOMEBODY, 0),
        (0o700, 0, SOMEBODY, 1),
        (0o070, 0, 0, 1),
    ],
)
def test_what_can_be_passed_is_what_the_kernel_says(
    tmp_path: Path, mode: int, owner: int, group: int, passable: int
) -> None:
    for path in (tmp_path, *tmp_path.parents[:2]):
        path.chmod(0o755)
    made = tmp_path / "made"
    (made / "inner").mkdir(parents=True)
    os.chown(made, owner, group)
    made.chmod(mode)
    assert is_passable(str(made), LiveHost()) == passable
    words = ("bwrap", "--unshare-user", "--ro-bind", "/", "/", "ls", made / "inner")
    ended = subprocess.run(words, capture_output=True, check=False, timeout=WAIT)
    assert ended.returncode == (0 if passable else 2), ended.stderr
