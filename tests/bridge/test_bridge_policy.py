"""The bridge gives a sandbox nothing that the policy denies it: paths, secrets, networks.

Tests of bridge/programs.py.
Tests of bridge/secret.py: commands of the host.
Tests of bridge/remotes.py: a remote on a network that the sandbox shares.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sandwright import process
from sandwright.bridge.access import AccessRule, WorkspaceAccess
from sandwright.bridge.directory import Bridge
from sandwright.bridge.environment import trusted_search_path
from sandwright.bridge.remotes import address, addresses
from sandwright.bridge.secret import Reach, command_secret
from sandwright.bridge.start import serve
from sandwright.errors import HostError, UsageError
from support.bridges import World, world

DENIED = """
filesystem:
  write: [$PROJECT]
  deny: [$PROJECT/secret.txt, $PROJECT/private, $PROJECT/partly/.git/refs/heads/own]
  readonly: [$PROJECT/fixed]
credentials:
  shims:
    gh: {allow: ["pr *"]}
    git: {allow: ["push *", "fetch *", "ls-remote *"]}
    tool: {allow: ["where", "read *"]}
"""
TOOL = """
case $1 in
    where) pwd -P ;;
    read) /bin/cat "$2" ;;
    *) for each; do case $each in --body-file=*) /bin/cat "${each#*=}" ;; esac; done ;;
esac
"""
CANARY = b"canary of the host's"


@pytest.fixture(scope="module")
def place() -> Iterator[World]:
    with world() as made:
        made.tool("gh", TOOL)
        made.tool("tool", TOOL)
        for name in ("", "private", "fixed", "partly"):
            folder = made.project / name
            folder.mkdir(exist_ok=True)
            made.git("init", "-q", "-b", "main", cwd=folder)
            made.git("remote", "add", "origin", "https://git.example/r.git", cwd=folder)
            (folder / "secret.txt").write_bytes(CANARY)
            (folder / "open.txt").write_text("anybody's\n")
        (made.root / "outside").write_bytes(CANARY)
        (made.project / "link").symlink_to(made.root / "outside")
        (made.project / "around").symlink_to("secret.txt")
        yield made


@pytest.fixture(scope="module")
def bridge(place: World) -> Iterator[Bridge]:
    with place.bridge(DENIED) as running:
        yield running


@pytest.mark.parametrize(
    ("call", "where", "status"),
    [
        ("gh pr comment 1 -F open.txt", "", 0),
        ("gh pr comment 1 -F secret.txt", "", 126),
        ("gh pr comment 1 -F ./secret.txt", "", 126),
        ("gh pr comment 1 -F private/open.txt", "", 126),
        ("gh pr comment 1 -F around", "", 126),
        ("gh pr comment 1 -F open.txt", "fixed", 0),
        ("tool where", "", 0),
        ("tool where", "private", 126),
        ("tool read open.txt", "", 1),  # it runs in an empty directory
        ("tool read secret.txt", "", 1),
        ("tool read link", "", 1),
        ("tool read around", "", 1),
        ("tool read nothing-there", "", 1),
        ("git push origin main", "private", 126),
        ("git ls-remote origin", "private", 126),
        ("git push origin main", "partly", 126),
        ("git fetch origin", "fixed", 126),
    ],
)
def test_what_the_policy_denies(place: World, bridge: Bridge, call: str, where: str, status: int) -> None:
    """A program on the host could read all of it; the call is refused before a program starts."""
    result = place.call(bridge, *call.split(), cwd=place.project / where)
    assert result.status == status, result.stderr
    assert CANARY not in result.stdout
    why = ("the policy keeps the sandbox from", "is a link")
    assert status != 126 or any(said in result.stderr for said in why)


@pytest.mark.parametrize(
    ("path", "read", "write", "all_read"),
    [
        ("", True, True, False),
        ("src/x", True, True, True),
        ("secret", False, False, False),
        ("secret/below", False, False, False),
        ("secret/but", True, False, True),
        ("Secret", False, False, False),
        ("SECRET/x", False, False, False),
        ("se\u200bcret/x", False, False, False),
        ("Secret/BUT", True, False, True),
        ("secrets", True, True, True),
        ("tmp/x", False, False, False),
        ("open", False, False, False),
        ("Open", False, False, False),
        ("OPEN", False, False, False),
    ],
)  # fmt: skip
def test_the_nearest_entry_decides(path: str, read: bool, write: bool, all_read: bool) -> None:
    """For a name in another case the stricter answer holds: the workspace's file system may ignore case."""
    access = WorkspaceAccess(
        [
            AccessRule("", read=True, write=True),
            AccessRule("secret", read=False, write=False),
            AccessRule("secret/but", read=True, write=False),
            AccessRule("tmp", read=False, write=False),
            AccessRule("Open", read=False, write=False),
            AccessRule("open", read=True, write=True),
        ]
    )
    parts = tuple(path.split("/")) if path else ()
    assert (access.reads(parts), access.writes(parts), access.reads_all(parts)) == (read, write, all_read)


