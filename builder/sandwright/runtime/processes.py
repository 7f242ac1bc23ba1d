"""Processes and those that descend from them, for what no runtime ends any more."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from sandwright.signalling import kill, own, started

_PATIENCE = 10.0
_PAUSE = 0.05


def holding(text: str) -> set[int]:
    """The processes of this user, in no sandbox, that have `text` in their command line; not we ourselves."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if own(int(entry.name)) and text.encode() in (entry / "cmdline").read_bytes():
                found.add(int(entry.name))
    return found - {os.getpid()}


def end_all(text: str) -> None:
    """Kill the processes that have `text` in their command line, until none are left and none come after."""
    deadline = time.monotonic() + _PATIENCE
    while (found := holding(text)) and time.monotonic() < deadline:
        kill_all(found)
        time.sleep(_PAUSE)


def kill_all(processes: Iterable[int]) -> None:
    """Kill processes and all that descend from them. What is not there any more is no error."""
    doomed = set(processes)
    seen = {pid: started(pid) for pid in doomed}
    seen |= {pid: started(pid) for pid in _descendants(doomed)}
    for pid, start in seen.items():
        kill(pid, sure=partial(_still, pid, start))


def _still(pid: int, start: int) -> bool:
    return started(pid) == start != 0


def _descendants(processes: set[int]) -> set[int]:
    parents = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The name, in parentheses, may hold anything (proc(5)); behind it come the state and the parent.
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found: set[int] = set()
    generation = processes
    while generation:
        generation = {child for child, parent in parents.items() if parent in generation} - found
        found |= generation
    return found
