"""The journals of applies: the old and the new state of each path, written before anything is changed.

A journal is a directory with the number of its run: `journal` has a line of JSON for each step, `objects` the
old content of files and links by digest. An incomplete last line does not count: nothing was done for it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self, cast

from sandwright import user_dirs
from sandwright.documents import strictjson
from sandwright.errors import HostError, UsageError
from sandwright.questions import ENTRIES
from sandwright.rootfs.unpacking.removal import OPEN_DIRECTORY, remove
from sandwright.streams import write_all
from sandwright.workspace.below import OPEN_FILE, PathState, closing, text_digest
from sandwright.workspace.destination import PART
from sandwright.workspace.filecopy import NEW_FILE, copy_content
from sandwright.workspace.replacing import Slot, unlink_at
from sandwright.workspace.store import Workspace

MOST_RUNS = 20
"""The number of journals that are kept; older ones are removed."""

_LAST = 16 << 20
"""Bytes at the end of a journal that contain its last line."""

MOST_BYTES = 4 << 30
"""Bytes of old content that are kept; the newest journal is kept at any size."""

_VERSION = 1
_LINES = "journal"
_OBJECTS = "objects"
_UNDOING = "undoing"
_UNFINISHED = "unfinished"


class Step(NamedTuple):
    """The old and the new state of a path; None for nothing.

    `time` is that of the old file's last write, in ns.
    """

    path: bytes
    old: PathState | None
    new: PathState | None
    old_size: int = 0
    new_size: int = 0
    time: int = 0


@dataclass(frozen=True)
class AppliedRun:
    """A journal: its number, when it was begun (seconds since 1970), and how many paths it has.

    `changed` and `conflicts` are 0 where the apply was killed; `is_finished` says whether it was not.
    """

    number: int
    time: float
    changed: int
    conflicts: int
    is_finished: bool


class Journal:
    """One journal, open. A context manager."""

    def __init__(self, workspace: Workspace, number: int, *, is_new: bool) -> None:
        """Open the journal of a number, or make a new one.

        Raise UsageError if it does not exist, HostError.
        """
        self.number = number
        self.path = Path(workspace.undo, str(number))
        self.steps: list[Step] = []
        self.time = 0.0
        self.end: tuple[int, int] | None = None
        """Of a finished journal: the numbers of changed paths and of conflicts."""
        self._skipped: set[int] = set()
        self._token = secrets.token_hex(8)
        if not is_new and not (self.path / _LINES).exists():
            raise UsageError(f"run {number} applied nothing from the workspace {workspace.name}")
        try:
            user_dirs.private(str(self.path / _OBJECTS))
            self._directory = os.open(self.path, OPEN_DIRECTORY)
        except OSError as error:
            raise HostError(f"cannot open {self.path}: {error.strerror}") from error
        with contextlib.ExitStack() as stack:
            stack.callback(os.close, self._directory)
            self._objects = os.open(_OBJECTS, OPEN_DIRECTORY, dir_fd=self._directory)
            stack.callback(os.close, self._objects)
            self._file = os.open(_LINES, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600, dir_fd=self._directory)
            stack.callback(os.close, self._file)
            self._load_steps()
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def part(self, index: int) -> bytes:
        """The temporary name of a step's file."""
        return f"{PART.decode()}{self._token}-{index}".encode()

    def undoable(self) -> list[Step]:
        """The steps that were or may have been done, one for each path, in the order of their numbers."""
        merged: dict[bytes, Step] = {}
        for index, step in enumerate(self.steps):
            if index in self._skipped:
                continue
            first = merged.get(step.path)
            merged[step.path] = (
                step if first is None else first._replace(new=step.new, new_size=step.new_size)
            )
        return list(merged.values())

    def add(self, steps: Iterable[Step]) -> None:
        """Write steps before they are done. Raise OSError."""
        added = list(steps)
        if not self.steps and not self.time:
            self.time = time.time()
            (self.path / _UNFINISHED).touch()
            self._write({"version": _VERSION, "token": self._token, "time": self.time})
        if added:
            if self.end is not None:
                (self.path / _UNFINISHED).touch()
            self.end = None
            self._write(*(_step_record(each) for each in added))
            self.steps += added

    def _write(self, *records: object) -> None:
        os.lseek(self._file, 0, os.SEEK_END)
        write_all(self._file, b"".join(strictjson.dumps(each) + b"\n" for each in records))
        os.fsync(self._file)

    def finish(self, changed: int, skipped: set[bytes], conflicts: int) -> None:
        """Note that all steps were done except those of some paths. Raise OSError."""
        self.add(())
        indexes = [index for index, step in enumerate(self.steps) if step.path in skipped]
        self._write({"changed": changed, "conflicts": conflicts, "skipped": indexes})
        self.end = (changed, conflicts)
        (self.path / _UNFINISHED).unlink(missing_ok=True)

    def keep_content(self, slot: Slot, state: PathState) -> bool:
        """Keep the content of a project's file or link; tell whether it is the expected one.

        Raise OSError.
        """
        unlink_at(self._objects, b"part")
        with closing(os.open(b"part", NEW_FILE, 0o600, dir_fd=self._objects)) as part:
            if state.kind == "symlink":
                text = os.readlink(slot.name, dir_fd=slot.parent)
                digest = text_digest(text)
                write_all(part, text)
            else:
                with closing(os.open(slot.name, OPEN_FILE, dir_fd=slot.parent)) as source:
                    digest = copy_content(source, part, os.fstat(source))
        if digest != state.digest:
            return False
        os.rename(b"part", digest, src_dir_fd=self._objects, dst_dir_fd=self._objects)
        return True

    def adopt(self, number: int, step: Step) -> None:
        """Also keep the content that another journal kept for a step. Raise OSError."""
        if step.old is not None and step.old.digest and number != self.number:
            with contextlib.suppress(FileExistsError):
                os.link(
                    self.path.parent / str(number) / _OBJECTS / step.old.digest,
                    step.old.digest,
                    dst_dir_fd=self._objects,
                )

    def open_content(self, digest: str) -> int:
        """Open the kept content for reading. Raise OSError."""
        return os.open(digest, OPEN_FILE, dir_fd=self._objects)

    def begin_undo(self) -> None:
        """Note that parts of an undo may be in the project from now on."""
        (self.path / _UNDOING).touch()

    def end_undo(self) -> None:
        """Note that there are none any more."""
        (self.path / _UNDOING).unlink(missing_ok=True)

    def _load_steps(self) -> None:
        with open(self._file, "rb", closefd=False) as file:
            lines = file.read().split(b"\n")
        if lines.pop():  # a line that was not finished, because the process was killed
            os.ftruncate(self._file, sum(len(each) + 1 for each in lines))
        try:
            for line in lines:
                self._take(strictjson.loads_record(line))
        except (KeyError, TypeError, ValueError) as error:
            raise HostError(f"{self.path / _LINES} is damaged: {error}") from error

    def _take(self, record: object) -> None:
        if not isinstance(record, dict):
            raise TypeError("a line is no object")
        if "version" in record:
            if record["version"] != _VERSION:
                raise ValueError("it has another version")
            self._token, self.time = str(record["token"]), float(record["time"])
        elif "skipped" in record:
            self._skipped |= set(map(int, record["skipped"]))
            self.end = int(record["changed"]), int(record["conflicts"])
        else:
            self.steps.append(_parse_step(cast("dict[str, list[str | int] | str | int | None]", record)))
            self.end = None


