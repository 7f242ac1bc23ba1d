"""Judges the result of a probe of usefulness."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sandwright.verify.outcome import ProbeOutcome
from sandwright.verify.probe import Family
from sandwright.verify.verdict import Verdict
from sandwright.verify.work.probe import Expression, WorkProbe

_SHOWN = 2000
"""The number of characters from the end of a script's output that the evidence has."""


@dataclass(frozen=True)
class ScriptEnd:
    """The end of a script, with its output. None: it was not started, or time ran out."""

    status: int | None
    output: str = ""

    def __str__(self) -> str:
        ended = "no answer" if self.status is None else f"exit {self.status}"
        return f"{ended}\n{self.output[-_SHOWN:].strip()}".strip()

    def says(self, expression: Expression) -> bool:
        """Whether its output matches an expression."""
        return re.search(expression, self.output, re.MULTILINE) is not None


@dataclass(frozen=True)
class WorkResult:
    """The observations of a probe.

    `missing` is a program that is not installed, empty for none; `work` and `denied` are the two scripts
    inside, `after` that on the host, and `kept` is empty if no closed path was changed. `launcher` is the
    launcher's own output. `beyond` is a feature that the method lacks, so that another denial than the
    nearest was attempted.
    """

    work: ScriptEnd
    denied: ScriptEnd
    after: ScriptEnd = ScriptEnd(0)
    kept: str = ""
    missing: str = ""
    launcher: str = ""
    beyond: str = ""


def judge_work(probe: WorkProbe, method: str, result: WorkResult, form_of: str = "") -> ProbeOutcome:
    """The verdict on a probe: it passes if the work was done, and the nearest denial was enforced.

    `form_of` is the method that `method` is a form of: its limits are also those of its forms.
    """
    if result.missing:
        return work_outcome(probe, method, Verdict.SKIPPED, f"{result.missing} is not there")
    limit = next((probe.cannot[name] for name in (method, form_of, "all") if name in probe.cannot), None)
    faults = list(_work_faults(probe, result))
    breaches = list(_breaches(result))
    evidence = "\n".join(
        part
        for part in (
            *(f"({each})" for each in (*breaches, *faults)),
            f"the work → {result.work}",
            "" if result.after.status == 0 else f"on the host → {result.after}",
            f"{_denial_text(method, result)} → {result.denied}",
            result.launcher.strip(),
        )
        if part
    )
    if breaches:
        return work_outcome(probe, method, Verdict.FAIL, evidence, result)
    if faults and limit is not None and result.work.says(limit.shows):
        return work_outcome(probe, method, Verdict.SKIPPED, f"{method} cannot: {limit.reason}", result)
    if faults:
        return work_outcome(probe, method, Verdict.FAIL, evidence, result)
    if not result.denied.says(probe.denied.shows):
        evidence = f"(denied for another reason than {probe.denied.shows!r})\n{evidence}"
        return work_outcome(probe, method, Verdict.INCONCLUSIVE, evidence, result)
    return work_outcome(probe, method, Verdict.PASS, evidence, result)


def _denial_text(method: str, result: WorkResult) -> str:
    beyond = f"a denial beside the project, as {method} cannot enforce {result.beyond}"
    return beyond if result.beyond else "its nearest denial"


def _work_faults(probe: WorkProbe, result: WorkResult) -> Iterator[str]:
    """The reasons why the work was not done."""
    if result.work.status != 0:
        yield "the work did not finish" if result.work.status is None else "the work failed"
    elif not result.work.says(probe.done):
        yield f"its output lacks {probe.done!r}"
    elif result.after.status != 0:
        yield "the host does not see the result"
    elif result.denied.status is None:
        yield "the denied operation was not attempted"


def _breaches(result: WorkResult) -> Iterator[str]:
    """The denied accesses that succeeded."""
    if result.denied.status == 0:
        yield "the access that must be denied succeeded"
    if result.kept:
        yield f"on the host: {result.kept}"


def work_outcome(
    probe: WorkProbe, method: str, verdict: Verdict, evidence: str, result: WorkResult | None = None
) -> ProbeOutcome:
    """An outcome of a probe."""
    observed = "" if result is None else f"{_exit_text(result.work)}; {_exit_text(result.denied)}"
    return ProbeOutcome(
        probe=probe.name,
        method=method,
        family=Family.WORK,
        verdict=verdict,
        expected="done; denied",
        observed=observed,
        evidence=evidence,
        about=probe.about,
    )


def _exit_text(end: ScriptEnd) -> str:
    return "no answer" if end.status is None else f"exit {end.status}"
