r"""Regular expressions as Go's package regexp has them (RE2's syntax), for Python's. Pure.

What Go refuses is refused here (look-around, backreferences, `*+`), and what the two read differently is
written out: `$` is the end of the text alone, `\d`, `\w`, `\s` and `\b` are ASCII, `{,2}` is text.
Only classes of Unicode (`\pL`) are not supported.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field

_CLASSES = {"d": "0-9", "w": "0-9A-Za-z_", "s": r"\t\n\f\r "}
_POSIX = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x7f", "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~", "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ", "upper": "A-Z", "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_REPEAT = re.compile(r"[*+?]|\{(\d+)(?:,(\d*))?\}")
_GROUP = re.compile(r"\(\?(?:P?<([A-Za-z_]\w*)>|([imsU]*)(?:-([imsU]+))?([:)]))", re.ASCII)
_HEX = re.compile(r"\\x(?:\{([0-9A-Fa-f]{1,6})\}|([0-9A-Fa-f]{2}))")
_OCTAL = re.compile(r"\\(0[0-7]{0,2}|[1-7][0-7]{1,2})")
_LETTERS = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_MOST = 1000


class NotGo(ValueError):
    """Why a text is no regular expression of Go, or none that is supported here."""


def compile_go(text: str) -> re.Pattern[str]:
    """Compile an expression. Raise NotGo."""
    made = _Translation(text).all()
    try:
        return re.compile(made)
    except (re.error, OverflowError, RecursionError) as error:
        raise NotGo(str(error)) from None


@dataclass
class _Translation:
    text: str
    at: int = 0
    flags: str = ""
    outer: list[str] = field(default_factory=list)

    def all(self) -> str:
        made: list[str] = []
        repeatable = False
        while self.at < len(self.text):
            if repeated := self._repeat():
                if not repeatable:
                    raise NotGo("a repetition has nothing to repeat, or repeats a repetition")
                made.append(repeated)
                repeatable = False
                continue
            char = self.text[self.at]
            made.append(self._piece(char))
            repeatable = char not in "(|" or made[-1] not in ("(", "(?:", "|", "")
            repeatable = repeatable and not (char == "(" and made[-1].endswith((">", ":")))
        if self.outer:
            raise NotGo("a group is not closed")
        return "".join(made)

    def _repeat(self) -> str:
        match = _REPEAT.match(self.text, self.at)
        if match is None:
            return ""
        low, high = match[1], match[2]
        if low and (int(low) > _MOST or (high and not int(low) <= int(high) <= _MOST)):
            raise NotGo(f"{match[0]} repeats more than {_MOST} times, or backwards")
        self.at = match.end()
        lazy = self.text[self.at : self.at + 1] == "?"
        self.at += lazy
        return match[0] + ("?" if lazy != ("U" in self.flags) else "")

    def _piece(self, char: str) -> str:
        if char == "(":
            return self._open()
        if char == "\\":
            return self._escape()
        if char == "[":
            return self._folded(self._class())
        self.at += 1
        if char == ")":
            if not self.outer:
                raise NotGo("a group is closed that was not opened")
            self.flags = self.outer.pop()
        signs = {
            ")": ")",
            "|": "|",
            "^": "(?m:^)" if "m" in self.flags else r"(?:\A)",
            "$": "(?m:$)" if "m" in self.flags else r"(?:\Z)",
            ".": "(?s:.)" if "s" in self.flags else r"[^\n]",
        }
        return signs[char] if char in signs else self._folded(re.escape(char))

    def _open(self) -> str:
        if not self.text.startswith("(?", self.at):
            self.at += 1
            self.outer.append(self.flags)
            return "("
        match = _GROUP.match(self.text, self.at)
        if match is None:
            raise NotGo(f"Go has no group that begins with {self.text[self.at : self.at + 4]!r}")
        self.at = match.end()
        name, on, off, end = match.groups()
        if name:
            self.outer.append(self.flags)
            return f"(?P<{name}>"
        if end == ")" and not on and not off:
            raise NotGo("'(?)' sets no flag")
        flags = "".join(each for each in "imsU" if each in self.flags + on and each not in (off or ""))
        if end == ":":
            self.outer.append(self.flags)
        self.flags = flags
        return "(?:" if end == ":" else ""

    def _escape(self) -> str:
        if self.text.startswith("\\Q", self.at):
            end = self.text.find("\\E", self.at)
            quoted = self.text[self.at + 2 : end if end >= 0 else len(self.text)]
            self.at = end + 2 if end >= 0 else len(self.text)
            return "".join(self._folded(re.escape(each)) for each in quoted)
        char = self.text[self.at + 1 : self.at + 2]
        if char in ("A", "z", "b", "B"):
            self.at += 2
            return {"A": r"(?:\A)", "z": r"(?:\Z)", "b": r"(?a:\b)", "B": r"(?a:(?!\b))"}[char]
        if char.lower() in _CLASSES:
            self.at += 2
            return f"[{'^' if char.isupper() else ''}{_CLASSES[char.lower()]}]"
        return self._folded(re.escape(self._character()))

    def _character(self) -> str:
        """The character that an escape stands for."""
        for pattern, base in ((_HEX, 16), (_OCTAL, 8)):
            if match := pattern.match(self.text, self.at):
                self.at = match.end()
                number = int(next(filter(None, match.groups())), base)
                if number > 0x10FFFF:
                    raise NotGo(f"{match[0]} is no character")
                return chr(number)
        char = self.text[self.at + 1 : self.at + 2]
        if char in ("p", "P"):
            raise NotGo("classes of Unicode (\\p) are not supported here")
        if not char or (char.isascii() and char.isalnum() and char not in _LETTERS) or char == "_":
            raise NotGo(f"Go has no escape '\\{char}'")
        self.at += 2
        return _LETTERS.get(char, char)

    def _class(self) -> str:
        """A class in brackets, for Python."""
        self.at += 1
        negated = self.text.startswith("^", self.at)
        self.at += negated
        made: list[str] = []
        first = True
        while first or not self.text.startswith("]", self.at):
            if self.at >= len(self.text):
                raise NotGo("a class is not closed")
            first = False
            made.append(self._posix() or self._shorthand() or self._range())
        self.at += 1
        return f"[{'^' if negated else ''}{''.join(made)}]"

    def _posix(self) -> str:
        match = re.compile(r"\[:(\^?)(\w+):\]").match(self.text, self.at)
        if match is None:
            return ""
        if match[2] not in _POSIX:
            raise NotGo(f"there is no class {match[0]}")
        self.at = match.end()
        return _outside(_POSIX[match[2]]) if match[1] else _POSIX[match[2]]

    def _shorthand(self) -> str:
        char = self.text[self.at + 1 : self.at + 2]
        if self.text[self.at] != "\\" or char.lower() not in _CLASSES:
            return ""
        self.at += 2
        inside = _CLASSES[char.lower()]
        return _outside(inside) if char.isupper() else inside

    def _range(self) -> str:
        low = self._member()
        if not self.text.startswith("-", self.at) or self.text[self.at + 1 : self.at + 2] in ("]", ""):
            return re.escape(low)
        self.at += 1
        high = self._member()
        if high < low:
            raise NotGo(f"the range {low}-{high} is empty")
        return f"{re.escape(low)}-{re.escape(high)}"

    def _member(self) -> str:
        if self.text.startswith("\\", self.at):
            return self._character()
        char = self.text[self.at : self.at + 1]
        self.at += 1
        return char

    def _folded(self, piece: str) -> str:
        return f"(?i:{piece})" if "i" in self.flags else piece


def _outside(inside: str) -> str:
    """The ranges of all characters that a class doesn't have."""
    fits = re.compile(f"[{inside}]")
    known = [number for number in range(128) if fits.match(chr(number))]
    bounds = [-1, *known, 0x110000]
    ranges = ((low + 1, high - 1) for low, high in itertools.pairwise(bounds) if high - low > 1)
    return "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges)
