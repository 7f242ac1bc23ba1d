"""What an account of its own keeps apart, beside mounts and the filter: the probes of `user` alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from sandwright.runtime.probe.protocol import attempt
from sandwright.verify.account import CLOSED, FROM_HOST
from sandwright.verify.catalogue.files import reads_plain, writes_plain
from sandwright.verify.probe import Family, Probe, Step
from sandwright.verify.subject import Subject, step

_ADDED = b" and from the account"


def probes(subject: Subject) -> Iterator[Probe]:
    """The probes of this family, for the one method that has an account."""
    if subject.method != "user":
        return
    ground, own = subject.ground, f"Uid:\t{subject.policy.facts.uid}\t".encode()
    yield Probe(
        "processes/account",
        Family.PROCESSES,
        "who runs inside is not who started it, and is in no group but the account's own",
        (
            Step(attempt("read", "/proc/self/status"), "works", lacks=(own,)),
            Step(attempt("read", "/proc/self/status"), "works", holds=b"\nGroups:\t \n"),
        ),
        (Step(attempt("read", "/proc/self/status"), "works", holds=b"\nUid:\t"),),
    )
    yield Probe(
        "files/of-a-person",
        Family.FILES,
        "a person's .ssh/config that no rule of the policy denies is closed by that person's rights",
        (
            step("account.closed", "read", ground.read / CLOSED),
            step("account.closed", "write", ground.read / CLOSED),
        ),
        (reads_plain(ground),),
    )
    shared, made = ground.write / FROM_HOST, ground.write / "from-account"
    yield Probe(
        "files/both-ways",
        Family.FILES,
        "what either makes in the workspace the other can read and write",
        (
            Step(attempt("read", shared), "works", value=ground.plain.encode()),
            step("works", "write", shared),
            step("works", "create", made, ground.word),
        ),
        (writes_plain(ground),),
        check=lambda: _both_ways(made, ground.word),
    )
    yield Probe(
        "processes/tools",
        Family.PROCESSES,
        "programs of the host run, as they are",
        (Step(attempt("run", "/bin/sh", "-c", "test -d /usr && ls / && id"), "works", value=b"0"),),
        (Step(attempt("run", "/bin/sh", "-c", "exit 3"), "works", value=b"3"),),
    )


def _both_ways(made: Path, word: str) -> str | None:
    """Whoever started it reads what the account made, and adds to it."""
    try:
        with made.open("r+b") as file:
            said = file.read()
            file.write(_ADDED)
    except OSError as error:
        return f"{made} can't be read and written on the host: {os.strerror(error.errno or 0)}"
    return None if said == word.encode() else f"{made} is not what it was: {said!r}"
