"""What this host answered, recorded so that it can be asked again: by the native front, and here.

What was made of the answers holds while they are the same. docs/front.md describes every kind of question;
`front/source/questions.c` compares the answers.
"""

from __future__ import annotations

import os

from sandwright.questions import (
    ENTRIES,
    KINDS,
    SMALL,
    Answer,
    Question,
    content_of,
    digest_of,
    entry_at,
    index_bytes,
    index_of,
    is_process,
)

TYPE_CHECKING = False  # `typing` takes longer to import than all of this
if TYPE_CHECKING:
    from collections.abc import Iterable

    from sandwright.questions import EntryKind

Recording = list[tuple[Question, Answer]]

_MOST_LINKS = 40


class InputTracker:
    """Asks this host, each question once, and records the answers."""

    def __init__(self) -> None:
        """Nothing is asked yet."""
        self._answers: dict[Question, Answer] = {}
        self._entries: dict[str, str] = {}
        self._contents: dict[str, tuple[int, bytes | None]] = {}

    def ask(self, kind: str, subject: str = "", *more: str) -> Answer:
        """The answer to a question, as it was when it was first asked. Raise KeyError for no kind."""
        question = (kind, subject, *more)
        if question not in self._answers:
            self._answers[question] = KINDS[kind](*question[1:])
        return self._answers[question]

    def entry(self, path: str) -> str:
        """What is at a path, links not followed: see `entry`. Empty for nothing."""
        if is_process(path):  # each process sees another thing there
            return ""
        if path not in self._entries:
            self._entries[path] = entry_at(path)
        return self._entries[path]

    def forget(self, path: str) -> None:
        """Look again at a path and what is above it, as we made it since."""
        while path not in ("", "/"):
            self._entries.pop(path, None)
            path = path.rpartition("/")[0]

    def kind(self, path: str) -> EntryKind | None:
        """What kind of thing is at a path, links not followed; None for nothing."""
        return ENTRIES.get(self.entry(path)[:1])

    def link(self, path: str) -> str | None:
        """The text of the symbolic link at a path; None where there is none."""
        found = self.entry(path)
        return found[1:] if found.startswith("l") else None

    def real(self, path: str) -> str:
        """The path without links, as os.path.realpath gives it; what is missing stays as it is spelled."""
        whole = path if path.startswith("/") else f"{os.getcwd()}/{path}"
        pending = [part for part in reversed(whole.split("/")) if part]
        current, links = "", 0
        while pending:
            part = pending.pop()
            if part in (".", ".."):
                current = current.rpartition("/")[0] if part == ".." else current
                continue
            target = self.link(f"{current}/{part}")
            links += target is not None
            if target is None or links > _MOST_LINKS:
                current = f"{current}/{part}"
                continue
            pending += reversed([step for step in target.split("/") if step])
            current = "" if target.startswith("/") else current
        return current or "/"

    def kind_behind(self, path: str) -> EntryKind | None:
        """What kind of thing is at a path, links followed; None for nothing."""
        found = self.kind(self.real(path)) if "\0" not in path else None
        return None if found == "symlink" else found

    def content(self, path: str, most: int = SMALL) -> bytes | None:
        """The content of a plain file of at most `most` bytes, 1 MiB at the most; None for anything else."""
        if path not in self._contents:
            self._contents[path] = found = content_of(path)
            self._answers["content", path] = digest_of(*found)
        size, content = self._contents[path]
        return content if size <= most else None

    def text(self, path: str) -> str | None:
        """The same, as text."""
        found = self.content(path)
        return None if found is None else found.decode("utf-8", "surrogateescape")

    def gitlinks(self, index: str) -> list[str]:
        """The entries of an index of Git's that are other repositories, sorted; none if unreadable."""
        from sandwright.gitindex import gitlinks  # noqa: PLC0415 - only where there is a repository

        data = index_bytes(index)
        self._answers["index", index] = index_of(data)
        return sorted(map(os.fsdecode, gitlinks(data)))

    def variable(self, name: str) -> str | None:
        """A variable of the environment."""
        return next(iter(self.ask("variable", name)), None)

    def program(self, name: str) -> str:
        """Where a program is, on PATH or in the directories of the system's own; empty for none."""
        return next(iter(self.ask("program", name)), "")

    def ask_all(self, questions: Iterable[Question]) -> None:
        """Ask some more."""
        for question in questions:
            if question[0] == "entries":
                for name in question[2:]:
                    self.entry(f"{question[1].rstrip('/')}/{name}")
            else:
                self.ask(*question)

    def recording(self) -> Recording:
        """All questions with their answers; those about entries are one for each directory."""
        folders: dict[str, dict[str, str]] = {}
        for path, found in self._entries.items():
            folder, _, name = path.rpartition("/")
            folders.setdefault(folder or "/", {})[name or "."] = found
        entries = [(("entries", folder, *names), tuple(names.values())) for folder, names in folders.items()]
        return [*entries, *self._answers.items()]


def changed(recording: Iterable[tuple[Iterable[str], Iterable[str]]]) -> Question | None:
    """The first question whose answer is another now; None when all are the same."""
    for words, before in recording:
        question, asking = tuple(words), InputTracker()
        try:
            asking.ask_all([question])
        except (IndexError, KeyError, TypeError):  # no kind of ours, or other words
            return question
        if asking.recording() != [(question, tuple(before))]:
            return question
    return None
