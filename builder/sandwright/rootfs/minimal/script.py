"""The interpreter in the first line of a script. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

LONGEST_LINE = 256
"""The length of the line that Linux reads (BINPRM_BUF_SIZE)."""

_ENV = re.compile(rb"(?:.*/)?env")
_ASSIGNMENT = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*=")
_WITH_VALUE = (b"-u", b"-C", b"--unset", b"--chdir")


@dataclass(frozen=True)
class Script:
    """The interpreter of a script as written, and, where that is env, the program it would look for."""

    interpreter: bytes
    program: bytes = b""


def read_script(head: bytes) -> Script | None:
    """Parse the first bytes of a script; None if they are not a script's, or its first line is empty."""
    if not head.startswith(b"#!"):
        return None
    line = head[2:LONGEST_LINE].partition(b"\n")[0].strip(b" \t\r")
    interpreter, _, rest = line.replace(b"\t", b" ").partition(b" ")
    if not interpreter or b"\0" in interpreter:
        return None
    return Script(interpreter, _env_program(rest.strip()) if _ENV.fullmatch(interpreter) else b"")


def _env_program(rest: bytes) -> bytes:
    """The program in the arguments of env(1). The kernel passes all as one argument; `-S` splits it."""
    split = re.match(rb"(?:-[iv0]*S|--split-string=?) *", rest)
    words = rest[split.end() :].split() if split else [rest]
    while words:
        word = words.pop(0)
        if word in _WITH_VALUE:
            words = words[1:]
        elif not word.startswith(b"-") and not _ASSIGNMENT.match(word):
            return word.strip(b"'\"")
    return b""
