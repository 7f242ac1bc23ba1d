"""The threads that gVisor needs of a limit of processes."""

from __future__ import annotations

from sandwright.errors import RenderError
from sandwright.policy.resolved import ResolvedPolicy

LEAST_PIDS = 128
"""Threads of which runsc is sure to have enough. On two busy processors it was seen to die or to hang with 12
to 80, and with 96 once a shell had started others."""


def refuse_few_threads(policy: ResolvedPolicy, who: str) -> None:
    """Refuse a limit of processes that is too low for gVisor, since its threads count too."""
    pids = policy.resources.pids
    if pids is not None and pids < LEAST_PIDS:
        raise RenderError(
            f"{policy.source('resources.pids')}: resources.pids: {pids} is too few for {who}: "
            f"its own threads are counted too, and it dies or hangs without them; give {LEAST_PIDS} or more"
        )
