"""Whether Landlock and seccomp work here (preflight), and how the launcher is started."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sandwright.errors import HostError
from sandwright.host import MachineFacts
from sandwright.methods.contract import LIMIT, Code, Leftover, Preflight, Terminal
from sandwright.methods.landlock.render import render_landlock
from sandwright.methods.shared.launched import Launched
from sandwright.methods.shared.rundirs import abandoned_directories
from sandwright.methods.shared.trial import judged, try_out
from sandwright.mountinfo import remove_tree
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.rendered import Rendered
from sandwright.runtime.trial import Failed

NEWER = "boot Linux 6.12 or newer, which has version 6"


@dataclass(frozen=True)
class Landlock(Launched):
    """The method landlock."""

    name: str = "landlock"
    terminal: Terminal = "controlling"  # the command must not type into ours (CVE-2017-5226)

    def render(self, policy: ResolvedPolicy) -> Rendered:
        """Render a trial's policy, which asks only for readable paths: other features are not tried."""
        return Rendered(self.name, render_landlock(policy), ())

    def preflight(self, host: MachineFacts, *, limit: float = LIMIT) -> Preflight:
        """Start it with a policy that hides one directory."""
        if host.os != "linux":
            return Preflight(self.name, "wrong-system", f"Landlock is Linux'; this is {host.os}")
        return judged(self.name, try_out(self, READ_ONLY, limit=limit), explain_failure)

    def leftovers(self, running: Iterable[str]) -> Iterator[Leftover]:  # noqa: ARG002
        """Directories of runs whose launcher and monitor were both killed. The kernel ends the processes."""
        for directory in abandoned_directories(self.name):
            temporary = Path(TEMPORARY, directory.name)
            if temporary.is_dir() and not temporary.is_symlink() and temporary.stat().st_uid == os.geteuid():
                yield Leftover(self.name, "directory", str(temporary))
            yield Leftover(self.name, "directory", str(directory))

    def remove(self, leftover: Leftover) -> None:
        """Remove the directory. Raise CommandFailed if some of it stays."""
        if Path(leftover.name).name not in {directory.name for directory in abandoned_directories(self.name)}:
            raise HostError(f"{leftover} is not a directory that a run left behind")
        remove_tree(leftover.name)


TEMPORARY = "/tmp"  # noqa: S108 - each run makes a directory of its own there
READ_ONLY = "{read: [/, $PROJECT], deny: [$PROJECT/hidden]}"
"""The rules of a trial: nothing is denied inside a writable directory."""


def explain_failure(failed: Failed) -> tuple[Code, str, str]:
    """The cause of a failed start on this machine, and the remedy."""
    message = failed.output
    if "no Landlock" in message or "has version" in message:
        return "kernel-lacks", message, NEWER
    if "Landlock is off" in message:
        return "kernel-lacks", message, "boot with landlock among the names of the kernel's parameter lsm="
    if "Landlock" in message:
        return (
            "container-filter",
            message,
            "start the container around it with a seccomp profile that allows landlock_*",
        )
    return "not-started", message, ""
