"""The report on the difference of two policies, as text, Markdown for pull requests, JSON and SARIF."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sandwright.change.compare import CaseChange, PolicyDifference
from sandwright.change.group_changes import ChangeLine, change_lines
from sandwright.change.witness import Witness
from sandwright.policy.facts import HostFacts
from sandwright.policy.provenance import PolicySource
from sandwright.sarif import sarif
from sandwright.visible import one_line, visible

_HEADINGS: Mapping[bool | None, str] = {True: "newly allowed", False: "newly denied", None: "otherwise"}
_LEVELS: Mapping[bool | None, str] = {True: "warning", False: "note", None: "note"}
_RULES: Mapping[bool | None, tuple[str, str]] = {
    True: ("policy-widened", "The policy lets more through."),
    False: ("policy-narrowed", "The policy lets less through."),
    None: ("policy-changed", "The policy says something else."),
}


@dataclass(frozen=True)
class ChangeReport:
    """A comparison with the names of the policies, and the observations in sandboxes.

    `old` and `new` are as the command line names them. `witnesses` are in the order of the changes, none
    where nothing was attempted.
    """

    old: str
    new: str
    found: PolicyDifference
    facts: HostFacts
    witnesses: tuple[Witness, ...] = ()

    @property
    def lines(self) -> tuple[ChangeLine, ...]:
        """The changes as reported."""
        return change_lines(self.found, self.facts)

    @property
    def summary(self) -> str:
        """The result of the comparison in one line."""
        wider = sum(line.widened is True for line in self.lines)
        narrower = sum(line.widened is False for line in self.lines)
        return (
            f"{self.old} → {self.new}: {wider} newly allowed, {narrower} newly denied "
            f"({self.found.asked} cases, {', '.join(self.found.methods)})"
        )

    def seen(self, line: ChangeLine) -> str:
        """The witness that shows the changes of a line, or the reason why there is none."""
        witnesses = [each for each in self.witnesses if each.change in line.changes]
        best = sorted(witnesses, key=lambda each: _PREFERRED.index(each.verdict))
        return str(best[0]) if best else ""


_PREFERRED = ("contradicted", "seen", "not seen")


def as_text(report: ChangeReport) -> Iterator[str]:
    """Lines for a terminal, or for a CI log, whose reader may take the start of a line for a command."""
    yield from map(one_line, _as_text(report))


def _as_text(report: ChangeReport) -> Iterator[str]:
    yield report.summary
    for widened, heading in _HEADINGS.items():
        lines_of_kind = [line for line in report.lines if line.widened is widened]
        if lines_of_kind:
            yield f"{heading}:"
        for line in lines_of_kind:
            yield f"  {line.text}"
            if line.methods:
                yield f"    for {', '.join(line.methods)}{_rule_change_text(line)}"
            if seen := report.seen(line):
                yield f"    {seen}"


def _rule_change_text(line: ChangeLine) -> str:
    if not line.after:
        return ""
    return f": before {line.before or 'several rules'}; now {line.after}{_source_suffix(line.source)}"


def _source_suffix(source: PolicySource) -> str:
    return f" ({source})" if source.line else ""


def as_markdown(report: ChangeReport) -> bytes:
    """A comment for a pull request. No text of a policy is taken for markup."""
    found = [f"### Sandbox policy: {_escape_markdown(report.old)} → {_escape_markdown(report.new)}", ""]
    if not report.lines:
        found += ["Nothing is allowed or denied otherwise."]
    for widened, heading in _HEADINGS.items():
        lines_of_kind = [line for line in report.lines if line.widened is widened]
        if lines_of_kind:
            mark = "⚠️ " if widened else ""
            found += ["", f"**{mark}{heading}**", "", *_table(report, lines_of_kind)]
    summary = f"{report.found.asked} cases asked of {', '.join(report.found.methods)}."
    return "\n".join([*found, "", summary, ""]).encode("utf-8", "backslashreplace")


def _table(report: ChangeReport, rows: Sequence[ChangeLine]) -> Iterator[str]:
    seen = [report.seen(line) for line in rows]
    yield "| what | for | before | now |" + " seen |" * any(seen)
    yield "|---|---|---|---|" + "---|" * any(seen)
    for line, witness in zip(rows, seen, strict=True):
        cells = [line.text, ", ".join(line.methods), line.before, line.after + _source_suffix(line.source)]
        cells += [witness] if any(seen) else []
        yield "| " + " | ".join(_escape_markdown(cell) if cell else "" for cell in cells) + " |"


def _escape_markdown(text: str) -> str:
    """Text as Markdown's own code can't hold it: backticks, bars, line breaks and tags are only text."""
    escaped = html.escape(one_line(text))
    for each in "|`*_[]\\":
        escaped = escaped.replace(each, f"&#{ord(each)};")
    return f"<code>{escaped}</code>"


def as_json(report: ChangeReport) -> bytes:
    """Every change by itself, schema 1 (docs/diff.md)."""
    seen = {id(each.change): each for each in report.witnesses}
    data = {
        "schema": 1,
        "old": report.old,
        "new": report.new,
        "methods": list(report.found.methods),
        "asked": report.found.asked,
        "widened": report.found.widened,
        "narrowed": report.found.narrowed,
        "cases": [_case_json(each, seen.get(id(each))) for each in report.found.cases],
        "settings": [{"text": str(each), "widened": each.widened} for each in report.found.settings],
    }
    return (json.dumps(data, indent=2) + "\n").encode()


def _case_json(change: CaseChange, witness: Witness | None) -> dict[str, Any]:
    source = change.source
    return {
        "question": change.case.question,
        "subject": change.case.subject,
        "arguments": change.case.arguments and list(change.case.arguments),
        "widened": change.widened,
        "methods": list(change.methods),
        "before": change.before,
        "after": change.after,
        "layer": source.layer,
        "file": source.file or None,
        "line": source.line or None,
        "field": source.field or None,
        "witness": witness and witness.as_data(),
    }


def as_sarif(report: ChangeReport, file: str) -> bytes:
    """A result for each line, at the rule of the new policy. `file` is that, from the repository on."""
    kinds = [kind for kind in _RULES if any(line.widened is kind for line in report.lines)]
    rules = [
        {
            "id": _RULES[kind][0],
            "shortDescription": {"text": _RULES[kind][1]},
            "defaultConfiguration": {"level": _LEVELS[kind]},
        }
        for kind in kinds
    ]
    return sarif(
        rules, [_sarif_result(report, line, kinds.index(line.widened), file) for line in report.lines]
    )


def _sarif_result(report: ChangeReport, line: ChangeLine, index: int, file: str) -> dict[str, Any]:
    is_project = line.source.layer == "project"
    region = (
        {"startLine": max(line.source.line, 1), "startColumn": max(line.source.column, 1)}
        if is_project
        else {"startLine": 1}
    )
    words = [f"{_HEADINGS[line.widened]}: {line.text}", ", ".join(line.methods), report.seen(line)]
    return {
        "ruleId": _RULES[line.widened][0],
        "ruleIndex": index,
        "level": _LEVELS[line.widened],
        "message": {"text": visible("; ".join(filter(None, words)))},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": file}, "region": region}}],
        "partialFingerprints": {"change/v1": f"{_RULES[line.widened][0]}/{visible(line.text)}"},
    }
