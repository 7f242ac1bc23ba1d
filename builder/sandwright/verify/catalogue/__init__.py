"""The probes, family by family: those that every policy gets, and those made from what a policy says."""

from __future__ import annotations

from collections.abc import Callable, Iterator

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
    syscalls,
)
from sandwright.verify.probe import Probe
from sandwright.verify.subject import ProofSubject

_FAMILIES: tuple[Callable[[ProofSubject], Iterator[Probe]], ...] = (
    files.probes,
    listed.probes,
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
    return tuple(probe for family in _FAMILIES for probe in family(subject))
