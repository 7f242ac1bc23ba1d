"""The command that proposes a policy for a project: `sandwright init`."""

from __future__ import annotations

import sys
from pathlib import Path

from sandwright.cli import console
from sandwright.init.init import Proposed, can_review, propose
from sandwright.visible import one_line

NOT_WRITTEN = 3
"""The exit status after only showing a policy."""


def init(
    *, directory: str = ".", method: str = "", agent: str = "", review: bool = False, yes: bool = False
) -> int:
    """Propose a policy for a project, and write it after a yes; give the exit status."""
    found = propose(Path(directory), method=method, agent=agent, review=review)
    if agent and not review and not yes and can_review(found.method) and _wants_review(agent):
        found = propose(Path(directory), method=method, agent=agent, review=True)
    console.write(found.text)
    sys.stdout.flush()
    for note in found.notes:
        console.warn(note)
    if not yes and not _confirmed(found):
        console.warn("nothing was written")
        return NOT_WRITTEN
    found.write()
    _tell_next(found)
    return 0


def _wants_review(agent: str) -> bool:
    """Whether the person at the terminal wants to review changes; no without a terminal."""
    question = f"let {agent} change a copy of the project, for you to review and apply? [y/N] "
    return _has_terminal() and _agrees(question)


def _confirmed(found: Proposed) -> bool:
    """Whether the person at the terminal says yes; no without a terminal."""
    if not _has_terminal():
        console.warn("no terminal to ask on; add --yes to write it")
        return False
    return _agrees("\n" + one_line(f"write {' and '.join(map(str, found.files))}? [y/N] "))


def _has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _agrees(question: str) -> bool:
    try:
        return input(question).strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _tell_next(found: Proposed) -> None:
    """Print the written files and the next steps on standard error; the policy may be on standard output."""
    lines = [f"{path} is written" for path in found.files]
    lines += ["next:", *(f"  {each}" for each in found.next_steps)]
    print("\n".join(map(one_line, lines)), file=sys.stderr)
