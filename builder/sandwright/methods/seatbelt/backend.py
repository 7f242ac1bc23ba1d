"""Whether Seatbelt works here, macOS' own sandbox (preflight), and how sandbox-exec is started."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sandwright.host import MachineFacts
from sandwright.methods.contract import LIMIT, Code, Delivery, Preflight, Terminal
from sandwright.methods.shared.launched import Launched, children, signal_all
from sandwright.methods.shared.trial import HOST_ROOT, judged, try_out
from sandwright.runtime.trial import Failed

PROGRAM = "sandbox-exec"


@dataclass(frozen=True)
class Seatbelt(Launched):
    """The method seatbelt. It has never run, for lack of a Mac."""

    name: str = "seatbelt"
    terminal: Terminal = "controlling"

    def programs(self) -> Sequence[str]:
        """The program sandbox-exec of macOS."""
        return (PROGRAM,)

    def preflight(self, host: MachineFacts, *, limit: float = LIMIT) -> Preflight:
        """Start a sandbox on macOS; elsewhere, report that there is none, and name the simulation."""
        if host.os != "darwin":
            message = f"Seatbelt is macOS'; this is {host.os}"
            return Preflight(
                self.name,
                "wrong-system",
                message,
                "`sandwright sbpl-eval` answers for its profiles on any system",
            )
        return judged(self.name, try_out(self, HOST_ROOT, limit=limit), _explain_failure)

    def send_signal(self, launcher: int, number: int) -> Delivery:
        """Signal the launcher's child, because the launcher is a shell, which does not forward signals."""
        return signal_all(children(launcher), number)


def _explain_failure(failed: Failed) -> tuple[Code, str, str]:
    if "Operation not permitted" in failed.output and "sandbox" in failed.output:
        return "container-filter", "this process is in a sandbox already, and Seatbelt does not nest", ""
    return "not-started", failed.output, ""
