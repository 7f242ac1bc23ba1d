"""The control of all denials: the same attempts on this host without the sandbox.

If this host denies an attempt anyway, a denial in a sandbox proves nothing.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sandwright.policy.resolved import ResolvedPolicy
from sandwright.runtime.probe import own_probe
from sandwright.verify.catalogue import all_probes
from sandwright.verify.fixture import Fixture, plant_fixture
from sandwright.verify.foreign.answers import expected_answer
from sandwright.verify.foreign.sandbox import SubjectSandbox
from sandwright.verify.foreign.subject import ForeignSubject
from sandwright.verify.listeners import canary_listeners
from sandwright.verify.outcome import ProbeOutcome, judge
from sandwright.verify.probe import Probe
from sandwright.verify.prove import answers_of
from sandwright.verify.verdict import Verdict

_OF_THE_HOST = {"mount": "mnt", "umount": "mnt", "pivot": "mnt", "sethostname": "uts"}
"""Attempts that would change this host if root made them without the named separate namespace."""


def changed_namespaces(probe: Probe) -> set[str]:
    """The kinds of namespaces of the host that root must have left before it attempts a probe."""
    if os.geteuid() != 0:
        return set()
    tried = (step.attempt.operation for step in probe.asked)
    return {_OF_THE_HOST[each] for each in tried if each in _OF_THE_HOST}


def control_outcomes(
    subject: ForeignSubject, resolve: Callable[[Fixture], ResolvedPolicy], environment: Mapping[str, str]
) -> Mapping[str, ProbeOutcome]:
    """The outcome of each probe without the sandbox, by name, on newly planted files."""
    with contextlib.ExitStack() as stack:
        fixture = stack.enter_context(plant_fixture(subject.fixture.root.parent))
        listeners = stack.enter_context(canary_listeners(fixture.read, fixture.write, fixture.word))
        host_subject = replace(subject, fixture=fixture, listeners=listeners, policy=resolve(fixture))
        probes = [
            each
            for each in all_probes(host_subject)
            if not (each.alone or each.skip or changed_namespaces(each))
        ]
        program = fixture.hidden / fixture.program.name
        shutil.copyfile(own_probe(), program)
        program.chmod(0o755)
        bare = SubjectSandbox(
            "outside",
            Path("/nonexistent"),
            program,
            environment,
            cwd=fixture.write,
            root=fixture.hidden,
            word=fixture.word,
        )
        _, found = answers_of(probes, bare)
        return {
            each.name: judge(each, "outside", answers, expectation=expected_answer)
            for each, answers in zip(probes, found, strict=True)
        }


def without_hosts_own(
    outcomes: Sequence[ProbeOutcome], probes: Sequence[Probe], control: Mapping[str, ProbeOutcome]
) -> Iterator[ProbeOutcome]:
    """The outcomes without denials that this host makes even without the sandbox."""
    denials = {probe.name for probe in probes if _is_denial(probe)}
    for outcome in outcomes:
        alone = control.get(outcome.probe)
        same = alone is not None and alone.verdict is Verdict.PASS and outcome.probe in denials
        if outcome.verdict is Verdict.PASS and same:
            assert alone is not None
            reason = f"this host denies it to this user without the sandbox too ({alone.observed})"
            yield replace(outcome, verdict=Verdict.SKIPPED, evidence=reason)
        else:
            yield outcome


def _is_denial(probe: Probe) -> bool:
    """Whether a probe shows that something can't be done, or that something is not there."""
    return any(step.claim != "works" or step.lacks for step in probe.steps)
