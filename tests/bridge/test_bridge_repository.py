"""Repositories that were made to exhaust the host or to be misread: the files that are read, and the cost."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import tracemalloc
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandwright import process
from sandwright.bridge.grammar import Refused
from sandwright.bridge.objects import Budget, copy_objects
from sandwright.bridge.repository import MAX_LINE, bare_environment, find_repository, read_refs
from sandwright.bridge.restricted import RestrictedGit, write_restriction
from sandwright.bridge.workspace import OpenWorkspace
from support.bridges import IDENTITY, World, world
from support.githttp import git_server

pytestmark = pytest.mark.needs("git")

TOKEN = "sandbox-token-B-77e0d1"
POLICY = """
credentials:
  shims:
    git: {secrets: {GIT_TOKEN: "${SANDBOX_GIT_TOKEN}"}, allow: ["push *", "fetch *"]}
"""
ENVIRONMENT = {"SANDBOX_GIT_TOKEN": TOKEN}


@pytest.fixture
def place() -> Iterator[World]:
    with world() as made:
        _begin(made, made.project)
        yield made


def _begin(made: World, folder: Path, *more: str) -> None:
    made.git("init", "-q", "-b", "main", *more, str(folder))
    (folder / "file").write_text("one\n")
    made.git("add", "file", cwd=folder)
    made.git("commit", "-q", "-m", "first", cwd=folder)


@pytest.mark.parametrize("line", [b"\n", b"a\n", b"# x\n", b"0" * 40 + b" x\n"], ids=lambda each: each[-9:-1])
def test_a_list_of_refs_that_is_rubbish(place: World, line: bytes) -> None:
    """Reading takes little more memory than the file has bytes; a list of lines would take 50 times that."""
    good = f"{'a' * 40} refs/heads/good\n".encode()
    (place.project / ".git/packed-refs").write_bytes(line * ((4 << 20) // len(line)) + good)
    workspace = OpenWorkspace(place.project)
    tracemalloc.start()
    try:
        refs = read_refs(workspace, find_repository(workspace, ()))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert refs.names["refs/heads/good"] == "a" * 40
    assert set(refs.names) == {"refs/heads/good", "refs/heads/main"}
    assert peak < 20 << 20


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("HEAD", "x" * (MAX_LINE + 1), "HEAD is too long"),
        ("HEAD", "ref: refs/heads/a\nref: refs/heads/b\n", "HEAD says nothing that git"),
        ("refs/heads/much", "x" * (MAX_LINE + 1), "much is too long"),
        ("commondir", "../" * 2000, "commondir is too long"),
        ("commondir", "../../../..", "is outside of the workspace"),
        ("commondir", "/etc", "is outside of the workspace"),
        ("shallow", "x", "`shallow` says nothing that git"),
        ("shallow", f"{'a' * 40}\n{'b' * 41}\n", "`shallow` says nothing that git"),
        ("packed-refs", "x" * ((32 << 20) + 1), "packed-refs is too long"),
    ],
    ids=lambda each: each[:24],
)
def test_files_that_git_would_not_have_written(place: World, name: str, content: str, said: str) -> None:
    (place.project / ".git" / name).write_text(content)
    workspace = OpenWorkspace(place.project)
    with pytest.raises(Refused, match=said):
        read_refs(workspace, find_repository(workspace, ()))


@pytest.mark.parametrize("name", ["{0}", "d{0}/x", "{0}.lock", "no ref {0}"])
def test_refs_without_an_end(place: World, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Refs are counted whatever their names and contents: each takes time and memory of the host."""
    for number in range(20):
        file = place.project / ".git/refs" / name.format(number)
        file.parent.mkdir(exist_ok=True)
        file.write_text("nothing\n")
    workspace = OpenWorkspace(place.project)
    found = find_repository(workspace, ())
    monkeypatch.setattr("sandwright.bridge.repository.MAX_NAMES", 60)
    assert set(read_refs(workspace, found).names) == {"refs/heads/main"}
    monkeypatch.setattr("sandwright.bridge.repository.MAX_NAMES", 15)
    with pytest.raises(Refused, match="too many files"):
        read_refs(workspace, found)


@pytest.mark.parametrize("said", ["gitdir: /etc", "gitdir: ../../outside", "gitdir: \0", "x", ""])
def test_a_repository_that_lies_elsewhere(place: World, said: str) -> None:
    below = place.project / "below"
    below.mkdir()
    (below / ".git").write_text(said)
    with pytest.raises(Refused):
        find_repository(OpenWorkspace(place.project), ("below",))


