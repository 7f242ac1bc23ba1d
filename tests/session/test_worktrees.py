"""Git inside as people use it: linked work trees, several runs in one repository, and the host's Git
afterwards.

Tests of launcher/source/watch_index.c: an index that Git must not use ends the run.
Tests of session/git_hints.py.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from session.conftest import Project
from support.thorough import representative
from support.waiting import until

pytestmark = pytest.mark.needs("bwrap", "git")

POLICY = "schema: 1\nmethod: bwrap\nfilesystem: {git: [worktree]}\n"


@pytest.fixture
def trees(project: Project) -> list[Project]:
    """The work trees of one repository: the main one, and two linked ones."""
    project.environment |= {"SANDWRIGHT_TRUST": "1", "GIT_CONFIG_NOSYSTEM": "1"}
    roots = [project.home / name for name in ("main", "one", "two")]
    _git(project, project.home, "init", "-q", "-b", "main", "main")
    for name, value in (("user.name", "Ada"), ("user.email", "ada@example.org")):
        _git(project, roots[0], "config", name, value)
    _git(project, roots[0], "commit", "-q", "--allow-empty", "-m", "first")
    for root in roots[1:]:
        _git(project, roots[0], "worktree", "add", "-q", str(root))
    for root in roots:
        (root / "sandbox.yaml").write_text(POLICY)
    return [replace(project, root=root) for root in roots]


def _git(project: Project, cwd: Path, *words: str) -> str:
    ended = subprocess.run(
        ("git", *words),
        cwd=cwd,
        env=project.environ,
        check=True,
        capture_output=True,
        text=True,
        errors="replace",
    )
    return ended.stdout


def _names(directory: Path) -> set[str]:
    return {path.relative_to(directory).as_posix() for path in directory.rglob("*")}


def test_runs_in_work_trees_of_one_repository(trees: list[Project]) -> None:
    """The end of one removes no protection of another: their placeholders are the same."""
    main, one, two = trees
    git = main.root / ".git"
    before = _names(git)
    script = (
        "git commit -q --allow-empty -m one; touch ready; until [ -e go ]; do sleep 0.05; done; "
        f"echo /evil >{git}/commondir; echo x >{git}/config.worktree; git commit -q --allow-empty -m again"
    )
    running = one.start("sh", "-c", script)
    until((one.root / "ready").exists, "the first run didn't begin", within=120)
    assert (git / "commondir").read_text() == ".\n"
    for other in (two, main):
        ended = other.run("git", "commit", "-q", "--allow-empty", "-m", other.root.name)
        assert ended.returncode == 0, ended.stderr
        assert (git / "commondir").read_text() == ".\n"
    (one.root / "go").touch()
    _, told = running.communicate(timeout=120)
    assert running.returncode == 0, told
    assert told.count(b"Permission denied") + told.count(b"Read-only file system") == 2, told
    assert _git(main, one.root, "log", "-2", "--format=%s") == "again\none\n"
    assert _git(main, main.root, "log", "-1", "--format=%s") == "main\n"
    made = {name for name in _names(git) - before if not name.startswith(("objects/", "refs/", "logs/"))}
    assert {name.rpartition("/")[2] for name in made} <= {"COMMIT_EDITMSG", "logs", "HEAD"}


EVIL = """
import hashlib, os, sys, time

def evil(mode=b"\\0\\0\\xe0\\0", name=b"../one/evil"):
    entry = bytes(24) + mode + bytes(12) + b"\\1" * 20 + bytes([0, len(name)])
    body = b"DIRC\\0\\0\\0\\2\\0\\0\\0\\1" + entry + name + bytes(8 - (62 + len(name)) % 8)
    return body + hashlib.sha1(body).digest()

index = sys.argv[1]
"""
"""The index that `git status` follows out of the main work tree."""

TRY = """
def tried(action):
    try:
        action()
    except OSError as error:
        print(error.strerror, flush=True)
    else:
        print("done", flush=True)

def all_ways():
    open(index + ".new", "wb").write(evil())
    tried(lambda: open(index, "r+b"))
    tried(lambda: os.rename(index + ".new", index))
    tried(lambda: os.unlink(index))
    tried(lambda: os.link(index, index + ".linked"))

