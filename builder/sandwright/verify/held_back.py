"""Proves, row by row of the tables, that `apply` holds back files that the host's programs run by themselves.

A workspace is made of a planted project. In its copy, each row gets a directory with a file that is to be
held, and an ordinary file beside it. Then the changes are sorted and applied as by `sandwright apply`. The
controls: ordinary files are applied at once, and held ones when they are named.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandwright.policy.resolved import ResolvedPolicy
from sandwright.verify.outcome import ProbeOutcome
from sandwright.verify.probe import Family
from sandwright.verify.verdict import Verdict
from sandwright.visible import one_line
from sandwright.workspace.applying import apply
from sandwright.workspace.base import read_base
from sandwright.workspace.changes import changes
from sandwright.workspace.copying import refresh
from sandwright.workspace.links import ProjectLinks
from sandwright.workspace.store import Workspace
from sandwright.workspace.withheld import NEW, REVIEWED, names_of_tools, sort_changes

ABOUT = {
    "workspace/held-tools": "names that tools run by themselves are not applied unless named",
    "workspace/held-git": "what decides which programs Git runs is not applied unless named",
    "workspace/held-odd": "odd files and names are not applied unless named",
}
"""The probes, and the claims that they prove."""

_NAMED_SHORTLY = 8
"""The most rows that the evidence names."""

_REPOSITORY = ".git"


def _plant_file(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("new", encoding="utf-8")


def _plant_set_id(path: Path) -> None:
    _plant_file(path)
    path.chmod(0o4755)


@dataclass(frozen=True)
class _Row:
    """A held file: its path below the row's directory, and how it is created there."""

    probe: str
    path: str
    make: Callable[[Path], object] = _plant_file
    in_project: Callable[[Path], object] = lambda _: None
    """Creates the files that the project already has in the row's directory."""


def _table_rows() -> Iterator[_Row]:
    for name in (*names_of_tools(), *REVIEWED, *NEW, "*.pth"):
        yield _Row("workspace/held-tools", name.replace("*", "x"))
    for name in ("HEAD", ".git/config", ".git/HEAD", "sub/.git/hooks/x", ".GIT/config"):
        yield _Row("workspace/held-git", name)
    odd = "workspace/held-odd"
    yield _Row(odd, "link", lambda path: path.symlink_to("/etc/passwd"))
    yield _Row(odd, "up", lambda path: path.symlink_to("../../x"))
    yield _Row(odd, "set-id", _plant_set_id)
    yield _Row(odd, "a\nb")
    yield _Row(odd, "\u202egnp.exe")
    yield _Row(odd, "README", in_project=lambda path: _plant_file(path / "readme"))
    yield _Row(odd, "env/bin/python", in_project=lambda path: (path / ".venv").symlink_to("env"))
    yield _Row(odd, "pipe", os.mkfifo)


_IN_REPOSITORY = (
    *("config", "config.worktree", "commondir", "hooks/post-commit", "info/attributes", "new"),
    *("objects/info/alternates", "rebase-merge/git-rebase-todo", "modules/m/config", "worktrees/w/gitdir"),
)
"""The rows for the project's own repository."""


def held_back_outcomes(
    policy_at: Callable[[Path], ResolvedPolicy], root: Path, home: Path, method: str
) -> Iterator[ProbeOutcome]:
    """The verdicts.

    `root` is the directory for the project, `home` that for the workspace; `policy_at` resolves there.
    """
    root.mkdir()
    planted = _Planted(
        policy_at(root), Workspace(str(root), "verify", str(home / "verify")), [*_table_rows()]
    )
    planted.prepare()
    applied = planted.apply(explicitly=False)
    requested = planted.apply(explicitly=True)
    for probe, about in ABOUT.items():
        yield planted.outcome(probe, about, method, applied, requested)


class _Planted:
    """A project and its workspace, with the rows in it."""

    def __init__(self, policy: ResolvedPolicy, workspace: Workspace, rows: Sequence[_Row]) -> None:
        self._policy, self._workspace = policy, workspace
        self._rows = {f"row-{number}": row for number, row in enumerate(rows)}
        self._number = 0

    def prepare(self) -> None:
        """Plant the project, copy it, and change the copy."""
        project, tree = Path(self._workspace.project), Path(self._workspace.tree)
        for name in ("HEAD", "objects/x", "refs/x", "rebase-merge/onto"):
            _plant_file(project / _REPOSITORY / name)
        for name, row in self._rows.items():
            (project / name).mkdir()
            row.in_project(project / name)
        refresh(self._workspace, lambda _: False)
        for name in _IN_REPOSITORY:
            _plant_file(tree / _REPOSITORY / name)
        _plant_file(tree / _REPOSITORY / "refs/plain")
        for name, row in self._rows.items():
            _plant_file(tree / name / "plain")
            (tree / name / row.path).parent.mkdir(parents=True, exist_ok=True)
            row.make(tree / name / row.path)

    def apply(self, *, explicitly: bool) -> set[str]:
        """Apply the free changes, or also the held ones; give the paths that the project has then."""
        found, base = changes(self._workspace), read_base(self._workspace)
        free, held = sort_changes(found, base, self._policy, ProjectLinks(self._workspace, base, found))
        if explicitly:
            free += [each.change for each in held if not each.refused]
        self._number += 1
        apply(self._workspace, free, self._number)
        project = Path(self._workspace.project)
        return {str(path.relative_to(project)) for path in project.rglob("*")}

    def outcome(
        self, probe: str, about: str, method: str, applied: set[str], requested: set[str]
    ) -> ProbeOutcome:
        """The verdict on the rows of a probe, by the paths that each apply left in the project."""
        rows = {f"{name}/{row.path}": row for name, row in self._rows.items() if row.probe == probe}
        plain = {f"{path.partition('/')[0]}/plain" for path in rows}
        if probe == "workspace/held-git":
            rows |= {f"{_REPOSITORY}/{name}": _Row(probe, name) for name in _IN_REPOSITORY}
            plain.add(f"{_REPOSITORY}/refs/plain")
        landed = sorted(rows.keys() & applied)
        named = [path for path, row in rows.items() if path not in requested and row.make is not os.mkfifo]
        missing = sorted([*named, *(plain - applied)])
        works = Verdict.INCONCLUSIVE if missing else Verdict.PASS
        evidence = (
            f"{len(rows)} rows, such as {_first_paths(sorted(rows))}; applied: {_first_paths(landed)}\n"
            f"control, ordinary files at once and the rows when asked for: missing: {_first_paths(missing)}"
        )
        return ProbeOutcome(
            probe=probe,
            method=method,
            family=Family.WORKSPACE,
            verdict=Verdict.FAIL if landed else works,
            expected="held back",
            observed="applied" if landed else "held back",
            evidence=evidence,
            about=about,
        )


def _first_paths(paths: Sequence[str]) -> str:
    more = len(paths) - _NAMED_SHORTLY
    return (
        ", ".join(map(one_line, paths[:_NAMED_SHORTLY])) + (f" and {more} more" if more > 0 else "")
        if paths
        else "none"
    )
