"""Every command as an Invoke task, for a `tasks.py`: `invoke render` is `sandwright render`.

Invoke's positional arguments are always required, and take one value each. Those of the table that may be
left out, or repeated, are options there: `invoke build-images --name debian`.
"""

from __future__ import annotations

import inspect
import sys
from dataclasses import replace
from typing import Any

from invoke.collection import Collection
from invoke.context import Context
from invoke.exceptions import Exit
from invoke.tasks import Task

from sandwright.cli.commands.command import Command, Option
from sandwright.cli.commands.table import COMMANDS
from sandwright.cli.program import execute
from sandwright.errors import retired_warning
from sandwright.visible import notify


def task(command: Command, retired: str = "") -> Task[Any]:
    """A command as a task of invoke; with `retired`, under its name of an earlier release.

    No option gets a short name by itself: some would take `-h` from `--help`.
    """

    def body(_c: Context, **values: Any) -> None:  # noqa: ANN401 - Invoke's values
        if retired:
            notify(retired_warning(retired, command.name))
        for each in command.options:
            for name in each.retired:
                value = values.pop(name.replace("-", "_"))
                if value != _default_value(each):
                    values[each.keyword] = value
                    notify(retired_warning(f"--{name}", each.flag))
        arguments = {each.keyword: values[each.keyword] for each in command.arguments}
        arguments = {name: value for name, value in arguments.items() if value != defaults[name]}
        words = sys.argv[sys.argv.index("--") + 1 :] if "--" in sys.argv else []
        status = execute(command, arguments, words)
        if status:
            raise Exit(code=status)

    defaults = {each.keyword: _default_value(each) for each in command.arguments}
    body.__name__ = command.name.replace("-", "_")
    renamed = f"The former name of {command.name}." if retired else command.help
    body.__doc__ = "\n\n".join(filter(None, (renamed, command.details)))
    parameters = [
        inspect.Parameter("c", inspect.Parameter.POSITIONAL_OR_KEYWORD),
        *map(_parameter, command.arguments),
        *(_parameter(replace(each, name=name)) for each in command.options for name in each.retired),
    ]
    body.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # Invoke reads it
    return Task(
        body,
        name=retired or command.name,
        positional=[each.keyword for each in command.positional if each.required],
        iterable=[each.keyword for each in command.arguments if each.repeatable],
        help={each.name: each.about for each in command.arguments}
        | {name: f"the former name of {each.flag}" for each in command.options for name in each.retired},
        auto_shortflags=False,
    )


def _default_value(option: Option) -> object:
    if option.metavar:
        return [] if option.repeatable else None
    return option.negatable


def _parameter(option: Option) -> inspect.Parameter:
    default = inspect.Parameter.empty if option.required else _default_value(option)
    return inspect.Parameter(option.keyword, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default)


namespace = Collection(
    *map(task, COMMANDS), *(task(each, name) for each in COMMANDS for name in each.retired)
)
