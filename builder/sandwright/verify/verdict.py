"""The verdicts, such as pass, fail and inconclusive, and how many become one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """The ends of a check. Only `PASS` is green."""

    PASS = "pass"  # noqa: S105 - a verdict, no password
    """What must work worked, and what must be denied was denied in the expected way."""
    FAIL = "fail"
    """Something that must work didn't, or something that must be denied was not."""
    INCONCLUSIVE = "inconclusive"
    """What was seen decides nothing: a control failed, or a denial came for another reason than expected."""
    SKIPPED = "skipped"
    """It was not tried, for the reason given."""
    NOT_PROMISED = "not-promised"
    """A foreign sandbox does not promise it: the observation is reported, and counts neither way."""


@dataclass(frozen=True)
class ProbeFinding:
    """What came of one check. `detail` says what was seen; for a skip, why it was not tried."""

    check: str
    verdict: Verdict
    detail: str = ""


def combine(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on a whole: the worst of its parts; a part that was skipped doesn't count beside others.

    A whole of which nothing was tried is skipped, never passed.
    """
    seen = set(verdicts)
    for worst in (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.PASS):
        if worst in seen:
            return worst
    return Verdict.SKIPPED
