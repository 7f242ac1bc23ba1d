"""Changes of a review workspace that `apply` holds back.

Tests of workspace/withheld.py: hooks, settings of editors and agents, links that lead out, odd names.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sandwright.api import Policy
from sandwright.policy.autorun import NAMES
from sandwright.policy.collect import collect_facts
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.workspace.base import Entry
from sandwright.workspace.changes import Change, NewEntry
from sandwright.workspace.withheld import GIT_WORK, NEW, REVIEWED, Withheld, leads_out, sort_changes

POLICY = """schema: 1
method: bwrap
workspace: review
filesystem:
  write: [$PROJECT]
  deny: [$PROJECT/secret]
  readonly: [$PROJECT/kept]
  protect: [deploy, ops/run]
"""


@pytest.fixture
def resolved(tmp_path: Path) -> ResolvedPolicy:
    (tmp_path / "p").mkdir()
    policy = Policy.from_text(POLICY)
    return policy.resolve(collect_facts(policy, project=tmp_path / "p", environ={"HOME": str(tmp_path)}))


def _file(path: str | bytes, *, new: bool = True, mode: int = 0o644) -> Change:
    old = None if new else Entry("file", 0o644, 1, "0" * 64)
    name = path.encode() if isinstance(path, str) else path
    return Change(name, "added" if new else "changed", old, NewEntry("file", mode, 1))


def _held(change: Change, resolved: ResolvedPolicy, *known: bytes) -> Withheld | None:
    free, held = sort_changes([change], [change.path, *known], resolved)
    assert len(free) + len(held) == 1
    return held[0] if held else None


@pytest.mark.parametrize(
    "path", ["src/a.py", "README.md", "a/b/c/d", "settings.json", "vscode/tasks.json", "pth"]
)
def test_work_is_free(resolved: ResolvedPolicy, path: str) -> None:
    assert _held(_file(path), resolved) is None
    assert _held(_file(path, new=False), resolved) is None


HOLDING = [each for each in NAMES if each.decision in ("protect", "existing", "report")]


@pytest.mark.parametrize("name", [each.path for each in HOLDING])
def test_what_a_tool_runs_by_itself_is_held(resolved: ResolvedPolicy, name: str) -> None:
    """The names lie at the top, below it, in a directory, and in another case."""
    plain = name.replace("*", "x")
    for path in (plain, f"deep/er/{plain}", f"{plain}/inner", plain.upper()):
        found = _held(_file(path), resolved)
        assert found is not None, path
        assert not found.refused, path


@pytest.mark.parametrize("name", [*REVIEWED, "lib/x.pth"])
def test_what_a_person_reviews_is_held(resolved: ResolvedPolicy, name: str) -> None:
    for path in (name, f"a/{name}", f"{name}/inner") if name in REVIEWED else (name,):
        assert _held(_file(path, new=False), resolved), path


@pytest.mark.parametrize("name", NEW)
def test_some_names_are_held_where_they_are_new(resolved: ResolvedPolicy, name: str) -> None:
    assert _held(_file(f"a/{name}"), resolved)
    assert _held(_file(f"a/{name}", new=False), resolved) is None


@pytest.mark.parametrize("name", sorted(GIT_WORK))
def test_the_work_of_git_is_free(resolved: ResolvedPolicy, name: str) -> None:
    assert _held(_file(f".git/{name}", new=False), resolved) is None


@pytest.mark.parametrize(
    "path",
    [
        *(
            ".git",
            ".git/config",
            ".git/hooks/pre-commit",
            ".git/info/attributes",
            ".git/objects/info/alternates",
            ".git/objects/INFO/Alternates",
        ),
        *(
            ".git/modules/a/config",
            ".git/commondir",
            ".git/new",
            "sub/.git",
            "sub/.git/objects/x",
            ".GIT/HEAD",
        ),
        *(
            ".git/worktrees/w/gitdir",
            ".git /config",
            ".git/logs/../config".replace("/../", "/x/") + "/.git/x",
        ),
    ],
)
def test_what_steers_git_is_held(resolved: ResolvedPolicy, path: str) -> None:
    assert _held(_file(path), resolved), path


@pytest.mark.parametrize(
    "path",
    [
        "HEAD",
        "sub/HEAD",
        "sub/Head",
        "mirror/config",
        "mirror/commondir",
        "mirror/hooks/x",
        "Mirror/Refs",
        "refs",
    ],
)
def test_a_repository_without_its_own_directory_is_held(resolved: ResolvedPolicy, path: str) -> None:
    assert _held(_file(path), resolved, b"mirror/HEAD", b"HEAD"), path
    assert _held(_file("sub/config"), resolved, b"mirror/HEAD") is None
    assert _held(_file(".git/logs/HEAD"), resolved) is None


@pytest.mark.parametrize(
    "path",
    [
        *("rebase-merge", "rebase-merge/git-rebase-todo", "rebase-merge/Git-Rebase-Todo"),
        *("rebase-merge/strategy", "rebase-apply/next", "sequencer/opts", "sequencer/todo"),
    ],
)
def test_what_git_would_continue_is_held(resolved: ResolvedPolicy, path: str) -> None:
    """Git starts `git-merge-STRATEGY`, also from the project, and runs the lines of `exec`."""
    change = _file(f".git/{path}", new=False)
    assert _held(change, resolved)
    assert _held(replace(change, kind="deleted", new=None), resolved) is None


@pytest.mark.parametrize("path", [b".git/rebase-merge", b".git/objects/info", b".git/refs/heads/x"])
def test_links_in_a_repository_are_held(resolved: ResolvedPolicy, path: bytes) -> None:
    assert _held(Change(path, "added", None, NewEntry("symlink", 0o777, 1, b"../x")), resolved)


@pytest.mark.parametrize("path", ["deploy", "Deploy/inner", "ops/run"])
def test_what_the_policy_protects_is_held(resolved: ResolvedPolicy, path: str) -> None:
    found = _held(_file(path), resolved)
    assert found is not None
    assert not found.refused
    assert "protects" in found.reason


@pytest.mark.parametrize("path", ["secret", "secret/key", "kept", "kept/inner", "SECRET/key", "Kept"])
def test_what_the_policy_denies_is_refused(resolved: ResolvedPolicy, path: str) -> None:
    found = _held(_file(path), resolved)
    assert found is not None
    assert found.refused


def test_the_policy_itself_is_held(resolved: ResolvedPolicy) -> None:
    found = _held(_file("sandbox.yaml", new=False), resolved)
    assert found is not None
    assert not found.refused


@pytest.mark.parametrize("kind", ["fifo", "socket", "device"])
def test_other_kinds_are_refused(resolved: ResolvedPolicy, kind: str) -> None:
    found = _held(Change(b"x", "added", None, NewEntry(kind, 0o644, 0)), resolved)  # type: ignore[arg-type]
    assert found is not None
    assert found.refused


def test_what_was_not_read_is_refused(resolved: ResolvedPolicy) -> None:
    new = NewEntry("directory", 0, 0, problem="its mode lets nobody in")
    found = _held(Change(b"x", "added", None, new), resolved)
    assert found is not None
    assert found.refused


@pytest.mark.parametrize("mode", [0, 0o300, 0o400, 0o100])
def test_a_closed_directory_is_held(resolved: ResolvedPolicy, mode: int) -> None:
    assert _held(Change(b"x", "added", None, NewEntry("directory", mode, 0)), resolved)
    assert _held(Change(b"x", "added", None, NewEntry("directory", 0o500, 0)), resolved) is None


@pytest.mark.parametrize("name", [b"a\nb", b"\x1b[2J", b"a\x7f", b"\xff", "a\u202eb".encode()])
def test_odd_names_are_held(resolved: ResolvedPolicy, name: bytes) -> None:
    assert _held(_file(name), resolved)


def test_set_id_files_are_held(resolved: ResolvedPolicy) -> None:
    assert _held(_file("a", mode=0o4755), resolved)
    assert _held(_file("a", mode=0o2755), resolved)
    assert _held(_file("a", mode=0o0755), resolved) is None


@pytest.mark.parametrize(
    ("link", "out"),
    [
        ("inner", False),
        ("../a", False),
        ("/etc/passwd", True),
        ("../../a", True),
        ("x/../..", True),
        ("..", False),
    ],
)
def test_links_that_lead_out_are_held(resolved: ResolvedPolicy, link: str, out: bool) -> None:
    change = Change(b"d/l", "added", None, NewEntry("symlink", 0o777, 1, link.encode()))
    assert leads_out(b"d/l", link.encode()) == out
    assert (_held(change, resolved) is not None) == out


def test_twins_without_case_are_held(resolved: ResolvedPolicy) -> None:
    assert _held(_file("src/Main.py"), resolved, b"src/main.py")
    assert _held(_file("src/Main.py"), resolved, b"src/main.pyc") is None
    assert _held(_file("SRC/main.py"), resolved, b"src/main.py")
    added = [_file("lib/New.py"), _file("lib/new.py")]
    free, held = sort_changes(added, [], resolved)
    assert (free, len(held)) == ([], 2)


def test_deletions_of_what_tools_run_are_held(resolved: ResolvedPolicy) -> None:
    gone = Change(b".pre-commit-config.yaml", "deleted", Entry("file", 0o644, 1, "0" * 64), None)
    assert _held(gone, resolved)
