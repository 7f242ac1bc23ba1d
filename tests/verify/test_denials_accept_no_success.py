"""No expectation of a denial accepts that the attempt works."""

from __future__ import annotations

import pytest

from sandwright.methods import registry
from sandwright.verify.expected import claims, expected

WORKS = frozenset((
    *("works", "fifo.make", "listed", "commits", "tmp.write", "terminal.make", "cloud.read"),
    *("personality.ask", "family.six", "net.socket", "net.own"),
    *("unix.own", "unix.own.temporary", "unix.own.abstract"),
))  # fmt: skip
"""Claims that something works."""

VALUE = {
    "hidden.list": "the names that are listed are none",
    "image.own": "a preset's rule is about the host's file, and its device and inode are looked for",
    "variable.image": "the value is the image's, and never that of the host's variable",
    "kernel.hidden": "what is read is nothing",
    "device.own": "gVisor's device has no counterpart on the host",
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
"""Claims that are shown by what an attempt finds, with what that is."""

EMPTY = {
    ("kubernetes", "hidden.file"),
    ("kubernetes", "image.file"),
    ("oci", "image.file"),
    ("podman", "image.file"),
}
"""Where a file without content lies over the denied one, and what is read is compared with that."""


def _accepts(method: str) -> list[str]:
    declaration = registry.declaration(method)
    found = []
    for claim in claims():
        row = expected(claim, method)
        declared = declaration.of(row.feature).level in ("partly", "cannot") if row.feature else False
        if "ok" in row.answers and not declared and claim not in WORKS | VALUE.keys():
            found.append(claim)
    return [claim for claim in found if (method, claim) not in EMPTY]


@pytest.mark.parametrize("method", registry.verifiable())
def test_a_denial_accepts_no_success(method: str) -> None:
    assert _accepts(method) == []


def test_every_exception_is_a_claim() -> None:
    assert WORKS | VALUE.keys() | {claim for _, claim in EMPTY} <= set(claims())
