"""Expected results of the probes in kubernetes, where they differ from those of other methods."""

from __future__ import annotations

from collections.abc import Mapping

from sandwright.methods.properties import Answers
from sandwright.methods.shared import containers

_FILTER = "the filter makes no IP socket, so that the denial holds where NetworkPolicy is not enforced"
_LEFT = "sockets do not travel: none of the host's is there"
_REPOSITORY = "declared: the directory of a repository is read-only as a whole"

EXPECTED: Mapping[str, Answers] = {
    **containers.EXPECTED,
    "commits": Answers("EROFS", _REPOSITORY),
    "git.symlink": Answers("EROFS", _REPOSITORY),
    "covered.write": Answers("EACCES EROFS ENOENT", _REPOSITORY),
    "image.file": Answers("ENODATA", "over a denied file one without content is mounted"),
    "hidden.file": Answers("ENODATA", "over a denied file one without content is mounted"),
    "hidden.file.write": Answers("EACCES EROFS", "over a denied file one without content is mounted"),
    "kernel.write": Answers("EACCES EROFS", "its owner is root, who is not mapped in the Pod"),
    "net.socket": Answers("EPERM", _FILTER),
    "net.own": Answers("EPERM", _FILTER),
    "net.loopback": Answers("EPERM", _FILTER),
    "net.datagram": Answers("EPERM", _FILTER),
    "net.outside": Answers("EPERM", _FILTER),
    "net.interfaces": Answers(
        "", "a Pod has a network interface, but programs cannot create a socket for it"
    ),
    "unix.unlisted": Answers("ENOENT", _LEFT),
    "unix.later": Answers("ENOENT", _LEFT),
    "unix.written": Answers("ENOENT", _LEFT),
    "limit.core": Answers("", "a Pod has no limit of core files: it is the node's configuration"),
}
"""By claim of `sandwright.verify.expected`."""
