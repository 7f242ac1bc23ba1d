"""Counts what a command checked: to have checked nothing is a failure, as with pytest's exit status 5.

`cli/commands/table.py` says which commands check something, and of what kind. The function of such a command
gives its count to `cli/program.py`, which refuses an empty one: no command has to remember it.
"""

from __future__ import annotations

from sandwright.errors import VerdictError


class Checked:
    """The number of things that a command checked. `why` is the reason if there may be none."""

    def __init__(self, count: int = 0, *, why: str = "") -> None:
        self.count = count
        self.why = why

    def add(self, count: int = 1) -> None:
        """Add to the number."""
        self.count += count


def require_checked(checked: object, unit: str, command: str) -> None:
    """Raise VerdictError unless a command has checked at least one thing; `unit` is their kind."""
    if isinstance(checked, Checked) and checked.count > 0:
        return
    why = checked.why if isinstance(checked, Checked) else ""
    raise VerdictError(f"{command}: no {unit} was checked" + (f": {why}" if why else ""))
