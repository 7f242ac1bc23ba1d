"""Starts the post-run step: its arguments, and the time at which the run began.

A run imports this before its launcher starts; `session.post_run` is the step itself, and imports more.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

_CODE = "import sys; sys.path.append(sys.argv[1]); from sandwright.session.post_run import main; main()"

_COARSE = 5  # CLOCK_REALTIME_COARSE of linux/time.h, which file systems take their times from

_SET_BACK = 1_000_000_000
"""The difference in nanoseconds from which on the clock counts as set."""


class Clock:
    """The start of a run, on the file systems' clock and on the monotonic one, in nanoseconds."""

    def __init__(self, began: int = 0, ticks: int = 0) -> None:
        """The clock begins now, or is that of another process."""
        self.began = began or _now()
        self.ticks = ticks or time.monotonic_ns()

    def since(self) -> int:
        """The earliest time, in ns, that a change since then can have; the clock may have been set back."""
        began = _now() - (time.monotonic_ns() - self.ticks)
        return began if began < self.began - _SET_BACK else self.began


def _now() -> int:
    try:
        return time.clock_gettime_ns(_COARSE)
    except OSError:
        return time.time_ns()


def post_run_argv(record: str) -> list[str]:
    """The argv of this program, without its last word, the run's exit status. `record` is the session's file.

    Python ignores the environment and the site's settings (`-I -S`).
    """
    root = str(Path(__file__).absolute().parents[2])
    quiet = ["-B"] * sys.dont_write_bytecode
    return [sys.executable, "-I", "-S", *quiet, "-X", "utf8", "-c", _CODE, root, record]


def native_post_run_argv(folder: str, entry: str) -> list[str]:
    """The words before those, with which the native command runs first (docs/front.md), if there is one.

    `folder` is the command's, `entry` the file in the render cache that the run was started from.
    """
    command = Path(folder, "sandwright")
    try:
        with command.open("rb") as file:
            native = file.read(4) == b"\x7fELF"
    except OSError:
        return []
    return [str(command), "--after", entry] if native else []


def can_exec_post_run(directory: str) -> bool:
    """Whether a launcher can execute this program: records are in `directory`.

    No word may have a line break, and the interpreter must not need PYTHONHOME, which `-I` ignores.
    """
    words = "".join(post_run_argv(directory))
    return bool(sys.executable) and "\n" not in words and "PYTHONHOME" not in os.environ


def is_traced() -> bool:
    """Whether OpenTelemetry is active: its exporters run in the process of the run."""
    return "opentelemetry" in sys.modules or any(name.startswith("OTEL_") for name in os.environ)
