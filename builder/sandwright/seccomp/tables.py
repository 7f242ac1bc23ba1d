"""Reads the tables of numbers in `seccomp/`.

They are comma-separated without quotes; the first line names the columns, and a line with `#` is a comment.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from sandwright.resources import data_path

Row = Mapping[str, str]


@functools.cache
def rows(name: str) -> tuple[Row, ...]:
    """The rows of one table in the order of the file, each by the names of its columns."""
    text = data_path("seccomp", name).read_text(encoding="utf-8")
    lines = [line.split(",") for line in text.splitlines() if line and not line.startswith("#")]
    header, *body = lines
    return tuple(dict(zip(header, line, strict=True)) for line in body)
