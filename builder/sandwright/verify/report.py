"""The results of a run of `verify`: as JSON, as JUnit XML, as rows of a table."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sandwright.verify.about import PolicyOrigin
from sandwright.verify.junit import JunitCase, JunitSuite, element_of, junit_xml
from sandwright.verify.outcome import UNANSWERED, ProbeOutcome
from sandwright.verify.probe import Family
from sandwright.verify.verdict import Verdict

VERDICTS = (Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.SKIPPED)
"""In the order in which reports show them."""

STARTS = "lifecycle/starts"
"""The probe on which all others of a method depend."""


@dataclass(frozen=True)
class PolicyReport:
    """The outcomes of all methods. `notes` are for the reader of the verdict.

    `policy` is the policy's file, `started` an ISO 8601 time, `host` describes the machine. `weaker` lists
    rules that a method enforces in part or not at all, and why that was accepted.
    """

    policy: str
    methods: tuple[str, ...]
    outcomes: tuple[ProbeOutcome, ...]
    notes: tuple[str, ...]
    started: str
    seconds: float
    host: str
    weaker: tuple[str, ...] = ()
    origin: PolicyOrigin = field(default_factory=PolicyOrigin)

    def of(self, method: str) -> list[ProbeOutcome]:
        """The outcomes of one method."""
        return [outcome for outcome in self.outcomes if outcome.method == method]

    def decided(self) -> int:
        """The number of probes that passed or failed."""
        return sum(each.verdict in (Verdict.PASS, Verdict.FAIL) for each in self.outcomes)

    def proved(self) -> list[str]:
        """The methods with at least one proved probe; all probes of the others were skipped."""
        passed = {each.method for each in self.outcomes if each.verdict is Verdict.PASS}
        return [method for method in self.methods if method in passed]

    def faults(self, *, named: Sequence[str] = (), required: Sequence[str] = ()) -> list[str]:
        """The reasons why the report is not green: a line for each fail and inconclusive probe.

        For methods in `required`, each skip is a fault, too; for those in `named`, and for all together, that
        nothing was decided.
        """
        lines = [_fault_line(each) for each in self.outcomes if self._is_informative(each)]
        for method in required:
            skips = [each for each in self.of(method) if each.verdict is Verdict.SKIPPED]
            lines += [f"{_fault_line(each)} (required)" for each in skips]
            lines += [] if self.of(method) else [f"fail: {method}: it is required, but was not tried"]
        for method in named:
            if all(each.verdict is Verdict.SKIPPED for each in self.of(method)) and method not in required:
                lines.append(f"fail: {method}: nothing was proved")
        return lines or ([] if self.proved() else ["fail: nothing was proved of any method"])

    def _is_informative(self, outcome: ProbeOutcome) -> bool:
        """Whether an outcome adds information: if nothing started, the other outcomes follow."""
        if outcome.verdict is Verdict.INCONCLUSIVE:
            started = next((each for each in self.of(outcome.method) if each.probe == STARTS), None)
            return started is None or started.verdict is Verdict.PASS
        return outcome.verdict is Verdict.FAIL

    def skips(self) -> list[str]:
        """A line for each skip, with its reason."""
        return [_fault_line(each) for each in self.outcomes if each.verdict is Verdict.SKIPPED]

    def to_json(self) -> list[dict[str, Any]]:
        """The contract of `verify.json`: a list of outcomes."""
        return [outcome.to_json() for outcome in self.outcomes]


def verdicts(report: PolicyReport) -> tuple[Verdict, ...]:
    """The rows of a report; unpromised ones only where a subject promises less."""
    less = any(each.verdict is Verdict.NOT_PROMISED for each in report.outcomes)
    return (*VERDICTS, Verdict.NOT_PROMISED) if less else VERDICTS


def encode_report(report: PolicyReport) -> bytes:
    """`verify.json`."""
    return (json.dumps(report.to_json(), indent=2) + "\n").encode()


def summary(report: PolicyReport) -> tuple[list[str], list[list[str]]]:
    """Headings and rows: a row for each method, in each family how many passed, and the four sums."""
    families = [family for family in Family if any(each.family is family for each in report.outcomes)]
    rows = [[label(report, method), *_counts(report, method, families)] for method in report.methods]
    return ["method", *map(str, families), *map(str, verdicts(report))], rows


def label(report: PolicyReport, method: str) -> str:
    """A method's name, marked if its answers are simulated."""
    simulated = any(outcome.simulated for outcome in report.of(method))
    return f"{method} (simulated)" if simulated else method


def _counts(report: PolicyReport, method: str, families: Sequence[Family]) -> Iterator[str]:
    outcomes = report.of(method)
    for family in families:
        of_family = [each for each in outcomes if each.family is family]
        passed = sum(each.verdict is Verdict.PASS for each in of_family)
        yield f"{passed}/{len(of_family)}" if of_family else "–"
    counts = Counter(each.verdict for each in outcomes)
    yield from (str(counts[verdict]) for verdict in verdicts(report))


def _fault_line(outcome: ProbeOutcome) -> str:
    if outcome.verdict is Verdict.SKIPPED:
        return f"skipped: {outcome.method}: {outcome.probe}: {'; '.join(outcome.evidence.splitlines())}"
    telling = [
        line for line in outcome.evidence.splitlines() if " (" in line or line.startswith("on the host")
    ]
    why = [line for line in outcome.evidence.splitlines() if line.startswith(UNANSWERED)]
    detail = "; ".join([*telling[:3], *why]) or outcome.evidence.replace("\n", "; ")
    return f"{outcome.verdict}: {outcome.method}: {outcome.probe}: {detail}"


def junit(report: PolicyReport) -> bytes:
    """JUnit's XML: a suite for each method, a case for each probe."""
    suites = (
        JunitSuite(
            label(report, method),
            [_junit_case(each) for each in report.of(method)],
            {"timestamp": report.started},
        )
        for method in report.methods
    )
    return junit_xml("sandwright verify", suites, seconds=report.seconds)


def _junit_case(outcome: ProbeOutcome) -> JunitCase:
    classname = f"{outcome.method}.{outcome.family}"
    if outcome.verdict is Verdict.PASS:
        return JunitCase(outcome.probe, classname)
    compared = f"expected {outcome.expected}, observed {outcome.observed}"
    return JunitCase(
        outcome.probe,
        classname,
        element_of(outcome.verdict),
        message=compared if outcome.observed else outcome.evidence,
        text=outcome.evidence,
    )
