"""git through the bridge: a real push and fetch with a token that only the host has, and hostile
repositories.

Tests of bridge/git.py: git runs nothing of a hostile repository; credentials come from the helper alone.
Tests of bridge/remotes.py: a remote that the sandbox made up gets no token.
Tests of bridge/write_fetched.py.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandwright import process
from sandwright.bridge.directory import Bridge
from support.bridges import World, world
from support.githttp import GitServer

pytestmark = pytest.mark.needs("git")

TOKEN = f"sandbox-token-B-{uuid.uuid4().hex}"
HOST_TOKEN = f"host-token-A-{uuid.uuid4().hex}"
POLICY = """
credentials:
  shims:
    git: {secrets: {GIT_TOKEN: "${SANDBOX_GIT_TOKEN}"}, allow: ["push *", "fetch *", "ls-remote *"]}
"""
ENVIRONMENT = {
    "SANDBOX_GIT_TOKEN": TOKEN, "GIT_TOKEN": HOST_TOKEN, "GH_TOKEN": HOST_TOKEN,
    "GIT_SSH_COMMAND": "touch /tmp/sandwright-pwned", "GIT_ASKPASS": "echo",
}  # fmt: skip


@pytest.fixture
def place() -> Iterator[World]:
    with world() as made:
        made.commit()
        yield made


@pytest.fixture
def server(place: World) -> Iterator[GitServer]:
    with place.git_server(TOKEN) as running:
        yield running


@pytest.fixture
def bridge(place: World, server: GitServer) -> Iterator[Bridge]:
    with place.bridge(POLICY, environment=ENVIRONMENT) as running:
        yield running


def _remote_head(place: World, name: str = "refs/heads/main") -> str:
    result = process.run(
        "git", f"--git-dir={place.root}/served/r.git", "rev-parse", "--verify", "-q", name, check=False
    )
    return result.text


def test_a_push(place: World, bridge: Bridge, server: GitServer) -> None:
    result = place.call(bridge, "git", "push", "origin", "main")
    assert result.status == 0, result.stderr
    assert _remote_head(place) == place.git("rev-parse", "HEAD")
    assert "main -> main" in result.stderr
    assert set(server.seen) == {None, TOKEN}, "without at first, and then with the sandbox's token only"
    assert place.git("rev-parse", "refs/remotes/origin/main") == place.git("rev-parse", "HEAD")


@pytest.mark.parametrize("listed", [False, True])
def test_githubs_token_goes_to_github_and_to_addresses_of_the_policy(
    place: World, server: GitServer, listed: bool
) -> None:
    """A remote came with the project, so its server may belong to anyone."""
    words = f'"push {server.url}/r.git *"' if listed else '"push *"'
    policy = POLICY.replace("GIT_TOKEN:", "GITHUB_TOKEN:").replace('"push *"', words)
    with place.bridge(policy, environment=ENVIRONMENT) as bridge:
        result = place.call(bridge, "git", "push", f"{server.url}/r.git" if listed else "origin", "main")
    assert (result.status == 0) is listed, result.stderr
    assert (TOKEN in server.seen) is listed


def test_a_push_without_words_and_from_below(place: World, bridge: Bridge) -> None:
    (place.project / "d").mkdir()
    result = place.call(bridge, "git", "push", "-u", cwd=place.project / "d")
    assert result.status == 0, result.stderr
    assert "set up to track" not in result.text, "the configuration is not the bridge's to change"
    assert _remote_head(place) == place.git("rev-parse", "HEAD")


def test_a_push_of_packed_objects_and_again(place: World, bridge: Bridge) -> None:
    place.git("gc", "-q")
    assert place.call(bridge, "git", "push", "origin", "HEAD:refs/heads/a").status == 0
    (place.project / "file").write_text("two\n")
    place.git("commit", "-q", "-am", "second")
    place.git("tag", "v1")
    assert place.call(bridge, "git", "push", "origin", "main", "v1").status == 0
    assert _remote_head(place) == place.git("rev-parse", "HEAD")
    assert _remote_head(place, "refs/tags/v1") == place.git("rev-parse", "HEAD")
    assert _remote_head(place, "refs/heads/a") == place.git("rev-parse", "HEAD~1")


def test_the_remote_says_no(place: World, bridge: Bridge) -> None:
    assert place.call(bridge, "git", "push", "origin", "main").status == 0
    place.git("commit", "-q", "--amend", "-m", "other")
    before = _remote_head(place)
    result = place.call(bridge, "git", "push", "origin", "main")
    assert result.status == 1
    assert "rejected" in result.stderr
    assert _remote_head(place) == before


def test_a_fetch(place: World, bridge: Bridge) -> None:
    assert place.call(bridge, "git", "push", "origin", "main").status == 0
    other = place.root / "other"
    place.git("clone", "-q", "-b", "main", f"{place.root}/served/r.git", str(other), cwd=place.root)
    (other / "file").write_text("from elsewhere\n")
    place.git("commit", "-q", "-am", "elsewhere", cwd=other)
    place.git("tag", "v2", cwd=other)
    place.git("push", "-q", "origin", "main", "v2", cwd=other)
    result = place.call(bridge, "git", "fetch", "--tags", "origin")
    assert result.status == 0, result.stderr
    new = place.git("rev-parse", "HEAD", cwd=other)
    assert place.git("rev-parse", "refs/remotes/origin/main") == new
    assert place.git("rev-parse", "v2") == new
    assert place.git("show", "origin/main:file") == "from elsewhere"
    assert place.git("rev-parse", "FETCH_HEAD") == new
    assert place.git("rev-parse", "main") != new, "the branch is the sandbox's to move"
    place.git("merge", "-q", "--ff-only", "FETCH_HEAD")
    place.git("fsck", "--strict")


def test_a_linked_work_tree(place: World, bridge: Bridge) -> None:
    place.git("worktree", "add", "-q", "-b", "topic", str(place.project / "tree"))
    result = place.call(bridge, "git", "push", "origin", "topic", cwd=place.project / "tree")
    assert result.status == 0, result.stderr
    assert _remote_head(place, "refs/heads/topic") == place.git("rev-parse", "topic")


def test_ls_remote(place: World, bridge: Bridge) -> None:
    place.call(bridge, "git", "push", "origin", "main")
    result = place.call(bridge, "git", "ls-remote", "--heads", "origin")
    assert result.text == f"{place.git('rev-parse', 'HEAD')}\trefs/heads/main"


HOSTILE = {
    "core.fsmonitor": "touch {pwned}",
    "core.hooksPath": "{project}/hooks",
    "core.sshCommand": "touch {pwned};",
    "core.gitProxy": "touch {pwned};",
    "core.askPass": "{project}/run",
    "core.editor": "touch {pwned};",
    "core.pager": "touch {pwned};",
    "core.alternateRefsCommand": "touch {pwned};",
    "credential.helper": "!touch {pwned};",
    "credential.http://127.0.0.1.helper": "!cat >{project}/stolen; touch {pwned};",
    "gpg.program": "{project}/run",
    "push.gpgSign": "true",
    "push.recurseSubmodules": "on-demand",
    "filter.x.clean": "touch {pwned};",
    "filter.x.smudge": "touch {pwned};",
    "filter.x.process": "touch {pwned};",
    "filter.x.required": "true",
    "diff.x.command": "touch {pwned};",
    "diff.x.textconv": "touch {pwned};",
    "merge.x.driver": "touch {pwned};",
    "alias.push": "!touch {pwned}",
    "remote.origin.receivepack": "touch {pwned};",
    "remote.origin.uploadpack": "touch {pwned};",
    "remote.origin.vcs": "ext",
    "remote.origin.proxy": "http://127.0.0.1:1",
    "remote.origin.promisor": "true",
    "remote.origin.partialclonefilter": "blob:none",
    "extensions.partialClone": "evil",
    "remote.evil.url": "ext::sh -c touch% {pwned}",
    "remote.evil.promisor": "true",
    "url.ext::sh -c touch% {pwned}.insteadOf": "http://",
    "http.proxy": "http://127.0.0.1:1",
    "http.sslVerify": "false",
    "protocol.ext.allow": "always",
    "include.path": "{project}/more",
    "submodule.s.update": "!touch {pwned}",
    "uploadpack.packObjectsHook": "touch {pwned};",
    "sendpack.sideband": "false",
    "trailer.x.command": "touch {pwned};",
    "pager.push": "touch {pwned};",
    "core.worktree": "/root",
    "core.attributesFile": "{project}/attributes",
}
HOOKS = (
    "pre-push",
    "reference-transaction",
    "post-checkout",
    "update",
    "pre-receive",
    "post-update",
    "fsmonitor",
)


def test_a_hostile_repository_runs_nothing(place: World, bridge: Bridge, server: GitServer) -> None:
    """The sandbox writes hostile configuration after the bridge's start: the host's Git reads none of it."""
    pwned = place.root / "pwned"
    values = {"pwned": str(pwned), "project": str(place.project)}
    place.git("config", "extensions.worktreeConfig", "true")
    for name, value in HOSTILE.items():
        place.git(
            "config",
            "--file",
            str(place.project / ".git/config"),
            name.format(**values),
            value.format(**values),
        )
    script = f"#!/bin/sh\ntouch {pwned}\n"
    runnable = [
        place.project / "run",
        *(place.project / folder / hook for folder in (".git/hooks", "hooks") for hook in HOOKS),
    ]
    for path in runnable:
        path.parent.mkdir(exist_ok=True)
        path.write_text(script)
        path.chmod(0o755)
    (place.project / ".git/config.worktree").write_text("[core]\n\tsshCommand = false\n")
    (place.project / "more").write_text(f"[core]\n\tfsmonitor = touch {pwned}\n")
    for name in (".gitattributes", "attributes", ".git/info/attributes"):
        (place.project / name).write_text("* filter=x diff=x merge=x\n")
    for words in (("push", "origin", "main"), ("fetch", "origin"), ("ls-remote", "origin"), ("push",)):
        result = place.call(bridge, "git", *words)
        assert result.status == 0, (words, result.stderr)
        assert not pwned.exists(), words
    assert not (place.project / "stolen").exists()
    assert set(server.seen) == {None, TOKEN}


def test_the_control_of_that(place: World) -> None:
    """The control of the test above: git in the same repository runs them."""
    pwned = place.root / "pwned"
    place.git("config", "core.fsmonitor", f"touch {pwned};")
    process.run("git", "status", cwd=place.project, check=False)
    assert pwned.exists()


MADE_UP = (
    "ext::sh -c touch% PWNED", "file:///root/r.git", "/root/r.git", "../r.git", "ssh://git@evil.example/r",
    "http://evil.example/r.git", "https://evil.example/r.git", "git://127.0.0.1/r", "fd::3",
    "https://user:pass@github.com/o/r.git", "https://github.com@evil.example/r", "https://evil.example\\@x/r",
    "http://127.0.0.1.evil.example/r.git", "http://[::1]/r.git", "HTTP://evil.example/r.git", "ftp://evil.example/r",
    "https://evil.example/%0d%0aHost:x/r", "https:///etc", "foo::https://evil.example/r", "bundle.pack",
)  # fmt: skip


def test_a_remote_that_the_sandbox_made_up(place: World, bridge: Bridge, server: GitServer) -> None:
    """An invented remote is refused by its address, under a new name, and under the name of a known one."""
    place.git("remote", "add", "evil", "https://evil.example/r.git")
    for url in MADE_UP:
        place.git("config", "remote.evil.url", url)
        place.git("config", "remote.origin.url", url)
        place.git("config", "remote.origin.pushurl", url)
        for remote in (url, "evil"):
            result = place.call(bridge, "git", "push", remote, "main")
            assert (result.status, "remote" in result.stderr) == (126, True), (url, result.stderr)
    assert server.seen == []
    assert place.call(bridge, "git", "push", "origin", "main").status == 0, "origin is what it was"
    assert set(server.seen) == {None, TOKEN}


def test_objects_of_elsewhere_are_not_sent(place: World, bridge: Bridge) -> None:
    """Alternates and links in the object store would give the sandbox the host's other repositories."""
    private = place.root / "private"
    place.git("init", "-q", "-b", "main", str(private), cwd=place.root)
    (private / "secret").write_text("the host's\n")
    place.git("add", ".", cwd=private)
    place.git("commit", "-q", "-m", "private", cwd=private)
    stolen = place.git("rev-parse", "HEAD", cwd=private)
    (place.project / ".git/objects/info").mkdir(exist_ok=True)
    (place.project / ".git/objects/info/alternates").write_text(f"{private}/.git/objects\n")
    for fanout in (private / ".git/objects").iterdir():
        target = place.project / ".git/objects" / fanout.name
        if len(fanout.name) == 2 and not target.exists():
            target.symlink_to(fanout)
    (place.project / ".git/refs/heads/stolen").write_text(f"{stolen}\n")
    assert place.git("cat-file", "-t", stolen) == "commit", "the control: git here would follow"
    result = place.call(bridge, "git", "push", "origin", "stolen")
    assert result.status != 0
    assert _remote_head(place, "refs/heads/stolen") == ""


