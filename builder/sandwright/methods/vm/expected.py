"""The answers that probes must get from a separate kernel, where they differ from other methods'."""

from __future__ import annotations

from collections.abc import Mapping

from sandwright.methods.properties import Answers

_OTHERS = Answers("ECONNREFUSED", "the kernel inside has separate sockets, and no process inside listens")

EXPECTED: Mapping[str, Answers] = {
    "foreign-abi": Answers(
        "EBADF", "User-Mode Linux takes the number as one of 64-bit calls, and so does the filter inside"
    ),
    "family.six": Answers("ok EAFNOSUPPORT", "in this kernel IPv6 is a module, which is not loaded"),
    "net.outside": Answers("ENETUNREACH EAFNOSUPPORT", "there is no way out, and no IPv6"),
    "kernel.absent": Answers("ENOENT EACCES EROFS", "the kernel inside has it, covered or read-only"),
    "kernel.no-order": Answers("ENOENT EACCES EROFS", "the kernel inside has it, covered or read-only"),
    "process.environ": Answers("EACCES", "no program inside can read the first process"),
    "unix.unlisted": _OTHERS,
    "unix.later": _OTHERS,
    "unix.written": _OTHERS,
    "unix.abstract": _OTHERS,
}
"""By claim of `sandwright.verify.expected`."""
