"""Keeps notes, a line each, in a file."""

from __future__ import annotations

from pathlib import Path


class Notes:
    """The notes in a file, which need not be there yet."""

    def __init__(self, path: Path) -> None:
        """`path` is made when the first note is added."""
        self._path = path

    def add(self, text: str) -> None:
        """Add a note. Raise ValueError for one of several lines."""
        if "\n" in text:
            raise ValueError("a note is one line")
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")

    def all(self) -> list[str]:
        """All notes, the oldest first."""
        return self._path.read_text(encoding="utf-8").splitlines() if self._path.exists() else []
