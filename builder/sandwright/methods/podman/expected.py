"""Expected results of the probes in podman, where they differ from those of other methods."""

from __future__ import annotations

from collections.abc import Mapping

from sandwright.methods.properties import Answers
from sandwright.methods.shared import containers

EXPECTED: Mapping[str, Answers] = {
    **containers.EXPECTED,
    "privilege.identity": Answers(
        "EINVAL EPERM", "the user namespace has one user, so the number doesn't exist"
    ),
    "root.inside": Answers("ok", "declared: the command has UID 0 of the host, without capabilities"),
    "net.outside": Answers("ENETUNREACH EADDRNOTAVAIL", "engines switch IPv6 off, so that it has no address"),
    "image.file": Answers("ENODATA ENOENT", "the runtime masks it with the null device"),
    "unix.unlisted": Answers(
        "EACCES ECONNREFUSED", "a file that cannot be written covers it, and no process listens there"
    ),
    "unix.written": Answers("ok", "declared: only known sockets are hidden, and programs may have their own"),
    "unix.later": Answers("ok", "declared: only known sockets are hidden, and programs may have their own"),
}
"""By claim of `sandwright.verify.expected`."""
