"""An entry of the render cache as it is written, for the native front and Python (docs/front.md).

Its form is that of a launch plan. `front/source/fields.h` has the same table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from sandwright.launcher.plan import Pairs, Words, document_bytes, parse_document
from sandwright.questions import Answer, Question

HEAD = ("sandwright-entry", "1")


@dataclass(frozen=True, kw_only=True)
class CacheEntry:
    """Each field of `fields.h`, in its order. The comments there explain them."""

    questions: Words
    excepted: Words = ()
    said: Words = ()
    launcher: Words = ()
    environment: Pairs = ()
    sessions: str | None = None
    guards: str | None = None
    record: str | None = None
    report: Words = ()
    roots: Words = ()
    closed: Words = ()
    git: Words = ()
    names: Words = ()
    known: str | None = None
    sandbox: str | None = None

    def recording(self) -> list[tuple[Question, Answer]]:
        """The questions, with their answers. Raise ValueError where they have another form."""
        words = iter(self.questions)
        return [((kind, *_counted(words)), _counted(words)) for kind in words]


def entry_bytes(entry: CacheEntry) -> bytes:
    """The entry as it is written. Raise RenderError for NUL in a word."""
    return document_bytes(entry, HEAD)


def parse_entry(content: bytes) -> CacheEntry:
    """Decode the output of `entry_bytes`. Raise RenderError for anything else."""
    return parse_document(CacheEntry, content, HEAD)


def question_words(recording: Iterable[tuple[Question, Answer]]) -> Words:
    """Questions with their answers, as an entry has them."""
    return tuple(
        word
        for question, answer in recording
        for word in (question[0], str(len(question) - 1), *question[1:], str(len(answer)), *answer)
    )


def _counted(words: Iterator[str]) -> Words:
    count = int(next(words, "-1"))
    found = tuple(islice(words, count)) if count >= 0 else ()
    if len(found) != count:
        raise ValueError("an entry ends within a question")
    return found
