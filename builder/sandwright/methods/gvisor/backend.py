"""gVisor's runsc on an unpacked image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sandwright import places, process
from sandwright.host import MachineFacts
from sandwright.methods.contract import Code, Delivery
from sandwright.methods.gvisor.render import render_gvisor
from sandwright.methods.gvisor.support import DECLARATION
from sandwright.methods.shared.launched import children
from sandwright.methods.shared.runtime_spec.backend import KILL, Runtime
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.rendered import Rendered, render_with
from sandwright.runtime.trial import Failed


@dataclass(frozen=True)
class Gvisor(Runtime):
    """The row of runsc."""

    name: str = "gvisor"

    def render(self, policy: ResolvedPolicy) -> Rendered:
        """For a trial."""
        return render_with(policy, DECLARATION, render_gvisor)

    def programs(self) -> Sequence[str]:
        """One."""
        return ("runsc",)

    def deliver(self, launcher: int, number: int) -> Delivery:
        """Signal the command with runsc's `kill`: its `run` would die of the signal, and pass nothing on."""
        runtime = process.find("runsc")
        for words in map(_words, children(launcher)):
            if runtime and "run" in words and "--root" in words:
                root = Path(words[words.index("--root") + 1])
                if str(root.parent.parent) != places.runs():
                    continue
                argv = (runtime, "--root", root, "kill", root.parent.name, str(number))
                sent = process.run(*argv, timeout=KILL, check=False)
                return "sent" if sent else ""
        return ""

    def explained(self, failed: Failed, host: MachineFacts) -> tuple[Code, str, str]:
        """What a start that failed means, and what helps."""
        if "unknown platform" in failed.said or "invalid platform" in failed.said:
            return "not-started", f"this runsc has no platform that works here: {failed.said}", ""
        return super().explained(failed, host)


def _words(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except OSError:
        return []
