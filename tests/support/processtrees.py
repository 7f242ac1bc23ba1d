"""The processes that one has started, from the kernel (proc_pid_task_children(5))."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path


def children(pid: int) -> list[int]:
    """The children of all its threads; none if it is gone."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found


def below(pid: int) -> Iterator[int]:
    """Its children, and their children."""
    for child in children(pid):
        yield child
        yield from below(child)


def is_there(pid: int) -> bool:
    """Whether it runs. A zombie doesn't: its parent waits for it."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return words[0] not in "ZX"


def shown(pids: Iterable[int]) -> list[str]:
    """Descriptions of processes, with their waiting function in the kernel: for messages of failed tests."""
    found = []
    for pid in pids:
        with contextlib.suppress(OSError):
            status, where = (Path(f"/proc/{pid}/{name}").read_text() for name in ("stat", "wchan"))
            words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
            found.append(f"{status.partition(')')[0]}) {status.split()[2:6]} {where}: {words[:200]!r}")
    return found


@contextlib.contextmanager
def held_up(pid: int, seconds: float = 0.3) -> Iterator[None]:
    """Stop a process, and continue it after some seconds."""
    os.kill(pid, signal.SIGSTOP)
    going_on = threading.Timer(seconds, os.kill, (pid, signal.SIGCONT))
    going_on.start()
    try:
        yield
    finally:
        going_on.join()


def program(pid: int) -> str:
    """The name of the file that it runs; empty if it is gone, or closed to us."""
    try:
        return Path(f"/proc/{pid}/exe").readlink().name
    except OSError:
        return ""


def command_lines() -> dict[int, bytes]:
    """The arguments of every process except this one, a NUL after each; processes may end meanwhile."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int(entry.name) != os.getpid():
                found[int(entry.name)] = (entry / "cmdline").read_bytes()
    return found


def naming(mark: str | bytes) -> dict[int, bytes]:
    """The processes with `mark` among their arguments."""
    sought = mark.encode() if isinstance(mark, str) else mark
    return {pid: words for pid, words in command_lines().items() if sought in words}


def who_has_open(file: Path) -> list[Path]:
    """The descriptors of a file in all processes (`/proc/PID/fd/N`); processes may end meanwhile."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            found += [each for each in (process / "fd").iterdir() if _target(each) == file]
    return found


def _target(link: Path) -> Path | None:
    try:
        return link.readlink()
    except OSError:
        return None
