"""Reads a command line by the table of commands. A mistake gets one line, with the nearest match."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from sandwright.cli.commands import everyday
from sandwright.cli.commands.command import Command, Option
from sandwright.cli.commands.table import COMMANDS, command_of
from sandwright.errors import UsageError, retired_warning
from sandwright.lazy import load

HELP = ("-h", "--help")
Values = dict[str, str | bool | list[str]]
"""The values given on the command line, by parameter of the command's function; others are absent."""


@dataclass(slots=True)
class Parsed:
    """A command line after parsing. `words` are the command to run; `help` is a request for help.

    `warnings` name the options that were written by a retired name.
    """

    values: Values = field(default_factory=dict)
    words: list[str] = field(default_factory=list)
    help: bool = False
    warnings: list[str] = field(default_factory=list)


def find(name: str) -> Command:
    """The command of a name, which may be a retired one.

    Raise UsageError for another, with the nearest match.
    """
    if name == "--":
        _raise_usage_error("a command is run by `sandwright run -- COMMAND`")
    for each in everyday.COMMANDS:
        if each.name == name:
            return each

    found = command_of(name)
    if found is None:
        _fail_with_suggestion(
            f"there is no command {name!r}", name, [each.name for each in COMMANDS], "sandwright --help"
        )
    return found


def parse(command: Command, words: Sequence[str]) -> Parsed:
    """Read the words behind a command's name. Raise UsageError for those that it doesn't take.

    Options and positional arguments come in any order. A command that runs another takes it after `--`, or,
    once its own positional arguments are there, from the first word that is not an option. Elsewhere the
    words behind `--` are positional arguments. Reading stops at a request for help.
    """
    parsed, rest = Parsed(), list(words)
    flags = {flag: each for each in command.arguments for flag in _accepted_flags(each)}
    retired = {f"--{name}": each for each in command.options for name in each.retired}
    while rest:
        word = rest.pop(0)
        if word in HELP:
            parsed.help = True
            return parsed
        if word == "--" and command.takes_command:
            parsed.words = rest
            break
        if word == "--":
            for each in rest:
                _parse_positional(command, parsed.values, each)
            break
        name, equals, value = word.partition("=")
        if name in retired:
            flag = retired[name].flag
            parsed.warnings.append(retired_warning(name, flag))
            word = f"{flag}{equals}{value}"
        if _is_option(word):
            _parse_option(command, flags, parsed.values, word, rest)
        elif command.takes_command and all(each.keyword in parsed.values for each in command.positional):
            parsed.words = [word, *rest]
            break
        else:
            _parse_positional(command, parsed.values, word)
    return parsed


def check(command: Command, values: Mapping[str, object]) -> None:
    """Raise UsageError for a value that is not one of its option's, and for a missing argument.

    Raise HostError for a symbolic link in the path of an output file.
    """
    for each in command.arguments:
        value = values.get(each.keyword)
        if each.required and not value:
            _raise_usage_error(f"{command.name}: {each.metavar} is missing; usage: {command.usage()}")
        if value and each.written:
            _check_written(each, str(value))
        if not value or not (each.choices or each.offered):
            continue
        for text in value if isinstance(value, list) else [str(value)]:
            for name in filter(None, text.split(",") if each.metavar == "METHODS" else [text]):
                _check_value(command, each, name)


def _check_written(option: Option, path: str) -> None:
    if path != "-":
        load("sandwright.outputs:refuse_links")(f"{path}/." if option.metavar == "DIR" else path)


def _check_value(command: Command, option: Option, name: str) -> None:
    choices = option.values()
    if name in choices:
        return
    if option.offered == "method":
        names, variants = (load(f"sandwright.methods.registry:{each}") for each in ("names", "variants"))
        choices = (*names(), *variants(), *choices, *["all"] * (option.metavar == "METHODS"))
        if name in choices:
            return
    _fail_with_suggestion(
        f"{command.name}: no {option.metavar.lower().removesuffix('s')} {name!r}", name, choices
    )


def _accepted_flags(option: Option) -> list[str]:
    named = [option.flag, *[f"-{option.short}"] * bool(option.short)]
    return [*named, *[f"--no-{option.name}"] * option.negatable]


def _parse_option(
    command: Command, flags: Mapping[str, Option], values: Values, word: str, rest: list[str]
) -> None:
    """Take an option, with its value or values."""
    name, equals, value = word.partition("=")
    if name not in flags and word[:2] in flags and len(flags[word[:2]].name) == 1:
        name, equals, value = word[:2], "=", word[2:]  # `-DNAME=VALUE`
    if name not in flags and name[:2] == "-C":
        _raise_usage_error(f"-C comes before the command: sandwright -C DIR {command.name}")
    if name not in flags:
        _fail_with_suggestion(
            f"{command.name}: no option {name!r}", name, flags, f"sandwright {command.name} --help"
        )
    option = flags[name]
    if not option.metavar:
        if equals:
            _raise_usage_error(f"{command.name}: {name} takes no value")
        values[option.keyword] = not (option.negatable and name.startswith("--no-"))
        return
    if not equals:
        if not rest or rest[0] in flags or rest[0].startswith("--"):  # `--name=--value` takes it
            _raise_usage_error(f"{command.name}: {name} needs a value: {name} {option.metavar}")
        value = rest.pop(0)
    if not option.repeatable:
        if option.keyword in values:
            _raise_usage_error(f"{command.name}: {name} is given twice")
        values[option.keyword] = value
        return
    _append_value(option, values, value)
    while rest and option.more and _continues(option.more, rest[0]):
        _append_value(option, values, rest.pop(0))


def _append_value(option: Option, values: Values, value: str) -> None:
    found = values.setdefault(option.keyword, [])
    assert isinstance(found, list)
    found.append(value)


def _continues(sign: str, word: str) -> bool:
    """Whether a word is one more value of the option before it."""
    return not _is_option(word) and (word.startswith("/") if sign == "/" else sign in word)


def _parse_positional(command: Command, values: Values, word: str) -> None:
    """Take a positional argument: the first that has no value yet, or the last where that is repeatable."""
    for each in command.positional:
        if each.repeatable:
            _append_value(each, values, word)
            return
        if each.keyword not in values:
            values[each.keyword] = word
            return
    _raise_usage_error(f"{command.name}: {word!r} is an extra argument; usage: {command.usage()}")


def _is_option(word: str) -> bool:
    """Whether a word names an option: it begins with a dash, and is no number and not `-` alone."""
    return word.startswith("-") and word != "-" and not _is_number(word[1:])


def _is_number(text: str) -> bool:
    digits = text.removeprefix("0x")
    allowed = "0123456789" if digits == text else "0123456789abcdefABCDEF"
    return digits != "" and all(each in allowed for each in digits)


def _fail_with_suggestion(problem: str, name: str, names: Iterable[str], page: str = "") -> NoReturn:
    """Raise UsageError, with the known name that is nearest; without a near one, with where to look."""
    _raise_usage_error(f"{problem}; {suggestion(name, names, page=page)}")


def suggestion(name: str, candidates: Iterable[str], *, page: str = "") -> str:
    """The known name that is nearest, as a question; without a near one, where to look, or all names."""
    names = list(dict.fromkeys(candidates))
    near = difflib.get_close_matches(name, names, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"see `{page}`" if page else f"there is {', '.join(names)}"


def _raise_usage_error(message: str) -> NoReturn:
    raise UsageError(message)
