"""Findings of the linter, and its input."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sandwright.evaluate.sbpl.decide import Evaluator
from sandwright.evaluate.sbpl.filters import Test
from sandwright.evaluate.sbpl.profile import SbplProfile
from sandwright.evaluate.sbpl.rule import Rule
from sandwright.evaluate.sbpl.source import Position, Span
from sandwright.evaluate.sbpl.vocabulary import Action
from sandwright.resources import data_json

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, order=True)
class SbplFinding:
    """One likely mistake. `code` is L01, L02 and so on."""

    position: Position
    code: str
    severity: Severity
    message: str

    def __str__(self) -> str:
        return f"{self.position}: {self.severity}: {self.code} {self.message}"


@dataclass(frozen=True)
class LintedProfile:
    """The profile to lint. `profile_rules` are the rules of its file, without those of imported profiles."""

    profile: SbplProfile
    evaluator: Evaluator
    profile_rules: tuple[Rule, ...]

    def find(
        self, where: Span | Rule | Position | None, code: str, severity: Severity, message: str
    ) -> SbplFinding:
        """A finding about a rule or a form; None: about the profile as a whole."""
        match where:
            case Rule() | Span():
                position = where.position
            case Position():
                position = where
            case _:
                position = self.profile.source.position(0)
        return SbplFinding(position, code, severity, message)

    def tests(self, action: Action | None = None) -> Iterator[tuple[Rule, Test]]:
        """The tests of the rules that its own file makes, or of those with one action."""
        for rule in self.profile_rules:
            if action in (None, rule.action):
                yield from ((rule, test) for test in rule.tests())


Check = Callable[[LintedProfile], Iterator[SbplFinding]]


@functools.cache
def lint_data() -> Mapping[str, Any]:
    """The names that the linter's checks look for: `seatbelt/lint.json`."""
    data: Mapping[str, Any] = data_json("seatbelt", "lint.json")
    return data
