"""Measures the memory and processor time of a session's processes.

These are the launcher and its descendants. A Docker container is not among them: it descends from the
engine's daemon.
"""

import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from sandwright.signalling import children_of

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PSS = re.compile(rb"^Pss: +([0-9]+) kB$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Usage:
    """The sums over some processes.

    `memory` is in bytes: shared memory is divided among the processes that map it (PSS). Where this user may
    not read the maps of a process, it counts in full (RSS). `cpu` is in seconds, with that of processes that
    have ended.
    """

    memory: int
    cpu: float
    processes: int


def usage_of(process: int) -> Usage | None:
    """The usage of a process and its descendants; None without /proc.

    Processes that end meanwhile do not count.
    """
    if not Path("/proc/self").is_dir():
        return None
    found = _with_descendants(process)
    return Usage(memory=sum(map(_memory, found)), cpu=round(sum(map(_cpu, found)), 2), processes=len(found))


def _with_descendants(process: int) -> list[int]:
    found = {process: None}  # once, though one may move; a program inside decides how deep they are
    pending = [process]
    while pending:
        new = [each for each in children_of(pending.pop()) if each not in found]
        found.update(dict.fromkeys(new))
        pending += new
    return list(found)


def _memory(process: int) -> int:
    with contextlib.suppress(OSError):
        if proportional := _PSS.search(Path(f"/proc/{process}/smaps_rollup").read_bytes()):
            return int(proportional[1]) * 1024
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def _cpu(process: int) -> float:
    """Its own, and that of children for which it has waited (proc_pid_stat(5))."""
    try:
        words = Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return sum(map(int, words[11:15])) / _TICKS
    except (OSError, IndexError):
        return 0.0
