"""Makes the unified diff of one change from bytes, bounded in size and time. Starts no program."""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import stat
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from sandwright.errors import HostError
from sandwright.rootfs.unpacking.removal import OPEN_DIRECTORY
from sandwright.workspace.below import (
    OPEN_FILE,
    OpenFolders,
    closing,
    open_locked,
    open_plain,
    state_at,
    text_digest,
)
from sandwright.workspace.changes import Change
from sandwright.workspace.store import Workspace

MOST_BYTES = 1 << 20
"""Bytes of a file that is shown line by line."""

SECONDS = 2.0
"""The time limit for finding equal lines; after that, the rest of the difference is one block."""

_PIECE = 4000
"""The most lines that are compared: the time of a single step grows with their square."""

_CONTEXT = 3

_Open = Callable[[int, bytes, int], int]
"""Opens a name in an open directory, with flags."""

Group = list[tuple[str, int, int, int, int]]
"""A hunk: opcodes of `difflib` with line ranges of both texts, with equal lines around."""

_NO_NEWLINE = b"\\ No newline at end of file\n"


_OBJECT = re.compile(
    rb"((?:.*/)?\.git/objects)/(?:[0-9a-f]{2}/[0-9a-f]{38}(?:[0-9a-f]{24})?|pack/pack-[0-9a-f]+\.(?:pack|idx|rev))",
    re.DOTALL,
)
"""A file that Git names by its content, which is compressed; and the directory of all objects."""


def without_objects(changes: Iterable[Change]) -> tuple[list[Change], Mapping[bytes, list[Change]]]:
    """The changes that a diff shows, and by directory the added or removed files of Git objects.

    Directories that were made only for these files are in neither.
    """
    rest: list[Change] = []
    objects: dict[bytes, list[Change]] = defaultdict(list)
    for each in changes:
        match = _OBJECT.fullmatch(each.path)
        is_file = {getattr(side, "kind", "file") for side in (each.old, each.new)} == {"file"}
        if match and is_file and each.kind in ("added", "deleted"):
            objects[match[1]].append(each)
        else:
            rest.append(each)
    made = {each.path.rpartition(b"/")[0] for found in objects.values() for each in found}
    return [each for each in rest if each.path not in made or each.kind != "added"], objects


def diff_change(workspace: Workspace, change: Change) -> list[bytes]:
    """The lines of a diff, each with its line break, as programs wrote them: escape them before a terminal.

    The old side is the project's file as it is now; if that changed since it was copied, a line says so. A
    file that is not text, or is longer than `MOST_BYTES`, is one line.
    """
    old, new, is_current = sides(workspace, change)
    lines = list(header(change))
    if not is_current:
        lines.append(
            b"The project's file was changed since it was copied; this compares with it as it is now.\n"
        )
    return lines + _content_lines(change, old, new)


def diff_running(workspace: Workspace, change: Change) -> list[bytes]:
    """The same for programs of the run that works in the copy: they may read the old side only as copied."""
    old, new = _project_content(workspace, change), _copy_side(workspace, change, open_plain)
    lines = list(header(change))
    if old is not None and not _is_as_copied(change, old):
        return [*lines, b"The project's file was changed since it was copied, so it is not shown.\n"]
    return lines + _content_lines(change, old, new)


def _is_as_copied(change: Change, content: bytes) -> bool:
    return change.old is None or not change.old.digest or text_digest(content) == change.old.digest


def _content_lines(change: Change, old: bytes | None, new: bytes | None) -> list[bytes]:
    """The lines below the header. A content is None if it is too long."""
    if old is None or new is None:
        return [b"Files differ, and are too large to be shown\n"]
    if b"\0" in old or b"\0" in new:
        return [b"Binary files differ\n"]
    if old == new:
        return []
    path = _path_in_one_line(change.path)
    before = b"--- a/" + path + b"\n" if change.old else b"--- /dev/null\n"
    after = b"+++ b/" + path + b"\n" if change.new else b"+++ /dev/null\n"
    return [before, after, *unified(old.splitlines(keepends=True), new.splitlines(keepends=True))]


def sides(workspace: Workspace, change: Change) -> tuple[bytes | None, bytes | None, bool]:
    """The old and the new content, None for one that is too long, and whether the old one is unchanged."""
    old, is_current = _project_side(workspace, change)
    return old, _copy_side(workspace, change), is_current


def _path_in_one_line(path: bytes) -> bytes:
    """A path whose line breaks do not begin lines of the diff."""
    return path.replace(b"\n", b"\\n")


def header(change: Change) -> Iterator[bytes]:
    """The lines above the hunks that say which path changed, and how its kind and mode did."""
    old, new = change.old, change.new
    yield b"diff a/" + _path_in_one_line(change.path) + b" b/" + _path_in_one_line(change.path) + b"\n"
    if old is None and new is not None:
        yield f"new {new.kind} mode {new.mode:04o}\n".encode()
    elif new is None and old is not None:
        yield f"deleted {old.kind} mode {old.mode:04o}\n".encode()
    elif old is not None and new is not None:
        if old.kind != new.kind:
            yield f"{old.kind} became {new.kind}\n".encode()
        if old.mode != new.mode:
            yield f"old mode {old.mode:04o}\nnew mode {new.mode:04o}\n".encode()
    if new is not None and new.problem:
        yield f"not read: {new.problem}\n".encode()


