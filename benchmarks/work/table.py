"""The tables of docs/probes.md about work in public projects, made of what was seen: project, step, method.

    python -m benchmarks.work.table RESULTS.json ...

takes what `benchmarks.projects` wrote into `seen.json`, where a step that was seen again is replaced, and
`invoke docs` writes the tables. A step that is not in `seen.json` reads as not run. Its rows of 2026-11-25,
and some of 2026-11-27, were taken over from a table that was written by hand: their results were not kept.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, get_args

import yaml

from sandwright.reference.markdown import table

SEEN = Path(__file__).with_name("seen.json")
PROJECTS = Path(__file__).with_name("projects.yaml")
STEPS = ("deps", "build", "test", "commit", "serve")
METHODS = ("bwrap", "oci", "gvisor", "docker", "podman", "user", "landlock", "vm")
RED = ("failed", "differs")
Who = Literal["root", "another"]
"""Who starts it. The table knows no names of users."""


@dataclass(frozen=True)
class Seen:
    """What came of a step, as `benchmarks.work.steps.Cell` has it, and on which day (ISO 8601)."""

    project: str
    user: str
    method: str
    step: str
    verdict: str
    date: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Which step it is."""
        return self.project, self.user, self.method, self.step


def texts() -> dict[str, str]:
    """The generated part `projects` of docs/probes.md."""
    seen = read(SEEN)
    known = yaml.safe_load(PROJECTS.read_text())
    parts = [f"{_tables(seen, list(known))}", *_reasons(seen, known)]
    return {"projects": "\n".join(parts)}


def read(path: Path) -> list[Seen]:
    """All that was seen, of projects, methods and steps that there are."""
    rows = json.loads(path.read_text())
    return [Seen(**row) for row in rows if row["method"] in METHODS and row["step"] in STEPS]


def merged(seen: Sequence[Seen], results: Path) -> list[Seen]:
    """What was seen, with a file of results: steps inside, the later ones in the place of earlier ones."""
    data = json.loads(results.read_text())
    day = datetime.fromtimestamp(results.stat().st_mtime, UTC).date().isoformat()
    new = [
        Seen(
            cell["project"],
            "root" if cell["user"] == "root" else "another",
            cell["method"],
            cell["step"],
            cell["verdict"],
            cell.get("date") or day,
        )
        for cell in data["cells"]
        if cell["method"] in METHODS
    ]
    found = {each.key: each for each in seen}
    for each in new:
        if each.key not in found or found[each.key].date <= each.date:
            found[each.key] = each
    return sorted(found.values(), key=lambda each: each.key)


def _tables(seen: Sequence[Seen], projects: Sequence[str]) -> str:
    last = max(each.date for each in seen)
    dates = sorted({each.date for each in seen} - {last})
    before = (
        f", and on {' and '.join(dates)} where there is a °, of which only the verdicts were kept"
        if dates
        else ""
    )
    lines = [f"Seen on {last}{before}.\n"]
    for who, title in zip(get_args(Who), ("As root:", "As another user:"), strict=True):
        own = [each for each in seen if each.user == who]
        rows = [
            [p, *(_cell([s for s in own if (s.project, s.method) == (p, m)], last) for m in METHODS)]
            for p in projects
        ]
        lines += [title, "", table(["project", *(f"`{method}`" for method in METHODS)], rows)]
    return "\n".join(lines)


def _cell(seen: Sequence[Seen], last: str) -> str:
    """One project with one method: what is not done, and why not; `all` where there is nothing."""
    if not seen:
        return "not run"
    by_step = {each.step: each.verdict for each in seen}
    told = {
        "not run": [step for step in STEPS if step not in by_step],
        "cannot": [step for step in STEPS if by_step.get(step) == "cannot"],
        "fails outside, too": [step for step in STEPS if by_step.get(step) == "as outside"],
        "**red**": [step for step in STEPS if by_step.get(step) in RED],
    }
    text = "; ".join(f"{what}: {', '.join(steps)}" for what, steps in told.items() if steps) or "all"
    return text + " °" * any(each.date != last for each in seen)


def _reasons(seen: Sequence[Seen], known: Mapping[str, Mapping[str, object]]) -> Iterator[str]:
    """Why steps can't be done, each reason once with all that it goes for."""
    found: dict[str, dict[tuple[str, str], list[str]]] = {}
    for each in seen:
        reasons = known[each.project].get("cannot")
        if each.verdict == "cannot" and isinstance(reasons, dict):
            why = reasons[each.method][each.step]
            steps = found.setdefault(why, {}).setdefault((each.project, each.method), [])
            steps += [each.step] * (each.step not in steps)
    for why, places in sorted(found.items()):
        names = "; ".join(
            f"{p} under {m} ({', '.join(sorted(s, key=STEPS.index))})" for (p, m), s in places.items()
        )
        yield f"- {names}: {why}."


def main() -> None:
    """Take results into what was seen."""
    seen = read(SEEN) if SEEN.exists() else []
    for name in sys.argv[1:]:
        seen = merged(seen, Path(name))
    rows = ",\n".join(json.dumps(each.__dict__) for each in seen)
    SEEN.write_text(f"[\n{rows}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
