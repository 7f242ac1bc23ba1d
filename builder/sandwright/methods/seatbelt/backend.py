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
    """The row of Seatbelt. It has not been seen to run: there was no Mac."""

    name: str = "seatbelt"
    terminal: Terminal = "controlling"

    def programs(self) -> Sequence[str]:
        """One, of the system."""
        return (PROGRAM,)

    def preflight(self, host: MachineFacts, *, limit: float = LIMIT) -> Preflight:
        """Start it on macOS; say elsewhere that it is not there, and what answers instead."""
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
        """Signal what the launcher runs: it is a shell, which passes nothing on."""
        return signal_all(children(launcher), number)


def _explain_failure(failed: Failed) -> tuple[Code, str, str]:
    if "Operation not permitted" in failed.output and "sandbox" in failed.output:
        return "container-filter", "this process is in a sandbox already, and Seatbelt does not nest", ""
    return "not-started", failed.output, ""
