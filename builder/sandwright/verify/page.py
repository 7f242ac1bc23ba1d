"""The report as one page that needs nothing else: probe by method, with the evidence in each cell."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

from sandwright.verify.outcome import ProbeOutcome
from sandwright.verify.probe import Family
from sandwright.verify.report import PolicyReport, summary
from sandwright.verify.verdict import Verdict

_CSS = Path(__file__).with_name("page.css")


def page(report: PolicyReport) -> bytes:
    """HTML. It is built as a tree, so no text of a policy or program is ever taken for markup."""
    html = ET.Element("html", lang="en")
    head = _add(html, "head")
    _add(head, "meta", charset="utf-8")
    _add(head, "meta", name="viewport", content="width=device-width, initial-scale=1")
    _add(head, "title", f"{_verdict(report)}: {report.policy}")
    _add(head, "style", _CSS.read_text(encoding="utf-8"))
    body = _add(html, "body")
    _add(body, "h1", f"Verification of {report.policy}: {_verdict(report)}")
    _add(body, "p", f"{report.host}; {report.started}; {report.seconds:.1f} s", **{"class": "lead"})
    _summary(body, report)
    for family in Family:
        _family(body, report, family)
    _notes(body, report)
    markup: str = ET.tostring(html, encoding="unicode", method="html")
    return f"<!doctype html>\n{markup}\n".encode("utf-8", "backslashreplace")


def _verdict(report: PolicyReport) -> str:
    return "not green" if report.faults() else "green"


def _add(parent: ET.Element, tag: str, text: str = "", **attributes: str) -> ET.Element:
    element = ET.SubElement(parent, tag, attributes)
    element.text = text or None
    return element


def _table(body: ET.Element, headings: list[str]) -> ET.Element:
    table = _add(body, "table")
    row = _add(_add(table, "thead"), "tr")
    for heading in headings:
        _add(row, "th", heading)
    return _add(table, "tbody")


def _summary(body: ET.Element, report: PolicyReport) -> None:
    headings, rows = summary(report)
    table = _table(body, headings)
    for cells in rows:
        row = _add(table, "tr")
        for cell in cells:
            _add(row, "td", cell)


def _family(body: ET.Element, report: PolicyReport, family: Family) -> None:
    own = [outcome for outcome in report.outcomes if outcome.family is family]
    if not own:
        return
    _add(body, "h2", str(family))
    table = _table(body, ["probe", *report.methods])
    cells = {(outcome.probe, outcome.method): outcome for outcome in own}
    for name in dict.fromkeys(outcome.probe for outcome in own):
        row = _add(table, "tr")
        title = _add(row, "th")
        _add(title, "code", name)
        _add(title, "small", next(each.about for each in own if each.probe == name))
        for method in report.methods:
            _cell(row, cells.get((name, method)))


def _cell(row: ET.Element, outcome: ProbeOutcome | None) -> None:
    if outcome is None:
        _add(row, "td", "–", title="not a probe of this method")
        return
    simulated = " simulated" if outcome.simulated else ""
    cell = _add(row, "td", **{"class": f"{outcome.verdict}{simulated}"})
    details = _add(cell, "details")
    if outcome.verdict not in (Verdict.PASS, Verdict.SKIPPED):
        details.set("open", "open")
    short = _add(details, "summary")
    _add(short, "span", str(outcome.verdict), **{"class": "verdict"})
    if outcome.simulated:
        _add(short, "span", "simulated", **{"class": "mark"})
    for label, text in _evidence(outcome):
        _add(details, "small", label)
        _add(details, "pre", text)


def _evidence(outcome: ProbeOutcome) -> Iterator[tuple[str, str]]:
    if outcome.verdict is not Verdict.SKIPPED:
        yield "expected", outcome.expected
        yield "observed", outcome.observed
    yield "evidence", outcome.evidence
    if outcome.note:
        yield "because", outcome.note


def _notes(body: ET.Element, report: PolicyReport) -> None:
    if not report.notes:
        return
    _add(body, "h2", "Notes")
    notes = _add(body, "ul", **{"class": "notes"})
    for note in report.notes:
        _add(notes, "li", note)
