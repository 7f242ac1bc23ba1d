"""Probes of resource limits: each limit is exceeded, and usage below it works."""

from __future__ import annotations

from collections.abc import Iterator

from sandwright.runtime.probe.protocol import attempt
from sandwright.verify.probe import Family, Probe, ProbeStep
from sandwright.verify.subject import ProofSubject, step

_MEBIBYTE = 1 << 20
_RLIMIT_CORE = 4
_HOLD = 1500
"""Milliseconds for which too much memory is held: the launcher may check only once a second."""


def probes(subject: ProofSubject) -> Iterator[Probe]:
    """The probes of this family. Time is `lifecycle`'s."""
    limits = subject.policy.resources
    yield _probe(
        "core",
        "a crash leaves no core file",
        ProbeStep(attempt("limit", _RLIMIT_CORE), "limit.core", value=b"0 0"),
        ProbeStep(attempt("core"), "works", value=b"none"),
    )
    if limits.files is not None:
        yield _probe(
            "files",
            f"no process has more than {limits.files} files open",
            step("limit.files", "files", limits.files + 1),
            controls=(step("works", "files", max(limits.files - 32, 1)),),
        )
    if limits.pids is not None:
        yield _probe(
            "pids",
            f"there are no more than {limits.pids} processes",
            step("limit.pids", "fork", limits.pids + 8),
            controls=(
                step("works", "fork", 4 if subject.properties.own_kernel else max(limits.pids // 2 - 8, 1)),
            ),
            alone=True,
        )
    if limits.memory is not None:
        more = limits.memory // _MEBIBYTE
        yield _probe(
            "memory",
            f"no more than {more} MiB are used",
            step("limit.memory", "memory", more + max(more // 8, 64), _HOLD),
            controls=(step("works", "memory", max(more // 2 - 32, 1), 0),),
            alone=True,
        )


def _probe(
    name: str, about: str, *steps: ProbeStep, controls: tuple[ProbeStep, ...] = (), alone: bool = False
) -> Probe:
    return Probe(f"limits/{name}", Family.LIMITS, about, steps, controls, alone=alone)
