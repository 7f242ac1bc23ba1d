"""Parses the output of the attempts. The image is untrusted, so nothing in it is executed."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sandwright.watchdog import Ended


@dataclass(frozen=True)
class Evidence:
    """The observations of one start: how it ended, and the outcome of each reported attempt, by name."""

    ended: Ended
    attempts: Mapping[str, Any]

    def attempt(self, name: str) -> Mapping[str, Any]:
        """The outcome of an attempt as a mapping; one that was not made, or broke, gives `broken`: why."""
        value = self.attempts.get(name, {"broken": f"was not attempted ({self.ended.describe()})"})
        return value if isinstance(value, dict) else {"broken": f"said something else: {str(value)[:200]}"}


def read_evidence(ended: Ended, word: str) -> Evidence:
    """Collect the lines that begin with `word`; others are the runtime's or a program's."""
    attempts: dict[str, Any] = {}
    for line in ended.stdout.decode("utf-8", "replace").splitlines():
        if not line.startswith(word + " "):
            continue
        try:
            value = ast.literal_eval(line[len(word) + 1 :])
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str):
            attempts.setdefault(value[0], value[1])
    return Evidence(ended, attempts)
