"""Probes of sandwright's own state and installation: no sandbox changes them, under any policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from sandwright.runtime.probe.protocol import attempt
from sandwright.verify.catalogue.files import reads_plain, writes_plain
from sandwright.verify.probe import Family, Probe, ProbeStep
from sandwright.verify.subject import ProofSubject, step


def probes(subject: ProofSubject) -> Iterator[Probe]:
    """Three probes, if `prove` has planted their files."""
    reserved = subject.reserved
    if reserved is None:
        return
    yield Probe(
        "files/reserved-hidden",
        Family.FILES,
        "rendered sandboxes, running sessions and the key of the render cache are unreadable",
        tuple(ProbeStep(attempt("read", file), "reserved.read", private=True) for file in reserved.hidden),
        (reads_plain(subject.fixture),),
    )
    yield _write_probe(
        "reserved-written", "sandwright's state, policy and approvals", reserved.state, subject
    )
    yield _write_probe("reserved-installation", "sandwright's installation", reserved.installation, subject)


def _write_probe(name: str, what: str, directories: Sequence[Path], subject: ProofSubject) -> Probe:
    made = tuple(directory / f".sandwright-{subject.word}-made" for directory in directories)
    return Probe(
        f"files/{name}",
        Family.FILES,
        f"{what} cannot be written",
        tuple(step("reserved.write", "create", path) for path in made),
        (writes_plain(subject.fixture),),
        skip="" if made else "this user cannot write there without a sandbox either",
        never=made,
    )
