"""What the probes must see in a kernel of its own, where it differs from what they see elsewhere."""

from __future__ import annotations

from collections.abc import Mapping

from sandwright.methods.properties import Answers

_OTHERS = Answers("ECONNREFUSED", "nobody of the kernel inside listens there, and sockets are its own")

EXPECTED: Mapping[str, Answers] = {
    "foreign-abi": Answers(
        "EBADF", "User-Mode Linux takes the number as one of 64-bit calls, and so does the filter inside"
    ),
    "family.six": Answers("ok EAFNOSUPPORT", "in this kernel IPv6 is a module, which nobody loads"),
    "net.outside": Answers("ENETUNREACH EAFNOSUPPORT", "there is no way out, and no IPv6"),
    "kernel.absent": Answers("ENOENT EACCES EROFS", "the kernel inside has it, covered or read-only"),
    "kernel.no-order": Answers("ENOENT EACCES EROFS", "the kernel inside has it, covered or read-only"),
    "process.environ": Answers("EACCES", "nobody inside can look at the first process"),
    "unix.unlisted": _OTHERS,
    "unix.later": _OTHERS,
    "unix.written": _OTHERS,
    "unix.abstract": _OTHERS,
}
"""By claim of `sandwright.verify.expected`."""
