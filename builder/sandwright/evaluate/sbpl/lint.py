"""Looks for likely mistakes in a profile, in its text and with the evaluator.

Each finding has a code of the catalogue in `seatbelt/README.md`, a severity, and a place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sandwright.evaluate.sbpl.decide import Evaluator
from sandwright.evaluate.sbpl.errors import ProfileError
from sandwright.evaluate.sbpl.finding import LintedProfile, SbplFinding
from sandwright.evaluate.sbpl.library import Importer, no_imports
from sandwright.evaluate.sbpl.lint_filters import FILTER_CHECKS
from sandwright.evaluate.sbpl.lint_reach import REACH_CHECKS
from sandwright.evaluate.sbpl.lint_rules import RULE_CHECKS
from sandwright.evaluate.sbpl.lint_text import TEXT_CHECKS
from sandwright.evaluate.sbpl.profile import run_profile


def lint(
    text: str | bytes,
    *,
    file: str = "profile.sb",
    params: Mapping[str, str] | None = None,
    importer: Importer = no_imports,
    symlinks: Mapping[str, str] | None = None,
) -> tuple[SbplFinding, ...]:
    """All findings about a profile, by place.

    An expression that does not compile is a finding, and the rest is looked at all the same. `params`,
    `importer` and `symlinks` are those the profile will run with.
    """
    failures: list[ProfileError] = []
    profile = run_profile(text, failures.append, file=file, params=params, importer=importer)
    profile_rules = tuple(rule for rule in profile.rules if rule.span.source is profile.source)
    subject = LintedProfile(profile, Evaluator(profile, symlinks=symlinks), profile_rules)
    found = [_failure(error) for error in failures]
    for check in (*TEXT_CHECKS, *FILTER_CHECKS, *RULE_CHECKS, *REACH_CHECKS):
        found.extend(check(subject))
    return tuple(sorted(set(found)))


def _failure(error: ProfileError) -> SbplFinding:
    code = "L01"
    if "network address" in error.message:
        code = "L25"
    elif re.search(r"regex: |\^ operator", error.message):
        code = "L10"
    return SbplFinding(error.position, code, "error", error.message)
