"""Whether a project's account on macOS, through alcless, works here (preflight), and how a run is started."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sandwright import process
from sandwright.host import MachineFacts
from sandwright.methods.contract import LIMIT, Preflight, Terminal
from sandwright.methods.shared.launched import Launched


@dataclass(frozen=True)
class Alcless(Launched):
    """The method alcless. It has run only with a stand-in, for lack of a Mac."""

    name: str = "alcless"
    terminal: Terminal = "controlling"

    def programs(self) -> Sequence[str]:
        """The programs that create and enter accounts, and that copy files."""
        return ("alclessctl", "rsync")

    def preflight(self, host: MachineFacts, *, limit: float = LIMIT) -> Preflight:
        """Look for its requirements; only an existing instance could be started."""
        if host.os != "darwin":
            return Preflight(self.name, "wrong-system", f"alcless is for macOS; this is {host.os}")
        if missing := [name for name in self.programs() if process.find(name) is None]:
            message = f"{', '.join(missing)} not installed"
            return Preflight(self.name, "program-missing", message, "see github.com/AkihiroSuda/alcless")
        listed = process.run("alclessctl", "list", timeout=limit, check=False)
        if not listed:
            return Preflight(self.name, "not-started", listed.stderr.strip())
        return Preflight(self.name, "ready", "each project needs an instance: run the rendered `set-up`", "")