@pytest.mark.parametrize("what", [".git", ".git/refs", ".git/objects", ".git/objects/pack", ".git/HEAD"])
def test_links_in_the_repository(place: World, bridge: Bridge, what: str) -> None:
    """A part of the repository that is replaced by a link to the outside is not read or written through."""
    outside = place.root / "outside"
    inside = place.project / what
    if not inside.exists():
        inside.mkdir(parents=True)
    inside.rename(outside)
    inside.symlink_to(outside)
    before = {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}
    place.call(bridge, "git", "push", "origin", "main")
    place.call(bridge, "git", "fetch", "origin")
    assert {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()} == before


def test_a_broken_pack(place: World, bridge: Bridge) -> None:
    pack = place.project / ".git/objects/pack" / f"pack-{'a' * 40}.pack"
    pack.parent.mkdir(exist_ok=True)
    pack.write_bytes(b"PACK\0\0\0\2\0\0\0\1rubbish")
    result = place.call(bridge, "git", "push", "origin", "main")
    assert result.status == 126
    assert "is no pack that git takes" in result.stderr
    pack.unlink()
    assert place.call(bridge, "git", "push", "origin", "main").status == 0


def test_a_wrong_token(place: World, server: GitServer) -> None:
    server.token = "another-token"
    with place.bridge(POLICY, environment=ENVIRONMENT) as bridge:
        result = place.call(bridge, "git", "push", "origin", "main")
    assert result.status == 128
    assert "Authentication failed" in result.stderr
    assert TOKEN not in result.stderr