def _step_record(step: Step) -> object:
    return {
        "path": os.fsdecode(step.path),
        "old": step.old,
        "new": step.new,
        "sizes": [step.old_size, step.new_size],
        "time": step.time,
    }


def _parse_step(record: dict[str, list[str | int] | str | int | None]) -> Step:
    path, sizes, stamp = record["path"], record["sizes"], record["time"]
    if not isinstance(path, str) or not isinstance(sizes, list) or not isinstance(stamp, int):
        raise TypeError("a step has another form")
    return Step(
        os.fsencode(path),
        _parse_state(record["old"]),
        _parse_state(record["new"]),
        int(sizes[0]),
        int(sizes[1]),
        stamp,
    )


def _parse_state(record: object) -> PathState | None:
    if record is None:
        return None
    if not isinstance(record, list) or len(record) != 3:
        raise TypeError("a state has another form")
    kind, mode, digest = record
    found = next((each for each in ENTRIES.values() if each == kind), None)
    if found is None or not isinstance(mode, int) or not isinstance(digest, str):
        raise TypeError("a state has another form")
    return PathState(found, mode, digest)


def journal_numbers(workspace: Workspace) -> list[int]:
    """The numbers of all journals, from the oldest."""
    try:
        names = os.listdir(workspace.undo)  # noqa: PTH208 - names of ours
    except FileNotFoundError:
        return []
    return sorted(int(name) for name in names if name.isascii() and name.isdigit())


