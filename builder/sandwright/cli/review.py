"""Commands about review workspaces: `changes`, `apply`, `discard`, `undo`, `workspaces`."""

from __future__ import annotations

import json as encoder
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import time as time_now

from sandwright.cli import console
from sandwright.cli.policy_arguments import request_for
from sandwright.cli.review_prompt import ask_for_changes, print_diff_lines
from sandwright.cli.review_summary import counts_by_kind, print_summary, print_withheld
from sandwright.errors import HostError, UsageError, VerdictError
from sandwright.lazy import load
from sandwright.outputs import write_output
from sandwright.session.prepare import resolved_with
from sandwright.session.request import RunRequest
from sandwright.user_dirs import find_above
from sandwright.workspace import applying
from sandwright.workspace import changes as compared
from sandwright.workspace import undo as undoing
from sandwright.workspace.base import read_base
from sandwright.workspace.changes import Change
from sandwright.workspace.destination import Applied
from sandwright.workspace.diff import diff_change, without_objects
from sandwright.workspace.links import ProjectLinks
from sandwright.workspace.store import (
    DEFAULT,
    Workspace,
    exists,
    list_workspaces,
    locked,
    remove,
    workspace_of,
)
from sandwright.workspace.withheld import Withheld, sort_changes

NOT_DONE = 3

Differ = Callable[[Workspace, Change], list[bytes]]
"""Gives the lines of the diff of a change."""


def changes(
    *,
    path: Sequence[str] = (),
    diff: bool = False,
    html: str = "",
    workspace: str = "",
    policy: str = "",
    json: bool = False,
) -> None:
    """List the changes of a workspace; as a unified diff with `diff`. `html`: a page with both."""
    copy = _workspace(policy, workspace)
    with locked(copy, exclusive=False):
        every = compared.changes(copy)
        found = _chosen(every, path, copy)
        _, held = _sort_withheld(found, every, copy, policy)
        if html:
            write_output(html, load("sandwright.cli.review_page:review_page")(copy, found, held))
        report_changes(copy, found, held, form="json" if json else "diff" if diff else "")


def report_changes(
    copy: Workspace,
    found: Sequence[Change],
    held: Sequence[Withheld],
    *,
    form: str,
    differ: Differ = diff_change,
) -> None:
    """Print changes: in the form `json`, as a `diff` by `differ`, or without a form as a summary."""
    if form == "json":
        console.lines(encoder.dumps(_changes_as_data(copy, found, held), indent=2))
    elif form == "diff":
        _print_diffs(copy, found, differ)
    else:
        print_summary(copy, found, held)


def apply(
    *,
    path: Sequence[str] = (),
    held: bool = False,
    interactive: bool = False,
    workspace: str = "",
    policy: str = "",
) -> None:
    """Take changes into the project. Raise VerdictError where something was not taken."""
    if held and not path:
        raise UsageError("--held: name the paths to take")
    if interactive and not _can_ask():
        raise UsageError("--interactive: there is no terminal to ask on")
    copy = _workspace(policy, workspace)
    with locked(copy, exclusive=True):
        every = compared.changes(copy)
        found = _chosen(every, path, copy)
        free, back = _sort_withheld(found, every, copy, policy)
        if held:
            free += [each.change for each in back if not each.refused]
            back = [each for each in back if each.refused]
        free, contents = ask_for_changes(copy, free) if interactive else (free, {})
        number = _next_number(copy)
        applied = applying.apply(copy, free, number, contents)
    _print_applied(applied, back, len(free), number)


def _next_number(copy: Workspace) -> int:
    """The number of an apply; that of the last one, if that was killed: one undo takes both back."""
    last = undoing.applied_runs(copy)[-1:]
    return last[0].number + last[0].is_finished if last else 1


def discard(*, yes: bool = False, workspace: str = "", policy: str = "") -> int | None:
    """Remove a workspace."""
    copy = _workspace(policy, workspace)
    with locked(copy, exclusive=True):
        try:
            count = console.counted(len(compared.changes(copy)), "change")
        except HostError as error:
            count = f"changes that cannot be listed ({error})"
        console.line(f"workspace {copy.name}: {count} not applied")
        if not yes and not _asks_and_agrees("Remove it? [y/N] "):
            return NOT_DONE
        remove(copy)
    console.line(f"removed workspace {copy.name}")
    return None


def undo(*, number: str = "", list: bool = False, workspace: str = "", policy: str = "") -> None:  # noqa: A002
    """Take an `apply` back. Raise VerdictError where a file changed since."""
    copy = _workspace(policy, workspace)
    with locked(copy, exclusive=True):
        runs = undoing.applied_runs(copy)
        if list:
            rows = [[str(each.number), _ago(time_now() - each.time), str(each.changed)] for each in runs]
            console.table(["apply", "age", "changes"], rows)
            return
        if not runs:
            raise UsageError(f"workspace {copy.name}: nothing to undo")
        chosen = runs[-1].number if not number else _number(number)
        if chosen not in [each.number for each in runs]:
            raise UsageError(f"there is no apply {number} to undo; `sandwright undo --list` lists them")
        undone = undoing.undo(copy, chosen)
    console.line(f"undid apply {chosen}: {console.counted(undone.changed, 'path')} as before")
    _refuse_conflicts(undone.conflicts)


