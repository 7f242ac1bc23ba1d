r"""The regexes of profiles: a small dialect, parsed here and run without backtracking.

The dialect is the one that macOS was observed to accept: `.`, `[…]`, `[^…]` with ranges, `*`, `+`, `?`, `|`,
`( )`, a backslash before a literal character, `$` anywhere and `^` only first. Bytes are
compared, upper and lower case differ, and a match may begin anywhere unless `^` says otherwise. `{n}`, `\d`,
`\w` have no special meaning; `(?…)` compiles and never matches (seen on macOS); another `^` does not compile
(seen on macOS).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Final

from sandwright.evaluate.sbpl.errors import SbplFault

MAX_POSITIONS = 20_000
"""The limit on a pattern's characters that match something."""

MAX_COST = 2_000_000
"""The limit on a pattern's moves from one such character to others."""

_MAX_GROUPS: Final = 100

END: Final = 256
"""The code of the place after the last byte, which `$` matches."""

_ANY: Final = (1 << 256) - 1


@dataclass(frozen=True, slots=True)
class RegexProgram:
    """A pattern as an automaton without empty moves (Glushkov's): its states are the positions of characters.

    `accepts[i]` is a bit set of the codes that lead into position i. `first` and `last` are the positions
    where a match can begin and end, `follow[i]` where it can go on after i; all three are bit sets of
    positions. A pattern that is `nullable` matches the empty string; one that is `anchored` begins only at
    the start. `cost` is the number of moves that the construction took.
    """

    pattern: str
    accepts: tuple[int, ...]
    first: int
    anchored: bool
    last: int
    follow: tuple[int, ...]
    nullable: bool
    cost: int


@dataclass(slots=True)
class _Part:
    """The properties of a piece of a pattern: see RegexProgram."""

    nullable: bool
    first: int
    last: int


@functools.lru_cache(maxsize=4096)  # as in `automaton`: a profile is read more than once, and variants of it
def compile_regex(pattern: str) -> RegexProgram:
    """The automaton of a pattern. Raise Fault when macOS would not compile it."""
    return _Compiler(pattern).program()


def members(bits: int) -> list[int]:
    """The numbers of the bits that are set in a bit set, ascending."""
    found = []
    while bits:
        low = bits & -bits
        found.append(low.bit_length() - 1)
        bits ^= low
    return found


class _Compiler:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.depth = 0
        self.cost = 0
        self.accepts: list[int] = []
        self.follow: list[int] = []

    def program(self) -> RegexProgram:
        anchored = self.pattern.startswith("^")
        self.at = 1 if anchored else 0
        whole = self._parse_alternatives()
        if self.at < len(self.pattern):
            raise SbplFault("unbalanced ) in regex")
        return RegexProgram(
            self.pattern,
            tuple(self.accepts),
            whole.first,
            anchored,
            whole.last,
            tuple(self.follow),
            whole.nullable,
            self.cost,
        )

    def _parse_alternatives(self) -> _Part:
        part = self._sequence()
        while self._peek() == "|":
            self.at += 1
            other = self._sequence()
            part = _Part(part.nullable or other.nullable, part.first | other.first, part.last | other.last)
        return part

    def _sequence(self) -> _Part:
        part = _Part(nullable=True, first=0, last=0)
        while self._peek() not in ("", "|", ")"):
            part = self._concatenate(part, self._parse_repeated())
        return part

    def _concatenate(self, left: _Part, right: _Part) -> _Part:
        self._link_positions(left.last, right.first)
        return _Part(
            left.nullable and right.nullable,
            left.first | (right.first if left.nullable else 0),
            right.last | (left.last if right.nullable else 0),
        )

    def _link_positions(self, ends: int, starts: int) -> None:
        self.cost += ends.bit_count()
        if self.cost > MAX_COST:
            raise SbplFault("a regex is too complex")
        for position in members(ends):
            self.follow[position] |= starts

    def _parse_repeated(self) -> _Part:
        part = self._parse_single()
        while self._peek() in ("*", "+", "?"):
            operator = self.pattern[self.at]
            self.at += 1
            if operator != "?":
                self._link_positions(part.last, part.first)
            part = _Part(part.nullable or operator != "+", part.first, part.last)
        return part

    def _parse_single(self) -> _Part:
        octet = self._peek()
        self.at += 1
        match octet:
            case "(":
                return self._parse_group()
            case "[":
                return self._add_position(self._parse_set())
            case ".":
                return self._add_position(_ANY)
            case "$":
                return self._add_position(1 << END)
            case "^":
                raise SbplFault("unexpected ^ operator in middle of expression")
            case "\\":
                if self.at >= len(self.pattern):
                    raise SbplFault("a regex cannot end in a single \\")
                self.at += 1
                return self._add_position(1 << ord(self.pattern[self.at - 1]))
            case _:
                return self._add_position(1 << ord(octet))

    def _parse_group(self) -> _Part:
        self.depth += 1
        if self.depth > _MAX_GROUPS:
            raise SbplFault(f"the groups of a regex nest deeper than {_MAX_GROUPS}")
        never = self._peek() == "?"
        if never:
            self.at += 1
        part = self._parse_alternatives()
        if self._peek() != ")":
            raise SbplFault("unbalanced ( in regex")
        self.at += 1
        self.depth -= 1
        return _Part(nullable=False, first=0, last=0) if never else part

    def _add_position(self, codes: int) -> _Part:
        if len(self.accepts) >= MAX_POSITIONS:
            raise SbplFault(f"a regex has more than {MAX_POSITIONS} characters")
        bit = 1 << len(self.accepts)
        self.accepts.append(codes)
        self.follow.append(0)
        return _Part(nullable=False, first=bit, last=bit)

    def _peek(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def _parse_set(self) -> int:
        """The rest of a `[…]`. A `]` that comes first is a member; `-` at an end is one too."""
        negated = self._peek() == "^"
        self.at += 1 if negated else 0
        codes, started = 0, False
        while not (started and self._peek() == "]"):
            started = True
            low = self._parse_member()
            high = low
            if self._peek() == "-" and self.pattern[self.at + 1 : self.at + 2] not in ("", "]"):
                self.at += 1
                high = self._parse_member()
            if high < low:
                raise SbplFault("a range in a regex set runs backwards")
            codes |= (1 << (high + 1)) - (1 << low)
        self.at += 1
        return _ANY & ~codes if negated else codes

    def _parse_member(self) -> int:
        if self.at >= len(self.pattern):
            raise SbplFault("unbalanced [ in regex")
        if self.pattern[self.at] == "\\" and self.at + 1 < len(self.pattern):
            self.at += 1
        self.at += 1
        return ord(self.pattern[self.at - 1])
