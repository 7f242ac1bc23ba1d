"""Denials as they happen: `run --denials FILE`, and those of a detached run (`logs --denials`).

Each kind of denial is written as a line when it first happens, with its count until then. If it happened
again, the end of the run adds a line with the same fields and the further count: readers add up the counts.
Denied paths and the number of omitted denials are known, and written, only at the end. `session.denials`
describes the fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from sandwright.documents import strictjson
from sandwright.documents.record import record_of
from sandwright.errors import HostError
from sandwright.outputs import append_output
from sandwright.session.denial_context import DenialContext
from sandwright.session.denials import Denial, Denials, OmittedDenials, denial_lines, explain_denial
from sandwright.session.events import RunDenied, RunEvent

_MOST_KINDS = 2000
"""The most kinds that are written during a run: programs inside choose paths and hosts."""

_Kind = tuple[str, ...]


def _kind_of(denial: Denial) -> _Kind:
    return denial.kind, denial.what, denial.error, denial.field, denial.why, denial.access


class DenialWriter:
    """Appends the denials of one run to some files."""

    def __init__(self, files: Sequence[str], context: DenialContext) -> None:
        self._files, self._context = tuple(files), context
        self._written: dict[_Kind, int] = {}
        self._faults: dict[str, str] = {}
        """The error of each failed file, which gets nothing more."""

    def write(self, event: RunEvent) -> None:
        """Append a denial of a new kind."""
        if self._files and isinstance(event, RunDenied) and len(self._written) < _MOST_KINDS:
            denial = explain_denial(event, self._context)
            if _kind_of(denial) not in self._written:
                self._written[_kind_of(denial)] = event.count
                self._append_to_files([denial])

    def finish(self, found: Denials) -> list[str]:
        """Append the denials that were not written during the run. Return the messages of failed writes."""
        remaining: Denials = []
        for each in found:
            before = self._written.pop(_kind_of(each), 0) if isinstance(each, Denial) else 0
            if not isinstance(each, Denial) or each.count is None:
                remaining.append(each)
            elif each.count > before:
                remaining.append(replace(each, count=each.count - before))
        self._append_to_files(remaining)
        return [f"cannot report denials: {fault}" for fault in self._faults.values()]

    def _append_to_files(self, found: Denials) -> None:
        lines = b"".join(each.json_line() for each in found)
        for file in self._files:
            if lines and file not in self._faults:
                try:
                    append_output(file, lines)
                except HostError as fault:
                    self._faults[file] = str(fault)


class DenialReader:
    """Reads the lines that a `DenialWriter` appends to a file, which need not be there yet."""

    def __init__(self, file: Path) -> None:
        self._file, self._at = file, 0
        self._found: dict[_Kind, Denial] = {}
        self._omitted = 0

    def new_lines(self) -> Iterator[str]:
        """The lines for the user about new kinds of denials.

        For a kind that occurred again, its first line with the total.
        """
        for each in self._new_denials():
            if isinstance(each, OmittedDenials):
                self._omitted += each.count
                yield from denial_lines([each])
                continue
            before = self._found.get(_kind_of(each))
            total = each if before is None else _with_sum(before, each)
            self._found[_kind_of(each)] = total
            lines = list(total.text())
            yield from lines if before is None else lines[:1]

    def all_lines(self) -> list[str]:
        """The lines for the user about all kinds, with their totals."""
        for _ in self.new_lines():
            pass
        omitted = [OmittedDenials(self._omitted)] if self._omitted else []
        return denial_lines([*self._found.values(), *omitted], most=len(self._found))

    def _new_denials(self) -> Iterator[Denial | OmittedDenials]:
        """Whole lines since the last call. Raise HostError for a line in another format."""
        try:
            with self._file.open("rb") as lines:
                lines.seek(self._at)
                for line in lines:
                    if not line.endswith(b"\n"):
                        return
                    self._at += len(line)
                    yield _denial_of(line)
        except FileNotFoundError:
            return
        except (ValueError, LookupError, TypeError) as fault:
            raise HostError(f"{self._file} is damaged: {fault}") from fault


def _with_sum(one: Denial, other: Denial) -> Denial:
    counts = one.count, other.count
    return replace(other, count=None if None in counts else sum(each or 0 for each in counts))


def _denial_of(line: bytes) -> Denial | OmittedDenials:
    data = strictjson.loads_record(line)
    if data.get("kind") == "omitted":
        return OmittedDenials(int(data["count"]))
    return record_of(Denial, data)
