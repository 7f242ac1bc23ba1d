"""Writes the report as one self-contained page: the verdict, its subject, and each probe's evidence."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from sandwright.render.templates import render_page
from sandwright.verify.outcome import ProbeOutcome
from sandwright.verify.probe import Family
from sandwright.verify.report import PolicyReport, label, verdicts
from sandwright.verify.verdict import Verdict

_FOLDER = Path(__file__).parent
_TOLD = 20
"""The most faults that are shown beside the verdict."""


@dataclass(frozen=True)
class _Probe:
    """One probe with its outcome for each method that has it."""

    name: str
    about: str
    outcomes: tuple[ProbeOutcome, ...]

    @property
    def verdicts(self) -> str:
        """Each different verdict once."""
        return " ".join(dict.fromkeys(str(each.verdict) for each in self.outcomes))

    @property
    def differs(self) -> bool:
        """Whether the answers of the methods differ."""
        return len({(each.verdict, each.observed) for each in self.outcomes}) > 1

    @property
    def needs_attention(self) -> bool:
        """Whether the reader should look at it."""
        return any(each.verdict in (Verdict.FAIL, Verdict.INCONCLUSIVE) for each in self.outcomes)


@dataclass(frozen=True)
class _Group:
    """The probes of a family."""

    name: str
    probes: tuple[_Probe, ...]

    @property
    def green(self) -> bool:
        """Whether no probe needs attention."""
        return not any(probe.needs_attention for probe in self.probes)

    @property
    def counts(self) -> str:
        """`12 pass, 1 fail`: outcomes, so a probe counts once for each method."""
        found = Counter(each.verdict for probe in self.probes for each in probe.outcomes)
        return ", ".join(f"{found[verdict]} {verdict}" for verdict in Verdict if found[verdict])


def page(report: PolicyReport, faults: Sequence[str]) -> bytes:
    """The page as HTML.

    Text of policies and programs is escaped, and invisible characters are written as escapes. `faults` are
    the reasons why the report is not green; without any it is. The page's only script hides probes that the
    reader filters out; the page's Content-Security-Policy forbids other scripts, and loading anything.
    """
    script = _read_asset("page.js")
    html = render_page(
        _FOLDER,
        "page.html.j2",
        report=report,
        verdict="not proved" if faults else "proved",
        badge=Verdict.FAIL if faults else Verdict.PASS,
        statements=[*_statements(report, faults)],
        facts=[*_report_facts(report)],
        verdicts=verdicts(report),
        methods=[*_method_counts(report)],
        families=[*_family_groups(report)],
        **inline_style(),
        script=Markup(script),  # noqa: S704 - ours
        script_digest=_csp_digest(script),
    )
    return html.encode("utf-8", "backslashreplace")


def inline_style(further: str = "") -> dict[str, Markup]:
    """The style of all our pages, and its digest for the page's Content-Security-Policy.

    `further` is style for one kind of page.
    """
    style = _read_asset("page.css") + further
    return {"style": Markup(style), "style_digest": _csp_digest(style)}  # noqa: S704 - ours


def _read_asset(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _csp_digest(text: str) -> Markup:
    """The source of inline text as a Content-Security-Policy names it (CSP Level 3, 2.3.1)."""
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return Markup(f"sha256-{digest}")  # noqa: S704 - base64


def _statements(report: PolicyReport, faults: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Notes for the reader of the verdict, each with the verdict that colours it."""
    proved = report.proved()
    for fault in faults[:_TOLD]:
        yield ("inconclusive" if fault.startswith("inconclusive") else "fail"), fault
    if len(faults) > _TOLD:
        yield "fail", f"and {len(faults) - _TOLD} more, which are open below"
    for each, methods in _by_text(report.weaker).items():
        yield "inconclusive", f"{', '.join(methods)}: {each}"
    simulated = [method for method in proved if any(each.simulated for each in report.of(method))]
    if simulated:
        yield "inconclusive", f"simulated: {', '.join(simulated)}: an evaluator answered, and nothing ran"
    for method in report.methods:
        if method not in proved and (outcomes := report.of(method)):
            yield "skipped", f"nothing was proved of {method}: {outcomes[0].evidence}"
    skips = Counter(each.method for each in report.outcomes if each.verdict is Verdict.SKIPPED)
    some = [f"{skips[method]} of {method}" for method in proved if skips[method]]
    if some:
        yield "skipped", f"probes that were skipped, each with its reason below: {', '.join(some)}"
    ran = [method for method in proved if method not in simulated]
    if not faults and ran:
        yield "pass", f"proved for {', '.join(ran)}"


def _by_text(lines: Iterable[str]) -> dict[str, list[str]]:
    """Group lines that begin with a method: each text, with its methods."""
    found: dict[str, list[str]] = {}
    for line in lines:
        method, _, text = line.partition(": ")
        found.setdefault(text, []).append(method)
    return found


def _report_facts(report: PolicyReport) -> Iterator[tuple[str, str]]:
    """The report's subject, and where and when it was made."""
    yield "Policy", report.policy
    yield "Project", report.origin.project or "not known"
    yield "Commit", report.origin.commit or "none"
    yield "Methods", ", ".join(report.methods)
    yield "Machine", report.host
    yield "Made", f"{report.started}, in {report.seconds:.1f} s"


def _method_counts(report: PolicyReport) -> Iterator[tuple[str, list[int]]]:
    for method in report.methods:
        counts = Counter(each.verdict for each in report.of(method))
        yield label(report, method), [counts[verdict] for verdict in verdicts(report)]


def _family_groups(report: PolicyReport) -> Iterator[_Group]:
    for family in Family:
        outcomes = [each for each in report.outcomes if each.family is family]
        if outcomes:
            yield _Group(str(family), tuple(_group_probes(outcomes, report.methods)))


def _group_probes(outcomes: Sequence[ProbeOutcome], methods: Sequence[str]) -> Iterable[_Probe]:
    by_name: dict[str, list[ProbeOutcome]] = {}
    for each in outcomes:
        by_name.setdefault(each.probe, []).append(each)
    for name, outcomes_of_probe in by_name.items():
        ordered = sorted(outcomes_of_probe, key=lambda each: methods.index(each.method))
        yield _Probe(name, outcomes_of_probe[0].about, tuple(ordered))
