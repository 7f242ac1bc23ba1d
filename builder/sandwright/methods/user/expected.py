"""Expected results of the probes in user, where they differ from those of other methods."""

from __future__ import annotations

from collections.abc import Mapping

from sandwright.methods.properties import Answers

_RIGHTS = Answers(
    "EROFS EACCES", "the account's rights to the path and all directories above it are checked first"
)

EXPECTED: Mapping[str, Answers] = {
    **dict.fromkeys(
        ("unix.own", "unix.own.temporary", "unix.own.abstract"),
        Answers("EPERM", "declared: seccomp denies AF_UNIX sockets, except socket pairs"),
    ),
    "readonly.write": _RIGHTS,
    "hidden.entry": Answers(
        "ENOENT EACCES", "the account's rights to the path and all directories above it are checked first"
    ),
    "hidden.list": Answers(
        "ok EACCES", "the account's rights to the path and all directories above it are checked first"
    ),
    "hidden.create": _RIGHTS,
    "absent": Answers(
        "ENOENT EACCES", "the account's rights to the path and all directories above it are checked first"
    ),
    "absent.create": _RIGHTS,
    "kernel.write": _RIGHTS,
    "kernel.cgroup": Answers(
        "EROFS ENOENT EACCES",
        "the account's rights to the path and all directories above it are checked first",
    ),
    "process.environ": Answers("EACCES", "the first process is root's"),
}
"""By claim of `sandwright.verify.expected`."""
