"""Changes at the targets of links are held back: a change at a link's target is one at the link, too.

Tests of workspace/links.py, with workspace/withheld.py.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from sandwright.api import Policy
from sandwright.policy.collect import collect_facts
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.workspace.base import Entry, read_base
from sandwright.workspace.changes import Change, NewEntry
from sandwright.workspace.links import MOST, FurtherPaths, ProjectLinks
from sandwright.workspace.withheld import sort_changes
from support.workspaces import Review, review

__all__ = ["review"]

POLICY = """schema: 1
method: bwrap
workspace: review
filesystem: {write: [$PROJECT], protect: [ops/run]}
"""


@pytest.fixture
def resolved(tmp_path: Path) -> ResolvedPolicy:
    (tmp_path / "p").mkdir()
    policy = Policy.from_text(POLICY)
    return policy.resolve(collect_facts(policy, project=tmp_path / "p", environ={"HOME": str(tmp_path)}))


LINKS = [
    ("env/bin/python", {".venv": "env"}),
    ("env/bin/python", {"sub/.venv": "env"}),
    ("env", {".venv": "env"}),
    ("a/b/x", {".venv": "a/b"}),
    ("settings/tasks.json", {".vscode": "settings"}),
    ("env.sh", {".envrc": "env.sh"}),
    ("deps/.bin/tsc", {"node_modules": "deps"}),
    ("bin/tsc", {"node_modules": "deps", "deps/.bin": "bin"}),
    ("c/tsc", {"node_modules": "deps", "deps/.bin": "b", "b": "c"}),
    ("meta/config", {".git": "meta"}),
    ("meta/objects/x", {"sub/.git": "meta"}),
    ("names/alternates", {".git/objects/info": "names"}),
    ("x/run", {"ops": "x"}),
    ("Env/Bin", {".VENV": "Env"}),
    ("tasks.json", {"sub/.vscode": ""}),
    ("src/a.py", {".venv": None}),
]


@pytest.mark.parametrize(("path", "links"), LINKS)
def test_a_change_behind_a_link_is_held(
    path: str, links: dict[str, str | None], resolved: ResolvedPolicy
) -> None:
    """The controls: the same without links, and beside the target."""
    table = {name.encode(): None if to is None else to.encode() for name, to in links.items()}
    for change in (_added(path), _deleted(path)):
        if None in table.values():
            assert _free(change, table, resolved), "a link that leads out has no files here"
            continue
        assert not _free(change, table, resolved)
        assert _free(change, {}, resolved)
    if b"" in table.values():
        return
    assert _free(_added("other/x"), table, resolved)
    assert _free(_added(f"{path.split('/', maxsplit=1)[0]}2/x"), table, resolved)


def _added(path: str) -> Change:
    return Change(path.encode(), "added", None, NewEntry("file", 0o644, 1))


def _deleted(path: str) -> Change:
    return Change(path.encode(), "deleted", Entry("file", 0o644, 1, "0" * 64), None)


def _free(change: Change, links: Mapping[bytes, bytes | None], resolved: ResolvedPolicy) -> bool:
    return sort_changes([change], [], resolved, links)[0] == [change]


def test_the_reason_names_the_path(resolved: ResolvedPolicy) -> None:
    _, held = sort_changes([_added("env/bin/python")], [], resolved, {b".venv": b"env"})
    assert held[0].reason == (
        "it is .venv/bin/python, too, by a link: Python: the interpreter that editors and shells start"
    )


def test_a_file_that_some_names_run_only_when_new_is_no_other_by_a_link(resolved: ResolvedPolicy) -> None:
    changed = Change(b"x.py", "changed", Entry("file", 0o644, 1, "0" * 64), NewEntry("file", 0o644, 1))
    assert _free(changed, {b"conftest.py": b"x.py"}, resolved)
    assert not _free(_added("x.py"), {b"conftest.py": b"x.py"}, resolved)


def test_links_to_directories_above_end() -> None:
    further = FurtherPaths({b"a/up": b"a", b"a/other": b"a"}, lambda _: True)
    assert b"a/up/other/x" in further.of(b"a/x")
    assert len(further.of(b"a/x")) <= MOST + 1


def test_more_links_than_are_followed_hide_nothing(resolved: ResolvedPolicy) -> None:
    """A program makes thousands of links to a file, so that the search might miss the important one."""
    many = {f"{number}/node_modules".encode(): b"env" for number in range(3000)}
    assert not _free(_added("env/x"), {**many, b".venv": b"env"}, resolved)
    assert _free(_added("other/x"), {**many, b".venv": b"env"}, resolved)


def test_links_are_followed_as_the_kernel_does(review: Review) -> None:
    for name in ("real/deep", "b"):
        (review.project / name).mkdir(parents=True)
    outside = review.project.parent / "outside"
    outside.mkdir()
    links = {
        ".venv": "env",
        "env": "real",
        "up": "real/../b",
        "whole": str(review.project / "b"),
        "out": "../outside",
        "round": "round",
        "gone": "missing/x",
        "hop": "env/deep",
        "b/top": "..",
    }
    for name, target in links.items():
        (review.project / name).symlink_to(target)
    review.refresh()
    (review.tree / "b/top").unlink()
    (review.tree / "b").rmdir()
    (review.tree / "b").symlink_to("real/deep")
    (review.tree / "away").symlink_to("/etc")
    found = dict(ProjectLinks(review.workspace, read_base(review.workspace), review.changes()))
    assert found == {
        b".venv": b"real",
        b"env": b"real",
        b"up": b"b",
        b"whole": b"b",
        b"out": None,
        b"b/top": b"",
        b"round": b"round",
        b"gone": b"missing/x",
        b"hop": b"real/deep",
        b"b": b"real/deep",
        b"away": None,
    }
    assert os.path.realpath(review.project / "hop") == str(review.project / "real/deep")
