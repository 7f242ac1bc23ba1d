"""`sandwright completion SHELL`: a script that holds everything a shell can offer.

The script starts no program when a key is pressed, so completion is as fast as the shell itself.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence

from sandwright.cli import console
from sandwright.cli.commands.command import Command, Option
from sandwright.cli.commands.table import COMMANDS

HELP = Option("help", "", "show this help")


def completion(*, shell: str) -> None:
    """Print the completion script of a shell."""
    console.write(SCRIPTS[shell](COMMANDS))


def bash(commands: Sequence[Command]) -> str:
    """The script for bash: a function for `complete`, and its registration."""
    return "\n".join([_BASH_HEAD, *_bash_cases(commands), _BASH_FOOT])


_BASH_HEAD = """\
# bash completion of sandwright: source it, or put it into a directory of bash-completion.
_sandwright() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command= index words=
    for ((index = 1; index < COMP_CWORD; index++)); do
        case ${COMP_WORDS[index]} in
            --) compopt -o default; COMPREPLY=(); return ;;
            -*) ;;
            *) [ -n "$command" ] || command=${COMP_WORDS[index]} ;;
        esac
    done
    [ "$word" != = ] || word=
    [ "$before" != = ] || before=${COMP_WORDS[COMP_CWORD-2]}
    case $command$before in"""

_BASH_FOOT = """\
    esac
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -F _sandwright sandwright
"""


def _bash_cases(commands: Sequence[Command]) -> Iterator[str]:
    spelled = [
        (f"{each.name}{flag}", option)
        for each in commands
        for option in _completed_options(each)
        for flag in _option_flags(option)
    ]
    files = [name for name, option in spelled if option.metavar and not option.values()]
    if files:
        yield f"        {'|'.join(files)})"
        yield "            compopt -o default; COMPREPLY=(); return ;;"
    for name, option in spelled:
        if option.values():
            yield f"        {name}) words='{' '.join(option.values())}' ;;"
    yield "        *) case $command in"
    yield f"            '') words='{' '.join(each.name for each in commands)} --help --version' ;;"
    for each in commands:
        flags = [flag for option in _completed_options(each) for flag in _option_flags(option)]
        words = " ".join([*_first_choices(each), *flags])
        completed = _completion_words(each)
        yield f'            {each.name}) words=\'{words}\'; [ "${{word#-}}" != "$word" ] || {completed} ;;'
    yield "        esac ;;"


def _completed_options(command: Command) -> tuple[Option, ...]:
    return (*command.options, HELP)


def _option_flags(option: Option) -> list[str]:
    return [option.flag, *[f"--no-{option.name}"] * option.negatable]


def _first_choices(command: Command) -> tuple[str, ...]:
    """The choices of the first positional argument."""
    return command.positional[0].values() if command.positional else ()


def _completion_words(command: Command) -> str:
    """The shell code that completes a word that is no option: the first argument's choices, or files."""
    words = _first_choices(command)
    return f"words='{' '.join(words)}'" if words else "{ compopt -o default; words=; }"


def zsh(commands: Sequence[Command]) -> str:
    """The script for zsh, with a function for `compdef`: it works from a directory of fpath, and sourced."""
    lines = [
        "#compdef sandwright",
        "_sandwright() {",
        "    local -a commands",
        "    if (( CURRENT == 2 )); then",
        "        commands=(",
        *(f"            {shlex.quote(f'{each.name}:{each.help}')}" for each in commands),
        "        )",
        "        _describe -t commands command commands",
        "        return",
        "    fi",
        "    shift words",
        "    (( CURRENT-- ))",
        "    case $words[1] in",
        *(line for each in commands for line in _zsh_case(each)),
        "    esac",
        "}",
        'if [ "$funcstack[1]" = _sandwright ]; then _sandwright "$@"',
        "else compdef _sandwright sandwright; fi",
    ]
    return "\n".join(lines) + "\n"


def _zsh_case(command: Command) -> Iterator[str]:
    yield f"        {command.name}) _arguments \\"
    for option in _completed_options(command):
        action = f"({' '.join(option.values())})" if option.values() else "_files"
        value = f":value:{action}" if option.metavar else ""
        equals = "=" if option.metavar and option.flag.startswith("--") else ""
        for flag in _option_flags(option):
            spelled = f"{flag}{equals}[{_zsh_escaped(option.about)}]{value}"
            yield f"            {shlex.quote('*' * option.repeatable + spelled)} \\"
    words = _first_choices(command)
    first = f"1:word:({' '.join(words)})" if words else "*::file:_files"
    yield f"            {shlex.quote(first)} ;;"


def _zsh_escaped(text: str) -> str:
    return "".join(f"\\{each}" if each in "[]:\\" else each for each in text)


def fish(commands: Sequence[Command]) -> str:
    """The script for fish: one `complete` command for each word."""
    lines = ["complete -c sandwright -n __fish_use_subcommand -f"]
    for each in commands:
        about = _fish_quoted(each.help)
        lines.append(f"complete -c sandwright -n __fish_use_subcommand -a {each.name} -d {about}")
        only = f"complete -c sandwright -n '__fish_seen_subcommand_from {each.name}'"
        if words := _first_choices(each):
            lines.append(f"{only} -f -a '{' '.join(words)}'")
        for option in _completed_options(each):
            values = option.values()
            value = f" -x -a '{' '.join(values)}'" if values else " -r -F"
            for flag in _option_flags(option):
                name = f"-l {flag[2:]}" if flag[1] == "-" else f"-s {flag[1:]}"
                lines.append(
                    f"{only} {name}{value if option.metavar else ''} -d {_fish_quoted(option.about)}"
                )
    return "\n".join(lines) + "\n"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


SCRIPTS: Mapping[str, Callable[[Sequence[Command]], str]] = {"bash": bash, "fish": fish, "zsh": zsh}
"""By shell: the function that makes its script."""
