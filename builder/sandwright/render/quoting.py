"""Quotes values for the language in which they stand: a quoted value reaches a template as it is."""

from __future__ import annotations

import shlex

from sandwright.errors import RenderError


class Quoted(str):
    """Text that is safe in the language of the template it goes into."""

    __slots__ = ()


def quote_shell(word: object) -> Quoted:
    """One word of a POSIX shell. Raise RenderError for a NUL, which no argument can hold."""
    text = str(word)
    if "\0" in text:
        raise RenderError(f"{text!r} holds a NUL byte, which no argument of a program can")
    return Quoted(shlex.quote(text))


def quote_lines(words: object) -> Quoted:
    """Several words of a shell, a line each: a loop of the template would cost more than all the rest."""
    if not isinstance(words, list) or not words:
        raise RenderError(f"{words!r} is no list of words")
    texts = list(map(str, words))
    if any("\0" in text for text in texts):
        texts = list(map(quote_shell, texts))  # says which one
    return Quoted(" \\\n    ".join(map(shlex.quote, texts)))


def plain_number(number: object) -> Quoted:
    """A whole number, in digits. Raise RenderError for anything else, True and False among it."""
    if isinstance(number, bool) or not isinstance(number, int):
        raise RenderError(f"{number!r} is not a whole number")
    return Quoted(str(number))
