"""Processes that are surely those that are meant: by the kernel's word, and signalled by a handle.

A number may be another process's by now. A name, a command line and an environment are what a process made of
them, and so what a sandbox or another user wants them to be: they are hints only.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # `typing` takes longer to import than all of this
if TYPE_CHECKING:
    from collections.abc import Callable

_KILL = 9


def started(process: int) -> int:
    """When a process started, in clock ticks since the boot (proc_pid_stat(5)); 0 when there is none.

    One that has ended is none, though its parent may never wait for it, as the first process of a container
    that is no init. A first thread that has ended is none either, but what it began may go on.
    """
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            words = file.read().rpartition(b")")[2].split()
        return 0 if words[0] in (b"Z", b"X") and int(words[17]) <= 1 else int(words[19])
    except (OSError, ValueError, IndexError):
        return _without_proc(process)


def own(process: int) -> bool:
    """Whether a process is of this user and in this namespace of processes (proc(5), Uid and NSpid).

    What runs in a sandbox is in a namespace of its own.
    """
    try:
        with open(f"/proc/{process}/status", "rb") as file:
            fields = dict(line.partition(b":")[::2] for line in file.read().splitlines())
    except OSError:
        return False
    uid = str(os.geteuid()).encode()
    return fields.get(b"Uid", b"").split()[:2] == [uid, uid] and len(fields.get(b"NSpid", b"0").split()) == 1


def kill(process: int, number: int = _KILL, *, sure: Callable[[], bool]) -> bool:
    """Signal a process if it is what it is taken for; give whether it was signalled.

    `sure` is asked while the number can't become another process's (pidfd_open(2)), where a system has
    that.
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
            from signal import pidfd_send_signal  # noqa: PLC0415 - costs milliseconds

            pidfd_send_signal(handle, number)
    except (ProcessLookupError, PermissionError):
        return False
    else:
        return True
    finally:
        if handle is not None:
            os.close(handle)


def _without_proc(process: int) -> int:
    """1 for a process that is there, on systems without /proc."""
    if os.path.isdir("/proc/self"):
        return 0
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return 0
    except PermissionError:
        pass
    return 1
