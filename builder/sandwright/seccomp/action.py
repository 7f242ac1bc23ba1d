"""Actions of a filter on a call, as the OCI specification and the kernel spell them."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from sandwright.seccomp import tables


class ActionKind(Enum):
    """The actions; the value is the one the kernel knows (include/uapi/linux/seccomp.h)."""

    KILL_PROCESS = 0x80000000
    KILL_THREAD = 0x00000000
    TRAP = 0x00030000
    ERRNO = 0x00050000
    NOTIFY = 0x7FC00000
    TRACE = 0x7FF00000
    LOG = 0x7FFC0000
    ALLOW = 0x7FFF0000

    @property
    def oci(self) -> str:
        """Its name in an OCI profile. SCMP_ACT_KILL is another name of KILL_THREAD."""
        return f"SCMP_ACT_{self.name}"


BY_OCI_NAME: Mapping[str, ActionKind] = {
    **{kind.oci: kind for kind in ActionKind},
    "SCMP_ACT_KILL": ActionKind.KILL_THREAD,
}


@dataclass(frozen=True)
class Action:
    """An action, with the number that ERRNO and TRACE carry; 0 for all others."""

    kind: ActionKind
    data: int = 0

    def __str__(self) -> str:
        if self.kind is ActionKind.ERRNO:
            return f"{self.kind.oci} {self.data} ({errno_name(self.data)})"
        return f"{self.kind.oci} {self.data}" if self.kind is ActionKind.TRACE else self.kind.oci

    @property
    def value(self) -> int:
        """The value that a filter program returns for the action."""
        return self.kind.value | self.data

    @property
    def lets_run(self) -> bool:
        """Whether the kernel carries the call out: by itself, or unless someone who watches objects."""
        return self.kind in (ActionKind.ALLOW, ActionKind.LOG, ActionKind.TRACE, ActionKind.NOTIFY)


ALLOW = Action(ActionKind.ALLOW)
KILL_PROCESS = Action(ActionKind.KILL_PROCESS)
KILL_THREAD = Action(ActionKind.KILL_THREAD)
EPERM = Action(ActionKind.ERRNO, 1)
NOTIFY = Action(ActionKind.NOTIFY)
ENOSYS = Action(ActionKind.ERRNO, 38)


def refusal(name: str) -> Action:
    """ERRNO with a number by its name, as `EPERM`. Raise KeyError for a name that is none."""
    return Action(ActionKind.ERRNO, errno_numbers()[name])


def errno_name(number: int) -> str:
    """`EPERM` for 1; the number itself where it has no name."""
    return _errno_names().get(number, str(number))


@functools.cache
def errno_numbers() -> Mapping[str, int]:
    """The numbers of Linux by name, those of other systems being different."""
    return {row["name"]: int(row["number"]) for row in tables.rows("errno.csv")}


@functools.cache
def _errno_names() -> Mapping[int, str]:
    return {number: name for name, number in reversed(list(errno_numbers().items()))}


def from_value(value: int) -> Action:
    """The action of a value that a program returned; an unknown value kills the process, as in the kernel."""
    try:
        kind = ActionKind(value & 0xFFFF0000)
    except ValueError:
        return KILL_PROCESS
    return Action(kind, value & 0xFFFF if kind in (ActionKind.ERRNO, ActionKind.TRACE) else 0)