def test_no_repository(place: World, bridge: Bridge) -> None:
    empty = place.project / "empty"
    empty.mkdir()
    assert place.call(bridge, "git", "ls-remote", "origin", cwd=empty).status == 0, "the project's"
    place.git("init", "-q", str(empty))
    result = place.call(bridge, "git", "push", "origin", "main", cwd=empty)
    assert result.status == 126
    assert "is no remote that the bridge knows" in result.stderr


def _nested(place: World, server: GitServer) -> Path:
    """A repository in the project, with a commit and a remote."""
    nested = place.project / "nested"
    place.git("init", "-q", "-b", "main", str(nested))
    place.git("-C", str(nested), "remote", "add", "origin", f"{server.url}/r.git")
    (nested / "file").write_text("nested\n")
    place.git("add", "file", cwd=nested)
    place.git("commit", "-q", "-m", "nested", cwd=nested)
    return nested


def test_a_configuration_that_the_sandbox_may_write(place: World, server: GitServer) -> None:
    """The author of its remotes is unknown, so only addresses in the policy are accepted."""
    nested = _nested(place, server)
    with place.bridge(POLICY, environment=ENVIRONMENT) as bridge:
        result = place.call(bridge, "git", "push", "origin", "main", cwd=nested)
        assert result.status == 126
        assert "in a configuration that no sandbox could write: none" in result.stderr
    assert server.seen == []
    policy = POLICY.replace('"push *"', f'"push {server.url}/r.git *"')
    with place.bridge(policy, environment=ENVIRONMENT) as bridge:
        result = place.call(bridge, "git", "push", f"{server.url}/r.git", "main", cwd=nested)
        assert result.status == 0, result.stderr
        assert place.call(bridge, "git", "push", "origin", "main").status == 126, "the policy lists no other"
    assert _remote_head(place) == place.git("rev-parse", "HEAD", cwd=nested)


