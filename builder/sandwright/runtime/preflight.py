"""Finds out whether a runtime starts anything here, by starting the probe under it.

Each way of starting a runtime gets a trial with a time limit: gVisor's KVM platform hangs in a nested virtual
machine. The root is read-only, so that the probe's write to it must be denied.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from sandwright import process
from sandwright.errors import SandwrightError
from sandwright.host import MachineFacts
from sandwright.runtime.contract import SandboxRuntime, Start, Variant
from sandwright.runtime.probe import PROBE
from sandwright.runtime.probe.protocol import ProbeAnswer, attempt
from sandwright.runtime.probe_image import FORBIDDEN, PROGRAM, probe_subject
from sandwright.runtime.scratch import hidden_directory, scratch_directory
from sandwright.runtime.trial import Trial
from sandwright.setup.requirements import how_to_get
from sandwright.watchdog import runtime_environment

LIMIT = 20.0
"""Seconds for one start of the probe."""


@dataclass(frozen=True)
class ReadyRuntime:
    """A runtime that starts images of a platform, in this way."""

    runtime: SandboxRuntime
    variant: Variant


@dataclass(frozen=True)
class MissingRuntime:
    """A runtime that doesn't: why, and how to get it (a command; empty when that would not help)."""

    runtime: SandboxRuntime
    reason: str
    get: str = ""

    def describe(self) -> str:
        """The reason, and the way out."""
        return f"{self.reason}; get it with: {self.get}" if self.get else self.reason


def check_runtime(
    runtime: SandboxRuntime, platform: str, host: MachineFacts, stop: threading.Event, *, limit: float = LIMIT
) -> ReadyRuntime | MissingRuntime:
    """Try the variants of a runtime in turn; the first that starts the probe is the one."""
    if obstacle := runtime.obstacle(host, platform):
        return MissingRuntime(runtime, obstacle)
    if runtime.name != "docker" and process.find(runtime.program) is None:
        return MissingRuntime(
            runtime, f"{runtime.program} is not installed", how_to_get(runtime.program, host.package_manager)
        )
    if platform not in PROBE.platforms:
        return MissingRuntime(runtime, f"there is no probe program for {platform}, so nothing is known")
    reasons = []
    for variant in runtime.variants(host):
        ready = ReadyRuntime(runtime, variant)
        seen = _try(ready, platform, host, stop, limit=limit)
        if not seen:
            return ready
        reasons.append(f"{variant.note}: {seen}" if variant.note else seen)
    found = process.find(runtime.program)
    return MissingRuntime(
        runtime, "; ".join(reasons), "" if found else how_to_get(runtime.program, host.package_manager)
    )


def _try(
    ready: ReadyRuntime, platform: str, host: MachineFacts, stop: threading.Event, *, limit: float
) -> str:
    """Start the probe once. Give the error; empty without one."""
    trial = Trial(attempt("echo", "started"), b"started", attempt("create", FORBIDDEN), _fault)
    rootless = None if host.is_root else (host.uid, host.gid)
    try:
        with scratch_directory() as scratch:
            bundle = hidden_directory(scratch, PROGRAM)
            subject = probe_subject(platform, bundle, scratch / "rootfs", rootless=rootless)
            directory = scratch / f"{ready.runtime.name}-0"
            directory.mkdir()
            with ready.runtime.session(ready.variant, host, directory, stop) as session:
                argv = (f"/{PROGRAM}", *trial.arguments())
                failed = trial.judge(session.run(Start(subject, argv, limit, runtime_environment())))
    except SandwrightError as error:
        return str(error).splitlines()[-1]
    return failed.output if failed else ""


def _fault(denied: ProbeAnswer) -> str:
    return (
        "" if denied.name == "EROFS" else f"but its write to a read-only root gave {denied.name}, not EROFS"
    )
