"""The hunks of a changed text, and the change that takes some of them."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass, replace

from sandwright.workspace.below import UNKNOWN
from sandwright.workspace.changes import Change
from sandwright.workspace.diff import Group, groups, hunk_lines, sides
from sandwright.workspace.store import Workspace


@dataclass(frozen=True)
class Hunks:
    """A change of a text file, by lines."""

    change: Change
    old: list[bytes]
    new: list[bytes]
    groups: list[Group]

    def lines(self, number: int) -> list[bytes]:
        """The lines of a hunk, as in a unified diff; the first hunk is 0."""
        return list(hunk_lines(self.old, self.new, self.groups[number]))

    def content(self, taken: Collection[int]) -> bytes:
        """The old content with some hunks applied."""
        found: list[bytes] = []
        at = 0
        for number, group in enumerate(self.groups):
            for tag, start, end, new_start, new_end in group:
                if tag != "equal" and number in taken:
                    found += [*self.old[at:start], *self.new[new_start:new_end]]
                    at = end
        return b"".join([*found, *self.old[at:]])

    def taking(self, taken: Collection[int]) -> Change:
        """The change that produces the content that `content` returns. Its mode is the new one."""
        assert self.change.new is not None
        content = self.content(taken)
        digest = hashlib.sha256(content).hexdigest()
        new = self.change.new._replace(digest=digest, size=len(content), stamp=UNKNOWN)
        return replace(self.change, new=new)


def hunks_of(workspace: Workspace, change: Change) -> Hunks | None:
    """The hunks of a change; None unless it is of a text that the project has as it was copied."""
    if change.kind != "changed" or change.old is None or change.new is None:
        return None
    if {change.old.kind, change.new.kind} != {"file"} or change.new.problem:
        return None
    old, new, is_current = sides(workspace, change)
    if not is_current or old is None or new is None or b"\0" in old + new:
        return None
    if hashlib.sha256(old).hexdigest() != change.old.digest:
        return None  # it was changed right now
    old_lines, new_lines = old.splitlines(keepends=True), new.splitlines(keepends=True)
    return Hunks(change, old_lines, new_lines, list(groups(old_lines, new_lines)))