def test_a_submodule_that_a_sandbox_made(place: World, server: GitServer) -> None:
    """An earlier sandbox can write both the configuration of a submodule and the index that lists it."""
    nested = _nested(place, server)
    head = place.git("rev-parse", "HEAD", cwd=nested)
    place.git("update-index", "--add", "--cacheinfo", f"160000,{head},nested")
    with place.bridge(POLICY, environment=ENVIRONMENT) as bridge:
        result = place.call(bridge, "git", "push", "origin", "main", cwd=nested)
        assert (result.status, server.seen) == (126, []), result.stderr
        assert "in a configuration that no sandbox could write: none" in result.stderr
    listed = f"filesystem: {{readonly: [$PROJECT/nested/.git/config]}}\n{POLICY}"
    with place.bridge(listed, environment=ENVIRONMENT) as bridge:
        assert place.call(bridge, "git", "push", "origin", "main", cwd=nested).status == 0
    assert _remote_head(place) == head


def test_the_secret_is_nowhere_but_there(place: World, bridge: Bridge, server: GitServer) -> None:
    """The secret is not in the log, in files, in arguments of processes, or in the output.

    The tokens are unique to this run, so no other processes can have them.
    """
    result = place.call(bridge, "git", "push", "-v", "origin", "main")
    assert TOKEN in server.seen
    told = result.stdout + result.stderr.encode() + place.log.read_bytes()
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            told += entry.read_bytes()
    environ = Path(f"/proc/{bridge.pid}/environ").read_bytes()
    files = _contents(place.root)
    assert (place.project / "file").read_bytes() in files, "the control: files were read"
    for token in (TOKEN, HOST_TOKEN):
        assert token.encode() not in told
        assert token.encode() not in environ
        assert token.encode() not in files


def _contents(root: Path) -> bytes:
    """The content of all files below a directory, while some of them may be removed."""
    found = b""
    for folder, _, names in os.walk(root):
        for path in (Path(folder) / name for name in names):
            with contextlib.suppress(OSError):
                found += path.read_bytes() if path.is_file() and not path.is_symlink() else b""
    return found
