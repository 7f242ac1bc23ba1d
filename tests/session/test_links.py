"""Links that a program inside could replace: a path through one is refused, or accepted and protected.

Tests of policy/links.py.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sandwright.api import Policy
from sandwright.methods import registry
from sandwright.policy.names import METHODS
from sandwright.policy.uses import check_expressible
from session.conftest import WAIT, Project
from support.thorough import covering

BASE = "schema: 1\nmethod: bwrap\nfilesystem:\n  write: [$PROJECT]\n"
ACCEPTED = (
    "accept_gaps: [{feature: filesystem.links, method: bwrap, reason: nobody here replaces links}]\n"
    "environment: {set: {GIT_CONFIG_NOSYSTEM: '1'}}\n"
)


def _to_a_file(root: Path, name: str) -> None:
    (root / "real").mkdir(exist_ok=True)
    (root / "real" / "file").write_text("content\n")
    (root / name).symlink_to("real/file")


def _policy_elsewhere(root: Path) -> None:
    """The policy is a link to a file that no program inside can write."""
    elsewhere = root.parent / "policies"
    elsewhere.mkdir()
    (root / "sandbox.yaml").rename(elsewhere / "p.yaml")
    (root / "sandbox.yaml").symlink_to("../policies/p.yaml")


def _above(root: Path) -> None:
    (root / "c").mkdir()
    (root / ".claude").symlink_to("c")


def _repository(root: Path) -> None:
    (root / ".git").rename(root / "g")
    (root / ".git").symlink_to("g")


CASES: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "policy": ("sandbox.yaml", _policy_elsewhere, ""),
    "denied": (".env", lambda root: _to_a_file(root, ".env"), "  deny: [$PROJECT/.env]\n"),
    "readonly": ("lib", lambda root: (root / "lib").symlink_to("/usr"), "  readonly: [$PROJECT/lib]\n"),
    "behind a link": ("d", lambda root: (root / "d").symlink_to("secrets"), "  deny: [$PROJECT/d/key]\n"),
    "a protected file": (".mcp.json", lambda root: _to_a_file(root, ".mcp.json"), ""),
    "that leads out": (".vimrc", lambda root: (root / ".vimrc").symlink_to("/etc/passwd"), ""),
    "dangling": (".mcp.json", lambda root: (root / ".mcp.json").symlink_to("later.json"), ""),
    "a denied name, dangling": (
        ".env",
        lambda root: (root / ".env").symlink_to("later"),
        "  deny: [$PROJECT/.env]\n",
    ),
    "in a circle": (".envrc", lambda root: (root / ".envrc").symlink_to(".envrc"), ""),
    "a denied name in a circle": (
        ".env",
        lambda root: (root / ".env").symlink_to(".env"),
        "  deny: [$PROJECT/.env]\n",
    ),
    "above a protected name": (".claude", _above, ""),
    "repository": (".git", _repository, ""),
}


def _prepare(project: Project, case: str, more: str = "") -> str:
    name, make, lines = CASES[case]
    project.policy.write_text(f"{BASE}{lines}{more}")
    make(project.root)
    return name


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("case", CASES)
def test_what_leads_through_a_replaceable_link_is_refused(project: Project, case: str) -> None:
    name = _prepare(project, case)
    ended = project.run("sh", "-c", f"rm -f {name}; ln -s /nowhere {name} || mkdir {name}")
    assert (project.root / name).is_symlink()
    assert (project.root / name).readlink() != Path("/nowhere"), "the link was replaced from inside"
    assert ended.returncode == 125, ended.stderr
    assert f"leads through the link {project.root / name}".encode() in ended.stderr
    assert b"accept_gaps: [{feature: " in ended.stderr


@pytest.mark.needs("bwrap")
def test_a_linked_repository_is_refused_for_the_real_reason(project: Project) -> None:
    _prepare(project, "repository")
    for words in (("run", "--", "true"), ("render",)):
        ended = project.sandwright(*words)
        assert ended.returncode != 0
        assert f"leads through the link {project.root}/.git".encode() in ended.stderr
        assert b"appeared after" not in ended.stderr


@pytest.mark.parametrize("case", CASES)
def test_every_method_says_what_it_makes_of_links(project: Project, case: str) -> None:
    name = _prepare(project, case)
    policy = Policy.load(project.policy).resolve()
    refused = {}
    for method in METHODS:
        try:
            check_expressible(policy, registry.declaration(method))
        except Exception as error:  # noqa: BLE001 - each method refuses more than this
            refused[method] = str(error)
    told = {method for method, said in refused.items() if f"the link {project.root / name}" in said}
    assert told == set(METHODS) - {"seatbelt"}


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("case", sorted(set(CASES) - {"policy", "readonly"}))
def test_what_is_accepted_is_held_where_it_leads(project: Project, case: str) -> None:
    name = _prepare(project, case, ACCEPTED)
    before = project.tree()
    inner = {"repository": "hooks/x", "behind a link": "key"}.get(case, "settings.json")
    script = f"echo evil >{name}; echo evil >{name}/{inner}; cat {name}"
    ended = project.run("sh", "-c", script)
    assert b"sandbox: " not in ended.stderr, ended.stderr
    assert b"content" not in ended.stdout or case != "denied"
    assert b"filesystem.links is degraded" in ended.stderr
    assert project.tree() == before
    held = [path for path in project.root.rglob("*") if path.is_file() and "evil" in path.read_text()]
    assert held == []


@pytest.mark.needs("bwrap")
def test_links_that_nobody_inside_can_replace_stay_usable(project: Project) -> None:
    """They are above the project, in a read-only home, in read-only directories, or no rule names them."""
    real = project.home / "dotfiles" / "ssh"
    real.mkdir(parents=True)
    (real / "id").write_text("a secret")
    (project.home / ".ssh").symlink_to("dotfiles/ssh")
    (project.home / "link").symlink_to("p")
    (project.root / "node_modules").mkdir()
    (project.root / "node_modules" / "tool").symlink_to("/usr")
    (project.root / ".git" / "hooks" / "pre-commit").symlink_to("x")
    (project.root / "CLAUDE.md").symlink_to("AGENTS.md")
    ended = project.run("sh", "-c", "cat ~/.ssh/id; echo written >file", cwd=project.home / "link")
    assert ended.stdout == b""
    assert (project.root / "file").read_text() == "written\n", ended.stderr


@pytest.mark.parametrize(
    ("text", "theirs"),
    covering(
        [
            "filesystem: {write: [$PROJECT/out]}",
            "filesystem: {write: [$PROJECT/out/made]}",
            "filesystem: {write: [], read: [$PROJECT/out]}",
            "filesystem: {write: [$PROJECT/dir/deep]}",
            "filesystem: {write: [], readonly: [$PROJECT/out]}",
            "filesystem: {write: []}\nnetwork: {unix_sockets: [$PROJECT/out/socket]}",
        ],
        ["process: {}\n", None],
    ),
)
def test_a_grant_of_the_own_policy_follows_no_link_that_came_with_the_project(
    project: Project, text: str, theirs: str | None
) -> None:
    """The own policy's grants need no approval, but a stranger's tree chose the target of this one."""
    (project.home / "elsewhere" / "made").mkdir(parents=True)
    (project.root / "out").symlink_to(project.home / "elsewhere")
    (project.root / "dir").mkdir()
    (project.root / "dir" / "deep").symlink_to("../../elsewhere")
    project.policy.write_text(theirs) if theirs else project.policy.unlink()
    own = project.home / ".config" / "sandwright" / "policy.yaml"
    own.parent.mkdir(parents=True)
    own.write_text(f"extends: [strict]\nmethod: bwrap\n{text}\n")
    ended = project.run("touch", str(project.home / "elsewhere" / "made" / "written"))
    assert not (project.home / "elsewhere" / "made" / "written").exists()
    assert ended.returncode == 125, ended.stderr
    assert "which came with the project: name " in ended.stderr.decode()


def test_what_the_project_grants_through_its_link_needs_approval_only(project: Project) -> None:
    (project.home / "elsewhere").mkdir()
    (project.root / "out").symlink_to(project.home / "elsewhere")
    project.policy.write_text("extends: [strict]\nmethod: bwrap\nfilesystem: {write: [$PROJECT/out]}\n")
    assert b"writes ~/elsewhere" in project.run("true").stderr
    ended = project.run("touch", str(project.home / "elsewhere" / "written"), options=("--trust-policy",))
    assert (project.home / "elsewhere" / "written").exists(), ended.stderr


@pytest.mark.parametrize(
    "text",
    [
        "filesystem: {write: [$PROJECT, $PROJECT/out]}",
        "filesystem: {write: [$PROJECT], read: [$PROJECT/out]}",
        "filesystem: {write: [$PROJECT], unprotect: [{path: $PROJECT/out, reason: it is mine}]}",
        "filesystem: {write: [$PROJECT]}\nnetwork: {unix_sockets: [$PROJECT/out/socket]}",
    ],
    ids=["write", "read", "unprotect", "unix_sockets"],
)
def test_a_grant_through_such_a_link_is_an_error(project: Project, text: str) -> None:
    (project.home / "elsewhere").mkdir()
    (project.root / "out").symlink_to(project.home / "elsewhere")
    project.policy.write_text(f"schema: 1\nmethod: bwrap\n{text}\n")
    ended = project.run("true")
    assert ended.returncode == 125, ended.stderr
    said = f"leads through the link {project.root}/out, which the sandbox can replace: name {project.home}"
    assert said.encode() in ended.stderr


@pytest.mark.needs("bwrap")
def test_a_link_that_appears_is_seen_by_the_next_run(project: Project) -> None:
    """A rendering from before the link is not used for the run after it."""
    project.policy.write_text(f"{BASE}  deny: [$PROJECT/secrets]\n")
    assert project.run("sh", "-c", "mkdir c; ln -s c .claude").returncode != 0, "a placeholder keeps the name"
    (project.root / "c").mkdir(exist_ok=True)
    (project.root / ".claude").symlink_to("c")
    ended = project.run("true")
    assert f"leads through the link {project.root}/.claude".encode() in ended.stderr
    assert json.dumps(ended.returncode) != "0"


@pytest.mark.parametrize("name", ["sandbox.yaml", ".git/config", "../.config/sandwright/policy.yaml"])
def test_another_name_of_what_decides_is_refused(project: Project, name: str) -> None:
    """A write to a hard link changes the file; the run is refused even if an earlier one had no such link."""
    project.policy.write_text(BASE)
    user = project.home / ".config/sandwright/policy.yaml"
    user.parent.mkdir(parents=True, exist_ok=True)
    user.write_text("schema: 1\n")
    assert project.run("true").returncode == 0
    (project.root / "second").hardlink_to(project.root / name)
    for words in (("run", "--", "sh", "-c", "echo evil >second"), ("render",)):
        ended = project.sandwright(*words)
        assert ended.returncode != 0
        assert f"{(project.root / name).resolve()} has 2 names (hard links)".encode() in ended.stderr
    assert "evil" not in (project.root / name).read_text()


def test_another_name_of_a_denied_file_is_told(project: Project) -> None:
    project.policy.write_text(f"{BASE}  deny: [$PROJECT/secrets/key]\n")
    (project.root / "second").hardlink_to(project.root / "secrets" / "key")
    ended = project.run("cat", "second")
    assert b"secrets/key has 2 names (hard links), and only this one is protected" in ended.stderr
    assert ended.stdout == b"content", "what is said is so"


def _pointer(root: Path) -> str:
    shutil.rmtree(root / ".git")
    (root / "via").symlink_to(root.parent / "store")
    (root / ".git").write_text("gitdir: via/g\n")
    return "via"


def _include(root: Path) -> str:
    (root / "via").symlink_to(root.parent / "store")
    (root / ".git" / "config").write_text("[include]\n\tpath = ../via/included\n")
    return "via"


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("make", [_pointer, _include], ids=["gitdir", "include"])
def test_a_link_on_the_way_to_git(project: Project, make: Callable[[Path], str]) -> None:
    """Git's files name a path through a directory that is a link in the project."""
    project.policy.write_text(BASE)
    store = project.root.parent / "store" / "g"
    (store / "hooks").mkdir(parents=True)
    for name in ("HEAD", "config"):
        (store / name).write_text("")
    (store.parent / "included").write_text("")
    name = make(project.root)
    ended = project.run("sh", "-c", f"rm {name}; mkdir {name}")
    assert (project.root / name).is_symlink()
    assert f"leads through the link {project.root / name}".encode() in ended.stderr


EXCHANGED = """
import os, sys
from sandwright.session.request import RunRequest
from sandwright.session.run import run
request = RunRequest(["sh", "-c", "echo evil >written"], named=False)
os.rename(request.cwd, f"{request.cwd}-moved")
os.symlink(sys.argv[1], request.cwd)
sys.exit(run(request))
"""


@pytest.mark.needs("bwrap")
def test_the_project_becomes_a_link_while_its_sandbox_is_prepared(project: Project) -> None:
    """The current directory's path had no links when it was read. Later it may lead elsewhere."""
    other = project.home / "other"
    other.mkdir()
    project.policy.unlink()
    ended = subprocess.run(
        [sys.executable, "-P", "-c", EXCHANGED, str(other)],
        cwd=project.root,
        env=project.environ,
        capture_output=True,
        timeout=WAIT,
        check=False,
    )
    assert list(other.iterdir()) == []
    assert b"was replaced by a link while the sandbox was prepared" in ended.stderr
