"""Asks on a terminal which changes `sandwright apply --interactive` takes, as `git add --patch` does."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from sandwright.cli import console
from sandwright.workspace.changes import Change
from sandwright.workspace.diff import diff_change, header
from sandwright.workspace.hunks import Hunks, hunks_of
from sandwright.workspace.store import Workspace

_HELP = {
    "y": "apply this",
    "n": "do not apply this",
    "q": "quit: do not apply this, nor what follows",
    "a": "apply this hunk and the rest of the file",
    "d": "do not apply this hunk, nor the rest of the file",
}


def ask_for_changes(copy: Workspace, found: Sequence[Change]) -> tuple[list[Change], dict[bytes, bytes]]:
    """The changes that a person agrees to, and the content of the files of which some hunks are taken."""
    chosen: list[Change] = []
    contents: dict[bytes, bytes] = {}
    for each in found:
        hunks = hunks_of(copy, each)
        if hunks is None or len(hunks.groups) == 1:
            print_diff_lines(diff_change(copy, each))
            answer = _ask_for_letter(f"Apply {os.fsdecode(each.path)} [y,n,q,?]? ", "ynq")
            chosen += [each] * (answer == "y")
        else:
            taken, answer = _ask_for_hunks(hunks)
            if len(taken) == len(hunks.groups):
                chosen.append(each)
            elif taken:
                chosen.append(hunks.taking(taken))
                contents[each.path] = hunks.content(taken)
        if answer == "q":
            break
    return chosen, contents


def print_diff_lines(lines: Sequence[bytes]) -> None:
    """Print lines of a diff, escaped."""
    text = b"".join(lines).decode("utf-8", "backslashreplace")
    for line in text.removesuffix("\n").split("\n"):
        console.line(line)


def _ask_for_hunks(hunks: Hunks) -> tuple[set[int], str]:
    """The numbers of the hunks to take, and the last answer."""
    taken: set[int] = set()
    answer, path = "", os.fsdecode(hunks.change.path)
    print_diff_lines(list(header(hunks.change)))
    for number in range(len(hunks.groups)):
        if answer not in ("a", "d", "q"):
            print_diff_lines(hunks.lines(number))
            question = f"Apply this hunk of {path} ({number + 1}/{len(hunks.groups)}) [y,n,q,a,d,?]? "
            answer = _ask_for_letter(question, "ynqad")
        if answer in ("y", "a"):
            taken.add(number)
    return taken, answer


def _ask_for_letter(question: str, letters: str) -> str:
    """One of the letters; `q` at the end of the input."""
    while True:
        console.write(question)
        sys.stdout.flush()
        line = sys.stdin.readline()
        word = line.strip().lower()[:1]
        if not line:
            return "q"
        if word and word in letters:
            return word
        for letter in letters:
            console.line(f"{letter} - {_HELP[letter]}")