SECRET = """
credentials: {shims: {tool: {secrets: {TOOL_TOKEN: "${T}"}, allow: [where]}}}
"""


def test_a_command_for_a_secret_runs_where_no_sandbox_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python, Node and many tools load modules and settings from the directory in which they start."""
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    (project / "tool").write_text("#!/bin/sh\necho of-the-sandbox\n")
    (project / "tool").chmod(0o755)
    (project / "keyring.py").write_text("print('of-the-sandbox')")
    script = tmp_path / "key"
    script.write_text('#!/bin/sh\ncommand -v tool || echo "found-none-in:$PWD"\n')
    script.chmod(0o755)

    def inside(path: str) -> bool:
        return path.startswith(str(project))

    sandbox, environment = Reach(inside, inside), {"PATH": f"{project}:{os.environ['PATH']}"}
    words = (str(script), os.path.relpath(script))
    assert {command_secret(each, "here", environment, sandbox) for each in words} == {"found-none-in:/\n"}
    with pytest.raises(HostError, match="has failed"):
        command_secret((sys.executable, "-m", "keyring"), "here", environment, sandbox)
    script.write_text(f"#!{project}/tool\n")
    with pytest.raises(UsageError, match="tool may be written by the sandbox"):
        command_secret(str(script), "here", environment, sandbox)


@pytest.mark.parametrize(
    ("variable", "value", "policy", "said"),
    [
        ("T_FILE", "{project}/token", "", "can be read by the sandbox"),
        ("T_FILE", "{home}/token", "", "can be read by the sandbox"),
        ("T_FILE", "{home}/link", "", "can be read by the sandbox"),
        ("T_FILE", "{home}/token", "filesystem: {deny: [~/token]}", ""),
        ("T_FILE", "{home}/token", "filesystem: {deny: [{home}]}", ""),
        ("T_COMMAND", "{project}/say", "", "say may be written by the sandbox"),
        ("T_COMMAND", "say", "", "say may be written by the sandbox"),
        ("T_COMMAND", "cat {project}/token", "", "token may be written by the sandbox"),
        ("T_COMMAND", "cat {home}/token", "", ""),
        ("SSL_CERT_FILE", "{project}/token", "", "SSL_CERT_FILE: "),
        ("SSL_CERT_FILE", "{home}/token", "", ""),
    ],
)
def test_where_a_secret_comes_from(variable: str, value: str, policy: str, said: str) -> None:
    """A value that the sandbox can read is no secret; one that it can write would be run or trusted."""
    with world("/var/tmp") as made:
        made.tool("tool", TOOL)
        where = {"project": str(made.project), "home": str(made.root / "home")}
        for folder in where.values():
            (Path(folder) / "token").write_text("a-token-of-the-host")
            (Path(folder) / "say").write_text("#!/bin/sh\necho a-token-of-the-sandbox\n")
            (Path(folder) / "say").chmod(0o755)
        (made.root / "home/link").symlink_to(made.project / "token")
        environment = {
            "T": "a-token-of-the-environment", variable: value.replace("{", "%(").replace("}", ")s") % where,
            "PATH": f"{made.project}:{made.root}/tools:{os.environ['PATH']}", "HOME": where["home"],
        }  # fmt: skip
        text = made.policy(policy.replace("{home}", where["home"]) + SECRET)
        started = serve(text, directory=made.root / "b", audit=made.log, environment=environment)
        if said:
            with pytest.raises(UsageError, match=said), started:
                pytest.fail("it has started")
        else:
            with started as bridge:
                assert made.call(bridge, "tool", "where").status == 0


@pytest.mark.parametrize("method", ["docker", "oci"])
def test_a_secret_of_the_home_and_containers(place: World, method: str) -> None:
    """A container sees only the listed paths, although the preset makes the whole host readable."""
    with world("/var/tmp") as made:
        made.tool("tool", TOOL)
        (made.root / "home/token").write_text("a-token-of-the-host")
        environment = {
            "T_FILE": str(made.root / "home/token"), "PATH": f"{made.root}/tools:{os.environ['PATH']}",
        }  # fmt: skip
        for more, starts in (("", True), (f"filesystem: {{read: [{made.root}/home]}}", False)):
            policy = replace(made.policy(more + SECRET), methods=(method,))
            started = serve(policy, directory=made.root / "b", audit=made.log, environment=environment)
            if starts:
                with started:
                    pass
            else:
                with pytest.raises(UsageError, match="can be read by the sandbox"), started:
                    pytest.fail("it has started")


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("my.git", "leads to .*/git: give it its own name here"),
        ("script-of-the-sandbox", "python may be written by the sandbox"),
        ("link-of-the-sandbox", "link-of-the-sandbox may be written by the sandbox"),
    ],
)
def test_programs_that_the_sandbox_could_steer(program: str, said: str) -> None:
    with world() as made:
        tools = made.root / "tools"
        made.tool(program, "")
        if program == "my.git":
            (tools / program).rename(tools / "git")
            (tools / program).symlink_to("git")
        if program == "link-of-the-sandbox":  # neither its own path nor its target may be writable
            (tools / program).rename(tools / "real")
            (made.project / "link").symlink_to(tools / "real")
            (tools / program).symlink_to(made.project / "link")
        if program == "script-of-the-sandbox":
            (made.project / "python").symlink_to("/bin/sh")
            (tools / program).write_text(f"#!{made.project}/python -E\n")
        policy = f"credentials: {{shims: {{{program}: {{allow: ['*']}}}}}}\n"
        with pytest.raises(UsageError, match=said), made.bridge(policy):
            pytest.fail("it has started")


def test_addresses_of_a_network_that_the_sandbox_shares() -> None:
    """On such a network the sandbox could listen at the remote's address and receive the token."""
    assert address("http://127.0.0.1:3000/r.git") == "http://127.0.0.1:3000/r.git"
    assert address("http://127.0.0.1:3000/r.git", loopback=False) is None
    assert address("https://git.example/r.git", loopback=False) == "https://git.example/r.git"
    assert addresses(["push", "http://localhost/r.git"], loopback=False) == frozenset()


