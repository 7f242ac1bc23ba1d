"""gh through the bridge, with a stand-in: a script that reports its arguments, environment and input.

`test_bridge_real_gh` shows the behaviour of the real program.

Tests of bridge/gh.py.
Tests of bridge/capabilities.py.
"""

from __future__ import annotations

import os
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandwright import process
from sandwright.bridge.directory import Bridge
from support.bridges import World, world
from support.waiting import eventually

pytestmark = pytest.mark.needs("git")

TOKEN = "sandbox-token-B-c4471e"
HOST_TOKEN = "host-token-A-20fd9b"
STAND_IN = r"""
case $GH_TOKEN in sandbox-token-B-*) echo "token B" ;; host-*) echo "token A" ;; *) echo "no token" ;; esac
echo "others ${GITHUB_TOKEN-none} ${GH_HOST-none} ${GH_ENTERPRISE_TOKEN-none} ${GIT_DIR-none}"
echo "repo ${GH_REPO-none}"
echo "home $HOME $GH_CONFIG_DIR $PATH"
pwd -P
for program in git sh cat vi xdg-open; do command -v $program; done
for each in "$@"; do
    echo "<$each>"
    case $each in --body-file=-) /bin/cat ;; --body-file=*) /bin/cat "${each#*=}" ;; esac
done
"""
POLICY = """
credentials:
  shims:
    gh: {secrets: {GH_TOKEN: "${SANDBOX_GH_TOKEN}"}, allow: ["auth status", "pr *", "issue *"]}
"""
ENVIRONMENT = {
    "SANDBOX_GH_TOKEN": TOKEN, "GH_TOKEN": HOST_TOKEN, "GITHUB_TOKEN": HOST_TOKEN, "GH_HOST": "evil.example",
    "GH_ENTERPRISE_TOKEN": HOST_TOKEN, "GIT_DIR": "/x", "GH_CONFIG_DIR": "/root/.config/gh",
}  # fmt: skip


@pytest.fixture(scope="module")
def place() -> Iterator[World]:
    with world() as made:
        made.tool("gh", STAND_IN)
        made.git("init", "-q", "-b", "main")
        made.git("remote", "add", "origin", "git@github.com:acme/app.git")
        yield made


@pytest.fixture(scope="module")
def bridge(place: World) -> Iterator[Bridge]:
    with place.bridge(POLICY, environment=ENVIRONMENT) as running:
        yield running


def test_what_gh_is_given(place: World, bridge: Bridge) -> None:
    """gh gets the sandbox's token and no other, the repository by name, and no program or file to use."""
    result = place.call(bridge, "gh", "pr", "list", "-L", "3")
    lines = result.text.splitlines()
    assert lines[0] == "token B"
    assert lines[1] == "others none none none none"
    assert lines[2] == "repo acme/app"
    home = lines[3].split()[1]
    assert lines[3] == f"home {home} {home} {home}"
    assert lines[4] == home
    assert home.startswith(f"{place.root}/b/")
    assert lines[5:] == ["<pr>", "<list>", "<--limit=3>", "<-->"], "no program is found on its path"
    eventually(lambda: not Path(home).exists(), within=40)  # the answer arrives before the call is cleaned up
    assert not Path(home).exists(), "its home is gone with it"


def test_the_repository_is_that_of_the_start(place: World, bridge: Bridge) -> None:
    """The configuration that the sandbox writes later is ignored."""
    place.git("config", "remote.origin.url", "https://github.com/evil/other.git")
    try:
        assert "repo acme/app" in place.call(bridge, "gh", "pr", "list").text
    finally:
        place.git("config", "remote.origin.url", "git@github.com:acme/app.git")


def test_a_body_of_the_workspace(place: World, bridge: Bridge) -> None:
    (place.project / "notes").mkdir(exist_ok=True)
    (place.project / "notes" / "body.md").write_text("the body\n")
    words = ("pr", "comment", "1", "--body-file")
    assert "the body" in place.call(bridge, "gh", *words, "notes/body.md").text
    assert "the body" in place.call(bridge, "gh", *words, "body.md", cwd=place.project / "notes").text
    assert "the body" in place.call(bridge, "gh", *words, str(place.project / "notes/body.md")).text


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/etc/passwd", "outside of the workspace"),
        ("../secret", "leaves the workspace"),
        ("a/../../secret", "leaves the workspace"),
        ("link", "is a link"),
        ("linked/passwd", "is a link"),
        ("pipe", "no regular file"),
        ("notes-missing", "No such file"),
        (".", "the workspace is no file"),
        (".git", "no regular file"),
        ("/dev/fd/0", "outside of the workspace"),
        ("/proc/self/environ", "outside of the workspace"),
    ],
)
def test_bodies_of_elsewhere(place: World, bridge: Bridge, path: str, said: str) -> None:
    (place.root / "secret").write_text("root: the host's")
    for name, target in (("link", "/etc/passwd"), ("linked", "/etc")):
        (place.project / name).unlink(missing_ok=True)
        (place.project / name).symlink_to(target)
    if not (place.project / "pipe").exists():
        os.mkfifo(place.project / "pipe")
    result = place.call(bridge, "gh", "pr", "comment", "1", "--body-file", path)
    assert result.status == 126
    assert said in result.stderr
    assert b"root:" not in result.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="root has the right to open what modes close")
