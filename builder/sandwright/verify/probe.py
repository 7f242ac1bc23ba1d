"""The types of probes: attempts, expected answers, and controls that must succeed in the same sandbox."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from sandwright.runtime.probe.protocol import Attempt


class Family(StrEnum):
    """The subject of a probe."""

    FILES = "files"
    """Reading and writing files."""
    LINKS = "links"
    """Ways around: links, renames, other names of the same file."""
    PROCESSES = "processes"
    """Identity, privileges, and access to other processes."""
    SYSCALLS = "syscalls"
    """System calls that the filter refuses, independent of privileges."""
    NETWORK = "network"
    """Networks and sockets."""
    SECRETS = "secrets"
    """Tokens of the host, programs there that use them, cloud accounts."""
    ENVIRONMENT = "environment"
    """Variables, secrets, descriptors."""
    LIFECYCLE = "lifecycle"
    """The begin and end of a run."""
    LIMITS = "limits"
    """Memory, processes, files, time."""
    WORKSPACE = "workspace"
    """The changes of a run with a review workspace."""
    WORK = "work"
    """Usual work in a project, with real programs."""


@dataclass(frozen=True)
class ProbeStep:
    """An attempt, and the claim about it: a row of the table of expected results.

    If it ends in `ok`, its value must be `value` (None: any), must contain `holds`, and none of `lacks`. A
    `private` value is personal data, and is not reported. `breach` are answers besides `ok` that show that
    nothing prevents the attempt: the kernel's own errors.
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
    """A check of one property of a sandbox.

    `name` is unique among a method's probes; `about` describes the proved property. `check` looks at the host
    at the end, and returns the faults there. The paths of `never` must not have been created on the host, and
    are removed if they were. A probe that is `alone` gets a separate sandbox, because it can disturb others.
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
