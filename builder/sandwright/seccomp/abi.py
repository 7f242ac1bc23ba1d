"""The ABIs a filter can meet, and the numbers their system calls have.

The numbers are those of `seccomp/syscalls.csv`. A filter sees an ABI as the audit architecture in its input
and, for x32, as bit 30 of the number (seccomp(2); arch/x86/include/uapi/asm/unistd.h).
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from sandwright.seccomp import tables

Architecture = Literal["amd64", "arm64"]
"""An architecture that artifacts are made for. The others are ABIs such a machine may run besides."""

X32_BIT = 0x40000000
MINUS_ONE = 0xFFFFFFFF
"""The number -1, which a tracer gives to have a call skipped (seccomp(2)). It has the bit of x32, but must
not be refused as x32 is; libseccomp, too, lets it reach the rules."""


class Abi(Enum):
    """One way to call a kernel; the value is the name that Go and the engines' `arches` use for it."""

    AMD64 = "amd64"
    ARM64 = "arm64"
    I386 = "x86"
    X32 = "x32"
    ARM = "arm"

    @property
    def audit(self) -> int:
        """The `arch` field of `struct seccomp_data` (include/uapi/linux/audit.h)."""
        return _AUDIT[self]

    @property
    def oci(self) -> str:
        """Its name in `architectures` of an OCI profile."""
        return _OCI[self]

    @property
    def is_64_bit(self) -> bool:
        """Whether libseccomp compares all 64 bits of an argument; it takes x32 for a 32-bit ABI."""
        return self in (Abi.AMD64, Abi.ARM64)


_AUDIT: Mapping[Abi, int] = {
    Abi.AMD64: 0xC000003E,
    Abi.ARM64: 0xC00000B7,
    Abi.I386: 0x40000003,
    Abi.X32: 0xC000003E,
    Abi.ARM: 0x40000028,
}
_OCI: Mapping[Abi, str] = {
    Abi.AMD64: "SCMP_ARCH_X86_64",
    Abi.ARM64: "SCMP_ARCH_AARCH64",
    Abi.I386: "SCMP_ARCH_X86",
    Abi.X32: "SCMP_ARCH_X32",
    Abi.ARM: "SCMP_ARCH_ARM",
}
BY_OCI_NAME: Mapping[str, Abi] = {name: abi for abi, name in _OCI.items()}

BOTH: tuple[Architecture, ...] = ("amd64", "arm64")
NATIVE: Mapping[Architecture, Abi] = {"amd64": Abi.AMD64, "arm64": Abi.ARM64}
RUNS: Mapping[Architecture, tuple[Abi, ...]] = {
    "amd64": (Abi.AMD64, Abi.I386, Abi.X32),
    "arm64": (Abi.ARM64, Abi.ARM),
}
"""The ABIs that a machine's kernel may serve, its own first."""


@dataclass(frozen=True)
class SyscallTarget:
    """The target of a named call: its number, and for a multiplexed call the value of its argument 0."""

    number: int
    selector: int | None = None


@functools.cache
def numbers(abi: Abi) -> Mapping[str, int]:
    """The number of each call that an ABI has, by name; x32 numbers without their bit."""
    column = "i386" if abi is Abi.I386 else abi.value
    return {row["name"]: int(row[column]) for row in tables.rows("syscalls.csv") if row[column]}


@functools.cache
def syscall_names(abi: Abi) -> Mapping[int, str]:
    """The name of each number of an ABI."""
    return {number: name for name, number in numbers(abi).items()}


@functools.cache
def known_names() -> frozenset[str]:
    """Every name the table has, for any ABI."""
    return frozenset(row["name"] for row in tables.rows("syscalls.csv"))


def targets(abi: Abi, name: str) -> tuple[SyscallTarget, ...]:
    """The numbers under which a named call arrives; nothing when the ABI does not have it.

    libseccomp applies a rule for a socket or SysV IPC call of i386 to both ways in.
    """
    number = numbers(abi).get(name)
    direct = () if number is None else (SyscallTarget(number),)
    through = _multiplexed().get(name) if abi is Abi.I386 else None
    return direct if through is None else (through, *direct)


def guess(name: str) -> str | None:
    """The known call that a misspelt name most looks like."""
    matches = difflib.get_close_matches(name.lower(), sorted(known_names()), n=1)
    return matches[0] if matches else None


@functools.cache
def _multiplexed() -> Mapping[str, SyscallTarget]:
    found = {}
    for row in tables.rows("syscalls.csv"):
        if row["i386_via"]:
            through, _, selector = row["i386_via"].partition(":")
            found[row["name"]] = SyscallTarget(numbers(Abi.I386)[through], int(selector))
    return found
