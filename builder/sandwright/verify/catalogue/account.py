"""The probes for the method `user` only: separation by a dedicated account."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from sandwright.runtime.probe.protocol import attempt
from sandwright.verify.account import CLOSED, FROM_HOST
from sandwright.verify.catalogue.files import reads_plain, writes_plain
from sandwright.verify.probe import Family, Probe, ProbeStep
from sandwright.verify.subject import ProofSubject, step

_ADDED = b" and from the account"


def probes(subject: ProofSubject) -> Iterator[Probe]:
    """The probes of this family, for the one method that has an account."""
    if not subject.properties.own_account:
        return
    fixture, own_uid = subject.fixture, f"Uid:\t{subject.policy.facts.uid}\t".encode()
    yield Probe(
        "processes/account",
        Family.PROCESSES,
        "the command runs as the account, without supplementary groups",
        (
            ProbeStep(attempt("read", "/proc/self/status"), "works", lacks=(own_uid,)),
            ProbeStep(attempt("read", "/proc/self/status"), "works", holds=b"\nGroups:\t \n"),
        ),
        (ProbeStep(attempt("read", "/proc/self/status"), "works", holds=b"\nUid:\t"),),
    )
    yield Probe(
        "files/of-a-person",
        Family.FILES,
        "file permissions hide a user's .ssh/config that no rule denies",
        (
            step("account.closed", "read", fixture.read / CLOSED),
            step("account.closed", "write", fixture.read / CLOSED),
        ),
        (reads_plain(fixture),),
    )
    shared, made = fixture.write / FROM_HOST, fixture.write / "from-account"
    yield Probe(
        "files/both-ways",
        Family.FILES,
        "the account and the project's owner can read and write each other's new files",
        (
            ProbeStep(attempt("read", shared), "works", value=fixture.plain.encode()),
            step("works", "write", shared),
            step("works", "create", made, fixture.word),
        ),
        (writes_plain(fixture),),
        check=lambda: _both_ways(made, fixture.word),
    )
    yield Probe(
        "processes/tools",
        Family.PROCESSES,
        "programs of the host run unchanged",
        (ProbeStep(attempt("run", "/bin/sh", "-c", "test -d /usr && ls / && id"), "works", value=b"0"),),
        (ProbeStep(attempt("run", "/bin/sh", "-c", "exit 3"), "works", value=b"3"),),
    )


def _both_ways(made: Path, word: str) -> str | None:
    """The user who started the run reads the account's files, and appends to them."""
    try:
        with made.open("r+b") as file:
            content = file.read()
            file.write(_ADDED)
    except OSError as error:
        return f"cannot read and write {made} on the host: {os.strerror(error.errno or 0)}"
    return None if content == word.encode() else f"{made} was changed: {content!r}"
