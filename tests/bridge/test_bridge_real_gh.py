"""The real gh through the bridge, against a stand-in for GitHub: requests, and programs that never start."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandwright.bridge.directory import Bridge
from support.bridges import World, world
from support.githubserver import HOST, GitHub, github

pytestmark = pytest.mark.needs("gh", "openssl", "git")

TOKEN = f"ghp_B{uuid.uuid4().hex}"
HOST_TOKEN = f"ghp_A{uuid.uuid4().hex}"
POLICY = """
credentials:
  shims:
    gh: {secrets: {GH_TOKEN: "${SANDBOX_GH_TOKEN}"}, allow: ["auth status", "pr *", "issue *"]}
"""
ENVIRONMENT = {
    "SANDBOX_GH_TOKEN": TOKEN, "GH_TOKEN": HOST_TOKEN, "GITHUB_TOKEN": HOST_TOKEN, "GH_HOST": "evil.example",
    "GH_ENTERPRISE_TOKEN": HOST_TOKEN, "GH_DEBUG": "api", "DEBUG": "1",
}  # fmt: skip


@pytest.fixture(scope="module")
def place() -> Iterator[World]:
    with world() as made:
        made.git("init", "-q", "-b", "main")
        made.git("remote", "add", "origin", "git@github.com:acme/app.git")
        _hostile(made)
        yield made


def _hostile(made: World) -> None:
    """Plant programs and settings that gh would use if it searched the workspace or the host's own home."""
    script = f"#!/bin/sh\necho started >>{made.root}/pwned\nexit 1\n"
    for folder in (made.project, made.project / "bin", made.root / "home"):
        folder.mkdir(exist_ok=True)
        for name in ("git", "gh-pr", "less", "vi", "xdg-open", "ssh", "sh"):
            (folder / name).write_text(script)
            (folder / name).chmod(0o755)
    made.git("config", "core.fsmonitor", f"{made.project}/git")
    made.git("config", "core.pager", f"{made.project}/less")
    for config in (made.project / ".config/gh", made.root / "home/.config/gh"):
        config.mkdir(parents=True)
        (config / "hosts.yml").write_text(f"github.com:\n  oauth_token: {HOST_TOKEN}\n  user: owner\n")
        (config / "config.yml").write_text(
            f"editor: {made.project}/vi\npager: {made.project}/less\nbrowser: {made.project}/xdg-open\n"
            f'aliases:\n  pr: "!{made.project}/sh"\n  auth: "!{made.project}/sh"\n'
        )


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitHub]:
    with github(tmp_path, TOKEN) as running:
        yield running


@pytest.fixture
def bridge(place: World, server: GitHub) -> Iterator[Bridge]:
    with place.bridge(POLICY, environment={**ENVIRONMENT, **server.environment}) as running:
        yield running


def test_what_gh_sends(place: World, bridge: Bridge, server: GitHub) -> None:
    """gh sends the sandbox's token and no other, to one host, about the repository that the bridge knows."""
    result = place.call(bridge, "gh", "pr", "list", "--json", "number,title")
    assert result.stdout == b'[{"number":1,"title":"A request"}]\n', result.stderr
    assert {given for _, _, given, _ in server.seen} == {f"token {TOKEN}"}
    assert set(server.asked) == {f"{HOST}:443"}
    assert '"owner":"acme"' in server.seen[-1][3]
    assert not (place.root / "pwned").exists(), (place.root / "pwned").read_text()


def test_the_account(place: World, bridge: Bridge) -> None:
    result = place.call(bridge, "gh", "auth", "status")
    said = result.stdout.decode() + result.stderr
    assert result.status == 0, said
    assert "Logged in to github.com as somebody (GH_TOKEN)" in said
    assert TOKEN not in said
    assert HOST_TOKEN not in said


def test_a_body_of_the_workspace(place: World, bridge: Bridge, server: GitHub) -> None:
    (place.project / "body.md").write_text("Looks good: `id` $(id)\n")
    result = place.call(bridge, "gh", "pr", "comment", "1", "--body-file", "body.md")
    assert result.status == 0, result.stderr
    assert "Looks good: `id` $(id)" in server.seen[-1][3]
    assert not (place.root / "pwned").exists()


def test_a_token_that_is_refused(place: World, bridge: Bridge, server: GitHub) -> None:
    server.token = "another"
    result = place.call(bridge, "gh", "pr", "list")
    assert (result.status, result.stdout) == (1, b"")
    assert "HTTP 401: Bad credentials" in result.stderr


def test_what_never_reaches_it(place: World, bridge: Bridge, server: GitHub) -> None:
    """`test_bridge_grammar` has the complete list; these are the tricks that would have an effect here."""
    for words in (
        "auth token", "auth status -t", "api user", "pr checkout 1", "co 1", "pr list --json title --jq env",
        "pr view 1 -w", "alias list", "pr list -R evil.example/o/r", "extension list", "gh-pr",
    ):  # fmt: skip
        result = place.call(bridge, "gh", *words.split())
        assert (result.status, result.stdout, server.asked) == (126, b"", []), words
        assert not (place.root / "pwned").exists(), words
