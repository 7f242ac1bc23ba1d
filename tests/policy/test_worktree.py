"""A linked work tree's repository is opened if both ends of the link agree, and only for commits.

Tests of policy/git_worktree.py.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sandwright import process
from sandwright.api import Policy
from sandwright.errors import DocumentError, RenderError
from sandwright.inputs import LiveHost, changed
from sandwright.methods.registry import render
from sandwright.policy.collect import collect_facts
from sandwright.policy.facts import HostFacts
from sandwright.policy.resolved import ResolvedPolicy

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="what it records differs by system"),
    pytest.mark.needs("git"),
]
GRANT = "filesystem: {git: [worktree]}"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a repository `main` and its linked work trees `tree` and `other`."""
    git = ["git", "-C", str(tmp_path / "main"), "-c", "user.name=n", "-c", "user.email=e@example.org"]
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    process.run("git", "init", "-q", tmp_path / "main", env=environ)
    process.run(*git, "commit", "-q", "--allow-empty", "-m", "x", env=environ)
    for name in ("tree", "other"):
        process.run(*git, "worktree", "add", "-q", tmp_path / name, env=environ)
    (tmp_path / "main" / ".git" / "modules").mkdir()
    return tmp_path


def _facts(home: Path, project: str = "tree", inputs: LiveHost | None = None) -> HostFacts:
    policy = Policy.from_text(GRANT)
    return collect_facts(
        policy, project=home / project, tmp="/nowhere", environ={"HOME": str(home)}, inputs=inputs
    )


def _policy(home: Path, text: str = GRANT, project: str = "tree") -> ResolvedPolicy:
    policy = Policy.from_text(text)
    return policy.resolve(
        collect_facts(policy, project=home / project, tmp="/nowhere", environ={"HOME": str(home)})
    )


def test_what_is_opened(home: Path) -> None:
    policy, git = _policy(home), f"{home}/main/.git"
    for name in (
        "objects/ab/x",
        "refs/heads/x",
        "logs/HEAD",
        "packed-refs.lock",
        "worktrees/tree/index.lock",
    ):
        assert policy.is_path_writable(f"{git}/{name}"), name
    for name in (
        "config", "config.worktree", "commondir", "hooks/post-commit", "info/attributes",
        "remotes/origin", "branches/origin",
        "objects/info/alternates", "modules/x/config", "worktrees/other/index", "worktrees/new/gitdir",
        "worktrees/tree/gitdir", "worktrees/tree/commondir", "worktrees/tree/config.worktree",
    ):  # fmt: skip
        assert not policy.is_path_writable(f"{git}/{name}"), name
    assert not policy.is_path_writable(f"{home}/main/file")
    assert not policy.is_path_writable(f"{home}/tree/.git")
    assert HostFacts.from_json(policy.facts.to_json()) == policy.facts


def test_nothing_without_the_grant_or_in_the_main_work_tree(home: Path) -> None:
    assert not _policy(home, "").is_path_writable(f"{home}/main/.git/objects/x")
    assert _facts(home, "main").git_worktree == ()
    assert not _policy(home, GRANT, "main").is_path_writable(f"{home}/main/.git/config")


@pytest.mark.parametrize("link", ["../tree/evil", "../../elsewhere", "sub/../../tree/evil", "../a'$(id)"])
def test_an_index_that_leads_out_is_refused(home: Path, link: str) -> None:
    """A run in the linked work tree wrote it; Git follows it but makes none. `main` has the grant, too."""
    _policy(home)
    _plant_entry(home / "main" / ".git" / "index", link)
    with pytest.raises(DocumentError, match=r"the index of .*/main has the entry") as refused:
        _policy(home)
    assert f"rm {home}/main/.git/index" in str(refused.value)
    assert f"rm --cached {shlex.quote(link)}," in str(refused.value), "a program inside chose the name"
    _policy(home, "")


def _plant_entry(index: Path, name: str) -> None:
    """Write an index with one entry, a repository's, as a program other than Git might (index-format)."""
    entry = bytes(24) + (0o160000).to_bytes(4, "big") + bytes(12) + b"\1" * 20 + len(name).to_bytes(2, "big")
    body = b"DIRC" + (2).to_bytes(4, "big") + (1).to_bytes(4, "big") + entry + name.encode()
    body += bytes(8 - (62 + len(name)) % 8)
    index.write_bytes(body + hashlib.sha1(body, usedforsecurity=False).digest())


def _planted(home: Path) -> None:
    """A stranger put a `.git` file into another project; it names a repository of the user's."""
    shutil.copy(home / "tree" / ".git", home / "planted" / ".git")


def _own_directory(home: Path) -> None:
    """The directory in the `.git` file is the stranger's own, and leads to the repository."""
    own = home / "planted" / "worktrees" / "tree"
    own.mkdir(parents=True)
    (own / "commondir").write_text(f"{home}/main/.git\n")
    (own / "gitdir").write_text(f"{home}/planted/.git\n")
    (home / "planted" / ".git").write_text(f"gitdir: {own}\n")


def _other_common(home: Path) -> None:
    """The common directory is another one."""
    shutil.copytree(home / "main" / ".git", home / "victim")
    shutil.move(home / "tree", home / "planted")
    git = home / "main" / ".git" / "worktrees" / "tree"
    (git / "gitdir").write_text(f"{home}/planted/.git\n")
    (git / "commondir").write_text(f"{home}/victim\n")


def _other_directory(home: Path) -> None:
    (home / "planted" / ".git").write_text(f"gitdir: {home}/main/.git\n")


def _submodule(home: Path) -> None:
    shutil.copytree(
        home / "main" / ".git" / "worktrees" / "tree", home / "main" / ".git" / "modules" / "tree"
    )
    (home / "planted" / ".git").write_text(f"gitdir: {home}/main/.git/modules/tree\n")


