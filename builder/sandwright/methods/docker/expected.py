"""Expected results of the probes in docker, where they differ from those of other methods."""

from __future__ import annotations

from collections.abc import Mapping

from sandwright.methods.properties import Answers
from sandwright.methods.shared import containers

EXPECTED: Mapping[str, Answers] = {
    **containers.EXPECTED,
    "root.inside": Answers("ok", "declared: the command has UID 0 of the host, without capabilities"),
    "net.outside": Answers("ENETUNREACH EADDRNOTAVAIL", "engines switch IPv6 off, so that it has no address"),
    "unix.unlisted": Answers(
        "EACCES ECONNREFUSED", "a file that cannot be written covers it, and no process listens there"
    ),
    "unix.written": Answers("ok", "declared: only known sockets are hidden, and programs may have their own"),
    "unix.later": Answers("ok", "declared: only known sockets are hidden, and programs may have their own"),
}
"""By claim of `sandwright.verify.expected`."""