def workspaces(*, json: bool = False) -> None:
    """List the workspaces of this user."""
    found = list_workspaces()
    if json:
        data = [{"project": e.project, "name": e.name, "bytes": e.bytes, "age": e.age} for e in found]
        console.lines(encoder.dumps(data, indent=2))
        return
    rows = [[each.project, each.name, console.size(each.bytes), _ago(each.age)] for each in found]
    console.table(["project", "workspace", "size", "used"], rows)


def _workspace(policy: str, name: str) -> Workspace:
    """The workspace that a command means. Raise UsageError where there is none."""
    project = os.path.realpath(Path(_request_under(policy).policy).parent)
    copy = workspace_of(project, name or DEFAULT)
    if not exists(copy):
        option = "--review" if copy.name == DEFAULT else f"--workspace {copy.name}"
        raise UsageError(
            f"{project} has no workspace {copy.name}: `sandwright run {option} -- COMMAND` makes it"
        )
    return copy


def _request_under(policy: str) -> RunRequest:
    """A run under the policy's file, which need not be there if no option names it."""
    request = request_for(policy or find_above("sandbox.yaml"))
    request.named = bool(policy)
    return request


def _sort_withheld(
    found: Sequence[Change], every: Sequence[Change], copy: Workspace, policy: str
) -> tuple[list[Change], list[Withheld]]:
    if not found:
        return [], []  # a copy that was not completed has no base
    base = read_base(copy)
    links = ProjectLinks(copy, base, every)
    return sort_changes(found, base, resolved_with(_request_under(policy)), links)


def _chosen(found: Sequence[Change], paths: Sequence[str], copy: Workspace) -> list[Change]:
    """The changes at or below some paths, all without one. Raise UsageError for a path without a change."""
    if not paths:
        return [*found]
    chosen = {each: _path_in_project(each, copy) for each in paths}
    for spelled, path in chosen.items():
        if not any(_is_at_or_in(each.path, path) for each in found):
            raise UsageError(f"{spelled} has no change in workspace {copy.name}")
    return [each for each in found if any(_is_at_or_in(each.path, path) for path in chosen.values())]


def _path_in_project(path: str, copy: Workspace) -> bytes:
    plain = os.path.normpath(Path(os.path.realpath(Path.cwd()), path))
    if plain == copy.project:
        return b""
    if not plain.startswith(f"{copy.project}/"):
        raise UsageError(f"{path} is not in {copy.project}")
    return os.fsencode(plain[len(copy.project) + 1 :])


def _is_at_or_in(path: bytes, above: bytes) -> bool:
    return not above or path == above or path.startswith(above + b"/")


def _print_diffs(copy: Workspace, found: Sequence[Change], differ: Differ) -> None:
    printed, objects = without_objects(found)
    for each in printed:
        print_diff_lines(differ(copy, each))
    for folder, members in objects.items():
        size = console.size(sum(each.new.size for each in members if each.new is not None))
        console.line(f"{os.fsdecode(folder)}: objects of Git: {counts_by_kind(members)} ({size}), not shown")


def _changes_as_data(
    copy: Workspace, found: Sequence[Change], held: Sequence[Withheld]
) -> Mapping[str, object]:
    reasons = {each.change.path: each for each in held}
    return {
        "project": copy.project,
        "workspace": copy.name,
        "changes": [
            {
                "path": os.fsdecode(each.path),
                "change": each.kind,
                "type": getattr(each.new or each.old, "kind", ""),
                "size": each.new.size if each.new else None,
                "held": reasons[each.path].reason if each.path in reasons else "",
                "refused": each.path in reasons and reasons[each.path].refused,
            }
            for each in found
        ],
    }


def _print_applied(applied: Applied, held: Sequence[Withheld], tried: int, number: int) -> None:
    if applied.changed:
        console.line(
            f"applied {console.counted(applied.changed, 'change')} (number {number}; "
            f"`sandwright undo {number}` takes them back)"
        )
    print_withheld(held)
    if not tried and not held:
        console.line("nothing to apply")
    missing = [(each.change.path, each.reason) for each in held]
    _refuse_conflicts(applied.conflicts, others=len(missing))


def _refuse_conflicts(conflicts: Sequence[tuple[bytes, str]], *, others: int = 0) -> None:
    for path, reason in conflicts:
        console.line(f"conflict: {os.fsdecode(path)}: {reason}")
    if conflicts or others:
        raise VerdictError(f"{console.counted(len(conflicts) + others, 'change')} not applied")


def _can_ask() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _asks_and_agrees(question: str) -> bool:
    if not _can_ask():
        return False
    console.write(question)
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise UsageError(f"{text} is no number of an apply")
    return int(text)


def _ago(age: float) -> str:
    seconds = max(0, int(age))
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length} {unit} ago"
    return f"{seconds} s ago"
