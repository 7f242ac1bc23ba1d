"""The collected facts of a host: links, sockets and Git's directories as they really are.

Tests of policy/collect.py.
"""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from sandwright import process, user_dirs
from sandwright.api import Policy
from sandwright.errors import UsageError
from sandwright.inputs import LiveHost, changed
from sandwright.policy.collect import collect_facts
from sandwright.policy.facts import HostEntry, HostFacts
from sandwright.policy.live_entries import observe, stored_name
from sandwright.policy.merged import MergedPolicy
from sandwright.policy.paths import same_name
from sandwright.render.mounts import mount_plan
from sandwright.runtime.scratch import scratch_directory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="what it records differs by system")


def _collect(text: str, tmp_path: Path, **environ: str) -> HostFacts:
    home = tmp_path / "home"
    project = tmp_path / "home" / "p"
    project.mkdir(parents=True, exist_ok=True)
    return collect_facts(Policy.from_text(text), project=project, environ={"HOME": str(home), **environ})


def test_what_kind_everything_is(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".npmrc").write_text("x")
    (home / ".kube").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").mkdir()
    facts = _collect("", tmp_path)
    assert facts.os == "linux"
    assert facts.uid == os.getuid()
    assert facts.platform.startswith("linux/")
    assert facts.kernel
    assert facts.kind(f"{home}/.ssh") == "directory"
    assert facts.kind(f"{home}/.npmrc") == "file"
    assert facts.link(f"{home}/.kube") == str(tmp_path / "elsewhere")
    assert facts.kind(f"{tmp_path}/elsewhere") == "directory"
    assert facts.kind(f"{home}/.aws") is None
    assert facts.kind("/dev/null") is None or facts.kind("/dev/null") == "device"
    assert facts.kind("/") == "directory"
    assert HostFacts.from_json(facts.to_json()) == facts


def test_only_variables_that_paths_use_are_kept(tmp_path: Path) -> None:
    text = (
        "filesystem: {read: ['${DATA}']}\n"
        "environment: {pass: [TERM]}\n"
        "credentials: {shims: {gh: {secrets: {T: '${TOKEN}'}, allow: []}}}\n"
    )
    facts = _collect(text, tmp_path, DATA="/data", TERM="xterm", TOKEN="secret", OTHER="x")
    assert facts.environment == {"DATA": "/data"}


