"""Other people's sandbox commands, held to their promises: the table of docs/comparison.md.

Each subject that ships is proved by `sandwright verify --claims NAME`, as the user who runs this. One that
is not installed is left out with the reason. Words are the names of subjects; absent, all.
`--installed FOLDER` puts FOLDER on PATH, where npm or Go put their programs.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from sandwright.errors import SandwrightError
from sandwright.verify.foreign.claims import GENERIC, shipped_subjects
from sandwright.verify.foreign.command import verify_subject
from sandwright.verify.report import PolicyReport
from sandwright.verify.verdict import Verdict

SHOWN = (Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.SKIPPED, Verdict.NOT_PROMISED)


def main(words: Sequence[str]) -> None:
    """Run it; prints a Markdown table, and below it what is red."""
    names = list(words)
    while "--installed" in names:
        at = names.index("--installed")
        os.environ["PATH"] += os.pathsep + str(Path(names[at + 1]).resolve())
        del names[at : at + 2]
    rows: list[str] = []
    red: list[str] = []
    for name in names or [each for each in shipped_subjects() if each != GENERIC]:
        try:
            report = verify_subject("", name)
        except SandwrightError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
            continue
        rows.append(row(report))
        red += reds(report)
    print(f"| subject | version | uid | {' | '.join(map(str, SHOWN))} | of what is not promised, held |")
    print(f"|---|---|---|{'---|' * (len(SHOWN) + 1)}")
    print("\n".join(rows))
    print("\n".join(["", *red]))


def row(report: PolicyReport) -> str:
    """A subject's line of the table."""
    (name,) = report.methods
    counts = Counter(each.verdict for each in report.outcomes)
    held = sum(_held(each.evidence) for each in report.outcomes if each.verdict is Verdict.NOT_PROMISED)
    version = next(
        (each.partition("its version: ")[2] for each in report.notes if "its version: " in each), ""
    )
    cells = [name, version, os.geteuid(), *(counts[each] for each in SHOWN), held]
    return f"| {' | '.join(map(str, cells))} |"


def _held(evidence: str) -> bool:
    return evidence.startswith("held all the same")


def reds(report: PolicyReport) -> Iterator[str]:
    """Each red probe of a subject, with what was seen."""
    for each in report.outcomes:
        if each.verdict in (Verdict.FAIL, Verdict.INCONCLUSIVE):
            telling = next((line for line in each.evidence.splitlines() if " (" in line), each.evidence)
            yield f"- {each.method}, {each.verdict}: `{each.probe}`: {telling}"


if __name__ == "__main__":
    main(sys.argv[1:])
