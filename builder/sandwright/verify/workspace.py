"""Proves a review workspace: a run changes the copy, and nothing of the project (`apply`: `held_back.py`).

Two small projects are planted, whose files the sandbox then changes. One is shown as a copy; the other, the
control, is changed itself.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from sandwright.launcher.run_document import RunDocument, handed_over, workspace_words
from sandwright.policy.facts import HostFacts
from sandwright.policy.live_entries import observe
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.runtime.probe.protocol import Attempt, attempt
from sandwright.verify import held_back
from sandwright.verify.fixture import Fixture
from sandwright.verify.held_back import held_back_outcomes
from sandwright.verify.outcome import ProbeOutcome
from sandwright.verify.probe import Family
from sandwright.verify.sandbox import RenderedSandbox
from sandwright.verify.verdict import Verdict

Resolve = Callable[..., ResolvedPolicy]
Rendered = Callable[..., RenderedSandbox]

UNCHANGED, UNTOUCHED = "workspace/project-unchanged", "workspace/no-names"
NAMES = (UNCHANGED, UNTOUCHED, *held_back.ABOUT)
"""The names of these probes."""

_FILES = {"kept": "old", "gone": "old", "folder/inner": "old"}


def over_project(resolve: Resolve) -> Resolve:
    """The same policies over the project itself, for the probes of everything else."""
    return lambda *arguments: replace(resolve(*arguments), workspace="live")


def workspace_outcomes(
    resolve: Resolve, settings: Sequence[str], fixture: Fixture, method: str, rendered: Rendered
) -> Iterator[ProbeOutcome]:
    """The verdicts on the workspace of a policy with `workspace: review`."""
    staged, live = fixture.root / "staged", fixture.root / "live"
    copy = fixture.hidden / "copy"
    for root in (staged, live):
        _plant(root)
    shutil.copytree(staged, copy)
    before, touched = _tree_content(staged), staged.stat().st_mtime_ns
    words = workspace_words({str(staged): str(copy)})
    inside = _attempt_changes(rendered("staged", _at(resolve, settings, staged)), staged, words)
    outside = _attempt_changes(rendered("live", _at(over_project(resolve), settings, live)), live, ())
    changed = "copy changed" if _tree_content(copy) != before else "copy unchanged"
    control = "project changed" if _tree_content(live) != before else "project unchanged"
    evidence = f"{inside}\n{changed}\ncontrol, workspace: live: {outside}\n{control}"
    works = (changed, control) == ("copy changed", "project changed")
    for name, about, held in (
        (UNCHANGED, "programs change a copy, and no byte of the project", _tree_content(staged) == before),
        (
            UNTOUCHED,
            "no name appears in the project, not even for a moment",
            staged.stat().st_mtime_ns == touched,
        ),
    ):
        yield ProbeOutcome(
            probe=name,
            method=method,
            family=Family.WORKSPACE,
            verdict=(Verdict.PASS if works else Verdict.INCONCLUSIVE) if held else Verdict.FAIL,
            expected="unchanged",
            observed="unchanged" if held else "changed",
            evidence=evidence,
            about=about,
        )
    policy_at = partial(_at, resolve, settings)
    yield from held_back_outcomes(policy_at, fixture.root / "held", fixture.hidden / "held", method)


def _plant(root: Path) -> None:
    for name, text in _FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _at(resolve: Resolve, settings: Sequence[str], root: Path) -> ResolvedPolicy:
    """The policy with a planted directory as the project."""

    def there(facts: HostFacts) -> HostFacts:
        return observe(replace(facts, project=str(root), cwd=str(root)), [str(root)])

    return resolve(settings, there)


def _attempt_changes(sandbox: RenderedSandbox, root: Path, words: tuple[str, ...]) -> str:
    """Have a sandbox change its project; give its answers, as evidence."""
    attempts: list[Attempt] = [
        attempt("write", root / "kept", "new"),
        attempt("unlink", root / "gone"),
        attempt("create", root / "made"),
        attempt("mkdir", root / "new-folder"),
        attempt("rename", root / "folder", root / "moved"),
    ]
    with contextlib.ExitStack() as stack:
        document = stack.enter_context(handed_over(RunDocument(workspace=words))) if words else None
        batch = replace(sandbox, document=document, cwd=root).attempt(attempts)
    answers = zip(attempts, batch.answers, strict=True)
    return "; ".join(f"{each.operation} → {answer}" for each, answer in answers)


def _tree_content(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): path.read_text("utf-8") if path.is_file() else ""
        for path in sorted(root.rglob("*"))
    }
