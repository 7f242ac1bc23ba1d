"""Decision tables: for each operation, the rules that can decide it, found by the property that they test.

The rules of an operation and of its parents form one order of precedence: those that name the operation
itself come first, newest first, then those of its parent, up to the first operation with an unfiltered rule
or a decision. Rank 0 decides before rank 1. A request is looked up in indexes by literal, by
ancestor, by prefix and by one automaton for all regexes; the other rules are tried one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sandwright.evaluate.sbpl.filters import All, Any, Filter, How, Test, matches
from sandwright.evaluate.sbpl.index import Candidate, Index
from sandwright.evaluate.sbpl.request import SbplRequest

_INDEXED = (How.LITERAL, How.SUBPATH, How.PREFIX, How.REGEX)
_MOST_SPREAD = 10_000


class Table:
    """Finds the lowest rank of which a filter matches a request."""

    def __init__(self, ranked: Sequence[Sequence[Filter]]) -> None:
        """`ranked[rank]` holds the filters of the rule of that rank, of which one is enough."""
        self._size = len(ranked)
        self._path: Index | None = None
        self._indexes: dict[str, Index] = {}
        self._others: list[tuple[int, Filter]] = []
        for rank, filters in enumerate(ranked):
            for alternative in _spread_alternatives(filters):
                self._add_alternative(rank, alternative)

    def find(self, request: SbplRequest) -> int | None:
        """The lowest rank of a rule with a filter that matches, or None."""
        best = self._size
        if self._path is not None and request.path is not None:
            best = self._path.lowest(request.path, request, best)
        if self._indexes:
            for key, index in self._indexes.items():
                for text in request.texts(key):
                    best = index.lowest(text, request, best)
        for rank, tested in self._others:
            if rank >= best:
                break
            if matches(tested, request):
                best = rank
        return None if best == self._size else best

    def _add_alternative(self, rank: int, alternative: Filter) -> None:
        primary, rest = _split_indexed(alternative)
        if primary is None:
            self._others.append((rank, alternative))
        elif primary.key == "path":
            self._path = self._path or Index()
            self._path.add(primary, Candidate(rank, rest))
        else:
            self._indexes.setdefault(primary.key, Index()).add(primary, Candidate(rank, rest))


def _spread_alternatives(filters: Sequence[Filter]) -> Iterator[Filter]:
    """Filters of which one is enough, each `require-any` spread out that leads to something to index."""
    pending = list(reversed(filters))
    spread = 0
    while pending:
        part = pending.pop()
        if isinstance(part, Any):
            pending.extend(reversed(part.filters))
            continue
        if isinstance(part, All) and _split_indexed(part)[0] is None and spread < _MOST_SPREAD:
            choice = next((inner for inner in part.filters if isinstance(inner, Any)), None)
            if choice is not None:
                others = tuple(inner for inner in part.filters if inner is not choice)
                spread += len(choice.filters)
                pending.extend(All((inner, *others)) for inner in reversed(choice.filters))
                continue
        yield part


def _split_indexed(alternative: Filter) -> tuple[Test | None, Filter | None]:
    """A test to index by, and the remaining condition. The cheapest kind of test is chosen."""
    if isinstance(alternative, Test):
        return (alternative, None) if alternative.how in _INDEXED else (None, None)
    if not isinstance(alternative, All):
        return None, None
    parts = list(_flatten_conjunction(alternative))
    candidates = [part for part in parts if isinstance(part, Test) and part.how in _INDEXED]
    if not candidates:
        return None, None
    primary = min(candidates, key=lambda test: _INDEXED.index(test.how))
    rest = tuple(part for part in parts if part is not primary)
    return primary, (None if not rest else rest[0] if len(rest) == 1 else All(rest))


def _flatten_conjunction(alternative: All) -> Iterator[Filter]:
    for part in alternative.filters:
        if isinstance(part, All):
            yield from _flatten_conjunction(part)
        else:
            yield part
