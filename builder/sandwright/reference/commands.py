"""The reference of the command line: each task with its options, as they are offered for completion."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from sandwright.errors import SandwrightError
from sandwright.reference.markdown import code, table


class Option(Protocol):
    """An option of a task."""

    @property
    def name(self) -> str:
        """With its dashes."""
        ...

    @property
    def about(self) -> str:
        """What it is for."""
        ...


class Task(Protocol):
    """A task of the command line."""

    @property
    def task(self) -> str:
        """Its name."""
        ...

    @property
    def about(self) -> str:
        """What it does, in a sentence."""
        ...

    @property
    def places(self) -> Sequence[str]:
        """The names of its words without dashes."""
        ...

    @property
    def options(self) -> Sequence[Option]:
        """What it takes."""
        ...


def texts(tasks: Sequence[Task]) -> dict[str, str]:
    """The generated parts of the page about commands, by name."""
    return {"commands": "\n".join(line for task in tasks for line in _task(task)), "exits": exits()}


def _task(task: Task) -> Iterator[str]:
    yield f"## `{' '.join(['sandwright', task.task, *(each.upper() for each in task.places)])}`"
    yield ""
    yield task.about
    yield ""
    options = [option for option in task.options if option.name != "--help"]
    if options:
        yield table(["option", ""], [[code(option.name), option.about] for option in options])


def exits() -> str:
    """Exit statuses and what each means, from the classes of errors."""
    rows = [[str(each.exit_code), (each.__doc__ or "").splitlines()[0]] for each in _errors(SandwrightError)]
    return table(["status", "meaning"], sorted(rows, key=lambda row: int(row[0])))


def _errors(base: type[SandwrightError]) -> Iterator[type[SandwrightError]]:
    for each in base.__subclasses__():
        if each.__module__ == SandwrightError.__module__:
            yield each
            yield from _errors(each)
