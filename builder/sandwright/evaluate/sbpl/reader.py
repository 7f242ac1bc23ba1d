"""Reads the text of a profile into data: the lexical rules of TinyScheme 1.38 and Apple's raw strings.

Two things are read that TinyScheme itself may refuse, because people write them: block comments `#| … |#` and
datum comments `#;`. The linter reports them. Sources: TinyScheme's `scheme.c` (`token`, `readstrexp`,
`mk_atom`) as described in public notes; `#"…"` as Apple's own profiles use it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sandwright.evaluate.sbpl.datum import NIL, Char, Pair, Value, Vector, symbol
from sandwright.evaluate.sbpl.errors import ProfileError, SbplFault
from sandwright.evaluate.sbpl.source import SourceFile, Span, readable

MAX_SIZE = 4 * 1024 * 1024
"""Longest profile that is read, in bytes. The longest public one has 200 KiB."""

MAX_NESTING = 500
"""The limit on the nesting of lists as written."""

_TOKEN = re.compile(
    r"""
      (?P<space>   [ \t\r\n\f\v]+ | ;[^\n]* | \#![^\n]* )
    | (?P<block>   \#\| )
    | (?P<skip>    \#; )
    | (?P<raw>     \#"[^"]*" )
    | (?P<string>  "[^"\\]*(?:\\.[^"\\]*)*" )
    | (?P<char>    \#\\(?:[^\x00][^();\t\n\r\ ]*) )
    | (?P<vector>  \#\( )
    | (?P<sharp>   \#[^();\t\n\r\ ]* )
    | (?P<open>    \( )
    | (?P<close>   \) )
    | (?P<quote>   ' | ` | ,@ | , )
    | (?P<dot>     \.(?=[();\t\n\r\ ]|\Z) )
    | (?P<atom>    [^();\t\n\r\ "'`,\x00][^();\t\n\r\ \x00]* )
    """,
    re.VERBOSE | re.DOTALL,
)
_QUOTES = {"'": "quote", "`": "quasiquote", ",": "unquote", ",@": "unquote-splicing"}
_NUMBER = re.compile(r"[+-]?(?:(?P<int>[0-9]+)|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\Z")
_ESCAPE = re.compile(r"\\(?:([xX][0-9A-Fa-f]{2})|([0-7]{1,3})|(.))", re.DOTALL)
_SIMPLE_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_RADIX = {"x": 16, "o": 8, "b": 2, "d": 10}
_CHARACTER_NAMES = {"space": " ", "newline": "\n", "return": "\r", "tab": "\t"}


@dataclass(frozen=True, slots=True)
class Datum:
    """One datum of a file and where it stands."""

    value: Value
    span: Span


@dataclass(slots=True)
class _Open:
    """A list, vector or quotation that is not finished. `tail` is None until a dot was seen."""

    kind: str
    start: int
    items: list[Datum]
    tail: list[Datum] | None = None


def read_data(source: SourceFile) -> Iterator[Datum]:
    """The data of a file, one after the other. Raise ProfileError at the first thing that is no datum."""
    if len(source.octets) > MAX_SIZE:
        raise ProfileError(source.position(0), f"the profile is longer than {MAX_SIZE} bytes")
    return _Parser(source).data()


def one_line(span: Span) -> str:
    """The text of a span, on one line, without comments; strings stay as they are written."""
    piece = SourceFile(span.source.name, span.source.octets[span.start : span.end].encode("latin-1"))
    words: list[str] = []
    glued = True
    for kind, start, end in tokens(piece):
        if not glued and kind != "close":
            words.append(" ")
        words.append(piece.octets[start:end])
        glued = kind in ("open", "vector", "quote", "skip")
    return readable("".join(words))


class _Parser:
    def __init__(self, source: SourceFile) -> None:
        self.source = source
        self.stack: list[_Open] = []

    def data(self) -> Iterator[Datum]:
        for kind, start, end in tokens(self.source):
            done = self._take_token(kind, start, end)
            if done is not None:
                yield done
        if self.stack:
            opened = self.stack[-1]
            what = {"(": "this list is never closed", "#(": "this vector is never closed"}
            raise self._error_at(opened.start, what.get(opened.kind, "nothing follows this quotation"))

    def _take_token(self, kind: str, start: int, end: int) -> Datum | None:
        """Take one token; give a datum when one is complete and stands in no list."""
        span = Span(self.source, start, end)
        text = self.source.octets[start:end]
        if kind in ("open", "vector", "quote", "skip"):
            if len(self.stack) >= MAX_NESTING:
                raise self._error_at(start, f"lists nest deeper than {MAX_NESTING}")
            self.stack.append(_Open(text, start, []))
            return None
        if kind == "dot":
            self._dot(start)
            return None
        if kind == "close":
            return self._finish_datum(self._close_list(start, end))
        return self._finish_datum(Datum(self._parse_atom(kind, text, start), span))

    def _dot(self, start: int) -> None:
        if (
            not self.stack
            or self.stack[-1].kind != "("
            or not self.stack[-1].items
            or self.stack[-1].tail is not None
        ):
            raise self._error_at(start, "a dot must stand between the last two data of a list")
        self.stack[-1].tail = []

    def _close_list(self, start: int, end: int) -> Datum:
        if not self.stack:
            raise self._error_at(start, "this ) closes nothing")
        opened = self.stack.pop()
        span = Span(self.source, opened.start, end)
        if opened.kind == "#(":
            return Datum(Vector(item.value for item in opened.items), span)
        if opened.kind != "(":
            raise self._error_at(opened.start, "nothing follows this quotation")
        if opened.tail is not None and len(opened.tail) != 1:
            raise self._error_at(start, "exactly one datum must follow the dot of a list")
        return Datum(_build_list(opened, span), span)

    def _finish_datum(self, done: Datum) -> Datum | None:
        """Put a complete datum where it belongs, closing the quotations that waited for it."""
        while self.stack:
            opened = self.stack[-1]
            if opened.kind == "#;":
                self.stack.pop()
                return None
            if opened.kind in _QUOTES:
                self.stack.pop()
                span = Span(self.source, opened.start, done.span.end)
                done = Datum(_quotation(_QUOTES[opened.kind], done, span), span)
                continue
            if opened.tail is None:
                opened.items.append(done)
            elif opened.tail:
                raise self._error_at(done.span.start, "exactly one datum must follow the dot of a list")
            else:
                opened.tail.append(done)
            return None
        return done

    def _parse_atom(self, kind: str, text: str, start: int) -> Value:
        try:
            match kind:
                case "raw":
                    return text[2:-1]
                case "string":
                    return _unescape(text[1:-1])
                case "char":
                    return _parse_character(text[2:])
                case "sharp":
                    return _sharp(text)
                case _:
                    return parse_atom(text)
        except SbplFault as fault:
            raise self._error_at(start, fault.message) from None

    def _error_at(self, offset: int, message: str) -> ProfileError:
        return ProfileError(self.source.position(offset), message)


def tokens(source: SourceFile, *, comments: bool = False) -> Iterator[tuple[str, int, int]]:
    """The kind, start and end of each token that is no white space and no comment.

    `comments`: block comments are given too, as one token of the kind `block`.
    """
    text, offset = source.octets, 0
    while offset < len(text):
        found = _TOKEN.match(text, offset)
        kind = found.lastgroup if found else None
        if found is None or kind is None:
            raise ProfileError(source.position(offset), _no_token(text, offset))
        if kind == "block":
            end = _comment_end(source, offset)
            if comments:
                yield kind, offset, end
            offset = end
            continue
        if kind != "space":
            if kind == "sharp" and text.startswith('#"', offset):
                raise ProfileError(source.position(offset), "this raw string is never closed")
            yield kind, offset, found.end()
        offset = found.end()


def _no_token(text: str, offset: int) -> str:
    if text[offset] == '"':
        return "this string is never closed"
    return f"a profile cannot hold the byte 0x{ord(text[offset]):02x}"


def _comment_end(source: SourceFile, start: int) -> int:
    """The offset after the block comment that begins at `start`; they nest."""
    depth, offset = 0, start
    for found in re.compile(r"#\||\|#").finditer(source.octets, start):
        if found.start() < offset:
            continue
        offset = found.end()
        depth += 1 if found.group() == "#|" else -1
        if depth == 0:
            return offset
    raise ProfileError(source.position(start), "this block comment is never closed")


def _build_list(opened: _Open, span: Span) -> Value:
    result: Value = opened.tail[0].value if opened.tail else NIL
    for item in reversed(opened.items):
        result = Pair(item.value, result, item.span)
    if isinstance(result, Pair):
        result.span = span
    return result


def _quotation(name: str, quoted: Datum, span: Span) -> Value:
    return Pair(symbol(name), Pair(quoted.value, NIL, quoted.span), span, span)


def _unescape(text: str) -> str:
    return _ESCAPE.sub(_escaped, text) if "\\" in text else text


def _escaped(found: re.Match[str]) -> str:
    hexadecimal, octal, other = found.groups()
    if hexadecimal:
        return chr(int(hexadecimal[1:], 16))
    if octal:
        if int(octal, 8) > 255:
            raise SbplFault(f"\\{octal} is no byte")
        return chr(int(octal, 8))
    if other in "xX":
        raise SbplFault("\\x in a string needs two hexadecimal digits")
    return _SIMPLE_ESCAPES.get(other, other)


def _parse_character(name: str) -> Char:
    if len(name) == 1:
        return Char(name)
    if name.lower() in _CHARACTER_NAMES:
        return Char(_CHARACTER_NAMES[name.lower()])
    if re.fullmatch(r"[xX][0-9A-Fa-f]{1,2}", name):
        return Char(chr(int(name[1:], 16)))
    raise SbplFault(f"#\\{name} is no character")


def _sharp(text: str) -> Value:
    if text in ("#t", "#f"):
        return text == "#t"
    radix = _RADIX.get(text[1:2])
    digits = text[2:]
    if radix is not None and re.fullmatch(r"[+-]?[0-9A-Fa-f]{1,64}", digits):
        try:
            return int(digits, radix)
        except ValueError:
            pass
    raise SbplFault(f"{text[:40]} is an unknown # expression")


def parse_atom(text: str) -> Value:
    """A number if it reads as one, else a symbol. Raise SbplFault for a number too long to hold."""
    found = _NUMBER.match(text)
    if found is None:
        return symbol(text)
    if len(text) > 64:
        raise SbplFault("this number is too long")
    return int(text) if found.group("int") else float(text)