def test_a_remote_on_a_network_that_the_sandbox_shares(place: World) -> None:
    place.git("remote", "add", "here", "http://127.0.0.1:9/r.git")
    shared = "network: {mode: host, unix_sockets: [$PROJECT/s]}\n"
    for more, said in (("", "unable to access"), (shared, "is no remote that the bridge knows")):
        with place.bridge(more + DENIED) as bridge:
            assert said in place.call(bridge, "git", "ls-remote", "here").stderr
    process.run("git", "remote", "remove", "here", cwd=place.project)


def test_programs_come_from_no_directory_that_a_sandbox_or_another_user_filled(tmp_path: Path) -> None:
    """Programs are not taken from a project whose sandbox ran before, nor through a link in it."""
    names = ("mine", "shared", "project/bin", "written", "of-another")
    for name in names:
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "project/sandbox.yaml").touch()
    (tmp_path / "project/link").symlink_to(tmp_path / "mine")
    (tmp_path / "shared").chmod(0o777)
    if os.getuid() == 0:  # only root can give a directory away
        os.chown(tmp_path / "of-another", 65534, -1)
    else:
        (tmp_path / "of-another").rmdir()
    parts = [*(str(tmp_path / name) for name in (*names, "project/link", "absent")), "relative", "/usr/bin"]
    found = trusted_search_path({"PATH": ":".join(parts)}, lambda path: path.endswith("/written"))
    assert found == f"{tmp_path}/mine:/usr/bin"
