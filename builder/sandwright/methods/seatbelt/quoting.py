r"""Quotes the values of a policy for SBPL: strings, patterns and comments.

An SBPL string knows the escapes of TinyScheme 1.38: `\"`, `\\`, `\n`, `\t`, `\r` and `\xHH`; other bytes
stand for themselves, as UTF-8. JSON's and Python's escapes mean something else there (`\u00e9` is `u00e9`).
"""

from __future__ import annotations

import re

from sandwright.errors import RenderError
from sandwright.render.quoting import Quoted
from sandwright.render.templates import add_filter

MAX_LITERAL = 240
"""Bytes of one literal. TinyScheme 1.38 reads strings into 256 bytes; whether Apple's copy does is unknown,
so longer ones are put together by `string-append`."""

_SPECIAL = re.compile(r"[\\^$.|?*+()\[\]{}]")
_HARMLESS = re.compile(r"[ !#-\[\]-~]*")
_NAMED = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def quote_sbpl(value: object) -> Quoted:
    """A string of SBPL. Raise RenderError for a NUL, which ends a path, and for bytes that are not UTF-8."""
    text = str(value)
    if len(text) <= MAX_LITERAL and _HARMLESS.fullmatch(text):
        return Quoted(f'"{text}"')
    if "\0" in text:
        raise RenderError(f"{text!r} holds a NUL byte, which no path can")
    pieces, size = [""], 0
    for character in text:
        quoted, width = _quote_character(character, text)
        if size + width > MAX_LITERAL:
            pieces.append("")
            size = 0
        pieces[-1] += quoted
        size += width
    literals = [f'"{piece}"' for piece in pieces]
    return Quoted(literals[0] if len(literals) == 1 else f"(string-append {' '.join(literals)})")


def quote_comment(value: object) -> Quoted:
    """Text for the rest of a line after `;`: all but printable ASCII becomes `?`, so the line doesn't end."""
    return Quoted("".join(each if " " <= each <= "~" else "?" for each in str(value))[:200])


def escape_regex(text: str) -> str:
    """A pattern, not yet a string, that matches just this text."""
    return _SPECIAL.sub(r"\\\g<0>", text)


def _quote_character(character: str, text: str) -> tuple[str, int]:
    if character in _NAMED:
        return _NAMED[character], len(_NAMED[character])
    if character < " " or character == "\x7f":
        return f"\\x{ord(character):02x}", 4
    try:
        return character, len(character.encode())
    except UnicodeEncodeError:
        raise RenderError(f"{text!r} is not valid UTF-8, which macOS' file systems need") from None


add_filter("sbpl", quote_sbpl)
add_filter("comment", quote_comment)
