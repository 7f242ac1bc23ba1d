"""`sandwright completion SHELL`: a script in which everything stands that a shell can offer.

The script starts no program when a key is pressed, so completion costs what the shell itself takes.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from invoke.context import Context
from invoke.parser.argument import Argument

from sandwright.cli import console, scripts
from sandwright.cli.command import HELP, command
from sandwright.errors import UsageError
from sandwright.policy.names import METHODS


@dataclass(frozen=True)
class Option:
    """An option of a task. `values` are those that can be offered; without any, files are."""

    name: str
    about: str
    takes_value: bool
    repeated: bool
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class Offer:
    """What can be offered for one task.

    `places` are the names of its words without dashes. `words` are those that its first place takes, where
    these are few.
    """

    task: str
    about: str
    options: tuple[Option, ...]
    words: tuple[str, ...] = ()
    places: tuple[str, ...] = ()


VALUES: Mapping[str, tuple[str, ...]] = {"method": METHODS, "verify require": METHODS}
"""Values of options: whatever the task, or of one. Methods that others installed are not among them."""

WORDS: Mapping[str, tuple[str, ...]] = {
    "completion": scripts.SHELLS,
    "explain": ("read", "write", "exec", "connect", "env", "syscall"),
    "schema": ("policy", "image"),
}
"""The first word of tasks that take one of a few."""


@command(help={"shell": "bash, zsh or fish"}, positional=["shell"])
def completion(c: Context, shell: str) -> None:  # noqa: ARG001
    """Print the completion script of a shell, which holds all tasks and options."""
    if shell not in scripts.SHELLS:
        raise UsageError(f"no completion for {shell!r}; there is {', '.join(scripts.SHELLS)}")
    console.write(scripts.script(shell))


def offers() -> tuple[Offer, ...]:
    """What can be offered, task by task, by name."""
    from sandwright.cli.tasks import namespace  # noqa: PLC0415 - it holds this module's task, too

    found = []
    for name, task in sorted(namespace.tasks.items()):
        about = (task.__doc__ or "").strip().splitlines()[0]
        arguments = task.get_arguments()
        options = tuple(_option(name, each) for each in arguments if _is_option(name, each))
        places = tuple(str(each.names[0]) for each in arguments if not _is_option(name, each))
        found.append(Offer(name, about, (*options, _HELP), WORDS.get(name, ()), places))
    return tuple(found)


def _option(task: str, argument: Argument) -> Option:
    spelled, name = argument.names[0], str(argument.name)
    texts = HELP.get(task.replace("-", "_"), {})
    about = texts.get(name, "") or texts.get(spelled, "")
    values = VALUES.get(f"{task} {spelled}", VALUES.get(spelled, ()))
    dashes = "-" if len(spelled) == 1 else "--"
    return Option(f"{dashes}{spelled}", about, argument.takes_value, argument.kind is list, values)


def _is_option(task: str, argument: Argument) -> bool:
    """Whether it is written with dashes; the others are words by their place."""
    from sandwright.cli.program import POSITIONS  # noqa: PLC0415

    return not argument.positional and f"--{argument.names[0]}" not in POSITIONS.get(task, ())


_HELP = Option("--help", "say what it does and takes", takes_value=False, repeated=False)


def bash(offered: Sequence[Offer]) -> str:
    """A function for `complete`, and its registration."""
    return "\n".join([_BASH_HEAD, *_bash_cases(offered), _BASH_FOOT])


_BASH_HEAD = """\
# bash completion of sandwright: source it, or put it into a directory of bash-completion.
_sandwright() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} task= index words=
    for ((index = 1; index < COMP_CWORD; index++)); do
        case ${COMP_WORDS[index]} in
            --) compopt -o default; COMPREPLY=(); return ;;
            -*) ;;
            *) [ -n "$task" ] || task=${COMP_WORDS[index]} ;;
        esac
    done
    [ "$word" != = ] || word=
    [ "$before" != = ] || before=${COMP_WORDS[COMP_CWORD-2]}
    case $task$before in"""

_BASH_FOOT = """\
    esac
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -F _sandwright sandwright
"""


def _bash_cases(offered: Sequence[Offer]) -> Iterator[str]:
    options = [(f"{each.task}{option.name}", option) for each in offered for option in each.options]
    files = [name for name, option in options if option.takes_value and not option.values]
    if files:
        yield f"        {'|'.join(files)})"
        yield "            compopt -o default; COMPREPLY=(); return ;;"
    for name, option in options:
        if option.values:
            yield f"        {name}) words='{' '.join(option.values)}' ;;"
    yield "        *) case $task in"
    yield f"            '') words='{' '.join(each.task for each in offered)} --help --version' ;;"
    for each in offered:
        words = " ".join([*each.words, *(option.name for option in each.options)])
        yield f'            {each.task}) words=\'{words}\'; [ "${{word#-}}" != "$word" ] || {_files(each)} ;;'
    yield "        esac ;;"


def _files(offer: Offer) -> str:
    """What is offered where no option is begun: the task's own words, or files."""
    return f"words='{' '.join(offer.words)}'" if offer.words else "{ compopt -o default; words=; }"


