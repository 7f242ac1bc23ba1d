"""Finds the patterns that match a text: by literal, directory, prefix and regex, in one walk over the text.

Paths are walked name by name. A place in the walk knows which directories have been passed and in which state
the automaton of all regexes is. The next place for a name is computed once and cached, and so are the places
of whole directories: a path in a known directory costs two look-ups.
"""

from __future__ import annotations

from dataclasses import dataclass

from sandwright.evaluate.sbpl.automaton import Automaton, State
from sandwright.evaluate.sbpl.filters import Filter, How, Test, matches
from sandwright.evaluate.sbpl.regex import compile_regex
from sandwright.evaluate.sbpl.request import SbplRequest

MAX_STEPS = 50_000
"""The number of names that are remembered with their targets; then all are forgotten."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A rule that decides if `rest` holds too (None: nothing is left to check) and no lower rank does."""

    rank: int
    rest: Filter | None


class _Tree(dict[str, "_Tree"]):
    """The directories that are wanted, by name. `here` are the candidates that want all below this one."""

    __slots__ = ("here",)

    def __init__(self) -> None:
        super().__init__()
        self.here: list[Candidate] = []


class _Place(dict[str, "_Place"]):
    """A place in the walk over a text, as the mapping from the next name to the next place.

    `tree` is where it stands among the wanted directories, None beside them all; `passed` are the candidates
    of those that have been passed; `found` those that match when the text ends here, by rank.
    """

    __slots__ = ("found", "index", "passed", "state", "tree")

    def __init__(
        self, index: Index, state: State | None, tree: _Tree | None, passed: tuple[Candidate, ...]
    ) -> None:
        super().__init__()
        self.index = index
        self.state = state
        self.tree = tree
        self.passed = passed
        self.found: list[Candidate] | None = None

    def __missing__(self, name: str) -> _Place:
        return self.index.step(self, name)


class Index:
    """Candidates by the text they want."""

    def __init__(self) -> None:
        self._literals: dict[str, list[Candidate]] = {}
        self._root = _Tree()
        self._prefixes: dict[int, dict[str, list[Candidate]]] = {}
        self._patterns: dict[str, list[Candidate]] = {}
        self._automaton: Automaton | None = None
        self._by_number: list[list[Candidate]] = []
        self._places: dict[tuple[int, int, tuple[Candidate, ...]], _Place] = {}
        self._start: _Place | None = None
        self._directories: dict[str, _Place] = {}
        self._steps = 0

    def add(self, test: Test, candidate: Candidate) -> None:
        """Take in a candidate, before anything is looked up. Lower ranks come first."""
        assert isinstance(test.value, str)
        match test.how:
            case How.SUBPATH if test.value:
                self._directory_node(test.value).here.append(candidate)
            case How.LITERAL | How.SUBPATH:
                self._literals.setdefault(test.value, []).append(candidate)
            case How.PREFIX:
                self._prefixes.setdefault(len(test.value), {}).setdefault(test.value, []).append(candidate)
            case _:
                self._patterns.setdefault(test.value, []).append(candidate)

    def lowest(self, text: str, request: SbplRequest, best: int) -> int:
        """The lowest rank of a candidate that `text` and the rest of the request satisfy, if below `best`."""
        literal = self._literals.get(text)
        if literal is not None:
            best = _lowest(literal, request, best)
        cut = text.rfind("/")
        above = self._directories.get(text[:cut]) if cut >= 0 else self._start
        node = (self._walk_directories(text, cut) if above is None else above)[text[cut + 1 :]]
        best = _lowest(self._candidates_at(node) if node.found is None else node.found, request, best)
        for length, entries in self._prefixes.items():
            prefixed = entries.get(text[:length])
            if prefixed is not None:
                best = _lowest(prefixed, request, best)
        return best

    def _walk_directories(self, text: str, cut: int) -> _Place:
        """The place that is reached before the `/` at `cut`, the last one; -1: where texts begin."""
        node = self._start_node() if self._start is None else self._start
        if cut >= 0:
            for name in text[:cut].split("/"):
                node = node[name]
            if len(self._directories) >= MAX_STEPS:
                self._directories.clear()
            self._directories[text[:cut]] = node
        return node

    def _directory_node(self, path: str) -> _Tree:
        tree = self._root
        for name in ("",) if path == "/" else path.split("/"):
            if name not in tree:
                tree[name] = _Tree()
            tree = tree[name]
        return tree

    def _start_node(self) -> _Place:
        if self._patterns and self._automaton is None:
            self._automaton = Automaton([compile_regex(pattern) for pattern in self._patterns])
            self._by_number = list(self._patterns.values())
        self._start = _Place(self, None, self._root, ())
        return self._start

    def step(self, node: _Place, name: str) -> _Place:
        """The place that a name leads to."""
        state = node.state
        if self._automaton is not None:
            state = self._automaton.start if state is None else state["/"]
            for octet in name:
                state = state[octet]
        tree = node.tree.get(name) if node.tree is not None else None
        passed = node.passed + tuple(tree.here) if tree is not None else node.passed
        key = (id(state), id(tree), passed)
        self._steps += 1
        if self._steps > MAX_STEPS:
            self._places.clear()
            self._directories.clear()
            self._steps = 0
            self._start = None
        reached = self._places.get(key)
        if reached is None:
            reached = self._places[key] = _Place(self, state, tree, passed)
        node[name] = reached
        return reached

    def _candidates_at(self, node: _Place) -> list[Candidate]:
        found = list(node.passed)
        if node.state is not None:
            for number in node.state.hits:
                found.extend(self._by_number[number])
        node.found = sorted(found, key=lambda candidate: candidate.rank)
        return node.found


def _lowest(candidates: list[Candidate], request: SbplRequest, best: int) -> int:
    for candidate in candidates:
        if candidate.rank >= best:
            return best
        if candidate.rest is None or matches(candidate.rest, request):
            return candidate.rank
    return best
