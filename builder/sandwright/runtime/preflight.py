"""Finds out whether a runtime starts anything here, by starting the marker under it.

Asking a program for its version proves nothing, and some hang (gVisor's KVM platform in a nested virtual
machine), so each way of starting it gets a real start with a time limit. It counts as ready when the
marker's word came out, its forbidden write was denied as it should be, and the exit status came through.
"""

from __future__ import annotations

import errno
import os
import threading
import uuid
from dataclasses import dataclass

from sandwright import process
from sandwright.errors import SandwrightError
from sandwright.host import HostFacts
from sandwright.runtime.contract import Runtime, Start, Variant
from sandwright.runtime.launch import Ended, base_environment
from sandwright.runtime.marker import ARCHITECTURES
from sandwright.runtime.marker_image import marker_subject
from sandwright.runtime.scratch import scratch_directory
from sandwright.setup.requirements import how_to_get

LIMIT = 20.0
"""Seconds for one start of the marker."""


@dataclass(frozen=True)
class Ready:
    """A runtime that starts images of a platform, in this way."""

    runtime: Runtime
    variant: Variant


@dataclass(frozen=True)
class Missing:
    """A runtime that doesn't: why, and how to get it (a command; empty when that would not help)."""

    runtime: Runtime
    reason: str
    get: str = ""

    def describe(self) -> str:
        """The reason, and the way out."""
        return f"{self.reason}; get it with: {self.get}" if self.get else self.reason


def look(
    runtime: Runtime, platform: str, host: HostFacts, stop: threading.Event, *, limit: float = LIMIT
) -> Ready | Missing:
    """Try the variants of a runtime in turn; the first that starts the marker is the one."""
    if obstacle := runtime.obstacle(host, platform):
        return Missing(runtime, obstacle)
    if runtime.name != "docker" and process.find(runtime.program) is None:
        return Missing(
            runtime, f"{runtime.program} is not installed", how_to_get(runtime.program, host.package_manager)
        )
    if platform.split("/")[1] not in ARCHITECTURES:
        return Missing(runtime, f"there is no marker program for {platform}, so nothing is known")
    reasons = []
    for variant in runtime.variants(host):
        ready = Ready(runtime, variant)
        seen = _try(ready, platform, host, stop, limit=limit)
        if not seen:
            return ready
        reasons.append(f"{variant.note}: {seen}" if variant.note else seen)
    found = process.find(runtime.program)
    return Missing(
        runtime, "; ".join(reasons), "" if found else how_to_get(runtime.program, host.package_manager)
    )


def _try(ready: Ready, platform: str, host: HostFacts, stop: threading.Event, *, limit: float) -> str:
    """Start the marker once. Give what went wrong; empty when nothing did."""
    word = uuid.uuid4().hex.encode()
    rootless = None if host.is_root else (host.uid, host.gid)
    try:
        with scratch_directory() as scratch:
            (scratch / "marker").mkdir()
            subject = marker_subject(platform, word, scratch / "marker", rootless=rootless)
            directory = scratch / f"{ready.runtime.name}-0"
            directory.mkdir()
            with ready.runtime.session(ready.variant, host, directory, stop) as session:
                ended = session.run(Start(subject, None, limit, base_environment()))
    except SandwrightError as error:
        return str(error).splitlines()[-1]
    return _judge(ended, word)


def _judge(ended: Ended, word: bytes) -> str:
    if word not in ended.stdout:
        return ended.describe()
    if ended.status != errno.EROFS:
        return (
            f"the marker started, but its write to a read-only root gave {ended.status}, "
            f"not {errno.EROFS} ({os.strerror(errno.EROFS)})"
        )
    return ""