all_ways()
for turn in range(3):
    open("ready", "w").close()
    while os.path.exists("ready"):
        time.sleep(0.01)
    all_ways()
"""

STORMS = {
    "renames": """
while True:
    open(index + ".new", "wb").write(evil())
    try:
        os.rename(index + ".new", index)
    except OSError:
        pass
""",
    "a link to the lock": """
while True:
    try:
        os.link(index + ".lock", index + ".linked")
    except OSError:
        continue
    time.sleep(0.1)
    open(index + ".linked", "r+b").write(evil())
    os.unlink(index + ".linked")
""",
    "the lock held open": """
while True:
    try:
        held = open(index + ".lock", "r+b", buffering=0)
    except OSError:
        continue
    until = time.monotonic() + 0.3
    while time.monotonic() < until:
        held.seek(0)
        held.write(evil())
    held.close()
""",
    "the lock written after it was one": """
while True:
    try:
        held = open(index + ".lock", "r+b", buffering=0)
    except OSError:
        continue
    while os.path.exists(index + ".lock"):
        pass
    held.write(evil(b"\\0\\1\\xe1\\xff"))
    held.truncate(len(evil()))
    held.close()
""",
}


def _touched(main: Project, turn: int) -> None:
    """Let Git on the host write the index again: for a new file, and for one with new times."""
    (main.root / f"file{turn}").write_text("x")
    _git(main, main.root, "add", f"file{turn}")
    os.utime(main.root / f"file{turn}", (turn, turn))
    _git(main, main.root, "status", "--short")


def test_the_index_of_the_main_work_tree_can_t_be_changed_in_a_linked_one(trees: list[Project]) -> None:
    """This holds after Git on the host has replaced it, which removes each mount on it; the run goes on."""
    main, one, _ = trees
    _touched(main, 9)
    index = main.root / ".git" / "index"
    running = one.start("python3", "-c", EVIL + TRY, str(index))
    for turn in range(3):
        until((one.root / "ready").exists, "the run didn't come so far", within=120)
        before = index.stat().st_ctime_ns
        _touched(main, turn)
        assert index.stat().st_ctime_ns != before
        time.sleep(0.3)
        (one.root / "ready").unlink()
    said, told = running.communicate(timeout=120)
    assert running.returncode == 0, told
    assert (
        said.decode().splitlines()
        == [
            "Read-only file system",
            "Device or resource busy",
            "Device or resource busy",
            "Invalid cross-device link",
        ]
        * 4
    )
    assert _git(main, main.root, "ls-files").split() == ["file0", "file1", "file2", "file9"]


@pytest.mark.parametrize("storm", representative(STORMS, "renames", "the lock held open"))
def test_who_wins_the_moment_after_a_rename_is_ended(trees: list[Project], storm: str) -> None:
    """The lock that Git on the host writes becomes the index, and can be opened inside before that."""
    main, one, _ = trees
    _touched(main, 0)
    index = main.root / ".git" / "index"
    running = one.start("python3", "-c", EVIL + STORMS[storm], str(index))
    turns = itertools.count(1)
    until(lambda: running.poll() is not None or _replace_index(main, next(turns)), "no write was caught")
    _, told = running.communicate(timeout=120)
    assert running.returncode == 137, told
    assert b"can no longer be trusted" in told
    assert not index.exists() or b"../one/evil" not in index.read_bytes()


def _replace_index(main: Project, turn: int) -> bool:
    """Replace the index once, and give the sandbox time to write through a link to its lock."""
    (main.root / "file0").write_text(f"{turn}")
    with contextlib.suppress(subprocess.CalledProcessError):  # the sandbox can make Git fail
        _git(main, main.root, "add", "file0")
    time.sleep(0.3)
    return False


@pytest.mark.parametrize("mode", ["", "b'\\0\\0\\xe0\\1'", "b'\\0\\1\\xe1\\xff'"])
def test_an_index_that_leads_out_is_reported_where_nothing_holds_it(trees: list[Project], mode: str) -> None:
    """Without an index at the start there is nothing to protect."""
    main, one, _ = trees
    index = main.root / ".git" / "index"
    index.unlink()
    ended = one.run("python3", "-c", EVIL + f"open(index, 'wb').write(evil({mode}))", str(index))
    assert ended.returncode == 0, ended.stderr
    reported = f"{index}: leads Git out of {main.root}, to {one.root}/evil: `git status`"
    assert reported in ended.stderr.decode()
    again = one.run("true")
    assert again.returncode == 125
    assert b"has the entry '../one/evil'" in again.stderr


def test_a_stranger_s_word_for_a_repository_is_asked_for(trees: list[Project]) -> None:
    _, one, _ = trees
    one.environment["SANDWRIGHT_TRUST"] = ""
    ended = one.run("git", "commit", "-q", "--allow-empty", "-m", "x")
    assert ended.returncode == 125
    assert b"allows more than the preset default: " in ended.stderr
    assert b"~/main/.git" in ended.stderr


def test_without_the_grant_it_is_named(trees: list[Project]) -> None:
    _, one, _ = trees
    one.policy.write_text("schema: 1\nmethod: bwrap\n")
    ended = one.run("git", "commit", "-q", "--allow-empty", "-m", "x")
    assert ended.returncode == 128
    assert b"add filesystem.git: [worktree]" in ended.stderr


def test_configuration_that_was_granted_is_told_of(trees: list[Project]) -> None:
    main, _, _ = trees
    main.policy.write_text("schema: 1\nmethod: bwrap\nfilesystem: {git: [config]}\n")
    ended = main.run("git", "commit", "-q", "--allow-empty", "-m", "x")
    assert ended.returncode == 0, ended.stderr
    assert b"config: programs of the host" not in ended.stderr
    assert b"chooses programs that the host's Git runs" in ended.stderr
    ended = main.run("git", "config", "core.fsmonitor", "./evil")
    assert ended.returncode == 0, ended.stderr
    assert f"{main.root}/.git/config: programs of the host may run what it says".encode() in ended.stderr


def test_an_account_shares_the_repository_of_a_linked_work_tree(trees: list[Project]) -> None:
    """This only tests the plan: the grant would open nothing that the account could not write."""
    main, one, _ = trees
    one.policy.write_text(POLICY.replace("bwrap", "user"))
    planned = one.sandwright("account-setup")
    assert planned.returncode == 3, planned.stderr
    shared = [line.split()[1] for line in planned.stdout.decode().splitlines() if line.startswith("share ")]
    assert shared == [str(one.root), f"{main.root}/.git"]


WRITES_CONFIGURATION = {
    "config a.b c": True,
    "branch -u other": True,
    "remote add o x": True,
    "config --get a.b": False,
    "config --global --unset a.b": False,
    "remote show none": False,
    "branch --list other": False,
    "rev-parse none": False,
}


def test_a_command_that_writes_configuration_and_fails_names_the_way_out(trees: list[Project]) -> None:
    main, _, _ = trees
    main.policy.write_text("schema: 1\nmethod: bwrap\n")
    _git(main, main.root, "branch", "other")
    for command, told in WRITES_CONFIGURATION.items():
        ended = main.run("git", *command.split())
        found = b"outside, or add filesystem.git: [config]" in ended.stderr
        assert found is told, (command, ended.stderr)
    main.policy.write_text(POLICY.replace("worktree", "config"))
    for command in WRITES_CONFIGURATION:
        ended = main.run("git", *command.split())
        assert b"outside, or add" not in ended.stderr, (command, ended.stderr)


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("git config a.b c || true", 1),
        ("git branch -q other; git branch -q -u other", 1),
        ("git commit -q --allow-empty -m x; git config --get user.name", 0),
    ],
)
def test_a_script_that_writes_configuration_is_told_the_way_out(
    trees: list[Project], script: str, told: int
) -> None:
    main, _, _ = trees
    main.policy.write_text("schema: 1\nmethod: bwrap\n")
    ended = main.run("sh", "-c", script)
    assert ended.stderr.count(b"outside, or add filesystem.git: [config]") == told, ended.stderr


def test_a_work_tree_that_is_added_from_a_linked_one_names_the_way_out(trees: list[Project]) -> None:
    _, one, _ = trees
    ended = one.run("git", "worktree", "add", "inner")
    assert ended.returncode != 0
    assert b"which is closed: run this outside" in ended.stderr, ended.stderr
