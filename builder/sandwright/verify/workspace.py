"""Proves a review workspace: a run changes the copy, and no file of the project (`apply`: `held_back.py`).

Two small projects are planted, whose files the sandbox then changes. One is shown as a copy; the other, the
control, is changed itself.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from sandwright.bridge.directory import Bridge
from sandwright.bridge.on_demand import RunReviewed, serve_changes
from sandwright.launcher.run_document import RunDocument, handed_over, workspace_words
from sandwright.launcher.shim_names import CHANGES
from sandwright.methods.shared.shims import lists_changes
from sandwright.policy.facts import HostFacts
from sandwright.policy.live_entries import observe
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.runtime.probe.protocol import Attempt, attempt
from sandwright.verify import held_back
from sandwright.verify.fixture import Fixture
from sandwright.verify.held_back import held_back_outcomes
from sandwright.verify.outcome import ProbeOutcome
from sandwright.verify.probe import Family
from sandwright.verify.sandbox import Batch, RenderedSandbox
from sandwright.verify.verdict import Verdict

Resolve = Callable[..., ResolvedPolicy]
Rendered = Callable[..., RenderedSandbox]

UNCHANGED, UNTOUCHED = "workspace/project-unchanged", "workspace/no-names"
LISTED = "workspace/lists-changes"
NAMES = (UNCHANGED, UNTOUCHED, *held_back.ABOUT)
"""The names of these probes."""

_FILES = {"kept": "old", "gone": "old", "folder/inner": "old"}


def over_project(resolve: Resolve) -> Resolve:
    """The same policies over the project itself, for the probes of everything else."""
    return lambda *arguments: replace(resolve(*arguments), workspace="live")


def workspace_outcomes(
    resolve: Resolve,
    settings: Sequence[str],
    fixture: Fixture,
    method: str,
    rendered: Rendered,
    *,
    document: RunDocument,
) -> Iterator[ProbeOutcome]:
    """The verdicts on the workspace of a policy with `workspace: review`. `document` is that of its runs."""
    staged, live = fixture.root / "staged", fixture.root / "live"
    copy = fixture.hidden / "copy"
    for root in (staged, live):
        _plant(root)
    shutil.copytree(staged, copy)
    before, touched = _tree_content(staged), staged.stat().st_mtime_ns
    words = workspace_words({str(staged): str(copy)})
    policy = _at(resolve, settings, staged)
    alive = rendered("live", _at(over_project(resolve), settings, live))
    with _planted_listing(policy, method, staged, fixture.word) as bridge:
        sandbox = rendered("staged", policy)
        if bridge is not None:
            sandbox = replace(sandbox, descriptors=(*sandbox.descriptors, bridge.channel))
        document = _with_bridge(replace(document, workspace=words), bridge)
        inside = _attempt_changes(sandbox, staged, document)
        yield (
            _skipped_listing(method)
            if bridge is None
            else _listed_outcome(
                method,
                _call_answers(sandbox, staged, document),
                _call_answers(alive, live, None),
                fixture.word,
            )
        )
    outside = _attempt_changes(alive, live, None)
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


@contextlib.contextmanager
def _planted_listing(
    policy: ResolvedPolicy, method: str, project: Path, word: str
) -> Iterator[Bridge | None]:
    """A bridge whose `sandwright-changes` prints a word and its arguments; None where a run has none."""
    if not lists_changes(policy, method):
        yield None
        return
    program = ("/bin/sh", "-c", 'echo "$0 $# $1"', word)
    with serve_changes(RunReviewed(str(project), policy.facts.platform, program, dict(os.environ))) as bridge:
        yield bridge


def _with_bridge(document: RunDocument, bridge: Bridge | None) -> RunDocument:
    return document if bridge is None else replace(document, shims=str(bridge.public), channel=bridge.channel)


def _call_answers(sandbox: RenderedSandbox, root: Path, document: RunDocument | None) -> list[str]:
    """The answers to a call of `sandwright-changes`, and to one that names a workspace."""
    calls = [attempt("call", CHANGES, "--json"), attempt("call", CHANGES, "--workspace", "other")]
    return [str(each) for each in _attempt_batch(sandbox, root, document, calls).answers]


def _listed_outcome(method: str, inside: list[str], live: list[str], word: str) -> ProbeOutcome:
    """Whether programs in a review call `sandwright-changes`, and choose no more than the form."""
    listed = f"status 0\\n{word} 1 json" in inside[0].replace("\n", "\\n")
    held = "status 126" in inside[1] and "status 0" not in live[0]
    return replace(
        _skipped_listing(method),
        verdict=(Verdict.PASS if listed else Verdict.INCONCLUSIVE) if held else Verdict.FAIL,
        observed="listed" if listed else "not listed",
        evidence=f"{inside[0]}\nwith --workspace: {inside[1]}\ncontrol, workspace: live: {live[0]}",
    )


def _skipped_listing(method: str) -> ProbeOutcome:
    return ProbeOutcome(
        probe=LISTED,
        method=method,
        family=Family.WORKSPACE,
        verdict=Verdict.SKIPPED,
        expected="listed",
        observed="",
        evidence=f"{CHANGES} does not exist in this sandbox: no bridge can be reached",
        about="programs of a review list its changes, and name no other workspace",
    )


def _attempt_changes(sandbox: RenderedSandbox, root: Path, document: RunDocument | None) -> str:
    """Have a sandbox change its project; give its answers, as evidence."""
    attempts: list[Attempt] = [
        attempt("write", root / "kept", "new"),
        attempt("unlink", root / "gone"),
        attempt("create", root / "made"),
        attempt("mkdir", root / "new-folder"),
        attempt("rename", root / "folder", root / "moved"),
    ]
    answers = zip(attempts, _attempt_batch(sandbox, root, document, attempts).answers, strict=True)
    return "; ".join(f"{each.operation} → {answer}" for each, answer in answers)


def _attempt_batch(
    sandbox: RenderedSandbox, root: Path, document: RunDocument | None, attempts: Sequence[Attempt]
) -> Batch:
    with contextlib.ExitStack() as stack:
        file = sandbox.document if document is None else stack.enter_context(handed_over(document))
        return replace(sandbox, document=file, cwd=root).attempt(attempts)


def _tree_content(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): path.read_text("utf-8") if path.is_file() else ""
        for path in sorted(root.rglob("*"))
    }
