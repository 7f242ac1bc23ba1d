"""Checks the chain of an audit log, and reports a line that was changed, moved, removed or cut off."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sandwright.errors import UsageError
from sandwright.reading import open_named
from sandwright.session.audit import MAX_LINE, NOTHING, AuditLine, line_digest, parse_line


@dataclass(frozen=True)
class _Line:
    """A line: its number in the file, its digest, its content."""

    line_number: int
    digest: str
    record: AuditLine

    @property
    def number(self) -> int:
        """Its own number."""
        return self.record.number


@dataclass
class AuditFindings:
    """The findings. `faults` are sentences; if there are none, the chain is complete.

    `head` is the last digest.
    """

    lines: int = 0
    sessions: int = 0
    head: str = NOTHING
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def check_audit_log(
    path: Path, *, head: str = "", runs: Callable[[str], bool] = lambda _: False
) -> AuditFindings:
    """Check a file. `head` is a digest that a run printed; `runs` is true for a session that still runs.

    Raise UsageError for a file that can't be read.
    """
    found = AuditFindings()
    lines = list(_read_entries(path, found.faults))
    found.lines, found.head = len(lines), lines[-1].digest if lines else NOTHING
    found.faults += _chain(lines)
    found.sessions = _sessions(lines, found, runs)
    if head and head not in {each.digest for each in lines}:
        found.faults.append(f"no line has the digest {head}: lines were changed, or cut off at the end")
    return found


def _read_entries(path: Path, faults: list[str]) -> Iterator[_Line]:
    try:
        with open_named(path) as file:
            line_number = 0
            while raw := file.readline(MAX_LINE + 1):
                line_number += 1
                line = raw.removesuffix(b"\n")
                record = parse_line(line) if len(line) < MAX_LINE else None
                if line == raw:
                    faults.append(f"line {line_number} is cut off in the middle")
                elif record is None:
                    faults.append(
                        f"line {line_number} does not belong to an audit log: it was changed or inserted"
                    )
                else:
                    yield _Line(line_number, line_digest(line), record)
    except OSError as error:
        raise UsageError(f"cannot read the audit log {path}: {error.strerror}") from error


def _chain(lines: Sequence[_Line]) -> Iterator[str]:
    """Check for each line whether the next one has its digest, and the next number."""
    if lines and lines[0].number > 1:
        yield f"{_range_text(1, lines[0].number - 1)} removed from the beginning"
    elif lines and lines[0].record.previous != NOTHING:
        yield "line 1 was changed"
    for index, (line, behind) in enumerate(itertools.pairwise(lines)):
        if behind.number > line.number + 1:
            gone = _range_text(line.number + 1, behind.number - 1)
            yield f"{gone} removed, or changed, before line {behind.line_number}"
        elif behind.number <= line.number:
            where = f"line {behind.line_number}"
            yield f"{where} was moved or inserted: its number is {behind.number}"
        elif behind.record.previous != line.digest:
            later = lines[index + 2 : index + 3]
            broken = bool(later) and later[0].record.previous != behind.digest
            perhaps = f", and perhaps line {line.line_number}" if broken else ""
            yield f"line {behind.line_number if broken else line.line_number} was changed{perhaps}"


def _range_text(first: int, last: int) -> str:
    return f"number {first} was" if first == last else f"numbers {first} to {last} were"


def _sessions(lines: Sequence[_Line], found: AuditFindings, runs: Callable[[str], bool]) -> int:
    """Each session begins and ends, unless it goes on; give how many there are."""
    begun: dict[str, bool] = {}
    for line in lines:
        session, event = line.record.session, line.record.event
        if event == "start":
            begun[session] = False
        elif session not in begun:
            found.faults.append(f"line {line.line_number} is of session {session}, which has no start")
            begun[session] = event == "exit"
        elif event == "exit":
            begun[session] = True
    for session, ended in begun.items():
        if not ended and runs(session):
            found.notes.append(f"session {session} is still running")
        elif not ended:
            found.faults.append(f"session {session} has no end: it was killed, or lines were cut off")
    return len(begun)
