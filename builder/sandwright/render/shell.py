"""Puts plain shell scripts beside a file of variables, so that a linter reads the code that runs.

A script reads `variables.sh` if that has the digest in the script. Each value there is one quoted
word, or a function that calls its arguments with a list.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from sandwright.errors import RenderError
from sandwright.render.artifact import Artifact
from sandwright.render.quoting import quote_shell
from sandwright.resources import Room, data_path

VARIABLES = "variables.sh"
"""The name of the file."""

Value = str | int | bool | Sequence[str] | None
"""A word, or words. None and False are the empty word, True is `yes`."""

_NAME = re.compile(r"[a-z][a-z_]*")
_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\*?")
_DIGEST = b"0" * 64
"""Stands in a script where the digest of its variables goes."""


def variables(
    values: Mapping[str, Value], rows: Mapping[str, Iterable[Sequence[str]]] | None = None
) -> Artifact:
    """A shell file with values: a string becomes the variable sw_NAME, a list the function NAME.

    The function adds the words to its arguments and runs that. Those of `rows` run it for each row.
    """
    parts = [_assigned(name, value) for name, value in values.items()]
    parts += [_repeat_command(name, found) for name, found in (rows or {}).items()]
    content = f"# The policy's settings, for the scripts in this directory.\n{''.join(parts)}"
    return Artifact(
        VARIABLES, content.encode("utf-8", "surrogateescape"), "what the policy says, for scripts"
    )


def _assigned(name: str, value: Value) -> str:
    if value is None or isinstance(value, bool):
        return f"sw_{_check_variable_name(name)}={'yes' if value else ''}\n"
    if isinstance(value, str | int):
        return f"sw_{_check_variable_name(name)}={quote_shell(value)}\n"
    return _function(name, [" \\\n        ".join(['"$@"', *map(quote_shell, value)])])


def _repeat_command(name: str, rows: Iterable[Sequence[str]]) -> str:
    return _function(name, [f'"$@" {" ".join(map(quote_shell, row))}' for row in rows] or [":"])


def _function(name: str, lines: Sequence[str]) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"{_check_variable_name(name)}() {{\n{body}}}\n"


def _check_variable_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise RenderError(f"{name!r} is no name of a variable")
    return name


def patterns(names: Iterable[str]) -> list[str]:
    """Patterns of a shell for names of variables, or for prefixes and `*`. Raise RenderError for all else."""
    found = list(names)
    if wrong := [name for name in found if not _PATTERN.fullmatch(name)]:
        raise RenderError(f"{wrong[0]!r} is no name of a variable and no pattern of names")
    return found


def plain_script(room: Room, path: str, *, name: str, values: Artifact, purpose: str) -> Artifact:
    """An executable artifact: a script as it lies in a room, with the digest of its variables."""
    content = data_path(room, path).read_bytes()
    if content.count(_DIGEST) != 1:
        raise RenderError(f"{room}/{path} has no place for the digest of its variables")
    content = content.replace(_DIGEST, values.digest.removeprefix("sha256:").encode())
    return Artifact(name, content, purpose, executable=True)
