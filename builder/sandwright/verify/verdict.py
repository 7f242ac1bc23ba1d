"""The verdicts, such as pass, fail and inconclusive, and how several are combined."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """The verdicts of a check. Only `PASS` is green."""

    PASS = "pass"  # noqa: S105 - a verdict, no password
    """Allowed attempts worked, and denied ones were denied in the expected way."""
    FAIL = "fail"
    """An allowed attempt failed, or a denied one succeeded."""
    INCONCLUSIVE = "inconclusive"
    """The observations decide nothing: a control failed, or a denial had another reason than expected."""
    SKIPPED = "skipped"
    """The check was not made, for the given reason."""
    NOT_PROMISED = "not-promised"
    """A foreign sandbox does not promise it: the observation is reported, and counts neither way."""


@dataclass(frozen=True)
class ProbeFinding:
    """The result of one check. `detail` is the observation; for a skip, the reason."""

    check: str
    verdict: Verdict
    detail: str = ""


def combine(verdicts: Iterable[Verdict]) -> Verdict:
    """Combine verdicts: the worst counts; skipped parts are ignored if there are others.

    If all parts were skipped, the whole is skipped, never passed.
    """
    seen = set(verdicts)
    for worst in (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.PASS):
        if worst in seen:
            return worst
    return Verdict.SKIPPED
