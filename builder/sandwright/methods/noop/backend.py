"""The method that enforces nothing. A policy must name it and give a reason."""

from __future__ import annotations

from dataclasses import dataclass

from sandwright.host import MachineFacts
from sandwright.methods.contract import LIMIT, Delivery, Preflight, Terminal
from sandwright.methods.shared.launched import Launched, children, signal_all


@dataclass(frozen=True)
class Noop(Launched):
    """The method noop."""

    name: str = "noop"
    terminal: Terminal = "controlling"

    def preflight(self, host: MachineFacts, *, limit: float = LIMIT) -> Preflight:  # noqa: ARG002
        """Report that there is no sandbox to start."""
        return Preflight(self.name, "ready", "enforces nothing; a policy that names it must give a reason")

    def send_signal(self, launcher: int, number: int) -> Delivery:
        """Signal the launcher's child, because the launcher is a shell, which does not forward signals."""
        return signal_all(children(launcher), number)
