"""Git's configuration (git-config(1), "Syntax"), and the files that it names."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

_PROGRAMS = frozenset((
    "alternaterefscommand", "askpass", "cccmd", "clean", "cmd", "command", "defaultkeycommand", "difffilter",
    "driver", "editor", "external", "fsmonitor", "gitproxy", "headercmd", "helper", "httpd",
    "packobjectshook", "pager", "path", "process", "program", "receivepack", "recentobjectshook",
    "sendmailcmd", "smtpserver", "smudge", "sshcommand", "textconv", "tocmd", "tunnel", "update",
    "uploadpack",
))  # fmt: skip
"""Keys, in any section, with values that Git, its own programs or its extensions run."""

_SHELL = re.compile(r"\$\{?\w+\}?|[\s;&|()<>`\"'{}=$]+")
"""Text that ends a word of the shell, or stands for a part of one."""

_ESCAPES = {"n": "\n", "t": "\t", "b": "\b"}


def settings(text: str) -> Iterator[tuple[str, str]]:
    """Keys and values in their order: `core.hookspath`, in lower case except for quoted parts.

    Parsing ends at an unreadable line: Git, too, refuses such a file.
    """
    rest, section = text.removeprefix("\ufeff").replace("\r\n", "\n"), ""
    while rest := rest.lstrip():
        if rest[0] in "#;":
            rest = rest.partition("\n")[2]
        elif rest[0] == "[":
            section, rest = _parse_section(rest[1:])
        else:
            key, value, rest = _setting(rest)
            if not key:
                return
            yield f"{section}.{key}" if section else key, value


def _parse_section(text: str) -> tuple[str, str]:
    """The name of a section, and the text after it."""
    name, position, quoted = "", 0, False
    while position < len(text):
        char = text[position]
        if char == "\n" or (char == "]" and not quoted):
            break
        if char == "\\" and quoted:
            position += 1
            name += text[position : position + 1]
        elif char == '"':
            quoted = not quoted
        elif quoted:
            name += char
        else:
            name += "." if char in " \t" else char.lower()
        position += 1
    return name, text[position + 1 :]


def _setting(text: str) -> tuple[str, str, str]:
    """A key, its value and the text after them; an empty key where there is none."""
    end = next((at for at, char in enumerate(text) if not (char.isalnum() or char == "-")), len(text))
    key, rest = text[:end].lower(), text[end:].lstrip(" \t")
    if not rest.startswith("="):
        line, _, rest = rest.partition("\n")
        return key if not line.strip() or line.strip()[0] in "#;" else "", "true", rest
    value, rest = _value(rest[1:].lstrip(" \t"))
    return key, value, rest


def _value(text: str) -> tuple[str, str]:
    """A value, and the text after its line."""
    value, trimmed_length, position, quoted = "", 0, 0, False
    while position < len(text):
        char = text[position]
        position += 1
        if char == "\n" or (char in "#;" and not quoted):
            break
        if char == '"':
            quoted = not quoted
        elif char == "\\":
            following = text[position : position + 1]
            position += 1
            value += "" if following == "\n" else _ESCAPES.get(following, following)
        else:
            value += char
        if quoted or char not in " \t\r":
            trimmed_length = len(value)
    rest = text[position:] if text[position - 1 : position] == "\n" else text[position:].partition("\n")[2]
    return value[:trimmed_length], rest


def is_include(key: str) -> bool:
    """Whether the value is a file that is read as configuration."""
    return key == "include.path" or (key.startswith("includeif.") and key.endswith(".path"))


def files(key: str, value: str) -> list[str]:
    """The words of a value that may be files of the work tree which Git runs, or which a program gets.

    The shell runs most values, so a word also ends at its punctuation, and one behind a variable or a
    substitution counts from the work tree. A first word without a slash is looked up on PATH.
    """
    section, name = key.partition(".")[0], key.rpartition(".")[2]
    if section == "alias" and not value.startswith("!"):
        return []
    if section not in ("alias", "pager") and name not in _PROGRAMS:
        return []
    command = value.removeprefix("!")
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    pieces = _SHELL.split(command)
    found = [word for some in (words, pieces) for at, word in enumerate(some) if at or "/" in word]
    return [word for word in dict.fromkeys((*found, *(piece.lstrip("/") for piece in pieces[1:]))) if word]
