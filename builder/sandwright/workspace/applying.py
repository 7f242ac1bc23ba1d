"""Applies chosen changes of a workspace to its project: a three-way merge, journaled in case of a kill."""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from sandwright.errors import HostError
from sandwright.rootfs.unpacking.removal import OPEN_DIRECTORY
from sandwright.workspace import gitindex
from sandwright.workspace.base import Base, Entry, read_base, write_base
from sandwright.workspace.below import (
    OpenFolders,
    PathState,
    closing,
    copied_mode,
    kind_of,
    may_be_replaced,
    parents,
    status_at,
)
from sandwright.workspace.changes import Change, NewEntry
from sandwright.workspace.destination import Applied, Destination
from sandwright.workspace.journal import Journal, Step, interrupted_journals, remove_journal, retain
from sandwright.workspace.replacing import CHANGED, MADE, Slot, TreeSource
from sandwright.workspace.steps import Action, additions, do_action, removals, settle
from sandwright.workspace.store import Workspace

Killed = dict[bytes, tuple[int, Step]]
"""The steps of applies and undos that were killed, each with the number of its journal."""

_BATCH = 256
"""Steps that are written to the journal at once, before the first of them is done."""


def apply(
    workspace: Workspace,
    chosen: Sequence[Change],
    number: int,
    contents: Mapping[bytes, bytes] = MappingProxyType({}),
) -> Applied:
    """Give the project the state of the copy at the chosen paths, if they have not changed since the copy.

    A path that has changed is a conflict, and stays as it is. Directories above a chosen path are made if
    they are missing. A path in `contents` gets that content instead of the copy's (`hunks.Hunks.taking` makes
    its change). The journal gets the number, which may be that of an apply that was killed; there is none of
    an apply that changes nothing. The caller holds the lock. Raise HostError if the project is another
    directory, or an operation fails, as on a full disk: changes that were applied before stay, and can be
    undone.
    """
    try:
        base = read_base(workspace)
    except FileNotFoundError:
        raise HostError(f"the workspace {workspace.name} of {workspace.project} has no copy yet") from None
    try:
        with contextlib.ExitStack() as stack:
            project = stack.enter_context(opened_project(workspace, base))
            tree = stack.enter_context(closing(os.open(workspace.tree, OPEN_DIRECTORY)))
            source = stack.enter_context(contextlib.closing(TreeSource(tree, contents)))
            destination = Destination(project, source, named=_base_directories(base))
            stack.enter_context(contextlib.closing(destination))
            killed = settle_killed(workspace, destination)
            found = [_with_refreshed_index(each, workspace, project) for each in chosen]
            with Journal(workspace, number, is_new=True) as journal:
                applying = _Applying(workspace, base, destination, journal, killed)
                applying.run(_with_parents(found, base, tree))
                is_empty = not journal.undoable()
            _end_killed(workspace)
            if is_empty:
                remove_journal(workspace, number)
            gitindex.remember(workspace, tree)
    except OSError as error:
        raise HostError(f"cannot change {workspace.project}: {error.strerror or error}") from error
    retain(workspace)
    return destination.applied


@contextlib.contextmanager
def opened_project(workspace: Workspace, base: Base) -> Iterator[int]:
    """Open the project. Raise HostError if it is not the directory that was copied."""
    with closing(os.open(workspace.project, OPEN_DIRECTORY)) as project:
        status = os.fstat(project)
        if (status.st_dev, status.st_ino) != base.root:
            raise HostError(f"{workspace.project} is another directory than the one that was copied")
        yield project


def settle_killed(workspace: Workspace, destination: Destination) -> Killed:
    """Remove from the project the parts that killed applies and undos left, and give their steps.

    Raise OSError. If a file replaces a directory or the reverse, the path may be missing for a moment.
    """
    killed: Killed = {}
    for journal in interrupted_journals(workspace):
        settle(destination, journal)
        killed |= {step.path: (journal.number, step) for step in journal.undoable()}
    return killed


def _end_killed(workspace: Workspace) -> None:
    """Mark killed applies as finished: their steps were done now, or were reported as conflicts."""
    for journal in interrupted_journals(workspace):
        journal.end_undo()
        if journal.end is None:
            journal.finish(len(journal.undoable()), set(), 0)


def _with_refreshed_index(change: Change, workspace: Workspace, project: int) -> Change:
    """A change of the index; its old side is the project's index if Git on the host only refreshed that."""
    if change.path != gitindex.PATH or change.old is None:
        return change
    digest = gitindex.refreshed_digest(workspace, project, change.old.digest)
    return replace(change, old=change.old._replace(digest=digest))


def _base_directories(base: Base) -> Iterator[bytes]:
    return (path for path, record in base.packed.items() if record[:1] == b"d")


