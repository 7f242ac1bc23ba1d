"""Every command as an Invoke task, for a `tasks.py`: `invoke render` is `sandwright render`.

Invoke's positional arguments are always required, and take one value each. Those of the table that may be
left out, or repeated, are options there: `invoke build-images --name debian`.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any

from invoke.collection import Collection
from invoke.context import Context
from invoke.exceptions import Exit
from invoke.tasks import Task

from sandwright.cli.commands.command import Command, Option
from sandwright.cli.commands.table import COMMANDS
from sandwright.cli.program import execute


def task(command: Command) -> Task[Any]:
    """A command as a task. No option gets a short name by itself: some would take `-h` from `--help`."""

    def body(_c: Context, **values: Any) -> None:  # noqa: ANN401 - Invoke's values
        given = {each.keyword: values[each.keyword] for each in command.arguments}
        given = {name: value for name, value in given.items() if value != defaults[name]}
        words = sys.argv[sys.argv.index("--") + 1 :] if "--" in sys.argv else []
        status = execute(command, given, words)
        if status:
            raise Exit(code=status)

    defaults = {each.keyword: _default(each) for each in command.arguments}
    body.__name__ = command.name.replace("-", "_")
    body.__doc__ = "\n\n".join(filter(None, (command.help, command.details)))
    parameters = [
        inspect.Parameter("c", inspect.Parameter.POSITIONAL_OR_KEYWORD),
        *map(_parameter, command.arguments),
    ]
    body.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what Invoke reads
    return Task(
        body,
        name=command.name,
        positional=[each.keyword for each in command.positional if each.required],
        iterable=[each.keyword for each in command.arguments if each.repeatable],
        help={each.name: each.about for each in command.arguments},
        auto_shortflags=False,
    )


def _default(option: Option) -> object:
    if option.metavar:
        return [] if option.repeatable else None
    return option.negatable


def _parameter(option: Option) -> inspect.Parameter:
    default = inspect.Parameter.empty if option.required else _default(option)
    return inspect.Parameter(option.keyword, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default)


namespace = Collection(*map(task, COMMANDS))
