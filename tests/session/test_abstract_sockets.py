"""A socket without a path belongs to a network: in the host's network, no list of paths excludes it."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sandwright import process
from session.conftest import Project
from session.test_run_containers import busybox_root

CONNECT = """
foreach my $name (@ARGV) {
    $name =~ s/^@/\\0/;
    socket(my $s, 1, 1, 0) or die "socket: $!\\n";
    connect($s, pack("Sa*", 1, $name)) ? print "connected\\n" : print "$!\\n";
}
"""
"""Connects to Unix sockets; `@` stands for the NUL at the beginning of an abstract name."""


@contextmanager
def _listening(name: str) -> Iterator[None]:
    """Accept connections at a Unix socket of the host."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(name)
        listener.listen()
        thread = threading.Thread(target=_accept, args=(listener,))
        thread.start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def _accept(listener: socket.socket) -> None:
    while True:
        try:
            listener.accept()[0].close()
        except OSError:
            return


@pytest.fixture
def sockets(project: Project) -> Iterator[tuple[str, str]]:
    """An abstract socket, and one that a policy may list."""
    abstract, listed = f"@{project.root}/abstract", str(project.root / "s")
    with _listening(abstract.replace("@", "\0")), _listening(listed):
        yield abstract, listed


def _write(project: Project, method: str, more: str = "") -> None:
    project.policy.write_text(
        f"extends: []\nmethod: {method}\nimage: small\nfilesystem: {{write: [$PROJECT]}}\n"
        "network: {mode: host, unix_sockets: [$PROJECT/s]}\n"
        f"environment: {{set: {{PATH: '/usr/bin:/bin'}}}}\n{more}"
    )


def _trusted(project: Project, *words: str) -> subprocess.CompletedProcess[bytes]:
    return project.run(*words, options=("--trust-policy",))


@pytest.mark.needs("bwrap", "perl")
def test_the_launcher_connects_to_the_listed_one_alone(project: Project, sockets: tuple[str, str]) -> None:
    _write(project, "bwrap")
    ended = _trusted(project, "perl", "-e", CONNECT, *sockets)
    assert ended.stdout == b"Permission denied\nconnected\n", ended.stderr


@pytest.mark.needs("perl")
def test_it_is_refused_where_nothing_tells_them_apart(project: Project, sockets: tuple[str, str]) -> None:
    _write(project, "oci")
    ended = _trusted(project, "perl", "-e", CONNECT, *sockets)
    assert (ended.returncode == 0, ended.stdout) == (False, b"")
    assert b"oci cannot enforce network.abstract-sockets" in ended.stderr


@pytest.mark.needs("runsc", "busybox", "perl", "ldd")
def test_gvisor_reaches_the_listed_one_alone(
    project: Project, sockets: tuple[str, str], tmp_path: Path
) -> None:
    """Its kernel has separate names for them, although it uses the host's network."""
    root = tmp_path / "root"
    root.mkdir()
    busybox_root(root)
    _with_libraries("perl", root)
    project.environment["SANDWRIGHT_ROOTFS"] = str(root)
    _write(project, "gvisor")
    ended = _trusted(project, "perl", "-e", CONNECT, *sockets)
    assert ended.stdout == b"Connection refused\nconnected\n", ended.stderr


def _with_libraries(program: str, root: Path) -> None:
    found = Path(process.which(program)).resolve()
    said = process.run("ldd", found, timeout=60).text.split()
    for path in (found, *(Path(word) for word in said if word.startswith("/"))):
        place = root / path.relative_to("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
    if found.name != program:
        (root / "usr/bin" / program).symlink_to(found)
