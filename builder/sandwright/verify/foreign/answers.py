"""The required result of each attempt in a foreign sandbox.

A foreign sandbox may deny with any error that a sandbox would use. The same attempts outside show that the
error does not come from the host itself (`sandwright.verify.foreign.host_control`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sandwright.verify.expected import Expected, default_expectation

_DENIED = "EROFS EACCES EPERM"
_HIDDEN = "ENOENT EACCES EPERM"
_RIGHTS = "EPERM EACCES ENOSYS"
_FILTERED = "EPERM EACCES ENOSYS SIGSYS"
_NO_NETWORK = "ENETUNREACH EHOSTUNREACH EADDRNOTAVAIL EPERM EACCES ENOSYS EAFNOSUPPORT"
_SOCKET = "EPERM EACCES ENOSYS EAFNOSUPPORT ENOENT ECONNREFUSED"

_ANSWERS: Mapping[str, str] = {
    "readonly.write": _DENIED,
    "readonly.move": f"{_DENIED} EBUSY EXDEV",
    "covered.write": _DENIED,
    "covered.make": f"{_DENIED} EEXIST EBUSY EISDIR",
    "covered.replace": f"{_DENIED} EISDIR EBUSY EXDEV EEXIST ENOTDIR",
    "covered.inside": f"{_DENIED} ENOTDIR ENOENT",
    "hidden.entry": _HIDDEN,
    "hidden.list": f"{_HIDDEN} ok",
    "hidden.create": f"{_DENIED} ENOENT ok",  # `never` shows that it was not made on the host
    "hidden.file": f"{_HIDDEN} ENODATA",
    "hidden.file.write": f"{_DENIED} ENOENT",
    "hidden.kind": f"{_HIDDEN} ENOTDIR",
    "absent": _HIDDEN,
    "absent.create": f"{_DENIED} ENOENT",
    "tmp.hidden": _HIDDEN,
    "device.none": _HIDDEN,
    "device.own": _HIDDEN,
    "device.make": _DENIED,
    "exchange": f"{_DENIED} EBUSY EXDEV",
    "link.across": f"{_DENIED} EXDEV",
    "privilege.none": f"{_RIGHTS} ENOSPC",
    "privilege.identity": f"{_RIGHTS} EINVAL",
    "privilege.enter": f"{_RIGHTS} ENOENT EINVAL",  # setns(2): one's own user namespace
    "privilege.trace": _RIGHTS,
    "filtered": _FILTERED,
    "filtered.nosys": _FILTERED,
    "filtered.family": f"{_FILTERED} EAFNOSUPPORT",
    "filtered.netlink": f"{_FILTERED} EAFNOSUPPORT EPROTONOSUPPORT",
    "foreign-abi": _FILTERED,
    "foreign-abi.x32": _FILTERED,
    "outside.directory": _HIDDEN,
    "kernel.write": f"{_DENIED} ENOENT",
    "kernel.rights": f"{_DENIED} ENOENT",
    "kernel.cgroup": f"{_DENIED} ENOENT",
    "kernel.cgroup-rights": f"{_DENIED} ENOENT",
    "kernel.hidden": f"{_HIDDEN} ok",  # where it is empty
    "kernel.memory": _HIDDEN,
    "net.loopback": f"{_NO_NETWORK} ECONNREFUSED",
    "net.datagram": f"{_NO_NETWORK} ECONNREFUSED ok",  # the listener shows that nothing arrived
    "net.outside": _NO_NETWORK,
    "unix.unlisted": _SOCKET,
    "unix.later": _SOCKET,
    "unix.written": _SOCKET,
    "unix.none": _SOCKET,
    "unix.host": _SOCKET,
    "unix.abstract": _SOCKET,
}
"""The answers by claim; other claims have the answers of our own methods."""


def expected_answer(claim: str, name: str) -> Expected:  # noqa: ARG001 - as `expected` is called
    """The expected answers of a foreign sandbox for a claim. Raise KeyError for a claim without a row."""
    row = default_expectation(claim)
    answers = _ANSWERS.get(claim) or _ANSWERS.get(row.like)
    return replace(row, answers=tuple(answers.split())) if answers else row
