"""What a probe is: attempts, what must come of each, and controls that must succeed in the same sandbox."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from sandwright.runtime.probe.protocol import Attempt


class Family(StrEnum):
    """What a probe is about."""

    FILES = "files"
    """What can be read and written."""
    LINKS = "links"
    """Ways around: links, renames, other names of the same file."""
    PROCESSES = "processes"
    """Who one is, what one may become, and whom one can touch."""
    SYSCALLS = "syscalls"
    """What the filter of system calls refuses, whatever rights one has."""
    NETWORK = "network"
    """Networks and sockets."""
    SECRETS = "secrets"
    """Tokens of the host, programs that have them there, cloud accounts."""
    ENVIRONMENT = "environment"
    """Variables, secrets, descriptors."""
    LIFECYCLE = "lifecycle"
    """How a run begins and ends."""
    LIMITS = "limits"
    """Memory, processes, files, time."""
    WORKSPACE = "workspace"
    """What a run with a review workspace changes."""
    WORK = "work"
    """What people do in a project, with real programs."""


@dataclass(frozen=True)
class ProbeStep:
    """An attempt, and the claim about it: a row of the table of expected results.

    Where it ends in `ok`, its value must be `value` (None: any), must hold `holds`, and none of `lacks`.
    A `private` value is personal data and goes into no report.
    `breach` are answers that show that nothing prevents it, beside `ok`: the kernel's own errors.
    """

    attempt: Attempt
    claim: str
    value: bytes | None = None
    holds: bytes = b""
    lacks: tuple[bytes, ...] = ()
    breach: tuple[str, ...] = ()
    private: bool = False


@dataclass(frozen=True)
class Probe:
    """One thing to prove.

    `name` is unique among a method's probes; `about` describes the proved property. `check` looks at the host
    at the end, and returns the faults there. The paths of `never` must not have been created on the host,
    and are removed if they were. One that is `alone` has a sandbox to itself, as it can disturb others.
    """

    name: str
    family: Family
    about: str
    steps: tuple[ProbeStep, ...]
    controls: tuple[ProbeStep, ...] = ()
    check: Callable[[], str | None] | None = None
    alone: bool = False
    skip: str = ""
    never: tuple[Path, ...] = ()

    @property
    def asked(self) -> tuple[ProbeStep, ...]:
        """All its steps in the order in which they are attempted: the controls first."""
        return (*self.controls, *self.steps)
