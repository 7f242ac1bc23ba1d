"""Reads from maintainer scripts which alternatives a package installs: update-alternatives(1).

Scripts are not run. A call counts if all of its words are literal, or variables that the script sets once to
literal words, in an assignment or a `for` loop. Conditions around a call are not evaluated.
"""

from __future__ import annotations

import itertools
import math
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sandwright.image.fields import check_path

_CALL = "update-alternatives"
_ASSIGNMENT = re.compile(
    r"(?:^|;)\s*([A-Za-z_][A-Za-z0-9_]*)=([^\s;]*|'[^']*'|\"[^\"]*\")\s*(?=;|$)", re.MULTILINE
)
_LOOP = re.compile(r"\bfor\s+([A-Za-z_][A-Za-z0-9_]*)\s+in\s+([^;\n]*)(?=;|$)", re.MULTILINE)
_VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})")
_MOST_VALUES = 1000
_LONGEST = 1 << 20
"""Bytes of a script that are read."""


@dataclass(frozen=True)
class AlternativeLink:
    """A link, the name of the alternative (a link in /etc/alternatives), and the file that it leads to."""

    link: str
    name: str
    path: str


@dataclass(frozen=True)
class Alternative:
    """One choice of an alternative. `slaves` change with it."""

    choice: AlternativeLink
    priority: int
    slaves: tuple[AlternativeLink, ...] = ()


def read_alternatives(script: bytes) -> tuple[list[Alternative], bool]:
    """The alternatives that a script installs, and whether it has calls that could not be read."""
    text = script[:_LONGEST].decode("utf-8", "replace").replace("\\\n", " ")
    variables = _shell_variables(text)
    found: list[Alternative] = []
    unread = False
    for call in _install_calls(text):
        try:
            found += [_parse_call(words) for words in _expansions(call, variables)]
        except ValueError:
            unread = True
    return list(dict.fromkeys(found)), unread


def _install_calls(text: str) -> Iterator[str]:
    """The commands that install an alternative, as written."""
    for line in text.splitlines():
        for command in re.split(r"&&|\|\||[;|]", re.split(r"(?:^|\s)#", line)[0]):
            if re.search(rf"(?:^|\s){_CALL}\s", command) and "--install" in command:
                yield command[command.index(_CALL) + len(_CALL) :]


def _shell_variables(text: str) -> dict[str, Sequence[str]]:
    """The variables with one assignment or loop, and their values; those with others have none."""
    found: dict[str, list[Sequence[str]]] = {}
    for name, value in _ASSIGNMENT.findall(text):
        found.setdefault(name, []).append([value.strip("'\"")])
    for name, words in _LOOP.findall(text):
        found.setdefault(name, []).append(words.split())
    return {name: values[0] if len(values) == 1 else () for name, values in found.items()}


def _expansions(call: str, variables: dict[str, Sequence[str]]) -> Iterator[list[str]]:
    """The words of a call, for each value of its variables. Raise ValueError if they can't be read."""
    used = sorted({plain or braced for plain, braced in _VARIABLE.findall(call)})
    if any(not variables.get(name) for name in used):
        raise ValueError(call)
    if math.prod(len(variables[name]) for name in used) > _MOST_VALUES:
        raise ValueError(call)
    for values in itertools.product(*(variables[name] for name in used)):
        expanded = call
        for name, value in zip(used, values, strict=True):
            expanded = re.sub(rf"\$(?:{name}\b|\{{{name}\}})", lambda _, value=value: value, expanded)  # type: ignore[misc]
        words = shlex.split(expanded)
        if any(re.search(r"[$`*?<>]", word) for word in words):
            raise ValueError(call)
        yield words


def _parse_call(words: Sequence[str]) -> Alternative:
    """An alternative of the words after the program's name. Raise ValueError."""
    rest = [word for word in words if word not in ("--quiet", "--force")]
    if rest[:1] != ["--install"] or len(rest) < 5 or len(rest) % 4 != 1:
        raise ValueError(words)
    slaves = [rest[at : at + 4] for at in range(5, len(rest), 4)]
    if any(each[0] != "--slave" for each in slaves):
        raise ValueError(words)
    links = [AlternativeLink(*rest[1:4]), *(AlternativeLink(*each[1:]) for each in slaves)]
    for each in links:
        check_path(each.link)
        check_path(f"/etc/alternatives/{each.name}")
        check_path(each.path)
    return Alternative(links[0], int(rest[4]), tuple(links[1:]))