def _project_side(workspace: Workspace, change: Change) -> tuple[bytes | None, bool]:
    """The old content, None if it is too long, and whether it is unchanged since it was copied."""
    if change.old is None or change.old.kind == "directory":
        return b"", True
    with _open_side(workspace.project, change.path) as (parent, name):
        state = None if parent is None else state_at(parent, name)
        is_current = state is not None and state.digest == change.old.digest
        return b"" if parent is None or state is None else _content_at(parent, name, state.kind), is_current


def _project_content(workspace: Workspace, change: Change) -> bytes | None:
    """The project's content of a file that was copied, None if it is too long; empty for nothing."""
    if change.old is None or change.old.kind == "directory":
        return b""
    with _open_side(workspace.project, change.path) as (parent, name):
        return b"" if parent is None else _content_at(parent, name, change.old.kind, open_plain)


def _copy_side(workspace: Workspace, change: Change, opener: _Open = open_locked) -> bytes | None:
    if change.new is None or change.new.kind not in ("file", "symlink") or change.new.problem:
        return b""
    with _open_side(workspace.tree, change.path) as (parent, name):
        return b"" if parent is None else _content_at(parent, name, change.new.kind, opener)


@contextlib.contextmanager
def _open_side(root: str, path: bytes) -> Iterator[tuple[int | None, bytes]]:
    """The open directory of a path below a root, None where there is none; and the name in it."""
    try:
        fd = os.open(root, OPEN_DIRECTORY)
    except OSError as error:
        raise HostError(f"cannot read {root}: {error.strerror}") from error
    with closing(fd), contextlib.closing(OpenFolders(fd)) as folders:
        yield folders.parent(path)


def _content_at(parent: int, name: bytes, kind: str, opener: _Open = open_locked) -> bytes | None:
    """A file's content, or a link's text; None if it is too long, empty if it is gone."""
    try:
        if kind == "symlink":
            return os.readlink(name, dir_fd=parent)
        if kind != "file":
            return b""
        with closing(opener(parent, name, OPEN_FILE)) as fd, os.fdopen(os.dup(fd), "rb") as file:
            content = file.read(MOST_BYTES + 1) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
    except OSError:
        return b""
    return content if len(content) <= MOST_BYTES else None


def unified(old: Sequence[bytes], new: Sequence[bytes]) -> Iterator[bytes]:
    """The hunks of a unified diff of two texts, by their lines."""
    for group in groups(old, new):
        yield from hunk_lines(old, new, group)


def hunk_lines(old: Sequence[bytes], new: Sequence[bytes], group: Group) -> Iterator[bytes]:
    """One hunk of a unified diff."""
    first, last = group[0], group[-1]
    spans = _hunk_range(first[1], last[2]), _hunk_range(first[3], last[4])
    yield b"@@ -%s +%s @@\n" % spans
    for tag, old_start, old_end, new_start, new_end in group:
        if tag == "equal":
            yield from _prefixed(b" ", old[old_start:old_end])
        else:
            yield from _prefixed(b"-", old[old_start:old_end])
            yield from _prefixed(b"+", new[new_start:new_end])


def _hunk_range(start: int, end: int) -> bytes:
    """A range as diff(1) writes it."""
    length = end - start
    return f"{start + 1 if length else start}{'' if length == 1 else f',{length}'}".encode()


def _prefixed(mark: bytes, lines: Sequence[bytes]) -> Iterator[bytes]:
    for line in lines:
        if line.endswith(b"\n"):
            yield mark + line
        else:
            yield mark + line + b"\n"
            yield _NO_NEWLINE


def groups(old: Sequence[bytes], new: Sequence[bytes]) -> Iterator[Group]:
    """The hunks of the texts between their equal beginning and end."""
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    start, end = max(0, start - _CONTEXT), max(0, end - _CONTEXT)
    matcher = _Matcher(old[start : len(old) - end], new[start : len(new) - end])
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        yield [(tag, a + start, b + start, c + start, d + start) for tag, a, b, c, d in group]


class _Matcher(difflib.SequenceMatcher[bytes]):
    """Finds equal lines until its time limit."""

    def __init__(self, old: Sequence[bytes], new: Sequence[bytes]) -> None:
        self._until = time.monotonic() + SECONDS
        self._is_large = max(len(old), len(new)) > _PIECE
        super().__init__(None, [] if self._is_large else old, [] if self._is_large else new)
        self.a, self.b = old, new

    def find_longest_match(
        self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None
    ) -> difflib.Match:
        """The longest block of equal lines; none when the time is over, but for the equal ends."""
        ahi, bhi = len(self.a) if ahi is None else ahi, len(self.b) if bhi is None else bhi
        if not self._is_large and time.monotonic() < self._until:
            return super().find_longest_match(alo, ahi, blo, bhi)
        size = 0
        while size < min(ahi - alo, bhi - blo) and self.a[alo + size] == self.b[blo + size]:
            size += 1
        if not size:
            while size < min(ahi - alo, bhi - blo) and self.a[ahi - 1 - size] == self.b[bhi - 1 - size]:
                size += 1
            return difflib.Match(ahi - size, bhi - size, size)
        return difflib.Match(alo, blo, size)
