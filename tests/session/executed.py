"""Attacks of a program inside a session on the channel for further commands: a line for each."""

import ctypes
import os
import signal
import sys
import time
from pathlib import Path

PTRACE_ATTACH, PIDFD_OPEN, PIDFD_GETFD = 16, 434, 438


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def _attempt(name: str, call: object) -> None:
    try:
        call()  # type: ignore[operator]
    except OSError as error:
        say(f"{name}: {error.strerror}")
    else:
        say(f"{name}: ALLOWED")


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def attacks(pid: int) -> None:
    """Attack the first process, or a child of it that starts a command."""
    libc = ctypes.CDLL(None, use_errno=True)
    handle = _checked(libc.syscall(PIDFD_OPEN, pid, 0))
    _attempt("files", lambda: os.open(f"/proc/{pid}/fd/1", os.O_RDONLY))
    _attempt("memory", lambda: os.open(f"/proc/{pid}/mem", os.O_RDWR))
    _attempt("trace", lambda: _checked(libc.ptrace(PTRACE_ATTACH, pid, 0, 0)))
    for number in range(3, 120):
        file = libc.syscall(PIDFD_GETFD, handle, number, 0)
        if file >= 0:
            say(f"descriptor {number}: ALLOWED")


def main() -> None:
    """`attack PID`, `flood` (signals to the first process forever), `find SOCKET`."""
    match sys.argv[1:]:
        case ["attack", pid]:
            attacks(int(pid))
        case ["flood"]:
            say("up")
            while True:
                for number in (signal.SIGIO, signal.SIGSTOP, signal.SIGKILL, signal.SIGCHLD):
                    os.kill(1, number)
                time.sleep(0)
        case ["find", path]:
            _attempt("socket", Path(path).stat)


main()
