"""Expected results of the probes in oci, where they differ from those of other methods."""

from __future__ import annotations

from collections.abc import Mapping

from sandwright.methods.properties import Answers
from sandwright.methods.shared import containers

EXPECTED: Mapping[str, Answers] = {
    **containers.EXPECTED,
    "privilege.identity": Answers(
        "EINVAL EPERM", "the user namespace has one user, so the number doesn't exist"
    ),
    "image.file": Answers("ENODATA ENOENT", "the runtime masks it with the null device"),
    "unix.unlisted": Answers("ECONNREFUSED", "a device covers it, and no process listens there"),
    "unix.written": Answers("ok", "declared: only known sockets are hidden, and programs may have their own"),
    "unix.later": Answers("ok", "declared: only known sockets are hidden, and programs may have their own"),
}
"""By claim of `sandwright.verify.expected`."""
