"""The probes, family by family: those that every policy gets, and those made from its rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from sandwright.verify.catalogue import (
    account,
    environment,
    files,
    limits,
    links,
    listed,
    network,
    ports,
    processes,
    reserved,
    syscalls,
)
from sandwright.verify.expected import expected
from sandwright.verify.probe import Probe
from sandwright.verify.subject import ProofSubject

_FAMILIES: tuple[Callable[[ProofSubject], Iterator[Probe]], ...] = (
    files.probes,
    listed.probes,
    reserved.probes,
    links.probes,
    processes.probes,
    syscalls.probes,
    network.probes,
    ports.probes,
    environment.probes,
    limits.probes,
    account.probes,
)


def catalogue(subject: ProofSubject) -> tuple[Probe, ...]:
    """All probes for a subject that are attempts inside. Those of runs as a whole are in `lifecycle`."""
    return tuple(part for probe in all_probes(subject) for part in enforceable_part(probe, subject.method))


def all_probes(subject: ProofSubject) -> Iterator[Probe]:
    """All probes for a subject, including those that its method cannot enforce."""
    yield from (probe for family in _FAMILIES for probe in family(subject))


def enforceable_part(probe: Probe, method: str) -> Iterator[Probe]:
    """Split a probe into the part that its method can enforce, and a skipped probe for the rest."""
    expectations = {step.claim: expected(step.claim, method) for step in probe.steps}
    lacking = tuple(step for step in probe.steps if not expectations[step.claim].answers)
    steps = tuple(step for step in probe.steps if expectations[step.claim].answers)
    if steps or not lacking:
        yield replace(probe, steps=steps)
    if lacking:
        reasons = dict.fromkeys(expectations[step.claim].reason for step in lacking)
        name = f"{probe.name}: not held" if steps else probe.name
        skip = f"{method} cannot: {'; '.join(reasons)}"
        yield replace(probe, name=name, steps=lacking, controls=(), check=None, never=(), skip=skip)
