"""Reverts an apply, at each path that the project has not changed since."""

from __future__ import annotations

import contextlib
import errno
import os

from sandwright.errors import HostError
from sandwright.workspace import gitindex
from sandwright.workspace.applying import Killed, opened_project, reason_of, settle_killed
from sandwright.workspace.base import Base, Entry, read_base, write_base
from sandwright.workspace.below import CHUNK, closing
from sandwright.workspace.destination import Applied, Destination
from sandwright.workspace.journal import AppliedRun, Journal, Step, applied_runs, remove_journal
from sandwright.workspace.steps import Action, additions, do_action, removals
from sandwright.workspace.store import Workspace

_OBJECTS = b".git/objects/"

__all__ = ["AppliedRun", "applied_runs", "undo"]


def undo(workspace: Workspace, number: int) -> Applied:
    """Restore each path of an apply, if it still has the state that the apply gave it; others are conflicts.

    The copy stays as it is, so the changes can be applied again. The journal is removed when nothing is left
    to revert. The caller holds the lock. Raise UsageError if there is no apply of that number, HostError as
    `apply` does.
    """
    try:
        base = read_base(workspace)
    except FileNotFoundError:
        raise HostError(f"the workspace {workspace.name} of {workspace.project} has no copy") from None
    try:
        with (
            Journal(workspace, number, is_new=False) as journal,
            opened_project(workspace, base) as project,
            contextlib.closing(Destination(project, _OldContent(journal))) as destination,
        ):
            killed = settle_killed(workspace, destination)
            journal.begin_undo()
            steps = [_reversed(step, workspace, project) for step in journal.undoable()]
            _take_back(workspace, base, destination, journal, steps, killed=killed)
            journal.end_undo()
    except OSError as error:
        raise HostError(f"cannot change {workspace.project}: {error.strerror or error}") from error
    if not destination.applied.conflicts:
        remove_journal(workspace, number)
    return destination.applied


def _reversed(step: Step, workspace: Workspace, project: int) -> Step:
    """The step of the undo. An index that Git on the host only refreshed since counts as unchanged."""
    old = step.new
    if step.path == gitindex.PATH and old is not None:
        old = old._replace(digest=gitindex.refreshed_digest(workspace, project, old.digest))
    return step._replace(old=old, new=step.old)


def _needed_objects(steps: list[Step], destination: Destination) -> set[bytes]:
    """The new Git objects, if anything else in the repository changed since, because it may refer to them."""
    of_git = [each for each in steps if each.path.startswith(b".git/")]
    objects = {each.path for each in of_git if each.path.startswith(_OBJECTS)}
    for step in of_git:
        if step.path not in objects:
            found = destination.find(step.path)
            if not (destination.rules.is_same(found, step.old) or destination.rules.is_same(found, step.new)):
                return objects
    return set()


def _take_back(
    workspace: Workspace,
    base: Base,
    destination: Destination,
    journal: Journal,
    steps: list[Step],
    *,
    killed: Killed,
) -> None:
    numbers = {step.path: index for index, step in enumerate(journal.steps)}
    needed = _needed_objects(steps, destination)
    done: dict[bytes, Step] = {}
    failed: set[bytes] = set()
    try:
        for action in [*removals(steps), *additions(steps)]:
            index, path, _, _ = action
            if path in failed or path in needed:
                continue
            part = journal.part(numbers[path])
            if _is_reverted(destination, action, steps[index], part, is_killed=path in killed):
                done[path] = steps[index]
            else:
                failed.add(path)
    finally:
        for step in done.values():
            _restore_base(base, step)
        write_base(workspace, base)


def _is_reverted(
    destination: Destination, action: Action, step: Step, part: bytes, *, is_killed: bool
) -> bool:
    """Do one action of a step; tell whether the path is being restored."""
    _, path, before, after = action
    if (before, after) != (step.old, step.new):  # one of two actions of the step
        found = destination.find(path)
        if destination.rules.is_same(found, step.new) or (found is None and after is None and is_killed):
            return True
        if not destination.rules.is_same(found, before):
            destination.applied.conflicts.append((path, reason_of(found, before, after)))
            return False
    return do_action(destination, action, part)


def _restore_base(base: Base, step: Step) -> None:
    """Restore the base.

    The project has its state from before the apply, so the copy's state is a change again.
    """
    state = step.new
    if state is None:
        base.discard(step.path)
    elif state.kind in ("file", "directory", "symlink"):
        base[step.path] = Entry(state.kind, state.mode, step.old_size, state.digest)


class _OldContent:
    """The contents that a journal kept, by path."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._steps = {step.path: step for step in journal.undoable()}

    def content(self, path: bytes) -> tuple[int, int]:
        """An open file."""
        step = self._steps[path]
        if step.old is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return self._journal.open_content(step.old.digest), step.time

    def link(self, path: bytes) -> tuple[bytes, int]:
        """A link's text."""
        fd, time = self.content(path)
        with closing(fd):
            return os.read(fd, CHUNK), time
