"""The `sandwright` program: Invoke's, with our tasks and a freer way to write the command line."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from invoke.collection import Collection
from invoke.program import Program
from invoke.tasks import Task

import sandwright
from sandwright.cli import summary

POSITIONS: Mapping[str, Sequence[str]] = {
    "sbpl-eval": ("--profile", "--operation"),
    "explain": ("--question", "--subject", "--argument"),
    "seccomp-eval": ("--profile", "--syscall", "--argument"),
    "publish": ("--image",),
}
"""Tasks whose words are values of options, by place; those beyond the last are more values of the last."""

REPEATED: Mapping[str, Callable[[str], bool]] = {
    "--minimal": lambda word: word.startswith("/"),
    "--keep": lambda word: word.startswith("/"),
    "--drop": lambda word: word.startswith("/"),
    "--resource": lambda word: "=" in word,
    "--symlink": lambda word: "=" in word,
    "-D": lambda word: "=" in word,
}
"""Options that may be followed by several values, and how a further value is told from other words."""

HELP = frozenset({"--help", "-h"})


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line; exits."""
    words = list(sys.argv if argv is None else argv)
    program = _Program(
        version=sandwright.__version__,
        namespace=_namespace(words[1:]),
        name="sandwright",
        binary="sandwright",
    )
    program.run([words[0], *arranged(words[1:])])


class _Program(Program):
    """Invoke's program, but that Python keeps the bytecode of what it imports unless told otherwise.

    Invoke turns that off, for the sake of `tasks.py`. Then an editable installation compiles all of us at
    every start, which takes longer than rendering.
    """

    def parse_core(self, argv: list[str] | None) -> None:
        """Read the options that are for every task."""
        told = sys.dont_write_bytecode
        super().parse_core(argv)
        sys.dont_write_bytecode = told and sys.dont_write_bytecode


def arranged(words: Sequence[str]) -> list[str]:
    """The words as Invoke takes them: one value for each option, and options instead of places.

    `sbpl-eval p.sb signal -D a=1 b=2` becomes `sbpl-eval --profile=p.sb --operation=signal -D a=1 -D b=2`.
    Words behind `--` are left out: tasks that take a command find it themselves.
    """
    words = words[: words.index("--")] if "--" in words else words
    name = _task(words)
    namespace = _namespace(words)
    if name is None or name not in namespace.tasks:
        return list(words)
    start = words.index(name) + 1
    if HELP & set(words):  # Invoke would take the word for the place that comes next
        return ["--help", name]
    return [*words[:start], *_options(name, namespace.tasks[name], words[start:])]


def _task(words: Sequence[str]) -> str | None:
    return next((word for word in words if not word.startswith("-")), None)


def _namespace(words: Sequence[str]) -> Collection:
    """The task that is asked for, without importing the others; all of them where that is none."""
    place = summary.places().get(_task(words) or "")
    if place is None:
        from sandwright.cli.tasks import namespace  # noqa: PLC0415

        return namespace
    module, name = place
    return Collection(getattr(importlib.import_module(f"sandwright.cli.{module}"), name))


def _options(name: str, task: Task[Any], words: Sequence[str]) -> Iterator[str]:
    takes_value = {
        _flag(each) for argument in task.get_arguments() if argument.takes_value for each in argument.names
    }
    places = list(POSITIONS.get(name, ()))
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if not _is_option(word):
            yield f"{places[0]}={word}" if places else word
            if len(places) > 1:
                places.pop(0)
            continue
        yield word
        if word not in takes_value or index == len(words):
            continue
        yield words[index]
        index += 1
        while (
            word in REPEATED
            and index < len(words)
            and REPEATED[word](words[index])
            and not _is_option(words[index])
        ):
            yield from (word, words[index])
            index += 1


def _flag(name: str) -> str:
    return f"-{name}" if len(name) == 1 else f"--{name.replace('_', '-')}"


def _is_option(word: str) -> bool:
    """Whether a word names an option: it begins with a dash, and is no number and not `-` alone."""
    return word.startswith("-") and word != "-" and not re.fullmatch(r"-(0x[0-9a-fA-F]+|[0-9]+)", word)
