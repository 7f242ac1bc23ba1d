"""Applies a command's changes in a Pod to the project, where the project did not change meanwhile.

A path is replaced or removed only if it is still as it was sent. `sandwright.workspace.destination` applies
the changes, and keeps different paths unchanged, as conflicts.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from sandwright.errors import HostError
from sandwright.questions import EntryKind as PathKind
from sandwright.rootfs.tar.entry import EntryKind
from sandwright.rootfs.unpacking.place import umask
from sandwright.workspace.below import PathState, has_parent_in, text_digest
from sandwright.workspace.destination import Applied, Destination
from sandwright.workspace.replacing import ChangeRules, TreeSource
from sandwright_kubernetes.sync.returned import ReturnedChanges
from sandwright_kubernetes.sync.rules import ProjectRules
from sandwright_kubernetes.sync.snapshot import Recorded

_KINDS: dict[EntryKind, PathKind] = {
    EntryKind.FILE: "file",
    EntryKind.DIRECTORY: "directory",
    EntryKind.SYMLINK: "symlink",
}


def apply_changes(
    project: int, unpacked: int, changes: ReturnedChanges, sent: Mapping[bytes, Recorded], rules: ProjectRules
) -> Applied:
    """Apply the files unpacked below one open directory to another one. `sent` are the uploaded files.

    Raise HostError for a failure of this machine, such as a full disk; changes applied before it stay.
    """
    source = TreeSource(unpacked)
    named = (path for path, record in sent.items() if record.kind is EntryKind.DIRECTORY)
    destination = Destination(project, source, _SentFiles(), named=named)
    remaining = dict(sent)
    try:
        _remove_gone(destination, changes.gone, remaining, rules)
        for path, entry in sorted(changes.made.items()):
            after = source.state(path)._replace(mode=0o755 if entry.mode & 0o100 else 0o644)
            destination.put(path, _state_of(remaining.get(path)), after)
    except OSError as error:
        raise HostError(f"cannot apply the command's changes to the project: {error.strerror}") from error
    finally:
        source.close()
        destination.close()
    return destination.applied


def _remove_gone(
    destination: Destination, gone: list[bytes], remaining: dict[bytes, Recorded], rules: ProjectRules
) -> None:
    """Remove the paths that the command removed: files that are as they were sent, and empty directories."""
    roots = set(gone)
    below = [path for path in remaining if path in roots or has_parent_in(path, roots)]
    for path in sorted(below, reverse=True):
        before = _state_of(remaining[path])
        if before is not None and destination.find(path) is not None and not rules.takes(path):
            destination.applied.conflicts.append((path, "the policy denies its removal"))
            continue
        if before is not None:
            destination.remove(path, before)
        del remaining[path]


def _state_of(record: Recorded | None) -> PathState | None:
    """The state in which a path of the project was sent."""
    if record is None:
        return None
    if record.kind is EntryKind.SYMLINK:
        return PathState("symlink", 0o777, text_digest(record.content))
    return PathState(_KINDS[record.kind], 0o755 if record.executable else 0o644, record.content.hex())


class _SentFiles(ChangeRules):
    """Of a mode only whether a file is executable goes to a Pod and comes back."""

    keeps_times = False

    def is_same(self, found: PathState | None, expected: PathState | None) -> bool:
        """Whether kind, content and executability are the same."""
        if found is None or expected is None:
            return found is expected
        same = (found.kind, found.digest) == (expected.kind, expected.digest)
        return same and (found.kind != "file" or found.mode & 0o100 == expected.mode & 0o100)

    def mode_for(self, after: PathState, before: os.stat_result | None) -> int:
        """Of a new file as this process makes it; of one that is there as it is. Never setuid or setgid."""
        if after.kind == "directory":
            return 0o777 & ~umask()
        mode = 0o666 & ~umask() if before is None else before.st_mode & 0o777
        return mode | (mode & 0o444) >> 2 if after.mode & 0o100 else mode & ~0o111
