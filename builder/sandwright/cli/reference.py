"""The generated parts of docs/commands.md: each command from the table, and the exit statuses."""

from __future__ import annotations

from collections.abc import Iterator

from sandwright.cli.commands.command import Command
from sandwright.cli.commands.table import grouped
from sandwright.errors import SandwrightError
from sandwright.reference.markdown import code, table


def texts() -> dict[str, str]:
    """The generated parts of the page, by name."""
    lines = [line for group, commands in grouped() for line in _group_section(group, commands)]
    return {"commands": "\n".join(lines), "exits": exits()}


def _group_section(group: str, commands: list[Command]) -> Iterator[str]:
    yield f"## {group.capitalize()}"
    yield ""
    for each in commands:
        yield from _command_section(each)


def _command_section(command: Command) -> Iterator[str]:
    yield f"### `{command.usage()}`"
    yield ""
    yield " ".join(filter(None, (command.help, command.details)))
    yield ""
    rows = [[code(each.metavar), each.about] for each in command.positional]
    rows += [[code(each.spelled), each.about] for each in command.options]
    if rows:
        yield table(["argument or option", ""], rows)


def exits() -> str:
    """Exit statuses with their meanings, from the classes of errors."""
    rows = [
        [str(each.exit_code), (each.__doc__ or "").splitlines()[0]]
        for each in _error_classes(SandwrightError)
        if "exit_code" in vars(each)
    ]
    return table(["status", "meaning"], sorted(rows, key=lambda row: int(row[0])))


def _error_classes(base: type[SandwrightError]) -> Iterator[type[SandwrightError]]:
    for each in base.__subclasses__():
        if each.__module__ == SandwrightError.__module__:
            yield each
            yield from _error_classes(each)
