"""The method that enforces nothing. A policy must name it and give a reason."""

from __future__ import annotations

from dataclasses import dataclass

from sandwright.host import MachineFacts
from sandwright.methods.contract import LIMIT, Preflight, Terminal
from sandwright.methods.noop.render import render_noop
from sandwright.methods.noop.support import DECLARATION
from sandwright.methods.shared.launched import Launched
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.rendered import Rendered, render_with


@dataclass(frozen=True)
class Noop(Launched):
    """The row of noop."""

    name: str = "noop"

    def render(self, policy: ResolvedPolicy) -> Rendered:
        """For a trial."""
        return render_with(policy, DECLARATION, render_noop)

    @property
    def terminal(self) -> Terminal:
        """A new one."""
        return "controlling"

    def preflight(self, host: MachineFacts, *, limit: float = LIMIT) -> Preflight:  # noqa: ARG002
        """There is no sandbox to start, and it says so."""
        return Preflight(self.name, "ready", "enforces nothing; a policy that names it must give a reason")
