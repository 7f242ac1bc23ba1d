"""Expected results of the probes in gvisor, where they differ from those of other methods."""

from __future__ import annotations

from collections.abc import Mapping

from sandwright.methods.properties import Answers
from sandwright.methods.shared import containers

EXPECTED: Mapping[str, Answers] = {
    **containers.EXPECTED,
    "hidden.create": Answers("EACCES", "the sentry looks at the directory's mode, 0555, first"),
    "absent.create": Answers("EROFS ENOENT EPERM", "the sentry answers EPERM in an image's /root"),
    "hidden.kind": Answers("EACCES", "the sentry looks at its mode first"),
    "device.own": Answers("ok", "it is the sentry's own, without a counterpart on the host"),
    "exchange": Answers("EINVAL", "the sentry cannot exchange paths"),
    "foreign-abi": Answers(
        "EBADF ENOSYS ended",
        "the sentry has only 64-bit calls, and takes the number as one of those; on systrap a container's "
        "filter ends the process",
    ),
    "foreign-abi.x32": Answers(
        "ENOSYS ended", "the sentry has no such calls; on systrap a container's filter ends the process"
    ),
    "personality.ask": Answers("ok EINVAL", "the sentry does not know the question"),
    "filtered.invalid": Answers("EINVAL EPERM", "runsc answers every refusal of its filter with EPERM"),
    "filtered.netlink": Answers(
        "EPROTONOSUPPORT EPERM", "runsc answers every refusal of its filter with EPERM"
    ),
    "privilege.enter": Answers("EPERM ENOENT", "the sentry has no such namespaces"),
    "kernel.write": Answers(
        "EROFS EACCES ENOENT", "the settings are the sentry's own, few, and not to be written"
    ),
    "kernel.no-order": Answers("ENOENT EIO", "the sentry emulates sysrq-trigger, and ignores commands"),
    "kernel.rights": Answers(
        "EACCES EROFS ENOENT", "the settings are the sentry's own, few, and not to be written"
    ),
    "net.outside": Answers("EHOSTUNREACH ENETUNREACH", "the sentry's own network stack has no route"),
    "unix.unlisted": Answers(
        "EPERM EACCES ECONNREFUSED",
        "the sentry connects to no socket; in a container a file lies over it, too",
    ),
    "unix.later": Answers("EPERM ECONNREFUSED", "the sentry connects to no socket"),
    "unix.written": Answers("EPERM ECONNREFUSED", "the sentry connects to no socket"),
    "limit.pids": Answers(
        "EAGAIN none", "each process inside counts for several, and too many end the whole sandbox"
    ),
    "limit.memory": Answers(
        "SIGKILL ENOMEM none ended", "too much memory ends the whole sandbox, on systrap one process"
    ),
}
"""By claim of `sandwright.verify.expected`."""
