"""Records every question to this host with its answer, and asks again: whether the render cache is stale.

A result derived from the answers is valid while they stay the same. docs/front.md describes every kind of
question; `front/source/questions.c` compares the answers.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sandwright.git.index import gitlinks, shared_indexes
from sandwright.nested import IncompleteSearch
from sandwright.questions import (
    ENTRIES,
    KINDS,
    SMALL,
    Answer,
    EntryKind,
    Question,
    content_of,
    digest_of,
    entry_at,
    index_bytes,
    index_of,
    is_process,
    last_change,
)

Recording = list[tuple[Question, Answer]]

_NO_COPIES: Mapping[str, str] = {}
_MOST_LINKS = 40
_TICKS = 20_000_000
"""Nanoseconds."""
_GROUPED = ("status", "variable")
"""Kinds of which a recording has one question, with all subjects."""


class Status(NamedTuple):
    """The lstat(2) of a path; `names` is the number of links, for plain files only."""

    names: int
    mode: int
    owner: int
    group: int
    device: int


SYSTEM = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Directories of programs that a user's PATH often lacks."""


class LiveHost:
    """Asks this host, each question once, and records the answers."""

    def __init__(self, copies: Mapping[str, str] | None = None) -> None:
        """Start without questions. `copies` maps directories to those that sandboxes see instead."""
        self._copies = dict(copies or {})
        self._began = time.time_ns()
        self._answers: dict[Question, Answer] = {}
        self._entries: dict[str, str] = {}
        self._contents: dict[str, tuple[int, bytes | None]] = {}

    def ask(self, kind: str, subject: str = "", *more: str) -> Answer:
        """The first answer to a question. Raise KeyError for an unknown kind."""
        question = (kind, subject, *more)
        if question not in self._answers:
            self._answers[question] = answer(question, self._copies)
        return self._answers[question]

    def entry(self, path: str) -> str:
        """The entry at a path, links not followed: see `entry`. Empty for nothing."""
        if is_process(path):  # each process sees another thing there
            return ""
        if path not in self._entries:
            self._entries[path] = entry_at(_location(path, self._copies))
        return self._entries[path]

    def forget(self, path: str) -> None:
        """Look again at a path and its parents, after we created it."""
        while path not in ("", "/"):
            self._entries.pop(path, None)
            path = path.rpartition("/")[0]

    def kind(self, path: str) -> EntryKind | None:
        """The kind of the file at a path, links not followed; None if there is none."""
        return ENTRIES.get(self.entry(path)[:1])

    def link(self, path: str) -> str | None:
        """The text of the symbolic link at a path; None where there is none."""
        found = self.entry(path)
        return found[1:] if found.startswith("l") else None

    def real(self, path: str) -> str:
        """The path without links, as os.path.realpath returns it; a missing rest stays as it is spelled."""
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
        """The kind of the file at a path, links followed; None if there is none."""
        found = self.kind(self.real(path)) if "\0" not in path else None
        return None if found == "symlink" else found

    def content(self, path: str, most: int = SMALL) -> bytes | None:
        """The content of a plain file of at most `most` bytes, 1 MiB at the most; None for anything else."""
        if path not in self._contents:
            self._contents[path] = found = content_of(_location(path, self._copies))
            self._answers["content", path] = digest_of(*found)
        size, content = self._contents[path]
        return content if size <= most else None

    def text(self, path: str) -> str | None:
        """The content of such a file, as text."""
        found = self.content(path)
        return None if found is None else found.decode("utf-8", "surrogateescape")

    def gitlinks(self, index: str) -> list[str]:
        """The entries of an index of Git's that are other repositories, sorted; none if unreadable."""
        data = self._index(index)
        found = gitlinks(data)
        for name in shared_indexes(data):
            found |= gitlinks(self._index(f"{index.rpartition('/')[0]}/{name}"))
        return sorted(map(os.fsdecode, found))

    def _index(self, path: str) -> bytes:
        data = index_bytes(_location(path, self._copies))
        self._answers["index", path] = index_of(data)
        return data

    def variable(self, name: str) -> str | None:
        """A variable of the environment."""
        (found,) = self.ask("variable", name)
        return found[1:] if found else None

    def status(self, path: str) -> Status:
        """Names, mode, owner, group and device at a path, a link not followed; zeros for nothing."""
        (found,) = self.ask("status", path)
        return Status(*map(int, found.split(","))) if found else Status(0, 0, 0, 0, 0)

    def program(self, name: str) -> str:
        """The path of a program, on PATH or in the directories of the system's own; empty for none."""
        for folder in (*(self.variable("PATH") or os.defpath).split(os.pathsep), *SYSTEM):
            path = f"{folder or '.'}/{name}"
            if self.kind_behind(path) == "file" and self.ask("stamp", path)[0] and os.access(path, os.X_OK):
                return path
        return ""

    def ask_all(self, questions: Iterable[Question]) -> None:
        """Ask further questions."""
        for question in questions:
            if question[0] == "program":
                self.program(question[1])
            elif question[0] == "entries":
                for name in question[2:]:
                    self.entry(f"{question[1].rstrip('/')}/{name}")
            elif question[0] in _GROUPED:
                for subject in question[1:]:
                    self.ask(question[0], subject)
            else:
                self.ask(*question)

    def is_racy(self) -> bool:
        """Whether an input changed close to the time of its question: a second change may have the same time.

        File systems take times from a clock that ticks each 10 ms at least (to Git: racily clean).
        """
        oldest = self._began - _TICKS
        return any(last_change(*each) >= oldest for each in self._answers.items())

    def recording(self) -> Recording:
        """All questions with their answers: one about the entries of a directory, one of a grouped kind."""
        folders: dict[str, dict[str, str]] = {}
        for path, found in self._entries.items():
            folder, _, name = path.rpartition("/")
            folders.setdefault(folder or "/", {})[name or "."] = found
        entries = [(("entries", folder, *names), tuple(names.values())) for folder, names in folders.items()]
        grouped = [(kind, self._of_kind(kind)) for kind in _GROUPED]
        merged = [((kind, *answers), tuple(answers.values())) for kind, answers in grouped if answers]
        others = (
            (question, answer) for question, answer in self._answers.items() if question[0] not in _GROUPED
        )
        return [*entries, *merged, *others]

    def _of_kind(self, kind: str) -> dict[str, str]:
        return {question[1]: answer[0] for question, answer in self._answers.items() if question[0] == kind}


def changed(
    recording: Iterable[tuple[Iterable[str], Iterable[str]]], copies: Mapping[str, str] = _NO_COPIES
) -> Question | None:
    """The first question whose answer is another now; None when all are the same. `copies` as of LiveHost."""
    for words, before in recording:
        question = tuple(words)
        try:
            if answer(question, copies) != tuple(before):
                return question
        except (KeyError, TypeError, ValueError, IncompleteSearch):  # no kind of ours, or other words
            return question
    return None


def answer(question: Question, copies: Mapping[str, str] = _NO_COPIES) -> Answer:
    """The answer to a question now. Raise KeyError, TypeError or ValueError for a malformed question."""
    kind, *subjects = question
    if kind != "entries":
        return KINDS[kind](*(_location(each, copies) for each in subjects))
    folder, *names = subjects
    return tuple(entry_at(_location(f"{folder.rstrip('/')}/{name}", copies)) for name in names)


def _location(path: str, copies: Mapping[str, str]) -> str:
    """The location of a path on this host, if a sandbox sees another directory there; else the word."""
    for directory, other in copies.items():
        if path == directory or path.startswith(f"{directory}/"):
            return other + path[len(directory) :]
    return path
