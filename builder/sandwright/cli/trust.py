"""The task by which a user gives the word for a policy: `sandwright trust`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sandwright.cli import console
from sandwright.errors import UsageError, VerdictError

if TYPE_CHECKING:
    from sandwright.session.trust import Loosened


def trust(
    *,
    policy: str = "sandbox.yaml",
    yes: bool = False,
    forget: bool = False,
) -> None:
    """Show what a policy lets through that `default` doesn't, and let it, once for what it says now.

    Asks on a terminal. A policy that says or lets through something else needs the word again.
    """
    from sandwright.session import trust as words  # noqa: PLC0415

    found = _loosened(policy)
    if forget:
        words.forget(found)
        console.line(f"{found.policy}: nobody's word counts")
        return
    if not found.allows:
        console.line(f"{found.policy} lets through nothing that the preset default doesn't")
        return
    console.line(f"{found.policy} lets through what the preset default doesn't:")
    for each in found.allows:
        console.line(f"  {each}")
    console.line(f"{words.VARIABLE}={found.digest}")
    if not yes and not _agreed():
        raise VerdictError("nothing was written: the policy stays untrusted")
    console.line(f"kept in {words.record(found)}")


def looked_at(policy: str, settings: Sequence[str] | None, *, word: bool) -> None:
    """Say what a policy's file loosens. Raise UsageError when it needs the user's word and has it not."""
    from sandwright.session import trust as words  # noqa: PLC0415

    found = _loosened(policy, settings)
    words.require(found, word=word)
    if found.allows:
        console.warn(found.line())


def _loosened(policy: str, settings: Sequence[str] | None = None) -> Loosened:
    from sandwright.inputs import InputTracker  # noqa: PLC0415
    from sandwright.session.loosened import loosened  # noqa: PLC0415
    from sandwright.session.prepare import load  # noqa: PLC0415
    from sandwright.session.request import RunRequest  # noqa: PLC0415

    request = RunRequest([], policy=policy, settings=list(settings or ()))
    return loosened(load(request, InputTracker()), request.policy, cwd=request.cwd)


def _agreed() -> bool:
    """Whether the person at the terminal says yes. Raise UsageError where nobody sits at one."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "there is no terminal to ask on; in CI set the variable above, or say --yes if you looked at it"
        )
    console.write("Let it? [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
