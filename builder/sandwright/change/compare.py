"""Asks both policies every case, and gives the answers that differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from sandwright.change.questions import Case, both_policies_cases
from sandwright.change.settings import SettingChange, changed_settings
from sandwright.evaluate.explain.compare import Comparison, Row
from sandwright.evaluate.explain.enclosure import NOT_STARTED
from sandwright.methods.compare import questions
from sandwright.policy.provenance import PolicySource
from sandwright.policy.resolved import ResolvedPolicy

POLICY = "policy"
"""The row of the policy itself beside those of the methods, apart from any enforcement."""


@dataclass(frozen=True)
class CaseChange:
    """One case that the two policies answer differently.

    `methods` are those with different answers, including `policy`; `old → new` is the policy's own method
    where that changed. `before` and `after` say which rule decides, never a value of a variable; `source` is
    where the new policy says it.
    """

    case: Case
    widened: bool
    methods: tuple[str, ...]
    before: str
    after: str
    source: PolicySource = field(compare=False)


@dataclass(frozen=True)
class PolicyDifference:
    """All differences between two policies. `methods` are the compared methods.

    `silent` are those of them that answered no case of both policies, and take or refuse both.
    """

    methods: tuple[str, ...]
    cases: tuple[CaseChange, ...]
    settings: tuple[SettingChange, ...]
    asked: int
    silent: tuple[str, ...] = ()

    @property
    def widened(self) -> int:
        """The number of changes that let more through."""
        return sum(each.widened for each in self.cases) + sum(each.widened is True for each in self.settings)

    @property
    def narrowed(self) -> int:
        """The number of changes that let less through."""
        return sum(not each.widened for each in self.cases) + sum(
            each.widened is False for each in self.settings
        )


def compare_policies(old: ResolvedPolicy, new: ResolvedPolicy, methods: Sequence[str]) -> PolicyDifference:
    """Compare two policies on one host, under each of some methods. Raise UsageError for an unknown method.

    Both must have the facts of every path of `both_policies_cases`.
    """
    switched = _switched(old, new)
    names = tuple(dict.fromkeys([*methods, *(name for pair in switched for name in pair)]))
    before, after = questions(old, names), questions(new, names)
    found: list[CaseChange] = []
    refused: dict[str, tuple[str, str]] = {}
    silent = set(methods)
    both_cases = both_policies_cases((old, new))
    for case in both_cases:
        one, other = (
            each.ask(case.question, case.subject, arguments=case.arguments) for each in (before, after)
        )
        refused |= _refusals(one, other)
        silent -= {name for name in silent if _decides(one.row(name)) and _decides(other.row(name))}
        found += _case_changes(case, one, other, methods, switched)
    settings = changed_settings(old, new, refused, {(each.case, each.widened) for each in found})
    silent -= refused.keys()
    return PolicyDifference(tuple(methods), tuple(found), settings, len(both_cases), tuple(sorted(silent)))


def _switched(old: ResolvedPolicy, new: ResolvedPolicy) -> list[tuple[str, str]]:
    """The policy's own methods, where they changed: each with one that a run may take in its place now.

    A run takes the first one that works, so a method that only moved up counts, too.
    """
    before, after = old.methods, new.methods
    if before == after or not before:
        return []
    added = [(before[0], name) for name in after if name not in before]
    moved = [
        (one, other)
        for one, other in combinations(before, 2)
        if other in after and one not in after[: after.index(other)]
    ]
    return [*added, *moved]


def _refusals(one: Comparison, other: Comparison) -> Mapping[str, tuple[str, str]]:
    """By method: why it refuses the old policy and the new one, where that differs."""
    found = {}
    for before, after in zip(one.rows, other.rows, strict=True):
        if (before.status == "refused") != (after.status == "refused"):
            found[before.method] = tuple(
                (row.reason or row.because) if row.status == "refused" else "" for row in (before, after)
            )
    return {name: (pair[0], pair[1]) for name, pair in found.items()}


def _case_changes(
    case: Case,
    one: Comparison,
    other: Comparison,
    methods: Sequence[str],
    switched: Sequence[tuple[str, str]],
) -> Iterator[CaseChange]:
    """The differences for one case: at most one change in each direction, with the methods concerned."""
    found: dict[bool, list[str]] = {True: [], False: []}
    if one.answer.allowed != other.answer.allowed:
        found[other.answer.allowed].append(POLICY)
    pairs = [(name, one.row(name), other.row(name)) for name in methods]
    pairs += [(f"{old} → {new}", one.row(old), other.row(new)) for old, new in switched]
    rows: dict[bool, tuple[Row, Row]] = {}
    for label, before, after in pairs:
        if not (_decides(before) and _decides(after)):
            continue
        if before.decision != after.decision:
            widened = after.decision == "allow"
            found[widened].append(label)
            rows.setdefault(widened, (before, after))
    for widened, labels in found.items():
        if labels:
            texts = _differing_rules(case, one, other, None if POLICY in labels else rows[widened])
            source = other.answer.ground.source
            yield CaseChange(case, widened, tuple(labels), *texts, source)


def _decides(row: Row) -> bool:
    """Whether a method gives an answer: not where it refuses the policy, or would not start."""
    return row.decision is not None and row.status != "refused" and not row.because.endswith(NOT_STARTED)


def _differing_rules(
    case: Case, one: Comparison, other: Comparison, rows: tuple[Row, Row] | None
) -> tuple[str, str]:
    """The rules that decide: those of the policies, or if these agree, those of the methods."""
    if rows is not None:
        return rows[0].because, rows[1].because
    one_text, other_text = (_ground(case, each.answer.ground.text) for each in (one, other))
    return one_text, other_text


def _ground(case: Case, text: str) -> str:
    """A rule in words, without values of variables and without the full reason of a group of calls."""
    if case.question == "syscall" or (case.question == "env" and text.startswith("set ")):
        return text.partition(":")[0]
    return text
