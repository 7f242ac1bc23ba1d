"""Runs in a review workspace, and the commands that review them.

Tests of session/review.py: the project stays as it is until `sandwright apply`.
Tests of cli/review.py.
Tests of cli/review_prompt.py.
Tests of workspace/hunks.py.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from session.conftest import Project
from session.terminals import terminal
from support.waiting import until

pytestmark = pytest.mark.needs("bwrap")

POLICY = """schema: 1
method: bwrap
workspace: review
filesystem: {write: [$PROJECT], deny: [$PROJECT/secrets]}
"""


@pytest.fixture
def reviewed(project: Project) -> Project:
    project.policy.write_text(POLICY)
    (project.root / "notes").write_text("one\n")
    (project.root / "old").write_text("old\n")
    return project


def _shell(project: Project, script: str, *options: str) -> str:
    ended = project.run("sh", "-c", script, options=options)
    assert ended.returncode == 0, ended.stderr.decode()
    return ended.stdout.decode()


def _tree(root: Path) -> dict[str, str]:
    return {str(each): each.read_text() if each.is_file() else "" for each in sorted(root.rglob("*"))}


def _copies(project: Project) -> list[Path]:
    return [*project.home.glob(".local/state/sandwright/workspaces/*/*/tree")]


def _said(project: Project, *words: str, status: int = 0) -> str:
    ended = project.sandwright(*words)
    assert ended.returncode == status, ended.stderr.decode()
    return ended.stdout.decode() + ended.stderr.decode()


def test_nothing_of_the_project_changes(reviewed: Project) -> None:
    before, touched = _tree(reviewed.root), reviewed.root.stat().st_mtime_ns
    assert (
        _shell(reviewed, "echo two >>notes; rm old; mkdir new; cat notes; pwd")
        == f"one\ntwo\n{reviewed.root}\n"
    )
    assert _tree(reviewed.root) == before
    assert reviewed.root.stat().st_mtime_ns == touched


def test_the_next_run_goes_on(reviewed: Project) -> None:
    _shell(reviewed, "echo two >>notes")
    assert _shell(reviewed, "cat notes") == "one\ntwo\n"


def test_a_run_says_what_waits(reviewed: Project) -> None:
    ended = reviewed.run("sh", "-c", "echo two >>notes")
    assert b"workspace default: 1 change to review" in ended.stderr
    _said(reviewed, "apply")
    assert b"to review" not in reviewed.run("true").stderr


def test_edits_of_the_host_are_taken_over(reviewed: Project) -> None:
    _shell(reviewed, "echo two >>notes")
    (reviewed.root / "old").write_text("newer\n")
    (reviewed.root / "added").write_text("added\n")
    assert _shell(reviewed, "cat old added notes") == "newer\nadded\none\ntwo\n"


def test_changes_are_applied_and_undone(reviewed: Project) -> None:
    before = _tree(reviewed.root)
    _shell(reviewed, "echo two >>notes; rm old; mkdir -p a/b; echo x >a/b/c; chmod +x notes")
    listed = _said(reviewed, "changes")
    assert "M notes" in listed
    assert "D old" in listed
    assert "A a/b/c" in listed
    assert "+two" in _said(reviewed, "changes", "--diff")
    _said(reviewed, "apply")
    assert (reviewed.root / "notes").read_text() == "one\ntwo\n"
    assert os.access(reviewed.root / "notes", os.X_OK)
    assert not (reviewed.root / "old").exists()
    assert (reviewed.root / "a/b/c").read_text() == "x\n"
    assert "0 changes" in _said(reviewed, "changes")
    _said(reviewed, "undo")
    assert _tree(reviewed.root) == before


def test_some_paths_are_applied(reviewed: Project) -> None:
    _shell(reviewed, "echo two >>notes; rm old")
    _said(reviewed, "apply", "notes")
    assert (reviewed.root / "notes").read_text() == "one\ntwo\n"
    assert (reviewed.root / "old").exists()
    assert "has no change" in _said(reviewed, "apply", "absent", status=64)


def test_nobody_is_asked_without_a_terminal(reviewed: Project) -> None:
    _shell(reviewed, "echo two >>notes")
    assert "no terminal" in _said(reviewed, "apply", "--interactive", status=64)
    assert _said(reviewed, "discard", status=3)
    assert (reviewed.root / "notes").read_text() == "one\n"


LINES = [f"line {number}" for number in range(40)]


def _ask(project: Project, *answers: str) -> bytes:
    """The output of `apply --interactive` on a terminal, with an answer to each question."""
    words = [*project.command, "apply", "--interactive"]
    with terminal(words, project.root, project.environ) as shown:
        said = b""
        for answer in answers:
            said += shown.read_until(b"]? ")
            shown.type(answer.encode() + b"\r")
        assert shown.end() == 0, said
        return said


@pytest.fixture
def hunks(reviewed: Project) -> Project:
    """A text with three hunks, and a new file."""
    (reviewed.root / "text").write_text("\n".join(LINES) + "\n")
    _shell(reviewed, "sed -i -e 's/^line 2$/two/' -e 's/^line 20$/twenty/' -e '$d' text; echo x >zz")
    return reviewed


def _text(**changed: str | None) -> str:
    lines = [changed.get(each.replace(" ", "_"), each) for each in LINES]
    return "".join(f"{each}\n" for each in lines if each is not None)


@pytest.mark.parametrize(
    ("answers", "expected", "new", "left"),
    [
        (("n", "y", "n", "y"), _text(line_20="twenty"), True, "1 change"),
        (("?", "y", "d", "n"), _text(line_2="two"), False, "2 changes"),
        (("n", "a", "y"), _text(line_20="twenty", line_39=None), True, "1 change"),
        (("y", "q"), _text(line_2="two"), False, "2 changes"),
        (("a", "y"), _text(line_2="two", line_20="twenty", line_39=None), True, "0 changes"),
        (("d", "q"), _text(), False, "2 changes"),
    ],
    ids=["one", "the first", "the rest", "quit", "all", "none"],
)
def test_hunks_are_chosen_on_a_terminal(
    hunks: Project, answers: tuple[str, ...], expected: str, new: bool, left: str
) -> None:
    said = _ask(hunks, *answers)
    assert b"Apply this hunk of text (1/3) [y,n,q,a,d,?]? " in said
    assert (b"a - apply this hunk and the rest of the file" in said) == ("?" in answers)
    assert (hunks.root / "text").read_text() == expected
    assert (hunks.root / "zz").exists() == new
    assert left in _said(hunks, "changes")
    whole = _text(line_2="two", line_20="twenty", line_39=None)
    assert _shell(hunks, "cat text") == whole, "the copy keeps what was not taken"
    if expected != _text():
        _said(hunks, "undo")
        assert (hunks.root / "text").read_text() == _text()
    _said(hunks, "apply")
    assert (hunks.root / "text").read_text() == whole


def test_a_conflict_stays(reviewed: Project) -> None:
    _shell(reviewed, "echo two >>notes")
    (reviewed.root / "notes").write_text("of the host\n")
    assert "conflict: notes" in _said(reviewed, "apply", status=12)
    assert (reviewed.root / "notes").read_text() == "of the host\n"


def test_a_run_names_what_the_project_changed_too(reviewed: Project) -> None:
    """The copy keeps its version, so the command does not see the edit of the host."""
    _shell(reviewed, "echo two >>notes; for i in 1 2 3 4 5 6; do echo inside >n$i; done")
    assert b"changed in the project" not in reviewed.run("true").stderr
    (reviewed.root / "notes").write_text("of the host\n")
    said = reviewed.run("cat", "notes")
    assert said.stdout == b"one\ntwo\n"
    assert (
        b"workspace default: changed in the project, too, so the copy keeps its version: notes\n"
        in said.stderr
    )
    for number in range(1, 7):
        (reviewed.root / f"n{number}").write_text("of the host\n")
    assert b"its version: n1, n2, n3, n4, n5 and 2 more\n" in reviewed.run("true").stderr
    (reviewed.root / "notes").write_text("one\ntwo\n")
    assert b"its version: n1, n2, n3, n4, n5 and 1 more\n" in reviewed.run("true").stderr, "both agree now"


def test_what_tools_run_is_held_back(reviewed: Project) -> None:
    _shell(
        reviewed,
        "mkdir .vscode; echo {} >.vscode/tasks.json; echo x >.envrc; echo two >>notes; git init -q sub || :",
    )
    said = _said(reviewed, "apply", status=12)
    assert "held back" in said
    assert ".envrc: direnv" in said
    assert not (reviewed.root / ".envrc").exists()
    assert not (reviewed.root / ".vscode").exists()
    assert (reviewed.root / "notes").read_text() == "one\ntwo\n"
    assert "name the paths" in _said(reviewed, "apply", "--held", status=64)
    _said(reviewed, "apply", "--held", ".envrc")
    assert (reviewed.root / ".envrc").read_text() == "x\n"


def test_new_objects_are_one_line_of_a_diff(reviewed: Project) -> None:
    shutil.rmtree(reviewed.root / ".git")
    subprocess.run(["git", "init", "-q", reviewed.root], check=True, timeout=60)
    _shell(reviewed, "git add notes old && git -c user.name=a -c user.email=a@b.invalid commit -qm x")
    said = _said(reviewed, "changes", "--diff")
    assert ".git/objects: objects of Git: 4 added (" in said
    assert "diff a/.git/objects/" not in said
    assert "diff a/.git/refs/heads/" in said


def test_what_is_behind_a_link_to_it_is_held_back(reviewed: Project) -> None:
    (reviewed.root / "env/bin").mkdir(parents=True)
    (reviewed.root / ".venv").symlink_to("env")
    _shell(reviewed, "echo x >env/bin/python; echo two >>notes")
    said = _said(reviewed, "apply", status=12)
    assert "env/bin/python: it is .venv/bin/python, too, by a link: Python" in said
    assert not (reviewed.root / "env/bin/python").exists()
    assert (reviewed.root / "notes").read_text() == "one\ntwo\n"
    _said(reviewed, "apply", "--held", "env")
    assert (reviewed.root / "env/bin/python").read_text() == "x\n"


def test_a_run_leaves_no_placeholder_in_the_copy(reviewed: Project) -> None:
    """There is no change, although the run has protected missing names, also in repositories."""
    reviewed.policy.write_text(POLICY.replace("deny:", "readonly: [$PROJECT/absent/x], deny:"))
    _shell(reviewed, "true")
    assert "0 changes" in _said(reviewed, "changes")


def test_a_denied_path_is_not_copied(reviewed: Project) -> None:
    ended = reviewed.run("cat", "secrets/key")
    assert ended.returncode != 0
    assert _copies(reviewed)
    assert not [*_copies(reviewed)[0].rglob("key")]


def test_a_path_that_is_allowed_in_a_denied_one_is_copied(reviewed: Project) -> None:
    reviewed.policy.write_text(POLICY.replace("{write", "{read: [/, $PROJECT/secrets/shown], write"))
    (reviewed.root / "secrets/shown").write_text("shown")
    assert _shell(reviewed, "cat secrets/shown") == "shown"
    (copy,) = _copies(reviewed)
    assert sorted(each.name for each in (copy / "secrets").iterdir()) == ["shown"]


def test_no_sandbox_sees_the_copies(reviewed: Project) -> None:
    """This includes a policy without a preset that denies them. The control: the parent is visible."""
    text = POLICY.replace("{write", "{read: [/, $HOME], write")
    reviewed.policy.write_text(f"{text}extends: []\n")
    _shell(reviewed, "true", "--trust-policy")
    (copy,) = _copies(reviewed)
    for options in ((), ("--set", "workspace=live")):
        assert "sandwright" in _shell(
            reviewed, f"ls {reviewed.home}/.local/state", "--trust-policy", *options
        )
        assert reviewed.run("ls", str(copy), options=("--trust-policy", *options)).returncode != 0
    granted = text.replace("$HOME]", "$HOME/.local/state/sandwright/workspaces]")
    reviewed.policy.write_text(granted)
    assert b"no policy can grant it" in reviewed.run("true").stderr


def test_live_is_an_option_away(reviewed: Project) -> None:
    _shell(reviewed, "echo two >>notes", "--set", "workspace=live")
    assert (reviewed.root / "notes").read_text() == "one\ntwo\n"


def test_the_option_reviews_any_policy(reviewed: Project) -> None:
    reviewed.policy.write_text(POLICY.replace("review", "live"))
    _shell(reviewed, "echo two >>notes", "--review")
    assert (reviewed.root / "notes").read_text() == "one\n"


def test_workspaces_have_names(reviewed: Project) -> None:
    _shell(reviewed, "echo a >>notes", "--workspace", "a")
    _shell(reviewed, "echo b >>notes", "--workspace", "b")
    assert _shell(reviewed, "cat notes", "--workspace", "b") == "one\nb\n"
    listed = json.loads(_said(reviewed, "workspaces", "--json"))
    assert [each["name"] for each in listed] == ["a", "b"]
    _said(reviewed, "apply", "--workspace", "a")
    assert (reviewed.root / "notes").read_text() == "one\na\n"
    assert "conflict" in _said(reviewed, "apply", "--workspace", "b", status=12)
    _said(reviewed, "discard", "--yes", "--workspace", "b")
    assert "has no workspace b" in _said(reviewed, "changes", "--workspace", "b", status=64)


def test_a_copy_that_was_not_completed_has_no_changes(reviewed: Project) -> None:
    """An example is a copy during which a program exchanged directories of the project for links."""
    _shell(reviewed, "echo two >>notes")
    (copy,) = _copies(reviewed)
    copy.with_name("base").unlink()
    assert ": 0 changes\n" in _said(reviewed, "changes")
    assert "has no copy yet" in _said(reviewed, "apply", status=13)
    assert (reviewed.root / "notes").read_text() == "one\n"
    assert _shell(reviewed, "cat notes") == "one\n"


def test_a_workspace_serves_one_run_at_a_time(reviewed: Project) -> None:
    with subprocess.Popen(
        [*reviewed.command, "run", "--", "sh", "-c", "echo up; read line"],
        cwd=reviewed.root,
        env=reviewed.environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"up\n"
        second = reviewed.run("true")
        assert second.returncode == 125
        assert b"workspace default" in second.stderr
        assert reviewed.sandwright("apply").returncode != 0
        assert reviewed.run("true", options=("--workspace", "other")).returncode == 0
        running.communicate(b"\n", timeout=60)
    assert running.returncode == 0


def test_a_detached_run_is_reviewed(reviewed: Project) -> None:
    _said(reviewed, "run", "--detach", "--name", "d", "--", "sh", "-c", "echo two >>notes")
    until(lambda: b"M notes" in reviewed.sandwright("changes").stdout, "the change is not listed")
    assert (reviewed.root / "notes").read_text() == "one\n"


@pytest.mark.parametrize("method", ["podman", "user"])
def test_a_method_that_can_not_is_refused(reviewed: Project, method: str) -> None:
    ended = reviewed.run("true", options=("--method", method))
    assert ended.returncode == 125
    assert (reviewed.root / "notes").read_text() == "one\n"


def test_shims_are_refused(reviewed: Project) -> None:
    reviewed.policy.write_text(f"{POLICY}credentials: {{shims: {{git: {{allow: [status]}}}}}}\n")
    ended = reviewed.run("true")
    assert ended.returncode == 125
    assert b"shims" in ended.stderr


def test_refused_paths_are_explained(reviewed: Project) -> None:
    ended = reviewed.run("sh", "-c", "echo x >>sandbox.yaml", options=("--explain-denials",))
    assert b"refused: to write" in ended.stderr
    assert b"changed meanwhile" not in ended.stderr


def test_rendered_artifacts_are_those_of_the_policy(reviewed: Project) -> None:
    reviewed.policy.write_text(f"{POLICY}  # protected\n".replace("deny:", "protect: [deploy], deny:"))
    _said(reviewed, "render")
    ended = reviewed.run("true", options=("--rendered",))
    assert ended.returncode == 0, ended.stderr.decode()


def test_names_of_its_files_in_a_live_directory_are_noted(reviewed: Project) -> None:
    reviewed.policy.write_text(POLICY.replace("[$PROJECT]", f"[$PROJECT, {reviewed.home}/live]"))
    (reviewed.home / "live").mkdir()
    (reviewed.home / "live/notes").hardlink_to(reviewed.root / "notes")
    ended = reviewed.run("true", options=("--trust-policy",))
    assert b"hard links: 1 file of the project" in ended.stderr


def test_a_linked_worktree_is_refused(reviewed: Project) -> None:
    main = reviewed.home / "main"
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b.invalid")
    for words in (("init", "-q", main), ("-C", main, "commit", "-q", "--allow-empty", "-m", "x")):
        subprocess.run([*git, *map(str, words)], check=True, timeout=60)
    tree = reviewed.home / "tree"
    subprocess.run(["git", "-C", main, "worktree", "add", "-q", tree], check=True, timeout=60)
    (tree / "sandbox.yaml").write_text(POLICY)
    ended = reviewed.sandwright("run", "--", "true", cwd=tree)
    assert ended.returncode == 125
    assert b"linked work tree" in ended.stderr


def test_a_rendered_launcher_does_not_start_without_the_copy(reviewed: Project) -> None:
    _said(reviewed, "render")
    launcher = next(reviewed.root.glob(".sandbox/**/launch"))
    ended = subprocess.run(
        [launcher, "true"], capture_output=True, check=False, timeout=60, cwd=reviewed.root
    )
    assert ended.returncode == 125
    assert b"workspace: review" in ended.stderr
