"""A process of the host that a sandbox must not see, with a PID that is free in the sandbox.

PIDs begin at 1 in each PID namespace: if a process inside has the PID of the one outside, an attempt on that
PID proves nothing.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

from sandwright import process
from sandwright.errors import HostError

MOST_INSIDE = 4096
"""More PIDs than are used inside: a process for each attempt, and the tasks of a kernel; 1,200 were
counted."""

_PID_MAX = Path("/proc/sys/kernel/pid_max")
_MOST_ROUNDS = 3


@contextlib.contextmanager
def host_process() -> Iterator[int]:
    """The PID of a process that lives for the length of a `with`."""
    lowest = min(MOST_INSIDE, int(_PID_MAX.read_text(encoding="ascii")) // 2) if _PID_MAX.exists() else 0
    for _ in range(_MOST_ROUNDS):
        _pass_numbers(lowest)
        # cat ends with its input, so also when this process is killed
        with process.start("cat", stdin=b"") as waiting:
            if waiting.pid >= lowest:
                yield waiting.pid
                return
    raise HostError(f"no process of the host gets a number above {lowest}, so none can be probed")


def _pass_numbers(lowest: int) -> None:
    """Use up the PIDs below `lowest`, by threads, which are the cheapest."""
    for _ in range(2 * lowest):
        thread = threading.Thread()
        thread.start()
        thread.join()
        if thread.native_id is None or thread.native_id + 1 >= lowest:
            return
