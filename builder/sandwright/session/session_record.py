"""The record of a session while it runs (docs/state.md), and of its sandbox.

The native command writes such records, too: the part that is the same for each run of a sandbox
(`SandboxRecord`) is in its entry of the render cache, and `front/source/start.c` writes the rest.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from sandwright.session.denial_context import DenialContext
from sandwright.session.scan_scope import ScanScope
from sandwright.signalling import ProcessIdentity


@dataclass(frozen=True, kw_only=True)
class Enforced:
    """The features that a session enforces, by the policy's names.

    `limits` are by their names in `resources`.
    """

    network: str
    write: tuple[str, ...]
    denied: int
    seccomp: str
    privileged: bool
    limits: Mapping[str, int | float]
    degraded: tuple[str, ...]
    stricter: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class RunHint:
    """A hint about a command, printed after a failure, or `always`."""

    text: str
    always: bool = False


@dataclass(frozen=True, kw_only=True)
class PostRun:
    """The data for the report after a run.

    `policy` is the file whose runs it is about, `guard` the file of `absent_guard`, empty without one.
    `telemetry` is a file that events are appended to, empty for none. With `quiet`, denials are not printed.
    `rendered` is whether this run rendered the sandbox, for telemetry.
    """

    policy: str
    scope: ScanScope
    context: DenialContext
    guard: str = ""
    telemetry: str = ""
    quiet: bool = False
    rendered: Literal["now", "before"] = "before"
    hint: RunHint | None = None


@dataclass(frozen=True, kw_only=True)
class SandboxRecord:
    """The part of the record that is equal for all sessions of a sandbox.

    `artifacts` are digests by name, `policy` is the digest of the policy's text.
    """

    boot: str
    machine: str
    method: str
    project: str
    policy: str
    artifacts: Mapping[str, str]
    directory: str
    placeholders: tuple[str, ...] = field(metadata={"key": "covers"})
    enforced: Enforced
    after: PostRun


@dataclass(frozen=True, kw_only=True)
class SessionRecord(SandboxRecord):
    """One session. `clock` is its start, on the file systems' clock and on one that can't be set.

    `name` is that of a detached run, empty without one.
    """

    session: str
    pid: int
    start: int
    pid_namespace: str
    began: float
    clock: tuple[int, ...]
    command: str
    name: str = ""

    @property
    def process(self) -> ProcessIdentity:
        """The process that runs it."""
        return ProcessIdentity(
            pid=self.pid,
            start=self.start,
            boot=self.boot,
            pid_namespace=self.pid_namespace,
            machine=self.machine,
        )
