"""The help of `sandwright`, and of each command, from the table."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator, Sequence

from sandwright.cli.commands.command import Command, Option
from sandwright.cli.commands.table import grouped

USAGE = """\
Usage: sandwright COMMAND [OPTIONS]
       sandwright COMMAND --help
       sandwright -C DIR COMMAND [OPTIONS], to be in another directory
"""
WIDTH = 110
"""The most columns; also the columns where no terminal has a width."""


def summary() -> str:
    """All commands by group, each in a line."""
    groups = list(grouped())
    width = max(len(each.name) for _, commands in groups for each in commands)
    lines = [USAGE]
    for group, commands in groups:
        lines += [
            f"{group.capitalize()}:",
            *_columns([(each.name, each.help) for each in commands], width),
            "",
        ]
    return "\n".join(lines[:-1]) + "\n"


def page(command: Command) -> str:
    """The help of a command."""
    parts = [f"Usage: {command.usage()}", textwrap.fill(command.help, _width())]
    if command.details:
        parts.append(textwrap.fill(command.details, _width()))
    rows = [[(each.metavar, each.about) for each in command.positional]]
    rows.append(
        [*((_option_usage(each), each.about) for each in command.options), ("-h, --help", "show this help")]
    )
    width = max(len(name) for part in rows for name, _ in part)
    for title, part in zip(("Arguments", "Options"), rows, strict=True):
        if part:
            parts.append("\n".join([f"{title}:", *_columns(part, width)]))
    parts.append(f"Example:\n  {command.example}")
    return "\n\n".join(parts) + "\n"


def _option_usage(option: Option) -> str:
    """An option with its short name and its value, as in `-p, --policy FILE`."""
    short = f"-{option.short}, " if option.short else ""
    return f"{short}{option.spelled}"


def _columns(rows: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    for name, about in rows:
        yield textwrap.fill(
            about,
            _width(),
            initial_indent=f"  {name:<{width}}  ",
            subsequent_indent=" " * (width + 4),
            break_on_hyphens=False,
            break_long_words=False,
        )


def _width() -> int:
    try:
        return min(WIDTH, max(40, os.get_terminal_size(1).columns))
    except OSError:
        return WIDTH
