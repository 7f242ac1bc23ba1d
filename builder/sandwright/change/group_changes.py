"""Groups changes for a reader: paths below a changed directory, and paths with the same change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sandwright.change.compare import POLICY, CaseChange, PolicyDifference
from sandwright.policy.facts import HostFacts
from sandwright.policy.loosening import shown_path
from sandwright.policy.paths import ancestors
from sandwright.policy.provenance import BUILT_IN, PolicySource

SHOWN = 8
"""Subjects that one line names."""


@dataclass(frozen=True)
class ChangeLine:
    """Changes that are reported together. `before` and `after` are empty where they differ among them."""

    widened: bool | None
    what: str
    subjects: tuple[str, ...]
    methods: tuple[str, ...]
    before: str
    after: str
    source: PolicySource
    changes: tuple[CaseChange, ...] = ()

    @property
    def text(self) -> str:
        """`read, write ~/.ssh and below`."""
        more = len(self.subjects) - SHOWN
        words = [*self.subjects[:SHOWN], *([f"and {more} more"] if more > 0 else [])]
        return f"{self.what} {', '.join(words)}".strip()


def change_lines(found: PolicyDifference, facts: HostFacts) -> tuple[ChangeLine, ...]:
    """All changes as lines: wider ones first, then narrower ones, then the rest."""
    changes = [_change_line(each, found, facts) for each in drop_implied(found.cases)]
    for key in (_by_question, _by_subject):
        changes = [*_group_lines(changes, key)]
    changes += [ChangeLine(each.widened, str(each), (), (), "", "", BUILT_IN) for each in found.settings]
    return tuple(sorted(changes, key=lambda line: _ORDER.index(line.widened)))


_ORDER = (True, False, None)


def drop_implied(changes: Sequence[CaseChange]) -> tuple[CaseChange, ...]:
    """The changes without those below a path with the same change, for the same methods or more."""
    paths = {(each.case.question, each.widened, each.case.subject): each for each in changes}

    def told_above(change: CaseChange) -> bool:
        above = (
            paths.get((change.case.question, change.widened, path))
            for path in ancestors(change.case.subject)
            if path != change.case.subject
        )
        return any(each is not None and set(each.methods) >= set(change.methods) for each in above)

    return tuple(
        each for each in changes if each.case.question not in ("read", "write") or not told_above(each)
    )


def _change_line(change: CaseChange, found: PolicyDifference, facts: HostFacts) -> ChangeLine:
    case = change.case
    subject = shown_path(case.subject, facts) if case.subject.startswith("/") else case.subject
    if case.question in ("read", "write"):
        subject += " and below"
    elif case.arguments is not None:
        subject += " (with some arguments)"
    every = set(change.methods) >= {POLICY, *found.methods}
    methods = ("all",) if every else change.methods
    return ChangeLine(
        change.widened,
        case.question,
        (subject,),
        methods,
        change.before,
        change.after,
        change.source,
        (change,),
    )


def _by_question(line: ChangeLine) -> tuple[object, ...]:
    """One subject of which several questions have the same answers."""
    return line.widened, line.subjects, line.methods, line.before, line.after


def _by_subject(line: ChangeLine) -> tuple[object, ...]:
    """Several subjects of one question that changed for the same methods."""
    return line.widened, line.what, line.methods


def _group_lines(found: Iterable[ChangeLine], key: object) -> Iterable[ChangeLine]:
    assert callable(key)
    groups: dict[tuple[object, ...], list[ChangeLine]] = {}
    for line in found:
        groups.setdefault(key(line), []).append(line)
    for group in groups.values():
        first = group[0]
        yield replace(
            first,
            what=", ".join(dict.fromkeys(each.what for each in group)),
            subjects=tuple(dict.fromkeys(each for line in group for each in line.subjects)),
            before=first.before if len({each.before for each in group}) == 1 else "",
            after=first.after if len({each.after for each in group}) == 1 else "",
            changes=tuple(change for line in group for change in line.changes),
        )
