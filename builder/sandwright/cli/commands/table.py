"""The table of commands: parsing, help, completion, Invoke's tasks and docs/commands.md come from it.

It holds data only, so that `sandwright --help` and `sandwright run` start at once. `functions` says which
function carries a command out. Each heading of `sandwright --help` has a file; their order here is its order.
"""

from __future__ import annotations

from collections.abc import Iterator

from sandwright.cli.commands import everyday, images, maintenance, profiles, release, review, sessions
from sandwright.cli.commands.command import Command

_HEADINGS = (everyday, review, sessions, images, release, profiles, maintenance)

GROUPS = tuple(each.GROUP for each in _HEADINGS)
"""The headings of `sandwright --help`, in order."""

COMMANDS: tuple[Command, ...] = tuple(command for each in _HEADINGS for command in each.COMMANDS)


def command_of(name: str) -> Command | None:
    """The command of a name, which may be a retired one."""
    return next((each for each in COMMANDS if name in (each.name, *each.retired)), None)


def grouped() -> Iterator[tuple[str, list[Command]]]:
    """The commands of each group, in the order of the table."""
    for group in GROUPS:
        yield group, [each for each in COMMANDS if each.group == group]
