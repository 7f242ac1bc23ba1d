"""The results of a fleet as JSON lines: of each run, and of attempts that don't count.

A file of results belongs to one fleet, by its id. Resuming the fleet reads from it which runs have a result.
"""

from __future__ import annotations

import base64
import json
import os
import stat
from collections.abc import Iterator
from typing import Any

from sandwright.documents import strictjson
from sandwright.errors import HostError, UsageError
from sandwright.methods.fleets import Outcome, RunAttempt

_LONGEST = 8 << 20
"""Bytes of a line: an output of 1 MiB, six for each byte as JSON may have it."""


class Results:
    """Writes results to a file. `known` are the indexes of runs that the file has."""

    def __init__(self, name: str, fleet: str, descriptor: int, known_statuses: dict[int, int | None]) -> None:
        """`fleet` is the id of the fleet `name`; `known_statuses` has exit statuses by index."""
        self._name = name
        self._fleet = fleet
        self._descriptor = descriptor
        self.known = known_statuses
        self._attempts: list[RunAttempt] = []

    def attempted(self, attempt: RunAttempt) -> None:
        """Keep an attempt for the lines of its run, which are written together."""
        self._attempts.append(attempt)

    def settled(self, outcome: Outcome, words: tuple[str, ...]) -> None:
        """Write a run's lines. Raise HostError."""
        lines = [self._line(_attempt_fields(each), each.index, counts=False) for each in self._attempts]
        self._attempts.clear()
        lines.append(self._line(_outcome_row(outcome, words), outcome.index, counts=True))
        self.known[outcome.index] = outcome.attempt.status if outcome.attempt is not None else None
        data = "".join(lines).encode()
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError as error:
            raise HostError(f"cannot write results: {error.strerror}") from error

    def close(self) -> None:
        """End the file."""
        if self._descriptor > 2:
            os.close(self._descriptor)

    def _line(self, data: dict[str, Any], index: int, *, counts: bool) -> str:
        line = {"fleet": self._name, "id": self._fleet, "index": index, "counts": counts, **data}
        return json.dumps(line) + "\n"  # ASCII: no control character of an output comes through


def _attempt_fields(attempt: RunAttempt) -> dict[str, Any]:
    names = ("status", "reason", "seconds")
    return {
        "attempt": attempt.number,
        "name": attempt.name,
        **{name: getattr(attempt, name) for name in names},
    }


def _outcome_row(outcome: Outcome, words: tuple[str, ...]) -> dict[str, Any]:
    attempt = outcome.attempt
    ended = {} if attempt is None else _attempt_fields(attempt)
    unknown = {"status": None, "reason": "", "seconds": None} if attempt is None else {}
    note = {"note": outcome.note} if outcome.note else {}
    return {
        "row": list(words),
        "attempts": outcome.attempts,
        **unknown,
        **ended,
        **note,
        **_output_fields(outcome),
    }


def _output_fields(outcome: Outcome) -> dict[str, Any]:
    """The output: as text where it is UTF-8, else in base64."""
    if outcome.output is None:
        return {"output": None}
    cut = {"truncated": True} if outcome.truncated else {}
    try:
        return {"output": outcome.output.decode(), **cut}
    except UnicodeDecodeError:
        return {"output_base64": base64.b64encode(outcome.output).decode(), **cut}


def open_new(path: str, name: str) -> int:
    """A new file, for the results of a fleet that is yet to start. Raise UsageError for one that is there."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o666)
    except FileExistsError as error:
        raise UsageError(
            f"{path} is there: give another --results, or --resume --name {name} to go on with its fleet"
        ) from error
    except OSError as error:
        raise UsageError(f"cannot create {path}: {error.strerror}") from error


def open_known(path: str, name: str, fleet: str) -> Results:
    """Open the results of a fleet so far, or a new file; a line that a crash cut off is dropped.

    Raise UsageError for a file of another fleet.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o666)
    except OSError as error:
        raise UsageError(f"cannot open {path}: {error.strerror}") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UsageError(f"{path} is no regular file")
        statuses: dict[int, int | None] = {}
        for data in _read_rows(descriptor, path):
            if data.get("id") != fleet:
                raise UsageError(f"{path} has results of another fleet than {name}: {fleet}")
            if data.get("counts") is True and isinstance(data.get("index"), int):
                statuses[data["index"]] = data["status"] if isinstance(data.get("status"), int) else None
    except BaseException:
        os.close(descriptor)
        raise
    return Results(name, fleet, descriptor, statuses)


def _read_rows(descriptor: int, path: str) -> Iterator[dict[str, Any]]:
    """The lines of a file, each an object; cut the last one off where it is no whole line."""
    whole = 0
    with open(os.dup(descriptor), "rb") as file:  # noqa: PTH123 - a descriptor
        for line in iter(lambda: file.readline(_LONGEST), b""):
            if not line.endswith(b"\n"):
                break
            whole += len(line)
            try:
                data = strictjson.loads_record(line)
            except (ValueError, RecursionError):
                data = None
            if not isinstance(data, dict):
                raise UsageError(f"{path} has a line that is no result of a fleet")
            yield data
    if os.fstat(descriptor).st_size > whole:
        os.ftruncate(descriptor, whole)
