"""Proves a foreign sandbox command: plants, writes its settings, starts it, attempts, judges."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from sandwright import process
from sandwright.errors import CommandFailed, UsageError
from sandwright.runtime.probe.protocol import attempt
from sandwright.verify.about import PolicyOrigin
from sandwright.verify.catalogue import all_probes
from sandwright.verify.foreign.answers import expected_answer
from sandwright.verify.foreign.claims import Promises, policy_text
from sandwright.verify.foreign.host_control import changed_namespaces, control_outcomes, without_hosts_own
from sandwright.verify.foreign.sandbox import SubjectSandbox
from sandwright.verify.foreign.stage import resolve_promised, stage
from sandwright.verify.foreign.subject import ForeignSubject, check_names, without_promise
from sandwright.verify.lifecycle import COMMAND_RUNS, command_runs
from sandwright.verify.outcome import ProbeOutcome, judge
from sandwright.verify.probe import Probe, ProbeStep
from sandwright.verify.prove import answers_of, attempted, start_outcome
from sandwright.verify.report import PolicyReport
from sandwright.verify.runs import Runs
from sandwright.verify.sandbox import probe_environment
from sandwright.verify.verdict import Verdict


def prove_subject(promises: Promises, words: Sequence[str]) -> PolicyReport:
    """Prove a command by its promises.

    `words` are those of `--subject`; without any, the promises' command is used. Raise UsageError for an
    invalid command, ToolMissing for a missing one, and the errors of loading a policy.
    """
    began, started = time.monotonic(), datetime.now(UTC)
    command = words or promises.command
    if not command:
        raise UsageError(f"{promises.name} has no command; name one with --subject")
    version = _read_version(promises)
    outcomes = tuple(_prove_stage(promises, command))
    return PolicyReport(
        policy=promises.name,
        methods=(promises.name,),
        outcomes=outcomes,
        notes=tuple(_report_notes(promises, version, command)),
        started=started.isoformat(timespec="seconds"),
        seconds=time.monotonic() - began,
        host=f"{platform.node()}: {platform.system()} {platform.release()} {platform.machine()}",
        origin=PolicyOrigin(project=str(Path.cwd()), text=policy_text(promises)),
    )


def _prove_stage(promises: Promises, command: Sequence[object]) -> Iterator[ProbeOutcome]:
    """The verdicts: whether it starts, then on each probe, then on runs as a whole.

    Failed probes are repeated, each alone and on newly planted files, since a breach may remove files that
    other probes need; the second verdict counts.
    """
    with stage(promises, command) as (subject, sandbox):
        control = control_outcomes(
            subject,
            lambda fixture: resolve_promised(promises, fixture),
            probe_environment(subject.fixture.state),
        )
        probes = list(_catalogue_probes(subject, sandbox))
        check_names(promises, [*(each.name for each in probes), *COMMAND_RUNS])
        batch, answers = attempted(probes, sandbox)
        found = [
            judge(each, promises.name, answers.get(each.name, ()), expectation=expected_answer)
            for each in probes
        ]
        start = start_outcome(batch, sandbox)
    if start.verdict is Verdict.PASS:
        found = list(without_promise(found, probes, promises))
        few = sum(map(_is_red, found)) <= _MOST_AGAIN
        found = [_again(each, promises, command) if few and _is_red(each) else each for each in found]
        found += _runs(promises, command)
    found = list(without_hosts_own(found, probes, control))
    yield from without_promise([start, *found], probes, promises)


_MOST_AGAIN = 15
"""The number of failed probes that are attempted again: more are no accident."""


def _runs(promises: Promises, command: Sequence[object]) -> list[ProbeOutcome]:
    """The verdicts on runs as a whole; for failed ones, those of a second attempt."""
    found: dict[str, ProbeOutcome] = {}
    for _ in range(2):
        with stage(promises, command) as (subject, sandbox):
            seen = without_promise(list(command_runs(Runs(subject, sandbox, None))), (), promises)
            found |= {
                each.probe: each for each in seen if each.probe not in found or _is_red(found[each.probe])
            }
        if not any(map(_is_red, found.values())):
            break
    return list(found.values())


def _is_red(outcome: ProbeOutcome) -> bool:
    return outcome.verdict in _RED


_RED = (Verdict.FAIL, Verdict.INCONCLUSIVE)


def _again(outcome: ProbeOutcome, promises: Promises, command: Sequence[object]) -> ProbeOutcome:
    """The verdict on one probe, by itself."""
    with stage(promises, command) as (subject, sandbox):
        probe = next(
            (each for each in _catalogue_probes(subject, sandbox) if each.name == outcome.probe), None
        )
        if probe is None:
            return outcome
        _, (answers,) = answers_of([probe], sandbox)
        return judge(probe, promises.name, answers, expectation=expected_answer)


def _catalogue_probes(subject: ForeignSubject, sandbox: SubjectSandbox) -> Iterator[Probe]:
    """The catalogue's probes, without unlisted paths: the subject has no setting for those."""
    unlisted = {
        f"files/{each.kind}: {each.path}"
        for each in subject.policy.filesystem.rules
        if each.origin != "listed"
    }
    for probe in _harmless(tuple(all_probes(subject)), sandbox):
        if probe.name not in unlisted:
            yield replace(probe, controls=tuple(map(_runnable_control, probe.controls)))


def _runnable_control(step: ProbeStep) -> ProbeStep:
    """The control of a probe.

    A sandbox that refuses all sockets, even a server inside, gets a control without sockets. The attempt
    outside shows that it would work.
    """
    if step.attempt.operation not in ("loopback", "pair"):
        return step
    return ProbeStep(attempt("echo", "alive"), "works", value=b"alive")


_KEPT_OFF = "it is in this host's own namespaces, and root's attempt would change the host"


def _harmless(probes: Sequence[Probe], sandbox: SubjectSandbox) -> Iterator[Probe]:
    """The probes.

    Those that would change this host as root are skipped if the sandbox keeps the host's namespaces.
    """
    kinds = ("mnt", "uts")
    attempts = [attempt("readlink", f"/proc/self/ns/{kind}") for kind in kinds]
    inside = sandbox.attempt(attempts).answers
    host_links = [os.fsencode(Path(f"/proc/self/ns/{kind}").readlink()) for kind in kinds]
    shared = {
        kind
        for kind, each, here in zip(kinds, inside, host_links, strict=True)
        if each.kind != "ok" or each.value == here
    }
    for probe in probes:
        yield replace(probe, skip=_KEPT_OFF) if shared & changed_namespaces(probe) else probe


def _read_version(promises: Promises) -> str:
    """The version that it prints. Raise ToolMissing if it is not installed."""
    if not promises.version:
        return ""
    try:
        result = process.run(*promises.version, check=False, timeout=60.0)
    except CommandFailed:
        return ""
    return next((line.strip() for line in f"{result.text}\n{result.stderr}".splitlines() if line.strip()), "")


def _command_line(command: Sequence[object]) -> str:
    """A command as its promises write it."""
    words = (
        f"[{' '.join(map(str, each['words']))} for each of {each['for']}]"
        if isinstance(each, Mapping)
        else str(each)
        for each in command
    )
    return " ".join(words)


def _report_notes(promises: Promises, version: str, command: Sequence[object]) -> Iterator[str]:
    """Notes for the reader of the report."""
    name = promises.name
    yield f"{name}: {promises.about}"
    if version:
        yield f"{name}: its version: {version}"
    yield f"{name}: started by uid {os.geteuid()} as: {_command_line(command)}"
    for what, reason in promises.not_promised.items():
        yield f"{name}: {what} is not promised: {reason}"
