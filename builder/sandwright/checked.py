"""Counts the checks of a command. A command that checked nothing fails, like pytest with exit status 5.

`cli/commands/table.py` lists the commands that check something, each with the kind of its checks. The
function of such a command gives its count to `cli/program.py`, which refuses an empty one: no command has to
remember it.
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