def test_links_are_resolved_where_the_policy_looks(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    text = f"filesystem: {{write: [{tmp_path}/link/new], deny: [{tmp_path}/real/new/secret]}}"
    policy = Policy.from_text(text).resolve(_collect(text, tmp_path))
    assert policy.canonical(f"{tmp_path}/link/new/secret") == f"{tmp_path}/real/new/secret"
    assert not policy.is_path_readable(f"{tmp_path}/link/new/secret")
    assert policy.is_path_writable(f"{tmp_path}/real/new/x")


def test_loops_and_pipes_do_no_harm(tmp_path: Path) -> None:
    project = tmp_path / "home" / "p"
    project.mkdir(parents=True)
    (project / ".vscode").symlink_to(".vscode")
    os.mkfifo(project / ".git")
    facts = _collect("", tmp_path)
    assert facts.kind(f"{project}/.vscode") == "symlink"
    assert facts.kind(f"{project}/.git") is None or facts.git_directories == ()


def test_a_directory_where_git_has_a_file_does_no_harm(tmp_path: Path) -> None:
    """It may be a placeholder of another run."""
    project = tmp_path / "home" / "p"
    (project / ".git" / "commondir").mkdir(parents=True)
    assert _collect("", tmp_path).git_directories == (f"{project}/.git",)


def test_a_name_that_is_no_utf_8_ends_the_way(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")).mkdir()
    (tmp_path / "link").symlink_to(os.fsdecode(b"\xff"))
    facts = _collect(f"filesystem: {{deny: [{tmp_path}/link/x]}}", tmp_path)
    assert facts.kind(f"{tmp_path}/link") == "symlink"
    assert HostFacts.from_json(facts.to_json()) == facts


def _listening_at(path: Path) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen()
    return listening


def test_the_sockets_of_trials_that_go_on_meanwhile(tmp_path: Path) -> None:
    """Their removal would end other runs. A trial sees its own sockets."""
    with scratch_directory() as scratch, _listening_at(scratch / "s"):
        for directory, seen in ((scratch.parent.parent, False), (scratch, True)):
            found = _collect(f"filesystem: {{read: [{directory}]}}", tmp_path).sockets
            assert (f"{scratch}/s" in found) is seen, directory


def test_no_facts_depend_on_the_trials_that_go_on(tmp_path: Path) -> None:
    """A run whose recording changed would render its sandbox again. The control: the directory is known."""
    path, inputs = user_dirs.visible_scratch(), LiveHost()
    loaded = Policy.from_text("schema: 1\nmethod: bwrap\nfilesystem: {read: [/], write: [/var/tmp]}\n")
    collect_facts(loaded, project=tmp_path, inputs=inputs)
    questions = {question[0] for question, _ in inputs.recording() if path in question}
    assert questions
    assert "listing" not in questions


def test_sockets_that_somebody_listens_on(tmp_path: Path) -> None:
    path, text = tmp_path / "s", f"filesystem: {{read: [{tmp_path}]}}"
    with _listening_at(path):
        facts = _collect(text, tmp_path)
        assert facts.sockets == (str(path),)
        assert facts.kind(str(path)) == "socket"
    assert _collect(text, tmp_path).sockets == ()


def test_a_socket_that_was_bound_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with _listening_at(tmp_path / "link" / "s"):
        found = _collect(f"filesystem: {{read: [{tmp_path}/real]}}", tmp_path).sockets
    assert found == (f"{tmp_path}/real/s",)


def test_a_socket_whose_name_has_lines_of_its_own(tmp_path: Path) -> None:
    """Any user of the machine can bind one, and the kernel reports names unescaped."""
    path = tmp_path / "s"
    with _listening_at(path), socket.socket(socket.AF_UNIX) as other:
        other.bind(f"\0{tmp_path}\n1: 2 0 nonsense 1 1 1 /y\n1: 2 0 10000 1 1 1 /z"[:107])
        other.listen()
        assert str(path) in _collect(f"filesystem: {{read: [{tmp_path}]}}", tmp_path).sockets


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("", False),
        ("filesystem: {read: [/]}", False),
        ("network: {unix_sockets: [/run/x]}\nfilesystem: {read: [/], tmp: shared}", True),
        ("network: {unix_sockets: [/run/x]}\nfilesystem: {read: [/]}", False),
        ("filesystem: {tmp: shared}", True),
        ("filesystem: {read: [HERE], deny: [HERE/d]}", False),
        ("filesystem: {read: [HERE/d], deny: [HERE]}", True),
    ],
    ids=["nothing", "all", "all and shared", "all but /tmp", "shared", "denied below", "read below"],
)
def test_only_sockets_that_can_be_connected_to_count(tmp_path: Path, text: str, *, seen: bool) -> None:
    """Other sockets come and go, and the artifacts stay. Temporary directories of tests are in /tmp."""
    (tmp_path / "d").mkdir()
    project, inputs = tmp_path / "home" / "p", LiveHost()
    project.mkdir(parents=True)
    policy = Policy.from_text(text.replace("HERE", str(tmp_path)))
    collect_facts(policy, project=project, environ={"HOME": str(tmp_path / "home")}, inputs=inputs)
    with _listening_at(tmp_path / "d" / "s"):
        found = collect_facts(policy, project=project, environ={"HOME": str(tmp_path / "home")})
        assert (f"{tmp_path}/d/s" in found.sockets) is seen
        sockets = [each for each in inputs.recording() if each[0][0] == "sockets"]
        assert changed(sockets) == (sockets[0][0] if seen else None)


