"""Ends programs that hang (timeout), flood or are cancelled, with all their children.

`process.run` waits for the pipes to close. Children of a container runtime may outlive it and hold them open,
so here the output goes to files, and the wait is for the program alone.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from sandwright import process
from sandwright.signalling import is_same_user_process, kill_all

MOST_OUTPUT = 4 << 20
"""Bytes that a start may write to each of its outputs before it is ended."""

_POLL = (0.002, 0.05)
"""Seconds between two looks: the first, and the longest that waiting grows to."""

_PASSED = ("HOME", "USER", "LOGNAME", "TMPDIR", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")
_SYSTEM_PROGRAMS = ("/usr/local/sbin", "/usr/sbin", "/sbin")

How = Literal["exited", "timeout", "stopped", "flooded"]


@dataclass(frozen=True)
class Ended:
    """The end of a start: by itself (`status` as `subprocess` gives it), or by us (then None).

    `timeout`: it did not end within its limit; `stopped`: the whole run was called off; `flooded`: it wrote
    more than `MOST_OUTPUT` bytes. `seconds` is how long it took.
    """

    how: How
    status: int | None
    stdout: bytes
    stderr: str
    seconds: float

    def describe(self) -> str:
        """A description of the end, with the last line of standard error."""
        match self.how:
            case "exited":
                what = f"exit status {self.status}"
            case "timeout":
                what = f"did not end within {self.seconds:.0f} s"
            case "stopped":
                what = "called off"
            case "flooded":
                what = f"wrote more than {MOST_OUTPUT >> 20} MiB"
        lines = [line.strip() for line in self.stderr.splitlines() if line.strip()]
        return f"{what}: {lines[-1][:500]}" if lines else what


def run_bounded(
    argv: Sequence[str],
    *,
    limit: float,
    stop: threading.Event,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    kill_descendants: bool = False,
) -> Ended:
    """Start `argv` and wait until it ends, `limit` seconds have passed, or `stop` is set.

    It reads nothing. A program that doesn't end by itself is killed with its process group, and with
    `kill_descendants` as `process.start` says.
    Raise ToolMissing when it is not there.
    """
    begun = time.monotonic()
    with _ended_pipe() as nothing, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with process.start(
            *argv,
            stdin=nothing,
            stdout=out,
            stderr=err,
            env=env,
            cwd=cwd,
            kill_descendants=kill_descendants,
        ) as running:
            how: How = "exited"
            pause = _POLL[0]
            while running.poll() is None and how == "exited":
                if stop.wait(pause):
                    how = "stopped"
                elif time.monotonic() - begun > limit:
                    how = "timeout"
                elif max(_output_size(out), _output_size(err)) > MOST_OUTPUT:
                    how = "flooded"
                pause = min(pause * 1.5, _POLL[1])
            status = running.poll() if how == "exited" else None
        return Ended(
            how,
            status,
            _output_content(out),
            _output_content(err).decode(errors="replace"),
            time.monotonic() - begun,
        )


def _ended_pipe() -> IO[bytes]:
    """Not /dev/null: runsc would make it the property of the container's user, for the whole host."""
    read, write = os.pipe()
    os.close(write)
    return os.fdopen(read, "rb")


def runtime_environment() -> dict[str, str]:
    """The environment of a runtime: the variables for its directories, and no others of ours."""
    environment = {name: os.environ[name] for name in _PASSED if name in os.environ}
    return {**environment, "PATH": os.pathsep.join([process.search_path(), *_SYSTEM_PROGRAMS])}


def _output_size(file: IO[bytes]) -> int:
    return os.fstat(file.fileno()).st_size


def _output_content(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read(MOST_OUTPUT)


_PATIENCE = 10.0
_PAUSE = 0.05


def end_all(text: str) -> None:
    """Kill the processes that have `text` in their command line, until none are left and none come after."""
    deadline = time.monotonic() + _PATIENCE
    while (found := _processes_naming(text)) and time.monotonic() < deadline:
        kill_all(found)
        time.sleep(_PAUSE)


def _processes_naming(text: str) -> set[int]:
    """The processes of this user, in no sandbox, that have `text` in their command line; not we ourselves."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if is_same_user_process(int(entry.name)) and text.encode() in (entry / "cmdline").read_bytes():
                found.add(int(entry.name))
    return found - {os.getpid()}