def zsh(offered: Sequence[Offer]) -> str:
    """A function for `compdef`: it works from a directory of fpath, and sourced."""
    lines = [
        "#compdef sandwright",
        "_sandwright() {",
        "    local -a tasks",
        "    if (( CURRENT == 2 )); then",
        "        tasks=(",
        *(f"            {_zsh_quoted(each.task, each.about)}" for each in offered),
        "        )",
        "        _describe -t tasks task tasks",
        "        return",
        "    fi",
        "    shift words",
        "    (( CURRENT-- ))",
        "    case $words[1] in",
        *(line for each in offered for line in _zsh_case(each)),
        "    esac",
        "}",
        'if [ "$funcstack[1]" = _sandwright ]; then _sandwright "$@"',
        "else compdef _sandwright sandwright; fi",
    ]
    return "\n".join(lines) + "\n"


def _zsh_case(offer: Offer) -> Iterator[str]:
    yield f"        {offer.task}) _arguments \\"
    for option in offer.options:
        action = f"({' '.join(option.values)})" if option.values else "_files"
        value = f":value:{action}" if option.takes_value else ""
        equals = "=" if option.takes_value and option.name.startswith("--") else ""
        spelled = f"{option.name}{equals}{{}}"
        about = f"[{_zsh_escaped(option.about)}]"
        yield f"            {shlex.quote('*' * option.repeated + spelled.format(about) + value)} \\"
    first = f"1:word:({' '.join(offer.words)})" if offer.words else "*::file:_files"
    yield f"            {shlex.quote(first)} ;;"


def _zsh_quoted(name: str, about: str) -> str:
    return shlex.quote(f"{name}:{about}")


def _zsh_escaped(text: str) -> str:
    return "".join(f"\\{each}" if each in "[]:\\" else each for each in text)


def fish(offered: Sequence[Offer]) -> str:
    """A line of `complete` for each thing."""
    lines = ["complete -c sandwright -n __fish_use_subcommand -f"]
    for each in offered:
        lines.append(
            f"complete -c sandwright -n __fish_use_subcommand -a {each.task} -d {_fish_quoted(each.about)}"
        )
        only = f"-n '__fish_seen_subcommand_from {each.task}'"
        if each.words:
            lines.append(f"complete -c sandwright {only} -f -a '{' '.join(each.words)}'")
        for option in each.options:
            value = f" -x -a '{' '.join(option.values)}'" if option.values else " -r -F"
            lines.append(
                f"complete -c sandwright {only} {'-l' if option.name[1] == '-' else '-s'} "
                f"{option.name.lstrip('-')}"
                f"{value if option.takes_value else ''} -d {_fish_quoted(option.about)}"
            )
    return "\n".join(lines) + "\n"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


SCRIPTS: Mapping[str, Callable[[Sequence[Offer]], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
"""By shell: what makes its script."""