def test_paths_of_a_question_can_be_added(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    facts = _collect("", tmp_path)
    assert facts.link(f"{tmp_path}/a") is None
    assert observe(facts, [f"{tmp_path}/a/x"]).link(f"{tmp_path}/a") == "b"


def test_the_current_directory_and_the_temporary_one(tmp_path: Path) -> None:
    project = tmp_path / "p"
    (project / "sub").mkdir(parents=True)
    facts = collect_facts(
        Policy.from_text(""), project=project, cwd=project / "sub", tmp="/scratch", environ={}
    )
    assert facts.cwd == str(project / "sub")
    assert facts.tmp == "/scratch"
    assert facts.home
    assert _collect("", tmp_path).tmp == "/tmp"


def test_a_project_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        collect_facts(Policy.from_text(""), project=tmp_path / "missing", environ={})
    assert str(refused.value) == f"the project {tmp_path}/missing is no directory"


def test_a_project_that_no_policy_can_name(tmp_path: Path) -> None:
    project = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    project.mkdir()
    with pytest.raises(UsageError, match="is no path that a policy can name"):
        collect_facts(Policy.from_text(""), project=project, environ={})


@pytest.mark.parametrize(
    ("name", "names", "case_sensitive", "stored"),
    [
        ("Documents", ["Documents", "documents"], False, "Documents"),
        ("documents", ["Documents"], False, "Documents"),
        ("documents", ["Documents"], True, "documents"),
        ("caf\u00e9", ["cafe\u0301"], True, "cafe\u0301"),
        ("new", ["old"], False, "new"),
    ],
)
def test_spellings_that_lead_to_the_same_file_on_macos(
    name: str, names: list[str], case_sensitive: bool, stored: str
) -> None:
    facts = HostFacts(os="darwin", home="/Users/u", project="/Users/u/p", case_sensitive=case_sensitive)
    assert stored_name(name, names, same_name(facts)) == stored


def test_another_spelling_is_like_a_link() -> None:
    facts = HostFacts(
        os="darwin",
        home="/Users/u",
        project="/Users/u/p",
        case_sensitive=False,
        entries={"/Users/u/documents": HostEntry("symlink", "Documents")},
    )
    policy = Policy.from_text("filesystem: {deny: [~/documents]}").resolve(facts)
    assert policy.canonical("~/documents/x") == "/Users/u/Documents/x"
    assert not policy.is_path_readable("/Users/u/DOCUMENTS/x")


@pytest.mark.needs("git")
def test_gits_directories(tmp_path: Path) -> None:
    repo, module, tree = (tmp_path / name for name in ("repo", "module", "tree"))
    git = [
        "git", "-c", "protocol.file.allow=always", "-c", "user.name=n", "-c", "user.email=e@example.org",
        "-c", "commit.gpgsign=false",
    ]  # fmt: skip
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    for made in (module, repo):
        process.run(*git, "init", "-q", made, env=environ)
        process.run(*git, "commit", "-q", "--allow-empty", "-m", "x", cwd=made, env=environ)
    process.run(*git, "submodule", "--quiet", "add", module, "sub", cwd=repo, env=environ)
    process.run(*git, "worktree", "add", "-q", tree, cwd=repo, env=environ)
    policy = Policy.from_text("")
    facts = collect_facts(policy, project=repo, environ={"HOME": str(tmp_path)})
    assert set(facts.git_directories) == {
        f"{repo}/.git",
        f"{repo}/.git/modules/sub",
        f"{repo}/.git/worktrees/tree",
    }
    assert facts.kind(f"{repo}/.git/modules/sub/hooks") == "directory"
    linked = collect_facts(policy, project=tree, environ={"HOME": str(tmp_path)})
    assert {f"{repo}/.git", f"{repo}/.git/worktrees/tree"} <= set(linked.git_directories)
    opened = Policy.from_text(f"filesystem: {{write: [$PROJECT, {repo}/.git]}}").resolve(linked)
    assert opened.is_path_writable(f"{repo}/.git/objects/x")
    assert not opened.is_path_writable(f"{repo}/.git/hooks/pre-commit")
    assert not opened.is_path_writable(f"{repo}/.git/worktrees/tree/config.worktree")
    assert not opened.is_path_writable(f"{repo}/.git/modules/sub/config")


def test_a_gitdir_that_lies_grants_nothing(tmp_path: Path) -> None:
    project = tmp_path / "home" / "p"
    project.mkdir(parents=True)
    (tmp_path / "home" / ".ssh").mkdir()
    (project / ".git").write_text(f"gitdir: {tmp_path}/home/.ssh\n")
    facts = _collect("", tmp_path)
    policy = Policy.from_text("").resolve(facts)
    assert not policy.is_path_readable(f"{tmp_path}/home/.ssh/hooks")
    assert not policy.is_path_writable(f"{tmp_path}/home/.ssh/objects")


def test_facts_of_another_machine_are_enough(tmp_path: Path) -> None:
    facts = replace(_collect("", tmp_path), os="darwin", home="/Users/u", project="/Users/u/p", entries={})
    assert Policy.from_text("").resolve(facts).is_path_writable("/Users/u/p/x")


@pytest.mark.parametrize("mode", ["none", "proxy", "host"])
def test_a_physical_network_device_is_hidden_where_its_driver_is(mode: str) -> None:
    """The mask of /sys/class/net hides a link; the device is below its bus, and has the host's address."""
    names = ("/", "/h", "/h/p", "/sys", "/sys/class", "/sys/class/net", "/sys/devices", "/sys/devices/pci0")
    device = "/sys/devices/pci0/1/net"
    entries = {
        path: HostEntry("directory") for path in (*names, "/sys/devices/pci0/1", device, f"{device}/eth0")
    }
    entries["/sys/class/net/eth0"] = HostEntry("symlink", "../../devices/pci0/1/net/eth0")
    facts = HostFacts(os="linux", home="/h", project="/h/p", entries=entries)
    text = (
        f"schema: 1\nmethod: bwrap\nnetwork: {{mode: {mode}}}\nfilesystem: {{read: [/], write: [$PROJECT]}}\n"
    )
    plan = mount_plan(MergedPolicy.from_text(text).resolve(facts), root="host")
    masked = {mount.target for mount in plan.mounts if mount.kind == "mask"}
    assert (device in masked) is (mode != "host")
    assert "/sys/devices/pci0" not in masked