def interrupted_journals(workspace: Workspace) -> Iterator[Journal]:
    """The journals of applies and undos that were killed, from the oldest, each open until the next one."""
    for number in journal_numbers(workspace):
        directory = Path(workspace.undo, str(number))
        if (directory / _UNFINISHED).exists() or (directory / _UNDOING).exists():
            with contextlib.suppress(UsageError), Journal(workspace, number, is_new=False) as journal:
                yield journal


def applied_runs(workspace: Workspace) -> list[AppliedRun]:
    """The applies of a workspace that can be undone, from the oldest. Raise HostError."""
    found = (_run_of(workspace, number) for number in journal_numbers(workspace))
    return [each for each in found if each is not None]


def _run_of(workspace: Workspace, number: int) -> AppliedRun | None:
    """A journal, by its first and last line; None for one without a whole line."""
    path = Path(workspace.undo, str(number), _LINES)
    try:
        with path.open("rb") as file:
            first = file.readline()
            if not first.endswith(b"\n"):
                return None  # the apply was killed before its first step
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LAST))
            last = file.read().splitlines()[-1:]
        begun = strictjson.loads_record(first)["time"]
        end = strictjson.loads_record(last[0]) if last and b'"skipped"' in last[0] else None
    except FileNotFoundError:
        return None
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise HostError(f"cannot read {path}: {error}") from error
    if end is None:
        return AppliedRun(number, begun, 0, 0, is_finished=False)
    return AppliedRun(number, begun, end["changed"], end["conflicts"], is_finished=True)


def remove_journal(workspace: Workspace, number: int) -> None:
    """Remove a journal, atomically for readers. Raise HostError."""
    try:
        with closing(os.open(workspace.undo, OPEN_DIRECTORY)) as undo:
            gone = f"removed-{number}-{secrets.token_hex(4)}"
            os.rename(str(number), gone, src_dir_fd=undo, dst_dir_fd=undo)
            for name in os.listdir(undo):  # noqa: PTH208 - by descriptor
                if name.startswith("removed-"):
                    remove(name, undo)
    except OSError as error:
        raise HostError(f"cannot remove {workspace.undo}/{number}: {error.strerror}") from error


def retain(workspace: Workspace) -> None:
    """Remove the oldest journals above `MOST_RUNS` and `MOST_BYTES`. Raise HostError."""
    size, numbers = 0, journal_numbers(workspace)
    for count, number in enumerate(reversed(numbers)):
        objects = Path(workspace.undo, str(number), _OBJECTS)
        if objects.is_dir():
            size += sum(entry.stat(follow_symlinks=False).st_size for entry in os.scandir(objects))
        if count and (count >= MOST_RUNS or size > MOST_BYTES):
            remove_journal(workspace, number)
