"""Expected results of the probes in bwrap, where they differ from those of other methods."""

from __future__ import annotations

from collections.abc import Mapping

from sandwright.methods.properties import Answers

_UNCREATABLE = "or, without a placeholder, Landlock and the launcher's supervisor refuse to create the name"

EXPECTED: Mapping[str, Answers] = {
    "covered.make": Answers("EEXIST EACCES", _UNCREATABLE),
    "covered.replace": Answers("EISDIR EBUSY EXDEV EACCES", _UNCREATABLE),
    "covered.move": Answers("EBUSY EACCES", _UNCREATABLE),
    "covered.inside": Answers("EACCES EROFS ENOENT", _UNCREATABLE),
    "unix.unlisted": Answers("ECONNREFUSED", "a device covers it, and no process listens there"),
    "unix.later": Answers("EACCES", "the launcher connects to none on a read-only mount that is not listed"),
    "unix.written": Answers("EACCES", "the launcher connects to none that is bound in the host's network"),
    "unix.abstract": Answers(
        "ECONNREFUSED EACCES",
        "a separate network namespace doesn't have it; in the host's, the launcher doesn't connect to it",
    ),
    "privilege.identity": Answers(
        "EINVAL EPERM", "the user namespace has one user, so the number doesn't exist"
    ),
}
"""By claim of `sandwright.verify.expected`."""
