"""Rules: the result of running a profile."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from sandwright.evaluate.sbpl.datum import write_string
from sandwright.evaluate.sbpl.filters import Filter, Test, tests, write_filter
from sandwright.evaluate.sbpl.reader import one_line
from sandwright.evaluate.sbpl.source import Position, Span, readable
from sandwright.evaluate.sbpl.vocabulary import Action


@dataclass(frozen=True)
class Modifier:
    """A modifier of a rule and its arguments; `rules` are those of `apply-message-filter`."""

    name: str
    arguments: tuple[str | int, ...] = ()
    rules: tuple[Rule, ...] = ()

    def __repr__(self) -> str:
        return f"the modifier {self.name}"

    def __str__(self) -> str:
        if self.rules:
            return f"(apply-message-filter {' '.join(rule.expanded for rule in self.rules)})"
        words = [write_string(word) if isinstance(word, str) else str(word) for word in self.arguments]
        return f"(with {' '.join([self.name, *words])})"


@dataclass(frozen=True, eq=False)
class Rule:
    """One `allow` or `deny`. `ordinal` counts from 0 in the order the rules were made; later ones are newer.

    `operations` are canonical names. Of several `filters` one is enough; a rule with none is *unfiltered*.
    `span` is the form that made it, in whichever file that stands.
    """

    ordinal: int
    action: Action
    operations: tuple[str, ...]
    filters: tuple[Filter, ...]
    modifiers: tuple[Modifier, ...]
    span: Span

    @functools.cached_property
    def position(self) -> Position:
        """The position of the form that made the rule."""
        return self.span.position

    @functools.cached_property
    def text(self) -> str:
        """The form that made it, as written, on one line and without comments."""
        return one_line(self.span)

    @functools.cached_property
    def expanded(self) -> str:
        """The rule with everything computed: its meaning, as a profile would write it."""
        parts = [self.action, *self.operations, *map(write_filter, self.filters), *map(str, self.modifiers)]
        return readable(f"({' '.join(parts)})")

    def tests(self) -> Iterator[Test]:
        """All tests of its filters, however deep."""
        return itertools.chain.from_iterable(map(tests, self.filters))

    def has(self, modifier: str) -> bool:
        """Whether it carries a modifier."""
        return any(item.name == modifier for item in self.modifiers)
