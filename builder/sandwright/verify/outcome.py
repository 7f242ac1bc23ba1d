"""The verdict on a probe: pass, fail, or inconclusive, such as a denial whose control failed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sandwright.runtime.probe.protocol import ProbeAnswer
from sandwright.verify.expected import Expected, expected
from sandwright.verify.probe import Family, Probe, ProbeStep
from sandwright.verify.verdict import Verdict

UNANSWERED = "no answer: "
"""The beginning of a line of `evidence` with the reason for missing evidence."""


@dataclass(frozen=True)
class ProbeOutcome:
    """The verdict on one probe of one method.

    `expected` and `observed` are answers in words, a `; ` between attempts; `evidence` is every attempt with
    its answer, or for a skip the reason. `note` is the reason for a difference from other methods.
    `simulated`: nothing ran, an evaluator answered.
    """

    probe: str
    method: str
    family: Family
    verdict: Verdict
    expected: str
    observed: str
    evidence: str
    about: str = ""
    note: str = ""
    simulated: bool = False

    def to_json(self) -> dict[str, Any]:
        """Plain data, as in `verify.json`."""
        return {
            "probe": self.probe,
            "method": self.method,
            "family": str(self.family),
            "verdict": str(self.verdict),
            "expected": self.expected,
            "observed": self.observed,
            "evidence": self.evidence,
            "about": self.about,
            "note": self.note,
            "simulated": self.simulated,
        }


@dataclass(frozen=True)
class _Judged:
    """One step with its answer. `wrong` is its fault, empty for none."""

    step: ProbeStep
    expectation: Expected
    answer: ProbeAnswer
    verdict: Verdict
    wrong: str = ""

    def __str__(self) -> str:
        wrong = f" ({self.wrong})" if self.wrong else ""
        answer_text = self.answer.name if self.step.private else str(self.answer)
        return f"{self.step.attempt} → {answer_text}{wrong}"


Wanted = Callable[[str, str], Expected]
"""Gives the expected answers to a claim's attempts, by claim and method."""


def judge(
    probe: Probe,
    method: str,
    answers: Sequence[ProbeAnswer],
    *,
    simulated: bool = False,
    expectation: Wanted = expected,
) -> ProbeOutcome:
    """The verdict on a probe from the answers to its steps, in their order.

    A breach is a failure, even if the controls fail. If a control did not succeed, or there is none and no
    step succeeded, a denial proves nothing: it is inconclusive.
    """
    if probe.skip:
        return skipped(probe, method, probe.skip, simulated=simulated, expectation=expectation)
    judged = [
        _judge_step(step, expectation(step.claim, method), answer)
        for step, answer in zip(probe.asked, answers, strict=True)
    ]
    controls, steps = judged[: len(probe.controls)], judged[len(probe.controls) :]
    verdict, words = _verdict(steps, controls)
    for seen in _host_faults(probe, answered=any(each.kind != "none" for each in answers)):
        verdict, words = Verdict.FAIL, [*words, f"on the host: {seen}"]
    lines = [str(each) for each in steps] + [f"control: {each}" for each in controls] + words
    lines += [
        f"{UNANSWERED}{why}" for why in dict.fromkeys(each.detail for each in answers if _has_no_answer(each))
    ]
    return ProbeOutcome(
        probe=probe.name,
        method=method,
        family=probe.family,
        verdict=verdict,
        expected=_join_distinct(" or ".join(each.expectation.answers) for each in steps),
        observed=_join_distinct(each.answer.name for each in steps),
        evidence="\n".join(lines),
        about=probe.about,
        note=_join_distinct(each.expectation.reason for each in steps),
        simulated=simulated,
    )


def skipped(
    probe: Probe, method: str, reason: str, *, simulated: bool = False, expectation: Wanted = expected
) -> ProbeOutcome:
    """The outcome of a probe that was not attempted."""
    return ProbeOutcome(
        probe=probe.name,
        method=method,
        family=probe.family,
        verdict=Verdict.SKIPPED,
        expected=_join_distinct(" or ".join(expectation(each.claim, method).answers) for each in probe.steps),
        observed="",
        evidence=reason,
        about=probe.about,
        simulated=simulated,
    )


def _has_no_answer(answer: ProbeAnswer) -> bool:
    return answer.kind == "none" and answer.detail != ""


def _host_faults(probe: Probe, *, answered: bool) -> Iterator[str]:
    """The faults on the host. Paths that must never be created are removed, with any verdict."""
    for path in filter(os.path.lexists, probe.never):
        path.rmdir() if path.is_dir() else path.unlink()
        yield f"{path} was made"
    seen = probe.check() if probe.check is not None and answered else None
    if seen:
        yield seen


def _verdict(steps: Sequence[_Judged], controls: Sequence[_Judged]) -> tuple[Verdict, list[str]]:
    verdicts = {each.verdict for each in steps}
    if Verdict.FAIL in verdicts:
        return Verdict.FAIL, []
    broken = [each for each in controls if each.verdict is not Verdict.PASS]
    if broken:
        return Verdict.INCONCLUSIVE, ["a control did not succeed, so the rest proves nothing"]
    if not controls and not any(each.answer.kind == "ok" for each in steps):
        return Verdict.INCONCLUSIVE, ["there is no control, so a denial proves nothing"]
    return (Verdict.INCONCLUSIVE if Verdict.INCONCLUSIVE in verdicts else Verdict.PASS), []


def _judge_step(step: ProbeStep, expectation: Expected, answer: ProbeAnswer) -> _Judged:
    verdict, wrong = _compare_answer(step, expectation.answers, answer)
    return _Judged(step, expectation, answer, verdict, wrong)


def _compare_answer(
    step: ProbeStep, expected_names: Sequence[str], answer: ProbeAnswer
) -> tuple[Verdict, str]:
    """Judge an answer: only the expected one passes, and success of an attempt that must be denied fails."""
    if answer.name in expected_names:
        wrong = next(_value_faults(step, answer.value), "") if answer.kind == "ok" else ""
        return (Verdict.FAIL, wrong) if wrong else (Verdict.PASS, "")
    text = f"expected {' or '.join(expected_names)}"
    if answer.kind in ("none", "unknown", "late"):
        return Verdict.INCONCLUSIVE, text
    if answer.name in step.breach:
        return Verdict.FAIL, f"{text}: nothing prevented it"
    if "ok" not in expected_names and answer.kind != "ok":
        return Verdict.INCONCLUSIVE, f"{text}: denied for another reason"
    return Verdict.FAIL, text


def _value_faults(step: ProbeStep, value: bytes) -> Iterator[str]:
    if step.value is not None and value != step.value:
        yield "expected another value" if step.private else f"expected the value {_quote_value(step.value)}"
    if step.holds not in value:
        yield f"its value lacks {_quote_value(step.holds)}"
    for each in step.lacks:
        if each in value:
            yield (
                f"its value holds {_quote_value(each)}"
                if not step.private
                else "its value holds a forbidden text"
            )


def _quote_value(value: bytes) -> str:
    return repr(value[:100].decode(errors="backslashreplace"))


def _join_distinct(parts: Iterator[str]) -> str:
    """Each different part once, in order."""
    return "; ".join(dict.fromkeys(part for part in parts if part))
