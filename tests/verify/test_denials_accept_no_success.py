"""No expectation of a denial is met by a successful attempt.

Tests of verify/expected.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sandwright.methods import registry
from sandwright.verify.catalogue import catalogue
from sandwright.verify.expected import claims, expected
from sandwright.verify.fixture import plant_fixture
from sandwright.verify.listeners import canary_listeners
from sandwright.verify.subject import Canaries, ProofSubject
from support.proving import resolver

WORKS = frozenset((
    *("works", "fifo.make", "listed", "commits", "home.write", "tmp.write", "terminal.make", "cloud.read"),
    *("personality.ask", "family.six", "net.socket", "net.own"),
    *("unix.own", "unix.own.temporary", "unix.own.abstract"),
))  # fmt: skip
"""Claims that an attempt works."""

VALUE = {
    "hidden.list": "the names that are listed are none",
    "image.own": "a preset's rule is about the host's file, and its device and inode are looked for",
    "variable.image": "the value is the image's, and never that of the host's variable",
    "kernel.hidden": "what is read is nothing",
    "kernel.memory": "what is read is nothing",
    "device.own": "it has not the device and inode of the host's",
    "privilege.bound": "the set that is read is empty",
    "inside": "the namespace's number is not the host's",
    "outside.list": "no process of the host is in the list",
    "root.inside": "the namespace's number is not the host's, but where the method declares it",
    "process.environ": "no variable of the host is in it",
    "net.interfaces": "no interface of the host is in the list",
    "net.datagram": "sending says nothing; the listener outside gets nothing",
    "net.behind.datagram": "sending says nothing; the listener outside gets nothing",
    "shim.token": "what the program prints is the sandbox's token",
    "shim.refused": "what the shim ends with",
    "shim.gone": "what the shim ends with",
    "secret.nowhere": "the search finds nothing",
    "limit.core": "the limit that is read is 0",
}
"""Claims that an attempt proves by a value, with a description of the value."""


def _accepts(method: str) -> list[str]:
    declaration = registry.declaration(method)
    found = []
    for claim in claims():
        row = expected(claim, method)
        declared = declaration.of(row.feature).level in ("partly", "cannot") if row.feature else False
        if "ok" in row.answers and not declared and claim not in WORKS | VALUE.keys():
            found.append(claim)
    return found


@pytest.mark.parametrize("method", registry.verifiable())
def test_a_denial_accepts_no_success(method: str) -> None:
    assert _accepts(method) == []


def test_every_exception_is_a_claim() -> None:
    assert WORKS | VALUE.keys() <= set(claims())


@pytest.mark.parametrize("method", ["bwrap", "oci", "gvisor", "docker"])
def test_a_claim_about_what_is_found_looks_at_what_is_found(method: str, tmp_path: Path) -> None:
    text = "filesystem: {deny: [/etc/machine-id]}\nnetwork: {mode: none}\n"
    seen = set()
    with plant_fixture() as fixture, canary_listeners(fixture.read, fixture.write, fixture.word) as listeners:
        policy = resolver(text, tmp_path / "project")(fixture.settings())
        subject = ProofSubject(
            method, policy, fixture, listeners, Canaries({}, {"TOKEN": "secret"}), host_process=1
        )
        for probe in catalogue(subject):
            for step in probe.steps:
                if step.claim in VALUE and "ok" in expected(step.claim, method).answers:
                    seen.add(step.claim)
                    looked = step.value is not None or step.holds or step.lacks or probe.check
                    assert looked, (probe.name, step)
    assert len(seen) > 5
