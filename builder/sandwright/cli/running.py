"""`sandwright run`, as it is started: with no more imported than a command needs that is to start at once."""

from __future__ import annotations

import os
from collections.abc import Sequence

from sandwright.session.request import Request
from sandwright.session.run import LAUNCHER_FAILED, run
from sandwright.visible import visible

_VALUES = {
    "--policy": "policy", "-p": "policy", "--method": "method", "-m": "method", "--set": "settings",
    "-s": "settings", "--time": "time", "-t": "time", "--cidfile": "cidfile", "--telemetry": "telemetry",
    "--outer": "outer",
}  # fmt: skip
"""Options, each with a value, by the field of a request that they fill."""

_TRUST = "--trust-policy"


class _Usage(Exception):
    """The command line is not one of ours."""


def main(words: Sequence[str]) -> int:
    """Run what the words behind `sandwright run` ask for; give the exit status: 125 when nothing was run."""
    try:
        return run(parsed(words), say=_say)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        from sandwright.errors import SandwrightError  # noqa: PLC0415 - costs milliseconds

        if not isinstance(error, SandwrightError | _Usage | OSError):
            raise
        for line in str(error).splitlines():
            _say(line)
        return LAUNCHER_FAILED


def parsed(words: Sequence[str]) -> Request:
    """The request that the words make: options, then `--` and the command, or the command at once."""
    fields: dict[str, str] = {}
    settings: list[str] = []
    rest = list(words)
    trusted = False
    while rest and rest[0].startswith("-") and rest[0] != "--":
        if rest[0] == _TRUST:
            trusted = bool(rest.pop(0))
            continue
        name, value = _option(rest)
        if name == "settings":
            settings.append(value)
        elif name == "outer":
            settings.append(f"outer={value}")
        elif name in fields:
            raise _Usage(f"--{name} is given twice")
        else:
            fields[name] = value
    argv = rest[1:] if rest[:1] == ["--"] else rest
    return Request(argv, settings=settings, trusted=trusted, **fields)


def _option(rest: list[str]) -> tuple[str, str]:
    """Take the first option with its value off the words."""
    word, equals, value = rest.pop(0).partition("=")
    if word not in _VALUES:
        raise _Usage(f"{word} is no option of run; see `sandwright run --help`")
    if not equals:
        if not rest:
            raise _Usage(f"{word} needs a value")
        value = rest.pop(0)
    return _VALUES[word], value


def _say(line: str) -> None:
    os.write(2, f"sandwright: {visible(line)}\n".encode())
