"""Quotes a policy's values in messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def quoted(text: str) -> str:
    """A text in quotes, shortened, with escapes for characters that a terminal would not show."""
    return repr(text) if len(text) <= 60 else repr(text[:57] + "...")


def one_of(name: str, names: Iterable[str], *, what: str) -> str:
    """`name` when it is one of `names`, each a `what`. Else raise ValueError with a suggestion."""
    choices = tuple(names)
    if name in choices:
        return name
    guess = difflib.get_close_matches(name, choices, n=1)
    hint = f"did you mean '{guess[0]}'?" if guess else f"there is {', '.join(choices)}"
    raise ValueError(f"{quoted(name)} is no {what}; {hint}")