def _with_parents(chosen: Sequence[Change], base: Base, tree: int) -> list[Change]:
    """The chosen changes, with the new directories that they need."""
    there = {each.path for each in chosen}
    needed = {
        above
        for each in chosen
        if each.new is not None
        for above in parents(each.path)
        if above not in base and above not in there
    }
    more = []
    with contextlib.closing(OpenFolders(tree)) as folders:
        for path in sorted(needed):
            parent, name = folders.parent(path)
            status = None if parent is None else status_at(parent, name)
            if status is not None and stat.S_ISDIR(status.st_mode):
                new = NewEntry("directory", copied_mode(status.st_mode, "directory"), 0)
                more.append(Change(path, "added", None, new))
    return [*chosen, *more]


class _Applying:
    """One apply."""

    def __init__(
        self,
        workspace: Workspace,
        base: Base,
        destination: Destination,
        journal: Journal,
        killed: Killed,
    ) -> None:
        self._workspace = workspace
        self._base = base
        self._destination = destination
        self._journal = journal
        self._killed = killed
        self._done: dict[bytes, PathState | None] = {}
        self._failed: set[bytes] = set()

    def run(self, chosen: Sequence[Change]) -> None:
        """Apply the changes."""
        steps = [_step_of(each) for each in chosen]
        try:
            for actions in (removals(steps), additions(steps)):
                while batch := list(itertools.islice(actions, _BATCH)):
                    numbers = self._prepare(batch, steps)
                    for action in batch:
                        if action[1] in numbers:
                            self._perform(action, numbers[action[1]])
            applied = self._destination.applied
            self._journal.finish(applied.changed, self._failed, len(applied.conflicts))
        finally:
            self._update_base(chosen)

    def _perform(self, action: Action, number: int) -> None:
        _, path, _, after = action
        if do_action(self._destination, action, self._journal.part(number)):
            self._done[path] = after
        else:
            self._failed.add(path)

    def _prepare(self, batch: list[Action], steps: list[Step]) -> dict[bytes, int]:
        """Write the planned steps to the journal, with their old content; give their numbers by path."""
        added: dict[bytes, Step] = {}
        for index, path, before, after in batch:
            if path in self._failed:
                continue
            found = self._found_before(path, before, after, steps[index].new)
            if found is None:
                continue
            added[path] = steps[index]._replace(old_size=found[0], time=found[1])
        first = len(self._journal.steps)
        self._journal.add(added.values())
        return {path: first + index for index, path in enumerate(added)}

    def _found_before(
        self, path: bytes, before: PathState | None, after: PathState | None, final: PathState | None
    ) -> tuple[int, int] | None:
        """Size and time of the file at an unchanged path, whose content is kept; None if nothing is to do.

        That is so if the path already has the new state, or is a conflict. A path that was not unchanged here
        is never changed, even if it looks unchanged a moment later, because its old content was not kept.
        """
        slot = self._destination.slot(path, b"")
        status = None if slot is None else status_at(slot.parent, slot.name)
        if slot and before and status and self._keeps(slot, status, before):
            return status.st_size, status.st_mtime_ns
        found = None if status is None else self._destination.find(path)
        if self._destination.rules.is_same(found, final):
            self._done[path] = final
        elif found is None and after is None and path in self._killed:
            self._done[path] = None
            self._journal.adopt(*self._killed[path])
        elif found is None and before is None:
            _, step = self._killed.get(path, (0, Step(path, None, None)))
            return step.old_size, step.time
        elif found is not None and before is None and found.kind == "directory" == (after and after.kind):
            self._done[path] = found
        else:
            self._failed.add(path)
            self._destination.applied.conflicts.append((path, reason_of(found, before, after)))
        return None

    def _keeps(self, slot: Slot, status: os.stat_result, before: PathState) -> bool:
        """Whether a path is unchanged, and its content is in the journal now."""
        state = PathState(kind_of(status.st_mode), stat.S_IMODE(status.st_mode), before.digest)
        if not self._destination.rules.is_same(state, before):
            return False
        try:
            return state.kind == "directory" or self._journal.keep_content(slot, state)
        except OSError as error:
            if not may_be_replaced(error):
                raise
            return False

    def _update_base(self, chosen: Sequence[Change]) -> None:
        """Record the new state, with which later changes are compared."""
        for change in chosen:
            if change.path not in self._done:
                continue
            state, new = self._done[change.path], change.new
            if state is None:
                self._base.discard(change.path)
            elif new is not None and state.kind in ("file", "directory", "symlink"):
                mode = copied_mode(new.mode, new.kind)
                self._base[change.path] = Entry(state.kind, mode, new.size, state.digest, copy=new.stamp)
        write_base(self._workspace, self._base)


def reason_of(found: PathState | None, before: PathState | None, after: PathState | None) -> str:
    """The reason for leaving a path that has neither the old nor the new state."""
    if found is None:
        return "it was removed in the project"
    if after is None:
        return "it was changed in the project, and removed there"
    return MADE if before is None else CHANGED


def _step_of(change: Change) -> Step:
    old = None if change.old is None else change.old.state
    new = None if change.new is None else change.new.state
    return Step(change.path, old, new, 0, 0 if change.new is None else change.new.size)