def test_the_bytes_of_all_repositories(place: World, tmp_path: Path) -> None:
    """All repositories of a bridge share one budget: a sandbox can make many. Empty files count, too."""
    workspace = OpenWorkspace(place.project)
    found = find_repository(workspace, ())
    objects = [path for path in (place.project / ".git/objects").rglob("??/*") if path.is_file()]
    later, restricted = time.monotonic() + 600, RestrictedGit(write_restriction(tmp_path))
    for store, budget, enough in (("a", len(objects), True), ("b", len(objects) - 1, False)):
        (tmp_path / store / "objects/pack").mkdir(parents=True)
        with contextlib.nullcontext() if enough else pytest.raises(Refused, match="GiB of objects"):
            copy_objects(
                workspace, found, tmp_path / store, Budget(budget * 4096),
                deadline=later, restricted=restricted,
            )  # fmt: skip


def test_an_object_that_was_made_to_fill_the_memory(place: World) -> None:
    """The object claims to have 64 GiB: git would allocate that much, and gets an error instead."""
    name = "ab" + "c" * 38
    folder = place.project / ".git/objects/ab"
    folder.mkdir(exist_ok=True)
    (folder / name[2:]).write_bytes(zlib.compress(b"commit %d\0tree" % (64 << 30)))
    said = process.run("git", "cat-file", "-p", name, cwd=place.project, env=bare_environment(), check=False)
    assert "over limit" in said.stderr


def test_a_repository_of_sha256_with_a_pack(place: World) -> None:
    below, root = place.project / "below", place.root / "served"
    _begin(place, below, "--object-format=sha256")
    place.git("gc", "-q", cwd=below)
    place.git("init", "-q", "--bare", "--object-format=sha256", str(root / "r.git"))
    place.git("config", "http.receivepack", "true", cwd=root / "r.git")
    with git_server(root, TOKEN) as server:
        policy = POLICY.replace('"push *"', f'"push {server.url}/r.git *"')
        with place.bridge(policy, environment=ENVIRONMENT) as bridge:
            result = place.call(bridge, "git", "push", f"{server.url}/r.git", "main", cwd=below)
    assert result.status == 0, result.stderr
    head = process.run("git", "rev-parse", "main", cwd=root / "r.git", env=IDENTITY).text
    assert head == place.git("rev-parse", "HEAD", cwd=below)


@contextlib.contextmanager
def _answering(answer: bytes, told: list[bytes]) -> Iterator[str]:
    """A server on loopback that accepts one connection, records the request and answers; its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)

        def listen() -> None:
            with contextlib.suppress(OSError):
                connection, _ = listener.accept()
                with connection:
                    told.append(connection.recv(65536))
                    connection.sendall(answer)

        thread = threading.Thread(target=listen)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        with contextlib.suppress(OSError), socket.create_connection(listener.getsockname()):
            pass
        thread.join(60)


@pytest.mark.parametrize("status", ["302 Found", "308 Permanent"])
def test_a_server_that_sends_elsewhere(place: World, status: str) -> None:
    """The token is sent to the remote's address, and to no address that its server names."""
    first: list[bytes] = []
    second: list[bytes] = []
    empty = "Content-Length: 0\r\nConnection: close\r\n\r\n"
    with _answering(f"HTTP/1.1 200 OK\r\n{empty}".encode(), second) as other:
        moved = f"HTTP/1.1 {status}\r\nLocation: {other}/r.git/info/refs?service=git-receive-pack\r\n{empty}"
        with _answering(moved.encode(), first) as url:
            place.git("remote", "add", "origin", f"{url}/r.git")
            with place.bridge(POLICY, environment=ENVIRONMENT) as bridge:
                assert place.call(bridge, "git", "push", "origin", "main").status == 128
    assert first[0].startswith(b"GET /r.git/info/refs")
    assert second == [b""], "only we have come, to say that it is over"


def test_what_goes_to_this_machine_takes_no_proxy(place: World) -> None:
    """Otherwise the host's proxy would see the token, which goes to this machine unencrypted."""
    told: list[bytes] = []
    with _answering(b"", told) as proxy:
        place.git("remote", "add", "origin", "http://127.0.0.1:1/r.git")
        with place.bridge(POLICY, environment={**ENVIRONMENT, "http_proxy": proxy}) as bridge:
            assert "127.0.0.1 port 1" in place.call(bridge, "git", "push", "origin", "main").stderr
    assert told == [b""], "only we have come, to say that it is over"
