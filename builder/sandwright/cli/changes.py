"""The command that compares two policies: `sandwright diff`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence

from sandwright.change.compare import compare_policies
from sandwright.change.policies import PolicyPair, read_pair
from sandwright.change.report import ChangeReport, as_json, as_markdown, as_sarif, as_text
from sandwright.change.trial import trial_method, witnesses
from sandwright.checked import Checked
from sandwright.cli import console
from sandwright.cli.timelimit import TimeLimitExceeded, time_limit
from sandwright.errors import PolicyWidened, UsageError, VerdictError
from sandwright.methods import registry
from sandwright.outputs import write_output
from sandwright.policy.values import duration


def diff(
    *,
    old: str,
    new: str = "",
    policy: str = "sandbox.yaml",
    revisions: bool = False,
    method: Sequence[str] | None = None,
    set: Sequence[str] | None = None,  # noqa: A002 - the option's name
    prove: bool = False,
    time: str = "",
    json: str = "",
    markdown: str = "",
    sarif: str = "",
) -> Checked:
    """Show the accesses that a policy change newly allows or denies, for each method.

    Raise PolicyWidened where more is allowed, VerdictError where a sandbox did otherwise than was said or the
    time was up.
    """
    if not new and not revisions:
        raise UsageError("usage: sandwright diff OLD NEW, or sandwright diff --revisions OLD [NEW]")
    try:
        with time_limit(_parse_seconds(time)) if time else contextlib.nullcontext():
            pair = read_pair(
                old, new, policy=policy, revisions=revisions, environ=os.environ, settings=list(set or ())
            )
            report = _compare_policies(pair, method or (), prove=prove, old=old, new=new or policy)
    except TimeLimitExceeded:
        raise VerdictError(f"the policies could not be compared within {time}") from None
    for line in as_text(report):
        console.line(line)
    outputs: tuple[tuple[str, Callable[[], bytes]], ...] = (
        (json, lambda: as_json(report)),
        (markdown, lambda: as_markdown(report)),
        (sarif, lambda: as_sarif(report, policy if revisions else os.path.relpath(pair.file))),
    )
    for file, content in outputs:
        if file:
            write_output(file, content())
    _judge(report)
    if silent := [name for name in report.found.silent if name in (method or ())]:
        raise VerdictError(f"{', '.join(silent)} can enforce neither policy, so nothing was compared for it")
    return Checked(report.found.asked)


def _parse_seconds(time: str) -> int:
    try:
        return duration(f"{time}s" if time.isdigit() else time)
    except ValueError as error:
        raise UsageError(f"--time {error}") from None


def _compare_policies(
    pair: PolicyPair, methods: Sequence[str], *, prove: bool, old: str, new: str
) -> ChangeReport:
    before, after = pair.resolve()
    explained = [name for name in registry.policy_names() if registry.method(name).parts.read_back]
    found = compare_policies(before, after, [*methods] or explained)
    seen = witnesses(pair, (before, after), found, trial_method(found.methods)) if prove else ()
    return ChangeReport(old, new, found, after.facts, seen)


def _judge(report: ChangeReport) -> None:
    """Raise the error with which the command ends."""
    wrong = [each for each in report.witnesses if each.verdict == "contradicted"]
    if wrong:
        raise VerdictError(f"a sandbox did not behave as predicted: {'; '.join(map(str, wrong[:3]))}")
    if report.found.widened:
        raise PolicyWidened(f"{report.new} allows more than {report.old}")