def _linked_objects(home: Path) -> None:
    shutil.move(home / "tree", home / "planted")
    git = home / "main" / ".git"
    (git / "worktrees" / "tree" / "gitdir").write_text(f"{home}/planted/.git\n")
    (git / "objects").rename(home / "objects")
    (git / "objects").symlink_to(home / "objects")


def _everybodys(home: Path) -> None:
    shutil.move(home / "tree", home / "planted")
    git = home / "main" / ".git" / "worktrees" / "tree"
    (git / "gitdir").write_text(f"{home}/planted/.git\n")
    (git / "gitdir").chmod(0o666)


def _nothing(home: Path) -> None:
    (home / "planted" / ".git").write_text("gitdir: /nonexistent\n")


def _two_lines(home: Path) -> None:
    (home / "planted" / ".git").write_text(f"gitdir: {home}/main/.git/worktrees/tree\ngitdir: /x\n")


@pytest.mark.parametrize(
    ("lie", "message"),
    [
        (_planted, "worktrees/tree/gitdir doesn't lead back to {home}/planted/.git"),
        (_own_directory, "worktrees/tree/commondir doesn't lead to {home}/planted"),
        (_other_common, "worktrees/tree/commondir doesn't lead to {home}/main/.git"),
        (_other_directory, "planted/.git does not lead to the directory of a linked work tree"),
        (_submodule, "planted/.git does not lead to the directory of a linked work tree"),
        (_linked_objects, "main/.git/objects is no directory"),
        (_everybodys, "worktrees/tree/gitdir doesn't belong to you, or is world-writable"),
        (_nothing, "planted/.git does not lead to the directory of a linked work tree"),
        (_two_lines, "planted/.git does not lead to the directory of a linked work tree"),
    ],
    ids=lambda each: each.__name__.strip("_") if callable(each) else "",
)
def test_a_link_that_lies_is_refused(home: Path, lie: Callable[[Path], None], message: str) -> None:
    if lie not in (_other_common, _linked_objects, _everybodys):
        (home / "planted").mkdir()
    lie(home)
    with pytest.raises(DocumentError, match="cannot be granted") as caught:
        _policy(home, GRANT, "planted")
    assert message.format(home=home) in str(caught.value)
    silent = _policy(home, "", "planted")
    assert not silent.is_path_writable(f"{home}/main/.git/objects/x")


@pytest.mark.skipif(os.getuid() != 0, reason="a file is given to another user by root")
def test_a_repository_of_another_user_is_refused(home: Path) -> None:
    os.chown(home / "main" / ".git" / "worktrees" / "tree", 12345, 12345)
    with pytest.raises(DocumentError, match="worktrees/tree doesn't belong to you"):
        _policy(home)


def test_a_repository_that_holds_more_is_refused(home: Path) -> None:
    """A bare repository in the home itself: write access to it would be write access to the home."""
    git = home / "main" / ".git"
    for each in list(git.iterdir()):
        shutil.move(each, home / each.name)
    (home / "tree" / ".git").write_text(f"gitdir: {home}/worktrees/tree\n")
    (home / "worktrees" / "tree" / "commondir").write_text("../..\n")
    with pytest.raises(DocumentError, match="holds more than a repository"):
        _policy(home)


def test_a_hidden_repository_stays_hidden(home: Path) -> None:
    with pytest.raises(DocumentError, match=r"main/\.git is hidden: deny ~/main"):
        _policy(home, "filesystem: {git: [worktree], deny: [~/main]}")


def test_a_link_that_changes_makes_the_rendering_stale(home: Path) -> None:
    inputs = LiveHost()
    _facts(home, inputs=inputs)
    assert changed(inputs.recording()) is None
    (home / "main" / ".git" / "worktrees" / "tree" / "gitdir").write_text("/elsewhere/.git\n")
    assert changed(inputs.recording()) is not None


def test_configuration_is_opened_by_its_own_grant(home: Path) -> None:
    text = "filesystem: {git: [worktree, config]}"
    for project in ("tree", "main"):
        policy = _policy(home, text, project)
        assert policy.is_path_writable(f"{home}/main/.git/config")
        assert not policy.is_path_writable(f"{home}/main/.git/hooks/x")
    assert not _policy(home, "filesystem: {git: [config], protect: [.git/config]}", "main").is_path_writable(
        f"{home}/main/.git/config"
    ), "what the same layer protects stays protected"


def test_explain_names_the_grant(home: Path) -> None:
    answer = Policy.from_text("").explain("write", f"{home}/main/.git/objects/x", _facts(home))
    assert "filesystem.git: [worktree]" in answer.answer.void
    main = Policy.from_text("").explain("write", "$PROJECT/.git/config", _facts(home, "main"))
    assert "filesystem.git: [config]" in main.answer.void


def test_a_method_that_can_not_hold_it_says_what_to_accept(home: Path) -> None:
    """Landlock removes no right within the repository's directory, so its other work trees stay open."""
    gaps = ["attributes", "protect"]
    files = "{read: [/usr], write: [$PROJECT], git: [worktree]}"
    text = f"method: landlock\nnetwork: {{mode: none}}\nfilesystem: {files}\n"

    def rendered(*more: str) -> None:
        accepted = [f"filesystem.{each}" for each in (*gaps, *more)] + ["process.kernel"]
        rows = "".join(f"  - {{feature: {each}, method: landlock, reason: x}}\n" for each in accepted)
        render(_policy(home, f"{text}accept_gaps:\n{rows}"), "landlock")

    with pytest.raises(
        RenderError, match=r"cannot enforce filesystem.readonly \(readonly \S+/main/.git/modules"
    ):
        rendered()
    rendered("readonly")