def test_a_file_that_modes_close_to_the_sandbox_is_not_read(place: World, bridge: Bridge) -> None:
    """Root inside has no such right, so root's bridge must not use it for programs inside."""
    closed = place.project / "closed"
    closed.write_text("SECRET")
    closed.chmod(0o600)
    os.chown(closed, 65534, 65534)
    result = place.call(bridge, "gh", "pr", "comment", "1", "--body-file", "closed")
    assert (result.status, result.stdout) == (126, b"")
    assert "closed: Permission denied" in result.stderr


def test_a_body_that_is_swapped_for_a_link_all_the_time(place: World, bridge: Bridge) -> None:
    swapper = textwrap.dedent(f"""
        import os
        os.chdir({str(place.project)!r})
        while True:
            with open("new", "w") as file: file.write("inside")
            os.rename("new", "swapped")
            os.symlink("/etc/passwd", "new"); os.rename("new", "swapped")
    """)
    with process.start(sys.executable, "-c", swapper):
        results: list[process.Result] = []
        until = time.monotonic() + 60
        while len(results) < 40 or not any(b"inside" in result.stdout for result in results):
            results.append(place.call(bridge, "gh", "pr", "comment", "1", "--body-file", "swapped"))
            assert time.monotonic() < until, "the control: none was read"
    assert not [result for result in results if b"root:" in result.stdout]


def test_standard_input_only_where_it_is_asked_for(place: World, bridge: Bridge) -> None:
    """Otherwise, a loop that reads lines and calls gh for each would lose them."""
    assert "typed" in place.call(bridge, "gh", "pr", "comment", "1", "-F", "-", stdin=b"typed").text
    script = f"{bridge.bin}/gh pr list >/dev/null; cat"
    result = process.run("sh", "-c", script, cwd=place.project, stdin=b"left for others")
    assert result.stdout == b"left for others"


@pytest.mark.parametrize(
    "words",
    [
        ("auth", "token"), ("auth", "status", "--show-token"), ("alias", "set", "x", "!id"),
        ("extension", "install", "o/gh-x"), ("x",), ("pr", "checkout", "1"), ("api", "/user"),
        ("pr", "list", "--jq", "env.GH_TOKEN", "--json", "title"), ("pr", "view", "1", "--web"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_what_never_reaches_gh(place: World, bridge: Bridge, words: tuple[str, ...]) -> None:
    result = place.call(bridge, "gh", *words)
    assert (result.status, result.stdout) == (126, b"")


def test_the_tokens_are_not_in_the_log(place: World, bridge: Bridge) -> None:
    """The log contains no token, even if the sandbox sends one that it learned in another way."""
    place.call(bridge, "gh", "pr", "comment", "1", "--body", f"is it {TOKEN}?")
    line = place.audit("call")[-1]
    assert line["arguments"] == ["pr", "comment", "1", "--body", "is it [secret]?"]
    text = place.log.read_text()
    assert TOKEN not in text
    assert HOST_TOKEN not in text


@pytest.mark.parametrize(
    "words",
    [
        ("pr", "list", "-R", "acme/other"), ("pr", "list", "--repo=acme/other"),
        ("issue", "create", "--title", "t", "--body", "b", "--repo", "acme/app-2"),
        ("repo", "view", "acme/other"), ("pr", "view", "1", "--repo", "evil/app"),
        ("pr", "list", "--search", "is:open repo:acme/other"), ("pr", "list", "-S", "a OR b"),
        ("issue", "list", "--label", '"x" ORG:acme "y"'), ("issue", "list", "-m", "a) (b"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_other_repositories_of_the_token(place: World, words: tuple[str, ...]) -> None:
    """Other repositories of the token are reachable neither by name nor by a search."""
    policy = POLICY.replace('"issue *"', '"issue *", "repo view *"')
    with place.bridge(policy, environment=ENVIRONMENT) as running:
        result = place.call(running, "gh", *words)
    assert (result.status, result.stdout) == (126, b""), result.stderr
    assert "not the repository of origin (acme/app)" in result.stderr or "other repositories" in result.stderr


@pytest.mark.parametrize("entry", ["pr list --repo acme/Lib *", "pr list -R=acme/Lib", "repo view acme/Lib"])
def test_repositories_that_the_policy_lists(place: World, entry: str) -> None:
    policy = POLICY.replace('"issue *"', f'"{entry}"')
    with place.bridge(policy, environment=ENVIRONMENT) as running:
        for name in ("acme/app", "ACME/app", "acme/lib"):
            result = place.call(running, "gh", "pr", "list", "--repo", name, "--search", "is:open label:x")
            assert f"<--repo={name}>" in result.text, result.stderr
        assert place.call(running, "gh", "pr", "list", "--repo", "acme/other").status == 126
