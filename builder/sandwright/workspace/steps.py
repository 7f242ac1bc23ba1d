"""Does the steps of an apply or an undo, in an order in which each finds its directory.

Also cleans up after a killed one.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from sandwright.workspace.below import PathState, status_at
from sandwright.workspace.destination import Destination
from sandwright.workspace.exchange import Unsupported, exchange, rename_new
from sandwright.workspace.journal import Journal, Step
from sandwright.workspace.replacing import Slot

Action = tuple[int, bytes, PathState | None, PathState | None]
"""The number of a step, its path, and the states before and after; None for nothing."""


def removals(steps: list[Step]) -> Iterator[Action]:
    """The removals of numbered steps, deepest first. They are done first.

    A directory is replaced by a file, or the reverse, through a removal and an addition.
    """
    for index, step in sorted(enumerate(steps), key=lambda each: each[1].path, reverse=True):
        if step.old is not None and (step.new is None or _in_two(step.old, step.new)):
            yield index, step.path, step.old, None


def additions(steps: list[Step]) -> Iterator[Action]:
    """All other actions, parents first."""
    for index, step in sorted(enumerate(steps), key=lambda each: each[1].path):
        if step.new is not None:
            old = None if step.old is not None and _in_two(step.old, step.new) else step.old
            yield index, step.path, old, step.new


def _in_two(old: PathState, new: PathState) -> bool:
    return (old.kind == "directory") != (new.kind == "directory")


def do_action(destination: Destination, action: Action, part: bytes) -> bool:
    """Do one action; tell whether the path has its new state now."""
    _, path, before, after = action
    if after is not None:
        return destination.put(path, before, after, part)
    return before is None or destination.remove(path, before, part)


def settle(destination: Destination, journal: Journal) -> None:
    """Finish or revert the step during which an apply or undo was killed, by the parts that it left.

    A part that has neither the old nor the new state is an edit of the host: it gets its name back. If
    another file has that name now, both are kept.
    """
    for index, step in enumerate(journal.steps):
        part = journal.part(index)
        slot = destination.slot(step.path, part)
        if slot is not None and status_at(slot.parent, part) is not None:
            _settle_part(destination, slot, step)


def _settle_part(destination: Destination, slot: Slot, step: Step) -> None:
    with contextlib.suppress(OSError):  # it is no directory, or the host's
        os.rmdir(slot.part, dir_fd=slot.parent)
        return
    for state in (step.old, step.new):
        if state is not None and destination.replacing.unlink_verified(slot, state):
            return
    with contextlib.suppress(FileExistsError, Unsupported):
        rename_new(slot.parent, slot.part, slot.name)
        return
    found = destination.find(step.path)
    with contextlib.suppress(Unsupported):
        if found is not None and found in (step.old, step.new):
            exchange(slot.parent, slot.part, slot.name)
            if not destination.replacing.unlink_verified(slot, found):
                exchange(slot.parent, slot.part, slot.name)
                found = None
            if found is not None:
                return
    text = f"a part of a killed apply has another version: {os.fsdecode(slot.part)}"
    destination.applied.conflicts.append((step.path, text))
