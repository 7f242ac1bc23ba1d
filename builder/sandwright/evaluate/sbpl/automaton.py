"""Many regexes run at once over one text, in time that grows with the text alone.

A deterministic automaton is built while texts are read: each state knows the states it has led to so far.
The cost of a new step is bounded by the sizes of the patterns, so no pattern makes matching explode.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from sandwright.evaluate.sbpl.regex import END, RegexProgram, compile_regex, members

MAX_STATES = 4_000
"""The number of states that are kept; then the automaton forgets them and begins anew."""


class State(dict[str, "State"]):
    """A state, as the mapping from an octet to the next state. A missing octet is worked out and kept."""

    __slots__ = ("_hits", "_owner", "positions", "seen")

    def __init__(self, owner: Automaton, positions: int, seen: frozenset[int]) -> None:
        """`positions` are those reached, `seen` the patterns that have matched on the way."""
        super().__init__()
        self._owner = owner
        self.positions = positions
        self.seen = seen
        self._hits: tuple[int, ...] | None = None

    def __missing__(self, octet: str) -> State:
        state = self[octet] = self._owner.step(self, ord(octet))
        return state

    @property
    def hits(self) -> tuple[int, ...]:
        """The numbers of the patterns that match when the text ends here, ascending."""
        if self._hits is None:
            self._hits = self._owner.finish(self)
        return self._hits


class Automaton:
    """Finds the patterns that match somewhere in a text."""

    def __init__(self, programs: Sequence[RegexProgram]) -> None:
        """Patterns are numbered as they stand in `programs`."""
        self._single: dict[int, int] = {}
        self._several: list[tuple[int, int]] = []
        self._follow: list[int] = []
        self._ends: dict[int, int] = {}
        self._always = 0
        self._last = 0
        self._empty: set[int] = set()
        start = 0
        for number, program in enumerate(programs):
            start |= self._add_program(number, program)
        self._taking: dict[int, int] = {}
        self._states: dict[tuple[int, frozenset[int]], State] = {}
        self._initial = start
        self.start = self._state_for(start, frozenset(self._empty))

    def matches(self, text: str) -> tuple[int, ...]:
        """The numbers of the patterns that match in a text (octets), ascending."""
        state = self.start
        for octet in text:
            state = state[octet]
        return state.hits

    def _add_program(self, number: int, program: RegexProgram) -> int:
        """Take in a pattern; give the positions it can begin with, shifted to ours."""
        shift = len(self._follow)
        for position, accepts in enumerate(program.accepts, shift):
            if accepts & (accepts - 1):
                self._several.append((1 << position, accepts))
            elif accepts:  # one octet, as most take
                code = accepts.bit_length() - 1
                self._single[code] = self._single.get(code, 0) | 1 << position
        self._follow.extend(follow << shift for follow in program.follow)
        last = program.last << shift
        self._last |= last
        for position in members(last):
            self._ends[position] = number
        if program.nullable:
            self._empty.add(number)
        if not program.anchored:
            self._always |= program.first << shift
        return program.first << shift

    def _state_for(self, expected: int, seen: frozenset[int]) -> State:
        """The state in which `expected` positions may take the next octet."""
        key = (expected, seen)
        found = self._states.get(key)
        if found is None:
            if len(self._states) >= MAX_STATES:
                self._forget_states()
            found = self._states[key] = State(self, expected, seen)
        return found

    def _forget_states(self) -> None:
        for state in self._states.values():
            state.clear()
        self._states.clear()
        self.start = self._states[self._initial, frozenset(self._empty)] = State(
            self, self._initial, frozenset(self._empty)
        )

    def step(self, state: State, code: int) -> State:
        """The state after one more octet."""
        reached = state.positions & self._positions_taking(code)
        expected, seen = self._always, state.seen
        ended = reached & self._last
        if ended:
            seen = seen.union(self._ends[position] for position in members(ended))
        for position in members(reached):
            expected |= self._follow[position]
        return self._state_for(expected, seen)

    def finish(self, state: State) -> tuple[int, ...]:
        """The patterns that have matched, counting those that wait for the end of the text."""
        seen, positions, tried = set(state.seen), state.positions, 0
        while True:
            reached = positions & self._positions_taking(END) & ~tried
            if not reached:
                return tuple(sorted(seen))
            tried |= reached
            for position in members(reached):
                if self._last >> position & 1:
                    seen.add(self._ends[position])
                positions |= self._follow[position]

    def _positions_taking(self, code: int) -> int:
        """The positions that take an octet."""
        found = self._taking.get(code)
        if found is None:
            found, bit = self._single.get(code, 0), 1 << code
            for position, accepts in self._several:
                if accepts & bit:
                    found |= position
            self._taking[code] = found
        return found


@functools.lru_cache(maxsize=4096)
def _compile_single(pattern: str) -> Automaton:
    return Automaton([compile_regex(pattern)])


def search(pattern: str, text: str) -> bool:
    """Whether a pattern matches somewhere in a text, both octets. Raise Fault when it is no pattern."""
    return bool(_compile_single(pattern).matches(text))
