"""Identifies and signals processes safely, by pidfd: a PID may be another process's by now (PID reuse).

A process, also one of a sandbox or of another user, chooses its own name, command line and environment: these
are only hints.
"""

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

Liveness = Literal["running", "ended", "elsewhere"]

BOOT = "/proc/sys/kernel/random/boot_id"
_NAMESPACE = "/proc/self/ns/pid"
_MACHINE = "/etc/machine-id"
_KILL = 9

DYING = 2.0
"""Seconds that a process may take to end by SIGKILL; one that waits for a dead file system takes longer."""


_SEARCH = 10.0
"""Seconds in which the descendants of a process are looked for."""


def started(process: int) -> int:
    """The start time of a process, in clock ticks since the boot (proc_pid_stat(5)); 0 when there is none.

    One that has ended is none, though its parent may never wait for it, as the first process of a container
    that is no init. A first thread that has ended is none either, but its other threads may go on.
    """
    try:
        with Path(f"/proc/{process}/stat").open("rb") as file:
            words = file.read().rpartition(b")")[2].split()
        return 0 if words[0] in (b"Z", b"X") and int(words[17]) <= 1 else int(words[19])
    except (FileNotFoundError, ProcessLookupError, PermissionError, ValueError, IndexError):
        return _without_proc(process)  # any other error, such as EMFILE, doesn't say that it has ended


@dataclass(frozen=True, kw_only=True)
class ProcessIdentity:
    """The identity of a process in a record, by which `liveness` recognizes it.

    PID and start time are unique only within one PID namespace (pid_namespaces(7)) and one boot.
    """

    pid: int
    start: int
    boot: str
    pid_namespace: str
    machine: str


def identity(process: int = 0) -> ProcessIdentity:
    """Identify a process, by default this one."""
    number = process or os.getpid()
    return ProcessIdentity(
        pid=number, start=started(number), boot=boot(), pid_namespace=pid_namespace(), machine=machine()
    )


def liveness(process: ProcessIdentity) -> Liveness:
    """Whether a recorded process runs or has ended; "elsewhere" if that is unknown here.

    It is unknown in another namespace of processes, or on another machine that shares the home directory.
    """
    if process.boot != boot():
        return "ended" if process.machine == machine() else "elsewhere"
    if process.pid_namespace != pid_namespace():
        return "elsewhere"
    found = started(process.pid) if process.pid > 0 else 0
    return "running" if found and found == process.start else "ended"


def boot() -> str:
    """The id of this boot; empty on systems without one."""
    return _first_line(BOOT)


def pid_namespace() -> str:
    """The namespace of processes that this process is in, as the kernel names it; empty without any."""
    try:
        return str(Path(_NAMESPACE).readlink())
    except OSError:
        return ""


def machine() -> str:
    """The id of this machine (machine-id(5)); its name where it has none."""
    return _first_line(_MACHINE) or os.uname().nodename


def _first_line(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            return file.readline().strip().decode(errors="replace")
    except OSError:
        return ""


def is_same_user_process(process: int) -> bool:
    """Whether a process is of this user and in this namespace of processes (proc(5), Uid and NSpid).

    A sandbox's processes are in a separate PID namespace, except under landlock and noop.
    """
    try:
        with Path(f"/proc/{process}/status").open("rb") as file:
            fields = dict(line.partition(b":")[::2] for line in file.read().splitlines())
    except OSError:
        return False
    uid = str(os.geteuid()).encode()
    return fields.get(b"Uid", b"").split()[:2] == [uid, uid] and len(fields.get(b"NSpid", b"0").split()) == 1


def kill(process: int, number: int = _KILL, *, sure: Callable[[], bool]) -> bool:
    """Signal a process if its identity is confirmed; return whether it was signalled.

    `sure` is called while the PID cannot be reused (pidfd_open(2)), on systems that support it.
    After SIGKILL it waits until the process has ended, for at most DYING seconds: a look right behind would
    still find it.
    """
    try:
        handle = os.pidfd_open(process) if hasattr(os, "pidfd_open") else None
    except ProcessLookupError:
        return False
    except OSError:  # a kernel before Linux 5.3
        handle = None
    try:
        if not sure():
            return False
        if handle is None:
            os.kill(process, number)
        else:
            signal.pidfd_send_signal(handle, number)
            if number == _KILL:
                select.select([handle], [], [], DYING)
    except (ProcessLookupError, PermissionError):
        return False
    else:
        return True
    finally:
        if handle is not None:
            os.close(handle)


def _without_proc(process: int) -> int:
    """1 for a process that is there, on systems without /proc."""
    if Path("/proc/self").is_dir():
        return 0
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return 0
    except PermissionError:
        pass
    return 1


def children_of(process: int) -> list[int]:
    """The children of a process, of whichever of its threads (proc(5))."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{process}/task").iterdir():
            with contextlib.suppress(OSError):
                found += map(int, (task / "children").read_text().split())
    return sorted(found)


def kill_all(processes: Iterable[int]) -> None:
    """Kill processes and all their descendants. A process that is gone is not an error.

    All are stopped before any is killed: a process with a pending signal cannot fork (ERESTARTNOINTR in the
    kernel's copy_process), so none escapes as the orphan of a killed parent. Processes of other users, which
    cannot be stopped, may start others meanwhile: then this ends after some seconds.
    """
    found: dict[int, int] = {}
    deadline = time.monotonic() + _SEARCH
    while (
        new := (descendants(_still(found)) | set(processes)) - found.keys()
    ) and time.monotonic() < deadline:
        for pid in new:
            found[pid] = started(pid)
            kill(pid, signal.SIGSTOP, sure=partial(_is_same, pid, found[pid]))
    for pid, start in found.items():
        kill(pid, sure=partial(_is_same, pid, start))


def _still(found: Mapping[int, int]) -> set[int]:
    return {pid for pid, start in found.items() if _is_same(pid, start)}


def descendants(processes: set[int]) -> set[int]:
    """The processes that descend from some."""
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


def _is_same(pid: int, start: int) -> bool:
    return started(pid) == start != 0
