"""Reads the rows of a fleet: for each run the words that come behind its command."""

from __future__ import annotations

import os
import shlex

from sandwright.documents import strictjson
from sandwright.errors import DocumentError, Problem, UsageError
from sandwright.methods.fleets import MOST
from sandwright.reading import open_named

LARGEST = 16 << 20
"""Bytes of a file of rows."""


def read_rows(file: str) -> tuple[tuple[str, ...], ...]:
    """The rows of a file, one a line: words as a shell quotes them, or a JSON list of strings.

    A line that begins with `[` is JSON. Nothing is expanded, `#` has no special meaning, and a quoted text
    ends on its line. Blank lines are skipped. Raise DocumentError with every malformed line,
    UsageError for a file that is none.
    """
    rows: list[tuple[str, ...]] = []
    problems: list[Problem] = []
    for number, line in enumerate(_read_rows_file(file).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            rows.append(_split_words(line))
        except ValueError as error:
            problems.append(Problem(number, 1, "", str(error)))
    if problems:
        raise DocumentError(file, problems)
    if not rows:
        raise UsageError(f"{file} has no rows")
    if len(rows) > MOST:
        raise UsageError(f"{file} has {len(rows)} rows, and a fleet has {MOST} runs at most")
    return tuple(rows)


def _read_rows_file(file: str) -> str:
    try:
        with open_named(file) as source:
            if not os.path.isfile(file):  # noqa: PTH113 - a descriptor
                raise UsageError(f"{file} is no regular file")
            data = source.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise UsageError(f"{file} is larger than {LARGEST >> 20} MiB")
        return data.decode()
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is not UTF-8: byte {error.start}") from error


def _split_words(line: str) -> tuple[str, ...]:
    """The words of a line. Raise ValueError with the fault."""
    if line.lstrip().startswith("["):
        try:
            found = strictjson.loads_record(line)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            raise ValueError(
                "a row that begins with [ must be a JSON list of strings; otherwise quote the bracket"
            )
    else:
        try:
            found = shlex.split(line, posix=True)
        except ValueError as error:
            raise ValueError(f"a quotation is not closed ({error})") from error
    if any("\0" in word for word in found):
        raise ValueError("a NUL byte, which no argument can hold")
    return tuple(found)
