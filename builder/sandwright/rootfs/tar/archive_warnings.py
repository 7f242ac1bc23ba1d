"""Collects remarks about members of an archive: counted by kind, with the first few names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

EXAMPLES = 20
KINDS = 200
REST = "more of other kinds"


@dataclass
class Note:
    """The count of one warning, and the first members that caused it (at most `EXAMPLES`)."""

    count: int = 0
    examples: list[bytes] = field(default_factory=list)


class Notes:
    """A collection of bounded size, for archives of any size and content.

    It holds at most `KINDS` kinds; further kinds count as `REST`.
    """

    def __init__(self) -> None:
        self._notes: dict[str, Note] = {}

    def add(self, kind: str, path: bytes) -> None:
        """`kind`, a phrase, happened to the member `path`."""
        note = self._note(kind)
        note.count += 1
        if len(note.examples) < EXAMPLES:
            note.examples.append(path)

    def merge(self, other: Notes) -> None:
        """Add another collection."""
        for kind, note in other:
            mine = self._note(kind)
            mine.count += note.count
            mine.examples = (mine.examples + note.examples)[:EXAMPLES]

    def _note(self, kind: str) -> Note:
        if kind not in self._notes and len(self._notes) >= KINDS:
            kind = REST
        return self._notes.setdefault(kind, Note())

    def __iter__(self) -> Iterator[tuple[str, Note]]:
        return iter(sorted(self._notes.items()))

    def __len__(self) -> int:
        return len(self._notes)

    def __getitem__(self, kind: str) -> Note:
        return self._notes[kind]

    def __contains__(self, kind: str) -> bool:
        return kind in self._notes

    def as_dict(self) -> dict[str, object]:
        """For JSON: for each kind how often, and the first names, with bytes that are no UTF-8 escaped."""
        return {
            kind: {
                "count": note.count,
                "examples": [path.decode("utf-8", "backslashreplace") for path in note.examples],
            }
            for kind, note in self
        }
